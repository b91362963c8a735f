//! Bytes of files on their way to blocks, to where the engine has placed them.

use crate::op::Op;
use crate::{DataMode, Ino, Result, Volume};
use ondol_format::Inode;
use ondol_format::inode::InodeFlags;
use ondol_journal::{Before, Bytes, Extent, Placement, Run};

/// Whether the data of any file goes through the journal.
fn all_journaled(vol: &Volume) -> bool {
    vol.options.data == DataMode::Journal
}

/// Whether the data of this file goes through the journal.
pub(super) fn journaled(vol: &Volume, ino: Ino, inode: &Inode) -> bool {
    all_journaled(vol) || inode.flags.contains(InodeFlags::JOURNAL_DATA) || vol.once_journaled.contains(ino)
}

/// What blocks held that an operation allocates: those of a cluster that stays in use may hold what a committed state
/// reaches.
pub(super) fn allocated(vol: &Volume) -> Before {
    if vol.shared.sb.cluster_ratio() > 1 { Before::Unwritten } else { Before::New }
}

/// A run of a file's blocks, for [`crate::op::Reader::place`].
pub(super) fn run(vol: &Volume, journaled: bool, extent: Extent, before: Before, bytes: usize) -> Run {
    let before = if before == Before::New { allocated(vol) } else { before };
    Run { extent, bytes, before, journaled, delayed: 0 }
}

/// Whether data that blocks are given which held nothing to be seen belongs into operations' handles, and so costs them
/// journal space.
pub(super) fn is_logged(vol: &Volume, journaled: bool) -> bool {
    let any = run(vol, journaled, Extent { start: Run::UNALLOCATED, len: 1 }, Before::Unwritten, 1);
    vol.engine.place(&any).0 == Placement::Logged
}

/// Whether that holds for every file.
pub(super) fn all_logged(vol: &Volume) -> bool {
    is_logged(vol, all_journaled(vol))
}

/// Journal blocks for filling one block that the operation allocates for this file.
pub(super) fn fill_cost(vol: &Volume, ino: Ino, inode: &Inode) -> u32 {
    if is_logged(vol, journaled(vol, ino, inode)) { vol.engine.new_data_cost(1).max(1) } else { 0 }
}

/// Blocks from `start` on that bytes are put into, and where these go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) start: u64,
    pub(super) blocks: u32,
    pub(super) before: Before,
    pub(super) to: Placement,
}

/// Puts `bytes` at byte `offset` of the blocks of `target`. If they held nothing to be seen, they hold zeros elsewhere,
/// and the bytes begin in the first and reach into the last block.
///
/// # Errors
/// The store's failure; the promise is used up.
pub(super) fn put<'v>(op: &mut Op<'v>, target: Target, offset: usize, bytes: Bytes<'v, '_>) -> Result<()> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    let Target { start, blocks, before, to } = target;
    match (to, before) {
        (Placement::InPlace, Before::Stored) => {
            let (block, offset) = (start + (offset / block_size) as u64, offset % block_size);
            return op.write_over(block, offset, bytes.now());
        }
        (Placement::InPlace, Before::Unwritten) => {
            let stage = |op: &mut Op<'v>, block, bytes: &[u8]| op.stage(block, bytes).map(|()| true);
            return write_whole(op, Extent { start, len: blocks }, offset, bytes.now(), stage).map(drop);
        }
        (Placement::InPlace, Before::New) => {
            if write_whole(op, Extent { start, len: blocks }, offset, bytes.now(), Op::write_new)? {
                return Ok(());
            }
            // Nothing was reserved for it in the log, where there is always room for more.
            op.handle()?.extend(blocks);
        }
        (Placement::Delayed | Placement::Logged | Placement::Page, _) => {}
    }
    let to = if to == Placement::InPlace { Placement::Page } else { to };
    for (block, at, part) in parts(block_size, start, offset, bytes) {
        op.handle()?.put_data(block, at, part, to, before)?;
    }
    Ok(())
}

/// Where so many bytes go that are no part of a planned write, and are for one block of the file.
///
/// # Errors
/// `NotFound` for an inode that is none of the operation's.
pub(super) fn target(op: &mut Op<'_>, ino: Ino, block: u64, before: Before, bytes: usize) -> Result<Target> {
    let journaled = journaled(op.vol(), ino, op.inode(ino)?);
    let run = run(op.vol(), journaled, Extent { start: block, len: 1 }, before, bytes);
    let (to, _) = op.place(&run);
    Ok(Target { start: block, blocks: 1, before: run.before, to })
}

/// Has `put` write what [`put`] says, in whole blocks; until it says that it cannot.
fn write_whole<'v>(
    op: &mut Op<'v>,
    Extent { start, len: blocks }: Extent,
    offset: usize,
    bytes: &[u8],
    put: impl Fn(&mut Op<'v>, u64, &[u8]) -> Result<bool>,
) -> Result<bool> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    let tail = blocks as usize * block_size - offset - bytes.len();
    // The first and the last block are padded with zeros; what lies between goes as it is.
    let head_len = if offset > 0 { (block_size - offset).min(bytes.len()) } else { 0 };
    let (head, rest) = bytes.split_at(head_len);
    if !head.is_empty() {
        let mut block = vec![0; block_size];
        block[offset..offset + head.len()].copy_from_slice(head);
        if !put(op, start, &block)? {
            return Ok(false);
        }
    }
    let start = start + u64::from(!head.is_empty());
    let whole = if tail > 0 { rest.len() / block_size * block_size } else { rest.len() };
    let (whole, last) = rest.split_at(whole);
    if !whole.is_empty() && !put(op, start, whole)? {
        return Ok(false);
    }
    if last.is_empty() {
        return Ok(true);
    }
    let mut block = vec![0; block_size];
    block[..last.len()].copy_from_slice(last);
    put(op, start + (whole.len() / block_size) as u64, &block)
}

/// Puts zeros at `from..to` (bytes within the block) of a stored block.
///
/// # Errors
/// The store's failure.
pub(super) fn zero(op: &mut Op<'_>, ino: Ino, block: u64, from: usize, to: usize) -> Result<()> {
    if from == to {
        return Ok(());
    }
    let target = target(op, ino, block, Before::Stored, to - from)?;
    put(op, target, from, Bytes::Passing(&vec![0; to - from]))
}

/// `bytes` at byte `offset` of block `start`, block by block.
fn parts<'v, 'b>(
    block_size: usize,
    start: u64,
    offset: usize,
    bytes: Bytes<'v, 'b>,
) -> impl Iterator<Item = (u64, usize, Bytes<'v, 'b>)> {
    let len = bytes.now().len();
    let first = (block_size - offset).min(len);
    let whole = (first..len).step_by(block_size).zip(start + 1..);
    let whole = whole.map(move |(at, block)| (block, 0, bytes.part(at..len.min(at + block_size))));
    std::iter::once((start, offset, bytes.part(0..first))).filter(move |_| first > 0).chain(whole)
}
