//! The reclaim stage: clean blocks become free, half-dead fragment blocks are compacted (papers/2, §3.1).
//!
//! Compaction takes the block with the fewest live bytes, if at most half of it is live, and keeps the sequences of
//! what it moves. One block is always kept for it. Slots of files that are clean and that nobody has open are
//! released.

use crate::file::FileState;
use crate::format::{BLOCK_BYTES, BlockLine, Fragment, FragmentKind};
use crate::fragments::{New, Open, footprint};
use crate::phase::Phase;
use crate::scan;
use crate::shared::Core;
use crate::stats::Counters;
use crate::tree::Gone;
use crate::whole::Control;
use crate::{BufferError, Result};
use ondol_env::sync::{Arc, MutexGuard};
use ondol_env::{Bell, Progress, Step};

/// Mostly empty blocks that one compaction looks at.
const CANDIDATES: usize = 8;

/// A fragment that something refers to.
struct Living {
    file: Arc<FileState>,
    fragment: Fragment,
    payload_at: u32,
    /// Bytes that it will take elsewhere.
    need: u64,
}

/// The reclaimer.
#[derive(Debug)]
pub struct Reclaimer {
    pub(crate) core: Arc<Core>,
}

impl Step for Reclaimer {
    type Error = BufferError;

    fn name(&self) -> &'static str {
        "reclaim"
    }

    fn bell(&self) -> &Bell {
        &self.core.bell
    }

    /// Makes blocks free if they are short.
    ///
    /// # Errors
    /// The NVM's failure.
    fn step(&self) -> Result<Progress> {
        let core = &self.core;
        if !core.is_short() {
            return Ok(Progress::Idle);
        }
        let reclaimed = core.reclaim_clean(core.marks.short.saturating_mul(2));
        if reclaimed || (core.is_short() && core.compact()?) {
            return Ok(Progress::Worked);
        }
        core.release_idle()?;
        Ok(Progress::Idle)
    }
}

impl Core {
    /// Lets go of clean segments, file by file, until so many blocks can be had. Whether there were any.
    pub(crate) fn reclaim_clean(&self, wanted: u32) -> bool {
        let is_wanted = |phase: &Phase| phase.is_clean();
        let mut any = false;
        let files = self.files.lock().round();
        for file in files {
            if self.space.available() >= wanted {
                break;
            }
            for shard in file.shards() {
                let mut gone = Vec::new();
                any |= shard.write().let_go_of_clean(is_wanted, &mut gone);
                self.space.let_go(&gone);
            }
        }
        any
    }

    /// Moves what lives of a mostly empty fragment block elsewhere. Whether a block came free.
    pub(crate) fn compact(&self) -> Result<bool> {
        let half = self.area.block_size() / 2;
        for block in self.space.emptiest(half).into_iter().take(CANDIDATES) {
            let living = self.living(block)?;
            // Short fragments take more than their bytes: what does not shrink to half is not worth it.
            let need: u64 = living.iter().map(|l| l.need).sum();
            if need == 0 || need > half {
                continue;
            }
            let mut compaction = Compaction { core: self, open: self.compactor.lock(), block };
            for l in living {
                if !compaction.move_fragment(&l)? {
                    return Ok(false);
                }
            }
            Counters::add(&self.counters.compactions, 1);
            return Ok(true);
        }
        Ok(false)
    }

    /// Fragments of a block that something refers to, at this moment. Files are found before any open block is locked.
    fn living(&self, block: u32) -> Result<Vec<Living>> {
        let mut line = [0; BLOCK_BYTES as usize];
        let mut bytes = vec![0; self.area.block_size() as usize];
        self.area.nvm().read(self.area.line_at(block), &mut line)?;
        let size = self.area.header.block_size;
        let Some(BlockLine::Fragments { life, .. }) = self.area.seal.decode_line(block, &line, size) else {
            return Ok(Vec::new());
        };
        self.area.nvm().read(self.area.block_at(block), &mut bytes)?;
        let found = scan::fragments(&self.area, block, &bytes, Some((life, 0))).found;
        let owned: Vec<_> = {
            let files = self.files.lock();
            found.into_iter().filter_map(|f| Some((files.of_owner(f.fragment.owner)?, f))).collect()
        };
        let living = owned.into_iter().map(|(file, f)| {
            let need = need(&file, block, &f.fragment, f.payload_at, self.area.block_size());
            Living { file, fragment: f.fragment, payload_at: f.payload_at, need }
        });
        Ok(living.filter(|l| l.need > 0).collect())
    }
}

/// One compaction, which has its open fragment block for itself.
struct Compaction<'c> {
    core: &'c Core,
    open: MutexGuard<'c, Open>,
    /// The block that becomes empty.
    block: u32,
}

impl Compaction<'_> {
    /// Appends what lives of a fragment to compaction's block, with its sequence, and points the tree there. False if
    /// there is no block.
    fn move_fragment(&mut self, living: &Living) -> Result<bool> {
        let Living { file, fragment, .. } = living;
        let (core, block, mut gone) = (self.core, self.block, Vec::new());
        let owner = file.owner;
        let moved = match fragment.kind {
            FragmentKind::Bytes => self.move_bytes(living, &mut gone),
            FragmentKind::Length | FragmentKind::Removed => {
                let wanted = |c: &&mut Control| (c.sequence, c.block) == (fragment.sequence, block);
                match file.whole.lock().controls.iter_mut().find(wanted) {
                    None => Ok(true),
                    Some(control) => {
                        let (sequence, kind, offset) = (fragment.sequence, fragment.kind, fragment.offset);
                        let new = New { owner, sequence, kind, part: 0, offset, payload: &[] };
                        self.append(new).map(|place| {
                            if let Some((to, _)) = place {
                                core.space.hold(to, 1);
                                control.block = to;
                                gone.push(Gone { block, bytes: 1 });
                            }
                            place.is_some()
                        })
                    }
                }
            }
        };
        core.space.let_go(&gone);
        moved
    }

    fn move_bytes(&mut self, living: &Living, gone: &mut Vec<Gone>) -> Result<bool> {
        let Living { file, fragment, payload_at, .. } = living;
        let (core, block) = (self.core, self.block);
        let block_size = core.area.block_size();
        let owner = file.owner;
        let lbn = fragment.offset / block_size;
        let mut tree = file.shard(lbn).write();
        let Some(node) = tree.nodes.get_mut(&lbn) else { return Ok(true) };
        let inside = *payload_at..payload_at + fragment.len;
        for s in node.segments.iter_mut().filter(|s| s.block == block && inside.contains(&s.at)) {
            let mut payload = vec![0; s.len() as usize];
            core.area.nvm().read(core.area.block_at(block) + u64::from(s.at), &mut payload)?;
            let offset = lbn * block_size + u64::from(s.start);
            let (sequence, kind) = (s.sequence, FragmentKind::Bytes);
            let new = New { owner, sequence, kind, part: 0, offset, payload: &payload };
            let Some((to, at)) = self.append(new)? else { return Ok(false) };
            core.space.hold(to, s.len());
            gone.push(Gone { block, bytes: s.len() });
            (s.block, s.at) = (to, at);
            Counters::add(&core.counters.compacted_bytes, s.len().into());
        }
        Ok(true)
    }

    /// Durable when it returns; each by itself, so that one proves the one before. `None`: no block is left.
    fn append(&mut self, new: New<'_>) -> Result<Option<(u32, u32)>> {
        let (core, open) = (self.core, &mut self.open);
        if open.room(&core.area) < footprint(new.payload.len() as u64) {
            let Some(block) = core.space.take_reserve()?.and_then(|mut taken| taken.next()) else { return Ok(None) };
            open.begin(block, &core.space, &core.life);
        }
        let mut batch = core.area.nvm().stored();
        let place = open.append(&core.area, &mut batch, new).and_then(|place| core.area.commit(batch).map(|()| place));
        if place.is_err() {
            open.abandon(&core.space);
        }
        place.map(Some)
    }
}

/// Bytes that what lives of a fragment takes as fragments of its own.
fn need(file: &FileState, block: u32, fragment: &Fragment, payload_at: u32, block_size: u64) -> u64 {
    if fragment.kind != FragmentKind::Bytes {
        let lives = file.whole.lock().controls.iter().any(|c| (c.sequence, c.block) == (fragment.sequence, block));
        return if lives { footprint(0) } else { 0 };
    }
    let inside = payload_at..payload_at + fragment.len;
    let lbn = fragment.offset / block_size;
    let tree = file.shard(lbn).read();
    let node = tree.nodes.get(&lbn);
    let segments = node.into_iter().flat_map(|node| &node.segments);
    segments.filter(|s| s.block == block && inside.contains(&s.at)).map(|s| footprint(s.len().into())).sum()
}
