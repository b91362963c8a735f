//! Writes that stay beside a store, which is not changed: in memory, and what is more than that in a file without a
//! name.

use crate::{BlockError, BlockStats, BlockStore, Caps, Result, check_range};
use ondol_env::sync::{Arc, RwLock};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes of a piece that is kept once any of it was written.
const PAGE: u64 = 4096;
/// Pages in memory at most.
const MOST: usize = (16 << 20) / PAGE as usize;
/// Pages that are written to the file, or told of, at once.
const PIECE: u64 = (1 << 20) / PAGE;

/// A store that reads as `inner` and keeps what is written to it, so that `inner` is never written: up to 16 MiB in
/// memory, in pages of 4 KiB, and all of it in a file without a name as soon as it is more. That lies in `TMPDIR`, or
/// in `/var/tmp`, or else in `/tmp`.
pub struct OverlayStore {
    inner: Arc<dyn BlockStore>,
    kept: RwLock<Kept>,
}

/// What was written. A page is in one place.
#[derive(Default)]
struct Kept {
    /// Those in memory.
    pages: BTreeMap<u64, Box<[u8]>>,
    filed: Option<Filed>,
}

/// Pages in a file, in the order in which they came there.
struct Filed {
    file: File,
    /// What it is called in messages.
    name: String,
    /// Runs by their first page: how many follow it, itself included, and which page of the file it is.
    runs: BTreeMap<u64, (u64, u64)>,
    /// Pages of the file.
    len: u64,
}

impl Filed {
    /// A new file for what is kept of `store`.
    fn new(store: &str) -> Result<Self> {
        let asked = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        // What is large does not belong into memory, in which `/tmp` often is.
        let large = Some(PathBuf::from("/var/tmp")).filter(|dir| dir.is_dir());
        let dir = asked.or(large).unwrap_or_else(std::env::temp_dir);
        let shown = dir.display();
        let name = format!("a file in {shown} for what the journal of {store} holds (TMPDIR names another directory)");
        match tempfile::tempfile_in(&dir) {
            Ok(file) => Ok(Self { file, name, runs: BTreeMap::new(), len: 0 }),
            Err(source) => Err(BlockError::Open { what: "make", name, source }),
        }
    }

    fn io(&self, op: &'static str, offset: u64, len: usize, done: io::Result<()>) -> Result<()> {
        done.map_err(|source| BlockError::Io { op, name: self.name.clone(), offset, len: len as u64, source })
    }

    /// Where in the file a page lies.
    fn find(&self, page: u64) -> Option<u64> {
        let (start, (len, at)) = self.runs.range(..=page).next_back()?;
        (page - start < *len).then(|| at + (page - start))
    }

    /// Takes in what `pages` has, by rising number.
    fn take(&mut self, pages: &BTreeMap<u64, Box<[u8]>>) -> Result<()> {
        let mut all = pages.iter().peekable();
        let mut at = self.len;
        while all.peek().is_some() {
            let mut bytes = Vec::new();
            for (_, page) in all.by_ref().take(PIECE as usize) {
                bytes.extend_from_slice(page);
                bytes.resize(bytes.len().next_multiple_of(PAGE as usize), 0);
            }
            self.io("write", at * PAGE, bytes.len(), self.file.write_all_at(&bytes, at * PAGE))?;
            at += bytes.len() as u64 / PAGE;
        }
        for page in pages.keys() {
            let run = self.runs.range_mut(..*page).next_back();
            match run.filter(|(start, (len, first))| *start + *len == *page && *first + *len == self.len) {
                Some((_, (len, _))) => *len += 1,
                None => drop(self.runs.insert(*page, (1, self.len))),
            }
            self.len += 1;
        }
        Ok(())
    }

    /// Lays what it has over the bytes of the store from `offset` on.
    fn lay_over(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let end = offset + buf.len() as u64;
        let first = self.runs.range(..=offset / PAGE).next_back().map_or(0, |(start, _)| *start);
        for (start, (len, at)) in self.runs.range(first..end.div_ceil(PAGE)) {
            let (from, to) = ((start * PAGE).max(offset), ((start + len) * PAGE).min(end));
            if let Some(ours) =
                (from < to).then(|| buf.get_mut((from - offset) as usize..(to - offset) as usize)).flatten()
            {
                let (there, len) = (at * PAGE + (from - start * PAGE), ours.len());
                self.io("read", there, len, self.file.read_exact_at(ours, there))?;
            }
        }
        Ok(())
    }
}

impl OverlayStore {
    /// Over `inner`, with nothing written yet.
    pub fn new(inner: Arc<dyn BlockStore>) -> Self {
        Self { inner, kept: RwLock::default() }
    }

    /// Where pieces of up to 1 MiB begin that something was written to, with their length: offsets rise.
    pub fn written(&self) -> Vec<(u64, usize)> {
        let kept = self.kept.read();
        let filed = kept.filed.iter().flat_map(|filed| filed.runs.iter().map(|(start, (len, _))| (*start, *len)));
        let mut runs: Vec<(u64, u64)> = kept.pages.keys().map(|page| (*page, 1)).chain(filed).collect();
        runs.sort_unstable();
        runs.dedup_by(|next, last| {
            let joins = last.0 + last.1 == next.0;
            last.1 += if joins { next.1 } else { 0 };
            joins
        });
        let piece = |at: u64, end: u64| (at * PAGE, (PIECE.min(end - at) * PAGE).min(self.size() - at * PAGE) as usize);
        let pieces = |(start, len): &(u64, u64)| {
            let end = start + len;
            (*start..end).step_by(PIECE as usize).map(move |at| (at, end)).collect::<Vec<_>>()
        };
        runs.iter().flat_map(pieces).map(|(at, end)| piece(at, end)).collect()
    }

    /// Bytes of page `page` that lie on the store.
    fn page_len(&self, page: u64) -> usize {
        PAGE.min(self.size().saturating_sub(page * PAGE)) as usize
    }

    fn write_one(&self, kept: &mut Kept, mut at: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let n = bytes.len().min(PAGE as usize - within);
            let (now, later) = bytes.split_at(n);
            match kept.filed.as_ref().and_then(|filed| Some((filed, filed.find(page)?))) {
                Some((filed, there)) => {
                    let there = there * PAGE + within as u64;
                    filed.io("write", there, n, filed.file.write_all_at(now, there))?;
                }
                None => self.write_page(kept, page, within, now)?,
            }
            (at, bytes) = (at + n as u64, later);
        }
        Ok(())
    }

    /// Writes to a page that is in memory or nowhere.
    fn write_page(&self, kept: &mut Kept, page: u64, within: usize, bytes: &[u8]) -> Result<()> {
        if kept.pages.len() >= MOST && !kept.pages.contains_key(&page) {
            if kept.filed.is_none() {
                kept.filed = Some(Filed::new(self.name())?);
            }
            if let Some(filed) = &mut kept.filed {
                filed.take(&kept.pages)?;
            }
            kept.pages.clear();
        }
        let kept = match kept.pages.entry(page) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(free) => {
                let mut whole = vec![0; self.page_len(page)];
                if bytes.len() < whole.len() {
                    self.inner.read(page * PAGE, &mut whole)?;
                }
                free.insert(whole.into())
            }
        };
        if let Some(slot) = kept.get_mut(within..within + bytes.len()) {
            slot.copy_from_slice(bytes);
        }
        Ok(())
    }
}

impl BlockStore for OverlayStore {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        Caps { durable_flush: false, swap: None, batch: None, read_only: false, ..self.inner.caps() }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buf)?;
        let end = offset + buf.len() as u64;
        let kept = self.kept.read();
        if let Some(filed) = &kept.filed {
            filed.lay_over(offset, buf)?;
        }
        for (page, bytes) in kept.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = page * PAGE;
            let (from, to) = (start.max(offset), (start + bytes.len() as u64).min(end));
            let theirs = bytes.get((from - start) as usize..(to.max(from) - start) as usize);
            let ours = buf.get_mut((from - offset) as usize..(to.max(from) - offset) as usize);
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                ours.copy_from_slice(theirs);
            }
        }
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len: usize = bufs.iter().map(|b| b.len()).sum();
        check_range("write", self.name(), offset, len as u64, self.size())?;
        let mut kept = self.kept.write();
        let mut at = offset;
        for buf in bufs {
            self.write_one(&mut kept, at, buf)?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        check_range("discard", self.name(), offset, len, self.size()).map(|_| false)
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RamStore;

    #[test]
    fn reads_see_what_was_written_and_the_store_below_does_not() {
        let below = Arc::new(RamStore::from_bytes(vec![7; 10_000]));
        let store = OverlayStore::new(below.clone());
        store.write(4000, &[1; 200]).unwrap();
        store.write(9_990, &[2; 10]).unwrap();
        let mut all = vec![0; 10_000];
        store.read(0, &mut all).unwrap();
        let mut want = vec![7; 10_000];
        want[4000..4200].fill(1);
        want[9_990..].fill(2);
        assert_eq!(all, want);
        let mut part = [0; 20];
        store.read(4190, &mut part).unwrap();
        assert_eq!(part[..], want[4190..4210]);
        assert_eq!(below.to_bytes(), vec![7; 10_000]);
        assert!(store.write(9_995, &[0; 6]).is_err());
    }

    /// More than memory takes, in an order in which pages come again, are joined and lie apart.
    #[test]
    fn what_is_too_much_for_memory_is_read_as_any_other() {
        let size = 40 << 20;
        // A byte that is written nowhere.
        let below = Arc::new(RamStore::from_bytes(vec![250; size + 1000]));
        let store = OverlayStore::new(below.clone());
        let mut want = vec![250; size + 1000];
        let mut write = |at: usize, len: usize, byte: u8| {
            store.write(at as u64, &vec![byte; len]).unwrap();
            want[at..at + len].fill(byte);
        };
        (0..36).rev().for_each(|n| write(n << 20, 1 << 20, n as u8));
        (0..400).for_each(|n| write(n * 97_001 + 13, 300, 200));
        (0..300).for_each(|n| write(n * 130_003, 9_000, 100));
        write(size - 10, 1010, 1);
        let (in_memory, in_file) = {
            let kept = store.kept.read();
            (kept.pages.len(), kept.filed.as_ref().expect("a file").len)
        };
        assert!(in_memory <= MOST && in_file as usize > MOST, "{in_memory} {in_file}");
        let mut all = vec![0; want.len()];
        store.read(0, &mut all).unwrap();
        assert!(all == want);
        for at in (0..size).step_by(1_234_567) {
            let mut part = vec![0; 70_000.min(want.len() - at)];
            store.read(at as u64, &mut part).unwrap();
            assert!(part == want[at..at + part.len()], "{at}");
        }
        let written = store.written();
        assert!(written.windows(2).all(|two| two[0].0 + two[0].1 as u64 <= two[1].0));
        let covered: usize = written.iter().map(|(_, len)| len).sum();
        let home = below.to_bytes();
        let changed = want.chunks(4096).zip(home.chunks(4096)).filter(|(a, b)| a != b);
        assert_eq!(covered, changed.map(|(a, _)| a.len()).sum::<usize>());
        assert!(home.iter().all(|byte| *byte == 250));
    }
}
