//! Transactions of a log, read with the format's parsers alone.

use ondol_format::csum::{crc32c, uuid_seed};
use ondol_format::jbd2::{
    BlockType, Commit, Descriptor, Header, JournalIncompat, JournalSuperblock, LogFormat, Revoke, SUPERBLOCK_SIZE, Tag,
    tag_checksum_matches, unescape,
};
use ondol_format::unit::{self, Unit};
use ondol_format::{FormatError, Place};
use ondol_power::Layer;
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

/// What a transaction makes of a block.
pub(super) type Image = Arc<[u8]>;

/// A whole transaction of a log.
#[derive(Debug)]
pub(super) struct Transaction {
    /// Its number.
    pub(super) sequence: u32,
    /// Blocks of the ring that it takes: the first, and how many.
    pub(super) place: (u64, u64),
    /// Its images with their homes.
    pub(super) images: Vec<(u64, Image)>,
    /// Blocks that were written before it and whose sums it has, as long as no other follows.
    pub(super) staged: HashSet<u64>,
    /// Blocks whose older images are not replayed.
    pub(super) revoked: Vec<u64>,
    /// Revokes are of its own images, too.
    pub(super) revokes_own: bool,
}

/// Where a log lies.
pub(super) struct Reader<'l> {
    /// The block of each of its slots, by slot: its superblock's is the first.
    pub(super) slots: &'l [(u64, u64)],
    pub(super) block_size: usize,
}

/// A log as its superblock has it.
pub(super) struct Head {
    pub(super) superblock: JournalSuperblock,
    format: LogFormat,
    first: u64,
    /// Blocks of its ring.
    pub(super) ring: u64,
}

impl Head {
    /// Where the oldest transaction begins, as a position of the ring.
    pub(super) fn start(&self) -> Option<u64> {
        self.superblock.start().map(|start| u64::from(start).saturating_sub(self.first))
    }
}

impl Reader<'_> {
    /// The superblock among these bytes; none that makes sense may be there.
    pub(super) fn parse(&self, bytes: &[u8]) -> Option<Head> {
        let blocks = self.slots.last()?.1 + 1;
        let superblock = JournalSuperblock::parse(bytes, self.block_size as u32, blocks).ok()?;
        let first = u64::from(superblock.first());
        let ring = u64::from(superblock.end()).saturating_sub(first);
        Some(Head { format: superblock.format(), superblock, first, ring })
    }

    /// The superblock of the log on a medium.
    pub(super) fn head(&self, medium: &Layer) -> Option<Head> {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        medium.read(self.slots.first()?.0 as usize * self.block_size, &mut bytes);
        self.parse(&bytes)
    }

    /// The block at a position of the ring.
    fn block(&self, medium: &Layer, head: &Head, position: u64) -> Vec<u8> {
        let slot = head.first + position % head.ring.max(1);
        let mut bytes = vec![0; self.block_size];
        if let Ok(at) = self.slots.binary_search_by_key(&slot, |(_, slot)| *slot) {
            medium.read(self.slots[at].0 as usize * self.block_size, &mut bytes);
        }
        bytes
    }

    /// The transaction number `sequence` that begins at a position, if it is whole.
    ///
    /// # Errors
    /// It has its commit block, and lacks what must be durable before.
    pub(super) fn transaction(
        &self,
        log: &Layer,
        home: &Layer,
        head: &Head,
        position: u64,
        sequence: u32,
    ) -> Result<Option<Transaction>, String> {
        if head.superblock.incompat().contains(JournalIncompat::COMPRESSED) {
            return Ok(self.unit(log, home, head, position, sequence));
        }
        let (mut at, mut tx) = (position, Transaction::new(sequence, position, true));
        let mut torn = None;
        while at - position < head.ring {
            let block = self.block(log, head, at);
            let Some(header) = Header::parse(&block).filter(|header| header.sequence == sequence) else {
                return Ok(None);
            };
            at += 1;
            match header.kind {
                BlockType::Descriptor => {
                    let tags = Descriptor::new(&block, head.format, Place::NONE).and_then(Iterator::collect);
                    let Ok::<Vec<Tag>, FormatError>(tags) = tags else { return Ok(None) };
                    for tag in tags {
                        let mut image = self.block(log, head, at);
                        at += 1;
                        if !tag_checksum_matches(&head.format, sequence, &tag, &image) {
                            torn.get_or_insert(tag.block);
                        }
                        if tag.escaped {
                            unescape(&mut image);
                        }
                        tx.images.push((tag.block, image.into()));
                    }
                }
                BlockType::Revoke => {
                    let Ok(revoked) = Revoke::new(&block, head.format, Place::NONE) else { return Ok(None) };
                    tx.revoked.extend(revoked);
                }
                BlockType::Commit => {
                    if Commit::parse(&block, &head.format, Place::NONE).is_err() {
                        return Ok(None);
                    }
                    tx.place.1 = at - position;
                    let before = "is durable, and not all that must be before it";
                    return match torn {
                        Some(block) => Err(format!("the commit block {before}: the image of block {block}")),
                        None => Ok(Some(tx)),
                    };
                }
                BlockType::SuperblockV1 | BlockType::SuperblockV2 => return Ok(None),
            }
        }
        Ok(None)
    }

    /// As [`Reader::transaction`], of a compressed log.
    fn unit(&self, log: &Layer, home: &Layer, head: &Head, position: u64, sequence: u32) -> Option<Transaction> {
        let seed = uuid_seed(head.superblock.uuid());
        let whole = self.whole_unit(log, head, position, sequence)?;
        let mut tx = Transaction::new(sequence, position, false);
        tx.place.1 = (whole.size as u64).div_ceil(self.block_size as u64);
        let open = || Unit::open(&whole, self.block_size, self.source(log, head, position)).ok();
        let mut staged = open()?;
        // One that another follows was durable with its runs; since then, these may have been written again.
        let is_followed = self.whole_unit(log, head, position + tx.place.1, sequence.wrapping_add(1)).is_some();
        while let Some(run) = staged.next_staged().ok()? {
            let sum = (run.start..run.start + u64::from(run.blocks)).fold(seed, |sum, block| {
                let mut bytes = vec![0; self.block_size];
                home.read(block as usize * self.block_size, &mut bytes);
                crc32c(sum, &bytes)
            });
            if sum != run.checksum && !is_followed {
                return None;
            }
            tx.staged.extend(run.start..run.start + u64::from(run.blocks));
        }
        let mut contents = open()?;
        while let Some(block) = contents.next_revoked().ok()? {
            tx.revoked.push(block);
        }
        let mut image = vec![0; self.block_size];
        while let Some(block) = contents.next_image(&mut image).ok()? {
            tx.images.push((block, image.as_slice().into()));
        }
        Some(tx)
    }

    fn whole_unit(&self, log: &Layer, head: &Head, position: u64, sequence: u32) -> Option<unit::Header> {
        let mut source = self.source(log, head, position);
        let mut bytes = [0; unit::HEADER];
        let Ok(()) = source(0, &mut bytes);
        let header = unit::Header::parse(&bytes, head.ring * self.block_size as u64)?;
        let Ok(is_whole) = header.is_whole(uuid_seed(head.superblock.uuid()), source);
        (header.sequence as u32 == sequence && is_whole).then_some(header)
    }

    /// Fills in bytes from an offset behind a position of the ring on.
    fn source<'a>(
        &'a self,
        log: &'a Layer,
        head: &'a Head,
        position: u64,
    ) -> impl FnMut(usize, &mut [u8]) -> Result<(), Infallible> + 'a {
        move |offset, into| {
            let (mut offset, mut into) = (offset, into);
            while !into.is_empty() {
                let block = self.block(log, head, position + (offset / self.block_size) as u64);
                let part = &block[offset % self.block_size..];
                let (now, later) = into.split_at_mut(part.len().min(into.len()));
                now.copy_from_slice(&part[..now.len()]);
                offset += now.len();
                into = later;
            }
            Ok(())
        }
    }
}

impl Transaction {
    fn new(sequence: u32, position: u64, revokes_own: bool) -> Self {
        Self {
            sequence,
            place: (position, 0),
            images: Vec::new(),
            staged: HashSet::new(),
            revoked: Vec::new(),
            revokes_own,
        }
    }
}
