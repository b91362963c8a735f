//! What a change of a file's contents will need, from a look at how it is mapped now.

use super::tree::{self, Growth};
use super::{Mapped, Mounted, Run, blocks, data, find, inline};
use crate::alloc::Need;
use crate::inline::is_inline;
use crate::op::{Cost, Reader};
use crate::{Error, Ino, Result, Volume};
use ondol_format::extent::{MAX_LOGICAL, capacity};
use ondol_format::inode::{FileType, InodeFlags};
use ondol_format::{Inode, RoCompat};
use ondol_journal::{Before, Extent, Placement};
use smallvec::SmallVec;
use std::ops::Range;

/// How a range of logical blocks is mapped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey {
    /// Levels of the tree above the leaves.
    pub(super) depth: u32,
    /// Different leaves that the range lies in.
    pub(super) leaves: u32,
    /// Entries that the fullest of them has room for.
    pub(super) room: usize,
    /// Blocks that are not mapped, and clusters that they lie in.
    pub(super) holes: u64,
    pub(super) clusters: u64,
    /// Whether any of it is unwritten.
    pub(super) unwritten: bool,
    /// Where there is a block map: what mapping the range does to its pointer blocks.
    pub(super) pointers: Option<Growth>,
}

/// Looks at `blocks` blocks from `first` on.
pub(super) fn survey(reader: &mut dyn Reader, ino: Ino, inode: &Inode, first: u32, blocks: u32) -> Result<Survey> {
    survey_runs(reader, ino, inode, first..first.saturating_add(blocks), &mut |_, _| ())
}

/// Looks at a range of blocks, and shows each of its runs.
fn survey_runs(
    reader: &mut dyn Reader,
    ino: Ino,
    inode: &Inode,
    Range { start: first, end }: Range<u32>,
    show: &mut dyn FnMut(&mut dyn Reader, Run),
) -> Result<Survey> {
    let mut seen = Survey { room: usize::MAX, ..Survey::default() };
    let (mut at, mut leaf) = (first, None);
    while at < end {
        let found = find(&mut Mounted(reader), ino, inode, at)?;
        let len = found.run.len.min(end - at);
        match found.run.what {
            Mapped::Hole => {
                seen.holes += u64::from(len);
                let ratio = reader.volume().shared.sb.cluster_ratio();
                seen.clusters += u64::from((at + (len - 1)) / ratio - at / ratio) + 1;
            }
            Mapped::Unwritten(_) => seen.unwritten = true,
            Mapped::Written(_) => {}
        }
        if leaf != Some(found.leaf) {
            leaf = Some(found.leaf);
            seen.leaves += 1;
            seen.room = seen.room.min(found.room);
        }
        seen.depth = u32::from(found.depth);
        show(reader, Run { at, len, ..found.run });
        at += len;
    }
    if !inode.has_extents() {
        let whole = if seen.holes > 0 { first..end } else { first..first };
        seen.pointers = Some(blocks::growth(&mut Mounted(reader), ino, inode, whole.start, whole.end)?);
    }
    Ok(seen)
}

impl Survey {
    /// What adding up to `added` runs in this range may do to the mapping.
    pub(super) fn growth(&self, vol: &Volume, added: u32) -> Growth {
        if added == 0 {
            return Growth::default();
        }
        if let Some(pointers) = self.pointers {
            return pointers;
        }
        // An only leaf whose extents merge may end in the root.
        let merged = if self.depth == 1 { tree::FREED_NODE } else { 0 };
        if self.leaves <= 1 && added as usize <= self.room {
            // A new first entry also changes the keys above it.
            return Growth { nodes: if self.depth > 0 { self.depth + 1 + merged } else { 0 }, new: 0 };
        }
        let grown = tree::growth(vol.shared.sb.block_size(), self.depth, self.leaves, added);
        Growth { nodes: grown.nodes + merged, ..grown }
    }
}

/// A write that is to be planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'i> {
    pub(crate) ino: Ino,
    pub(crate) inode: &'i Inode,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// No time changes, and no size: without an operation, stored bytes can be written in place.
    pub(crate) only_bytes: bool,
}

/// A run of blocks that a write goes to, and where its bytes go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(super) run: Run,
    pub(super) to: Placement,
}

/// The runs of a write, in order.
pub(crate) type Parts = SmallVec<[Part; 2]>;

/// What a write needs at most, and what is done: under the lock of the inode, a look at its mapping serves for both.
#[derive(Clone, Debug)]
pub(crate) struct WritePlan {
    pub(crate) cost: Cost,
    /// Empty where the bytes are in the inode, or were.
    pub(crate) parts: Parts,
}

impl WritePlan {
    /// Whether all of it goes to stored blocks in place.
    pub(super) fn is_overwrite(&self) -> bool {
        let is_in_place = |part: &Part| matches!(part.run.what, Mapped::Written(_)) && part.to == Placement::InPlace;
        !self.parts.is_empty() && self.parts.iter().all(is_in_place)
    }
}

/// What writing needs at most, where each run of it goes.
///
/// # Errors
/// Corruption of the mapping, or the store's failure.
pub(crate) fn plan_write(reader: &mut dyn Reader, write: &Write<'_>) -> Result<WritePlan> {
    if inline::stays(write.inode, write.offset.saturating_add(write.len as u64)) {
        return Ok(WritePlan { cost: inline::small_change(), parts: Parts::new() });
    }
    if is_inline(write.inode) {
        let (plain, more) = inline::unfolded(reader.volume(), write.inode);
        let plan = plan_blocks(reader, &Write { inode: &plain, ..*write }, more)?;
        // The blocks are another matter when the bytes have left the inode.
        return Ok(WritePlan { parts: Parts::new(), ..plan });
    }
    plan_blocks(reader, write, 0)
}

/// Places the runs of a write one after the other.
struct Placing {
    parts: Parts,
    journaled: bool,
    only_bytes: bool,
    /// Its bytes.
    offset: u64,
    end: u64,
    /// Blocks of data in the handle that are there already, and those that are new there, for which less may do.
    logged: u32,
    new: u32,
    delayed: u32,
}

impl Placing {
    fn add(&mut self, reader: &dyn Reader, run: Run) {
        let vol = reader.volume();
        let block_size = u64::from(vol.shared.sb.block_size());
        let from = (u64::from(run.at) * block_size).max(self.offset);
        let bytes = ((u64::from(run.at) + u64::from(run.len)) * block_size).min(self.end).saturating_sub(from) as usize;
        let (start, before) = match run.what {
            Mapped::Hole => (ondol_journal::Run::UNALLOCATED, Before::New),
            Mapped::Unwritten(start) => (start, Before::Unwritten),
            Mapped::Written(start) => (start, Before::Stored),
        };
        let bytes = if self.only_bytes && before == Before::Stored { usize::MAX } else { bytes };
        let mut done = 0;
        while done < run.len {
            let extent = Extent { start: start + u64::from(done), len: run.len - done };
            let asked = data::run(vol, self.journaled, extent, before, bytes);
            let asked = ondol_journal::Run { delayed: self.delayed, ..asked };
            let (to, len) = reader.place(&asked);
            let what = match run.what {
                Mapped::Hole => Mapped::Hole,
                Mapped::Unwritten(_) => Mapped::Unwritten(extent.start),
                Mapped::Written(_) => Mapped::Written(extent.start),
            };
            self.parts.push(Part { run: Run { at: run.at + done, len, what }, to });
            match (to, asked.before) {
                (Placement::InPlace, _) => {}
                (Placement::Delayed | Placement::Page, Before::New) => {
                    (self.new, self.delayed) = (self.new + len, self.delayed + len);
                }
                (Placement::Delayed | Placement::Page, _) => {}
                (Placement::Logged, Before::New) => self.logged += len,
                (Placement::Logged, _) => {
                    let is_more = |i: &u32| !reader.holds_block(extent.start + u64::from(*i));
                    self.logged += (0..len).filter(is_more).count() as u32;
                }
            }
            done += len;
        }
    }
}

/// As [`plan_write`] where the file has blocks, or is given `more` of them before.
fn plan_blocks(reader: &mut dyn Reader, write: &Write<'_>, more: u64) -> Result<WritePlan> {
    let Write { ino, inode, offset, len, only_bytes } = *write;
    let (first, blocks) = span(reader.volume(), offset, len);
    let journaled = data::journaled(reader.volume(), ino, inode);
    let end = offset.saturating_add(len as u64);
    let (parts, logged, new, delayed) = (Parts::new(), 0, 0, 0);
    let mut placing = Placing { parts, journaled, only_bytes, offset, end, logged, new, delayed };
    let mut place = |reader: &mut dyn Reader, run: Run| placing.add(reader, run);
    let mut seen = survey_runs(reader, ino, inode, first..first.saturating_add(blocks), &mut place)?;
    (seen.holes, seen.clusters) = (seen.holes + more, seen.clusters + more);
    let vol = reader.volume();
    // Every cluster of a hole may become an extent of its own; of unwritten extents only the two at the ends are split.
    let added = seen.clusters as u32 + if seen.unwritten { 2 } else { 0 };
    let gap = offset > inode.size && !inode.size.is_multiple_of(u64::from(vol.shared.sb.block_size()));
    let apart = if gap || more > 0 { data::fill_cost(vol, ino, inode) * (u32::from(gap) + more as u32) } else { 0 };
    let data = apart + placing.logged + vol.engine.new_data_cost(placing.new);
    Ok(WritePlan { cost: cost(vol, seen.growth(vol, added), seen.clusters, data), parts: placing.parts })
}

/// `data` are blocks whose contents go through the journal.
fn cost(vol: &Volume, growth: Growth, allocated: u64, data: u32) -> Cost {
    let blocks = allocated + u64::from(growth.new);
    Cost { journal: 1 + data + growth.nodes + tree::alloc_cost(vol, blocks), blocks, need: Need::Ordinary }
}

/// The first logical block and the number of blocks that `len` bytes at `offset` touch. The range ends before
/// [`MAX_LOGICAL`] when its last byte is below the largest file size.
fn span(vol: &Volume, offset: u64, len: usize) -> (u32, u32) {
    let block_size = u64::from(vol.shared.sb.block_size());
    let first = offset / block_size;
    let end = offset.saturating_add(len as u64).div_ceil(block_size).min(u64::from(MAX_LOGICAL));
    (first.min(end) as u32, (end - first.min(end)) as u32)
}

/// Deepest tree that any file on a volume needs, with its nodes half full.
const USUAL_DEPTH: u32 = 4;

/// Whether a write of `blocks` blocks always fits into one operation.
pub(super) fn is_atomic(vol: &Volume, blocks: u64) -> bool {
    let block_size = vol.shared.sb.block_size();
    // A leaf that is not the last one covers at least half its capacity in blocks: it was split when it was full.
    let leaves = blocks as u32 / (u32::from(capacity(block_size as usize)) / 2) + 2;
    let extents = tree::growth(block_size, USUAL_DEPTH, leaves, blocks as u32 + 2);
    let pointers = blocks::most_growth(block_size, blocks as u32);
    let growth = Growth { nodes: extents.nodes.max(pointers.nodes), new: extents.new.max(pointers.new) };
    // What was in the inode takes a block, too.
    let more = u64::from(inline::possible(vol));
    let data = if data::all_logged(vol) { (blocks + 1 + more) as u32 } else { 0 };
    cost(vol, growth, blocks + more, data).journal <= vol.engine.max_blocks()
}

/// Largest size that a regular file can get as it is mapped, bytes.
pub(super) fn max_size(vol: &Volume, inode: &Inode) -> u64 {
    let sb = &vol.shared.sb;
    if !sb.has_ro_compat(RoCompat::LARGE_FILE) {
        return i32::MAX as u64;
    }
    if !inode.has_extents() {
        return blocks::max_size(vol);
    }
    u64::from(MAX_LOGICAL) * u64::from(sb.block_size())
}

/// Refuses what is not a regular file.
///
/// # Errors
/// `IsDirectory`, or `Invalid` for anything else.
pub(crate) fn check_regular(ino: Ino, inode: &Inode) -> Result<()> {
    match inode.file_type() {
        Some(FileType::Regular) => Ok(()),
        Some(FileType::Directory) => Err(Error::IsDirectory(ino)),
        _ => Err(Error::Invalid("not a regular file")),
    }
}

/// Refuses to change the contents of an immutable file and, unless `appending`, of an append-only one.
///
/// # Errors
/// As [`check_regular`]; `NotPermitted`.
pub(crate) fn check_changeable(ino: Ino, inode: &Inode, appending: bool) -> Result<()> {
    check_regular(ino, inode)?;
    if inode.flags.contains(InodeFlags::IMMUTABLE) {
        return Err(Error::NotPermitted("the file is immutable"));
    }
    if inode.flags.contains(InodeFlags::APPEND) && !appending {
        return Err(Error::NotPermitted("the file is append-only"));
    }
    Ok(())
}
