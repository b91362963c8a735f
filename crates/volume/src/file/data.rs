//! Bytes of files on their way to blocks: home at once, or through the journal with `data=journal` or `chattr +j`.

use super::write::ATOMIC_MAX;
use crate::op::Op;
use crate::{DataMode, Ino, Result, Volume};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, Ordering::SeqCst};
use ondol_format::Inode;
use ondol_format::inode::InodeFlags;
use ondol_journal::Handle;
use std::collections::HashSet;
use std::ops::Range;

/// Inodes whose data once went through the journal by their flag, since the volume was opened. It goes on doing so, with the
/// flag or without: an older image in the log must not come home over bytes that were written there since.
#[derive(Debug, Default)]
pub(crate) struct OnceJournaled {
    any: AtomicBool,
    inodes: Mutex<HashSet<Ino>>,
}

impl OnceJournaled {
    /// Remembers an inode.
    pub(crate) fn add(&self, ino: Ino) {
        self.inodes.lock().insert(ino);
        self.any.store(true, SeqCst);
    }

    /// Forgets an inode that is freed: with its blocks, which the log revokes, all that it was remembered for is gone.
    pub(crate) fn forget(&self, ino: Ino) {
        if self.any.load(SeqCst) {
            self.inodes.lock().remove(&ino);
        }
    }

    fn contains(&self, ino: Ino) -> bool {
        self.any.load(SeqCst) && self.inodes.lock().contains(&ino)
    }
}

/// What is written, by an operation of lifetime `'v`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes<'v, 'b> {
    /// It stays where it is as long as the operation: whole blocks need no copy before the journal's.
    Lent(&'v [u8]),
    /// It is copied at once.
    Passing(&'b [u8]),
}

impl<'v, 'b> Bytes<'v, 'b> {
    /// The bytes, as long as this call.
    pub(super) fn now(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Passing(bytes) => bytes,
        }
    }

    /// Some of them.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Lent(bytes) => Self::Lent(&bytes[range]),
            Self::Passing(bytes) => Self::Passing(&bytes[range]),
        }
    }
}

/// Whether the data of any file goes through the journal.
fn all_journaled(vol: &Volume) -> bool {
    vol.options.data == DataMode::Journal
}

/// Whether the data of this file goes through the journal.
pub(super) fn journaled(vol: &Volume, ino: Ino, inode: &Inode) -> bool {
    all_journaled(vol) || inode.flags.contains(InodeFlags::JOURNAL_DATA) || vol.once_journaled.contains(ino)
}

/// Whether data that this file is given anew belongs into the operation's handle.
pub(super) fn in_handles(vol: &Volume, ino: Ino, inode: &Inode) -> bool {
    vol.engine.takes_new_data() || journaled(vol, ino, inode)
}

/// Journal blocks for filling one block that the operation allocates for this file.
pub(super) fn fill_cost(vol: &Volume, ino: Ino, inode: &Inode) -> u32 {
    if in_handles(vol, ino, inode) { new_cost(vol, 1) } else { 0 }
}

/// Journal blocks for filling `blocks` blocks that an operation allocates, where data belongs into handles.
pub(super) fn new_cost(vol: &Volume, blocks: u32) -> u32 {
    if is_newborn(vol) && !vol.engine.keeps_new_data() { vol.engine.new_data_cost(blocks) } else { blocks }
}

/// Whether data that is not journaled may wait for its commit in memory, to be written home by it. Blocks of clusters do not.
fn keeps(vol: &Volume) -> bool {
    vol.engine.keeps_new_data() && is_newborn(vol)
}

/// Whether that holds for every file.
pub(super) fn all_in_handles(vol: &Volume) -> bool {
    vol.engine.takes_new_data() || all_journaled(vol)
}

/// As [`journaled`], of an inode whose data is about to be staged.
fn to_journal(op: &Op<'_>, ino: Ino) -> Result<bool> {
    let vol = op.vol();
    if all_journaled(vol) {
        return Ok(true);
    }
    let journaled = journaled(vol, ino, op.inode(ino)?);
    if journaled {
        vol.engine.journal_data();
    }
    Ok(journaled)
}

/// Puts `bytes` at byte `offset` of the blocks from `start` on, over what is stored there.
///
/// # Errors
/// The store's failure.
pub(super) fn overwrite<'v>(op: &mut Op<'v>, ino: Ino, start: u64, offset: usize, bytes: Bytes<'v, '_>) -> Result<()> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    let (start, offset) = (start + (offset / block_size) as u64, offset % block_size);
    let journaled = to_journal(op, ino)?;
    let keeps = !journaled && keeps(op.vol());
    if !journaled && !keeps && !op.vol().engine.takes_new_data() {
        return op.write_over(start, offset, bytes.now());
    }
    let how = if keeps { How::Kept { unseen: false } } else { How::Over };
    // Consecutive blocks that go home do so as one.
    let mut home: Option<(u64, usize, usize)> = None;
    let mut done = 0;
    for (block, at, part) in parts(block_size, start, offset, bytes) {
        if journaled || op.takes_over(block, bytes.now().len()) {
            if let Some((first, at, from)) = home.take() {
                op.write_over(first, at, &bytes.now()[from..done])?;
            }
            stage(op.handle()?, (block, at), part, how)?;
        } else if home.is_none() {
            home = Some((block, at, done));
        }
        done += part.now().len();
    }
    home.map_or(Ok(()), |(first, at, from)| op.write_over(first, at, &bytes.now()[from..]))
}

/// Whether no committed state reaches what blocks held that an operation allocates. Those of a cluster that stays in use may hold such.
pub(super) fn is_newborn(vol: &Volume) -> bool {
    vol.shared.sb.cluster_ratio() == 1
}

/// What is known of blocks that are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The operation has allocated them.
    Free,
    /// They belonged to the file already, and no contents of theirs were to be seen.
    Unseen,
}

/// Makes `run.1` blocks from `run.0` on, which nothing reads yet, hold `bytes` at byte `offset` (within the first block)
/// and zeros elsewhere. The bytes reach into the last block.
///
/// # Errors
/// The store's failure.
pub(super) fn fill<'v>(
    op: &mut Op<'v>,
    ino: Ino,
    (run, before): ((u64, u32), Before),
    offset: usize,
    bytes: Bytes<'v, '_>,
) -> Result<()> {
    let (start, blocks) = run;
    let block_size = op.vol().shared.sb.block_size() as usize;
    let in_handle = to_journal(op, ino)? || op.vol().engine.takes_new_data();
    if !in_handle {
        return fill_home(op, (run, before), offset, bytes);
    }
    // What is journaled goes into the log, also where other new data would go home.
    let newborn = before == Before::Free && is_newborn(op.vol()) && !op.vol().engine.keeps_new_data();
    let passes = newborn && op.vol().engine.passes_new_data(bytes.now().len());
    if passes && write_home(op, (start, blocks), offset, bytes.now(), Op::pass)? {
        return Ok(());
    }
    let how = if newborn { How::New } else { How::Fresh };
    for (block, at, part) in parts(block_size, start, offset, bytes) {
        stage(op.handle()?, (block, at), part, how)?;
    }
    Ok(())
}

/// As [`fill`], of data that goes home and into no log: now, or with its commit.
fn fill_home<'v>(
    op: &mut Op<'v>,
    ((start, blocks), before): ((u64, u32), Before),
    offset: usize,
    bytes: Bytes<'v, '_>,
) -> Result<()> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    let mut how = None;
    if keeps(op.vol()) && before == Before::Free {
        if op.vol().engine.passes_new_data(bytes.now().len()) {
            return write_home(op, (start, blocks), offset, bytes.now(), Op::pass).map(drop);
        }
        let kept = u64::from(op.handle()?.kept() + blocks) * block_size as u64;
        how = (kept <= KEPT_MOST + block_size as u64).then_some(How::New);
    } else if keeps(op.vol()) {
        // A transaction may have yet to write what was there before it was made unseen.
        let taken = (start..start + u64::from(blocks)).any(|block| op.takes_over(block, usize::MAX));
        how = taken.then_some(How::Kept { unseen: true });
    }
    let Some(how) = how else {
        let stage = |op: &mut Op<'v>, block, bytes: &[u8]| op.stage(block, bytes).map(|()| true);
        return write_home(op, (start, blocks), offset, bytes.now(), stage).map(drop);
    };
    for (block, at, part) in parts(block_size, start, offset, bytes) {
        stage(op.handle()?, (block, at), part, how)?;
    }
    Ok(())
}

/// Bytes of new data that an operation keeps, where it need not: more is written home at once. A write has no more.
const KEPT_MOST: u64 = ATOMIC_MAX;

/// Has `put` write what [`fill`] says, in whole blocks; until it says that it cannot.
fn write_home<'v>(
    op: &mut Op<'v>,
    (start, blocks): (u64, u32),
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
    if from < to { overwrite(op, ino, block, from, Bytes::Passing(&vec![0; to - from])) } else { Ok(()) }
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

/// What a block that is staged held.
#[derive(Clone, Copy)]
enum How {
    /// It is written over.
    Over,
    /// Nothing to be seen.
    Fresh,
    /// The operation has allocated it.
    New,
    /// It is written over, or if it is unseen, nothing is to be seen; and it goes home.
    Kept { unseen: bool },
}

fn stage<'v>(handle: &mut Handle<'v>, (block, at): (u64, usize), part: Bytes<'v, '_>, how: How) -> Result<()> {
    match (part, how) {
        (Bytes::Lent(whole), How::Kept { .. }) if whole.len() == handle.block_size() => {
            handle.keep_lent(block, whole)?;
        }
        (_, How::Kept { unseen }) => handle.keep(block, at, part.now(), unseen)?,
        (Bytes::Lent(whole), _) if whole.len() == handle.block_size() => {
            handle.lend(block, whole, matches!(how, How::New))?;
        }
        (_, How::Over) => handle.data(block, at, part.now())?,
        (_, How::Fresh) => handle.fresh_data(block, at, part.now())?,
        (_, How::New) => handle.new_data(block, at, part.now())?,
    }
    Ok(())
}
