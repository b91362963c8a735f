//! An operation's changes as bytes of one record of the NVM log. `docs/format.md` specifies them.
//!
//! A change says what bytes or bits *are* afterwards, never by how much they differ: a record may be applied to a home
//! that has it already.

use super::named::Named;
use crate::change::Base;
use crate::change::Change;
use crate::names::{Extent, Kind};
use crate::write_set::Staged;
use crate::{JournalError, Ranges, Result};
use ondol_format::csum::crc32c;

/// Bytes in front of the changes of a block, or of a run that is freed.
const ENTRY: usize = 24;
/// Bytes in front of the contents of a change.
const CHANGE: usize = 8;

/// An entry is there: what follows the last one is zeros.
const PRESENT: u8 = 0x80;
/// The block starts from zeros.
const FRESH: u8 = 1;
/// The blocks are freed: nothing older of them may go home.
const REVOKE: u8 = 2;

const BYTES: u64 = 1;
const SET: u64 = 2;
const CLEAR: u64 = 3;
const TOUCH: u64 = 4;
const PATCH: u64 = 5;
const PAGE: u64 = 6;

/// Of a page: home may have its contents in its place.
const OR_HOME: u32 = 1;
/// Bytes of the contents of a change that names a page: a checksum, and zeros.
const PAGE_BYTES: usize = 8;

const WHAT_AT: u32 = 61;
const FIRST_AT: u32 = 32;
const FIRST: u64 = (1 << (WHAT_AT - FIRST_AT)) - 1;

/// Bytes that the changes of one block take at most: where many small ones would take more, they go as one patch.
fn most(block_size: usize) -> u64 {
    (ENTRY + CHANGE + 2 * block_size) as u64
}

/// Blocks whose changes fit into a record of so many bytes. Only a patch is longer than its block, and of what takes
/// one, a bitmap of which many runs are set and as many cleared, there is another block for each: that with the extents
/// of the runs.
pub(super) fn blocks_in(bytes: u64, block_size: usize) -> u64 {
    bytes / (ENTRY + CHANGE + block_size * 3 / 2) as u64
}

/// Bytes of a run that is freed.
const RUN: usize = 8;
const RUN_LEN_AT: u32 = 48;
const RUN_LEN: u64 = (1 << (64 - RUN_LEN_AT)) - 1;

/// A record whose counters are still to be filled in: what they are is known when the operation has been applied.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    pub(super) counters: Vec<Counter>,
}

/// A number that operations share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    /// The block's place among those of the write set.
    pub(super) staged: usize,
    /// Where it lies in the block, and its bytes.
    pub(super) offset: usize,
    pub(super) width: usize,
    /// Where it belongs in the record.
    at: usize,
}

impl Draft {
    /// Of the blocks that are staged, those among them that a page holds, and the runs that are freed.
    pub(super) fn new(
        arena: &[u8],
        blocks: &[Staged<'_>],
        freed: &[Extent],
        named: &[Named<'_>],
        block_size: usize,
    ) -> Self {
        let mut draft = Self { bytes: Vec::with_capacity(64 * (blocks.len() + 1)), counters: Vec::new() };
        if !freed.is_empty() {
            draft.entry(0, Kind::DATA, REVOKE, (freed.len() * RUN) as u32);
        }
        for extent in freed {
            let word = extent.start | u64::from(extent.len) << RUN_LEN_AT;
            draft.bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut named = named.iter().peekable();
        for (n, staged) in blocks.iter().enumerate() {
            match named.next_if(|named| named.staged == n) {
                Some(named) => draft.page(staged, named.at),
                None => draft.block(n, staged, arena, block_size),
            }
        }
        draft
    }

    fn entry(&mut self, block: u64, kind: Kind, flags: u8, len: u32) {
        self.bytes.extend_from_slice(&block.to_le_bytes());
        self.bytes.extend_from_slice(&kind.owner.to_le_bytes());
        self.bytes.extend_from_slice(&kind.salt.to_le_bytes());
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(&[kind.class, PRESENT | flags, 0, 0]);
    }

    fn change(&mut self, what: u64, first: u32, count: u32) {
        let word = what << WHAT_AT | u64::from(first) << FIRST_AT | u64::from(count);
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// All of a block, which lies in a page.
    fn page(&mut self, staged: &Staged<'_>, at: InPage) {
        self.entry(staged.buf.block, staged.kind, FRESH, (CHANGE + PAGE_BYTES) as u32);
        self.change(PAGE, if at.or_home { OR_HOME } else { 0 }, at.page);
        self.bytes.extend_from_slice(&u64::from(at.sum).to_le_bytes());
    }

    fn block(&mut self, n: usize, staged: &Staged<'_>, arena: &[u8], block_size: usize) {
        let fresh = if matches!(staged.base, Base::Live) { 0 } else { FRESH };
        let (from, counted) = (self.bytes.len(), self.counters.len());
        self.entry(staged.buf.block, staged.kind, fresh, 0);
        if let Some(bytes) = staged.base.bytes() {
            self.change(BYTES, 0, bytes.len() as u32);
            self.bytes.extend_from_slice(bytes);
        }
        for change in staged.changes.as_slice() {
            self.staged_change(n, change, arena);
        }
        if (self.bytes.len() - from) as u64 > most(block_size) {
            self.bytes.truncate(from + ENTRY);
            self.counters.truncate(counted);
            self.patch(n, staged, arena, block_size);
        }
        let len = (self.bytes.len() - from - ENTRY) as u32;
        self.bytes[from + 16..from + 20].copy_from_slice(&len.to_le_bytes());
    }

    fn staged_change(&mut self, n: usize, change: &Change, arena: &[u8]) {
        match *change {
            Change::Bytes { len: 0, .. } => {}
            Change::Bytes { offset, at, len } => {
                self.change(BYTES, offset, len);
                self.bytes.extend_from_slice(&arena[at as usize..(at + len) as usize]);
            }
            Change::Set { first, count } => self.change(SET, first, count),
            Change::Clear { first, count } => self.change(CLEAR, first, count),
            Change::Add { offset, width, delta: 0 } => self.change(TOUCH, offset, width.into()),
            Change::Add { offset, width, .. } => {
                self.change(BYTES, offset, width.into());
                let (offset, width, at) = (offset as usize, usize::from(width), self.bytes.len());
                self.counters.push(Counter { staged: n, offset, width, at });
                self.bytes.resize(at + width, 0);
            }
        }
    }

    /// Many small changes as two blocks: which bits they concern, and what these are.
    fn patch(&mut self, n: usize, staged: &Staged<'_>, arena: &[u8], block_size: usize) {
        let (mut concerned, mut values) = (vec![0; block_size], vec![0; block_size]);
        let mut touched = Ranges::default();
        if let Some(bytes) = staged.base.bytes() {
            concerned.fill(0xFF);
            values.copy_from_slice(bytes);
        }
        let mut counters = Vec::new();
        for change in staged.changes.as_slice() {
            match *change {
                Change::Bytes { offset, len, .. } => {
                    concerned[offset as usize..(offset + len) as usize].fill(0xFF);
                    change.apply(arena, &mut values, &mut touched);
                }
                Change::Set { first, count } | Change::Clear { first, count } => {
                    Change::Set { first, count }.apply(arena, &mut concerned, &mut touched);
                    change.apply(arena, &mut values, &mut touched);
                }
                Change::Add { .. } => counters.push(change),
            }
        }
        self.change(PATCH, 0, block_size as u32);
        self.bytes.extend_from_slice(&concerned);
        self.bytes.extend_from_slice(&values);
        counters.into_iter().for_each(|change| self.staged_change(n, change, arena));
    }

    /// Fills in what the counters of a block are, which is `live` now.
    pub(super) fn fill_in(&mut self, staged: usize, live: &[u8]) {
        for counter in self.counters.iter().filter(|counter| counter.staged == staged) {
            let Counter { offset, width, at, .. } = *counter;
            self.bytes[at..at + width].copy_from_slice(&live[offset..offset + width]);
        }
    }
}

/// Where the contents of a block lie that its record does not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InPage {
    pub(super) page: u32,
    /// The checksum of the contents.
    pub(super) sum: u32,
    /// Or at home: they were written there before the commit.
    pub(super) or_home: bool,
}

impl InPage {
    /// Whether these are the contents.
    pub(super) fn is(&self, contents: &[u8]) -> bool {
        sum(contents) == self.sum
    }

    fn read(first: u32, page: u32, contents: &[u8]) -> Self {
        let sum = u32::from_le_bytes(std::array::from_fn(|i| contents[i]));
        Self { page, sum, or_home: first & OR_HOME != 0 }
    }
}

/// The checksum of a page's contents.
pub(super) fn sum(contents: &[u8]) -> u32 {
    crc32c(!0, contents)
}

/// Puts what lies in a page into the image of its block.
pub(super) type Fetch<'f> = &'f mut dyn FnMut(InPage, &mut [u8]) -> Result<()>;

/// What a record says of one block, or of a run that is freed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'r> {
    /// The block's changes, which lie `at` this place of the record.
    Changed { block: u64, kind: Kind, fresh: bool, at: usize, changes: &'r [u8] },
    /// The blocks of these runs are freed.
    Freed(&'r [u8]),
}

/// The runs of an entry of freed blocks.
pub(super) fn runs(bytes: &[u8]) -> impl Iterator<Item = Extent> {
    bytes.as_chunks::<RUN>().0.iter().map(|run| {
        let word = u64::from_le_bytes(*run);
        Extent { start: word & ((1 << RUN_LEN_AT) - 1), len: (word >> RUN_LEN_AT) as u32 }
    })
}

/// Blocks in their order, as runs.
pub(super) fn runs_of(blocks: impl Iterator<Item = u64>) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(last) if last.start + u64::from(last.len) == block => last.len += 1,
            _ => runs.push(Extent { start: block, len: 1 }),
        }
    }
    runs.into_iter().flat_map(parts).collect()
}

/// `extent` in parts that a run can name.
fn parts(extent: Extent) -> impl Iterator<Item = Extent> {
    let end = extent.start + u64::from(extent.len);
    (extent.start..end)
        .step_by(RUN_LEN as usize)
        .map(move |start| Extent { start, len: (end - start).min(RUN_LEN) as u32 })
}

/// The entries of a record.
///
/// # Errors
/// It is none of this version's, or goes beyond its own end.
pub(super) fn entries(record: &[u8]) -> impl Iterator<Item = Result<Entry<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let entry = next_entry(record, &mut at);
        if !matches!(entry, Some(Ok(_))) {
            at = record.len();
        }
        entry
    })
}

fn next_entry<'r>(record: &'r [u8], at: &mut usize) -> Option<Result<Entry<'r>>> {
    let (head, rest) = record.get(*at..)?.split_first_chunk::<ENTRY>()?;
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let block = u64::from_le_bytes(std::array::from_fn(|i| head[i]));
    let (owner, salt, len, class, flags) = (word(8), word(12), word(16), head[20], head[21]);
    if flags & PRESENT == 0 {
        return None;
    }
    *at += ENTRY;
    let Some(changes) = rest.get(..len as usize) else {
        return Some(Err(bad("an entry goes beyond the record's end")));
    };
    let begins = *at;
    *at += changes.len();
    if flags & REVOKE != 0 {
        return Some(Ok(Entry::Freed(changes)));
    }
    let kind = Kind { class, owner, salt };
    Some(Ok(Entry::Changed { block, kind, fresh: flags & FRESH != 0, at: begins, changes }))
}

/// The page that an entry's changes name, if they do.
pub(super) fn page_of(changes: &[u8]) -> Option<InPage> {
    let (word, rest) = changes.split_first_chunk::<CHANGE>()?;
    let word = u64::from_le_bytes(*word);
    let contents = Some(rest).filter(|rest| word >> WHAT_AT == PAGE && rest.len() == PAGE_BYTES)?;
    Some(InPage::read((word >> FIRST_AT & FIRST) as u32, word as u32, contents))
}

/// Applies an entry's changes to `image`, and notes the bytes that they touch. What lies in a page is fetched by
/// `fetch`.
///
/// # Errors
/// They go beyond the block or beyond the entry, or are none of this version's; those of `fetch`.
pub(super) fn apply(mut changes: &[u8], image: &mut [u8], dirty: &mut Ranges, fetch: Fetch<'_>) -> Result<()> {
    let size = image.len() as u64;
    while let Some((word, rest)) = changes.split_first_chunk::<CHANGE>() {
        let word = u64::from_le_bytes(*word);
        let (what, first, count) = (word >> WHAT_AT, word >> FIRST_AT & FIRST, word & u64::from(u32::MAX));
        let unit = if matches!(what, SET | CLEAR) { 8 } else { 1 };
        if what != PAGE && first + count > size * unit {
            return Err(bad("a change goes beyond its block"));
        }
        let contents = match what {
            BYTES => count,
            PATCH => 2 * count,
            PAGE => PAGE_BYTES as u64,
            _ => 0,
        };
        let split = rest.split_at_checked(contents as usize);
        let (contents, behind) = split.ok_or_else(|| bad("a change goes beyond its entry"))?;
        let (first, count) = (first as u32, count as u32);
        match what {
            BYTES => Change::Bytes { offset: first, at: 0, len: count }.apply(contents, image, dirty),
            SET => Change::Set { first, count }.apply(&[], image, dirty),
            CLEAR => Change::Clear { first, count }.apply(&[], image, dirty),
            TOUCH => dirty.add(first..first + count),
            PAGE => {
                fetch(InPage::read(first, count, contents), image)?;
                dirty.add(0..size as u32);
            }
            PATCH => {
                let (concerned, values) = contents.split_at(count as usize);
                let now = image[first as usize..].iter_mut().zip(concerned.iter().zip(values)).zip(first..);
                for ((byte, (mask, value)), at) in now.filter(|((_, (mask, _)), _)| **mask != 0) {
                    *byte = *byte & !mask | value & mask;
                    dirty.add(at..at + 1);
                }
            }
            _ => return Err(bad("a change of a kind that is not known")),
        }
        changes = behind;
    }
    if changes.is_empty() { Ok(()) } else { Err(bad("bytes behind the last change")) }
}

fn bad(what: &str) -> JournalError {
    JournalError::Unsupported(format!("a record of the NVM log: {what}"))
}
