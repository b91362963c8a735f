//! Committed transactions that still lie in the log, and the newest committed image of each of their blocks.

use super::Sealed;
use crate::Block;
use crate::hash::NumberHash;
use crate::index::Index;
use crate::names::{Extent, Tid};
use ondol_env::sync::Arc;
use std::collections::{HashMap, VecDeque};

/// One block that the log holds.
#[derive(Debug)]
struct Entry {
    /// The newest transaction in the log that holds it.
    tid: Tid,
    /// Its newest committed content; `None` once that is home.
    image: Option<Block>,
    /// The position of the ring where that lies as it is, if that is known.
    place: Option<u64>,
}

/// What a checkpoint brings home: the newest committed images of the oldest transactions.
#[derive(Debug)]
pub(crate) struct Due {
    /// The transaction up to which that is everything.
    pub(crate) upto: Tid,
    /// Images that are written home, by rising block number.
    pub(crate) copies: Vec<(u64, Block)>,
    /// Images whose blocks in the ring, at these positions, take the places of those at home.
    pub(crate) swaps: Vec<(u64, Block, u64)>,
}

/// One transaction in the log.
#[derive(Debug)]
struct Logged {
    tid: Tid,
    /// Ring position of its first block.
    start: u64,
    blocks: Vec<u64>,
    /// Blocks that it names and does not hold.
    staged: Vec<u64>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    blocks: HashMap<u64, Entry, NumberHash>,
    log: VecDeque<Logged>,
    /// Ring position behind the newest transaction.
    head: u64,
    bytes: u64,
    /// A checkpoint is writing images home now.
    writing: bool,
    /// Freed blocks that wait for that checkpoint to end.
    held_back: Vec<Extent>,
    /// Where there are images.
    index: Arc<Index>,
}

impl Pending {
    /// No transaction; `index` is to know where there are images.
    pub(crate) fn new(index: Arc<Index>) -> Self {
        Self { index, ..Self::default() }
    }

    /// The newest committed image of `block` that is not home yet.
    pub(crate) fn image(&self, block: u64) -> Option<Block> {
        self.blocks.get(&block)?.image.clone()
    }

    /// Whether an image of `block` lies in the log.
    pub(crate) fn is_logged(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Blocks that lie in the log, in no order.
    pub(crate) fn logged_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.keys().copied()
    }

    /// Number of different blocks in the log.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of images that wait for their checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// No transaction lies in the log.
    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// The oldest transaction in the log and its position.
    pub(crate) fn tail(&self) -> Option<(Tid, u64)> {
        self.log.front().map(|t| (t.tid, t.start))
    }

    /// Whether the newest transaction in the log names a block of `extent` that it does not hold.
    pub(crate) fn is_staged(&self, extent: Extent) -> bool {
        let Some(newest) = self.log.back() else { return false };
        let from = newest.staged.partition_point(|&block| block < extent.start);
        newest.staged.get(from).is_some_and(|&block| block < extent.start + u64::from(extent.len))
    }

    /// Takes in a transaction that is durable now, has its images at `places` of the ring as far as they are known, and
    /// ends before position `head`.
    pub(crate) fn committed(&mut self, tx: Sealed, places: &[Option<u64>], start: u64, head: u64) {
        let Sealed { tid, images, staged, .. } = tx;
        let blocks = images.iter().map(|(block, _)| *block).collect();
        let staged = staged.iter().map(|(block, _)| *block).collect();
        self.head = head;
        let places = places.iter().copied().chain(std::iter::repeat(None));
        for ((block, image), place) in images.into_iter().zip(places) {
            self.bytes += image.len() as u64;
            self.index.add(block);
            let old = self.blocks.insert(block, Entry { tid, image: Some(image), place });
            old.into_iter().for_each(|entry| self.gone(block, entry.image));
        }
        self.log.push_back(Logged { tid, start, blocks, staged });
    }

    /// Drops the images of a revoked block.
    pub(crate) fn revoked(&mut self, block: u64) {
        let image = self.blocks.remove(&block).and_then(|e| e.image);
        self.gone(block, image);
    }

    /// An image of a block is not here any more, if there was one.
    fn gone(&mut self, block: u64, image: Option<Block>) {
        if let Some(image) = image {
            self.bytes -= image.len() as u64;
            self.index.remove(block);
        }
    }

    /// Freed blocks that may be reused now; those freed while a checkpoint is writing are held back until it ends.
    pub(crate) fn release(&mut self, freed: Vec<Extent>) -> Vec<Extent> {
        if !self.writing {
            return freed;
        }
        self.held_back.extend(freed);
        Vec::new()
    }

    /// Begins a checkpoint of the oldest transactions, of about `blocks` images. Without `most_swaps` all of them are
    /// copied.
    pub(crate) fn begin_checkpoint(&mut self, blocks: usize, most_swaps: Option<u64>) -> Option<Due> {
        let due = match most_swaps {
            None => self.due_copies(blocks),
            Some(most) => self.due_swaps(blocks, most),
        };
        self.writing = due.is_some();
        due
    }

    fn due_copies(&self, blocks: usize) -> Option<Due> {
        let mut images: Vec<(u64, Block)> = Vec::new();
        let mut upto = None;
        for tx in &self.log {
            if upto.is_some() && images.len() >= blocks {
                break;
            }
            let of = |&b: &u64| Some((b, self.blocks.get(&b)?.image.clone()?));
            images.extend(tx.blocks.iter().filter_map(of));
            upto = Some(tx.tid);
        }
        images.sort_unstable_by_key(|(block, _)| *block);
        images.dedup_by_key(|(block, _)| *block);
        upto.map(|upto| Due { upto, copies: images, swaps: Vec::new() })
    }

    /// A block of which a younger transaction has an image is left to that one: what lies in the ring from the new tail
    /// on must stay there. No more than `most` blocks are swapped: younger transactions wait for the next checkpoint,
    /// and what the oldest one has beyond that is copied.
    fn due_swaps(&self, blocks: usize, most: u64) -> Option<Due> {
        let mut due = Due { upto: self.log.front()?.tid, copies: Vec::new(), swaps: Vec::new() };
        for tx in &self.log {
            let (copies, swaps) = (due.copies.len(), due.swaps.len());
            let is_oldest = tx.tid == due.upto;
            if !is_oldest && copies + swaps >= blocks {
                break;
            }
            for (block, image, place) in tx.blocks.iter().filter_map(|block| self.newest_in(tx, *block)) {
                match place {
                    Some(place) => due.swaps.push((block, image, place)),
                    None => due.copies.push((block, image)),
                }
            }
            let over = (due.swaps.len() as u64).saturating_sub(most);
            if over > 0 && !is_oldest {
                due.copies.truncate(copies);
                due.swaps.truncate(swaps);
                break;
            }
            if over > 0 {
                due.copies.extend(due.swaps.drain(most as usize..).map(|(block, image, _)| (block, image)));
            }
            due.upto = tx.tid;
        }
        due.copies.sort_unstable_by_key(|(block, _)| *block);
        Some(due)
    }

    /// The image of a block in a transaction, and its place, if no younger transaction has one and it is not home.
    fn newest_in(&self, tx: &Logged, block: u64) -> Option<(u64, Block, Option<u64>)> {
        let entry = self.blocks.get(&block)?;
        let is_newest = entry.tid == tx.tid;
        let image = entry.image.clone().filter(|_| is_newest)?;
        Some((block, image, entry.place))
    }

    /// What was due is home and durable.
    pub(crate) fn written(&mut self, due: &Due) {
        let copied = due.copies.iter().map(|(block, image)| (block, image));
        for (block, image) in copied.chain(due.swaps.iter().map(|(block, image, _)| (block, image))) {
            if let Some(entry) = self.blocks.get_mut(block)
                && entry.image.as_ref().is_some_and(|i| std::ptr::eq(i.as_ptr(), image.as_ptr()))
            {
                let image = entry.image.take();
                self.gone(*block, image);
            }
        }
    }

    /// Ends a checkpoint, successful or not; returns the freed blocks that waited for it.
    pub(crate) fn end_checkpoint(&mut self) -> Vec<Extent> {
        self.writing = false;
        std::mem::take(&mut self.held_back)
    }

    /// The tail on the medium has passed `upto`: its transactions are no longer in the log.
    pub(crate) fn forget_upto(&mut self, upto: Tid) {
        while self.log.front().is_some_and(|t| t.tid <= upto) {
            let Some(tx) = self.log.pop_front() else { return };
            for block in tx.blocks {
                if self.blocks.get(&block).is_some_and(|e| e.tid == tx.tid && e.image.is_none()) {
                    self.blocks.remove(&block);
                }
            }
        }
    }

    /// Blocks of a ring of `ring` blocks from `start`, a transaction's or the head, to the head.
    pub(crate) fn distance_from(&self, start: u64, ring: u64) -> u64 {
        (self.head + ring - start) % ring
    }

    /// Ring position behind the newest transaction.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Where the tail will be once everything up to `upto` is gone: the next transaction, if there is one.
    pub(crate) fn tail_after(&self, upto: Tid) -> Option<(Tid, u64)> {
        self.log.iter().find(|t| t.tid > upto).map(|t| (t.tid, t.start))
    }
}
