//! Writes that stay in memory, over a store that is not changed.

use crate::{BlockStats, BlockStore, Caps, Result, check_range};
use ondol_env::sync::{Arc, RwLock};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::IoSlice;

/// Bytes of a piece that is kept once any of it was written.
const PAGE: u64 = 4096;

/// A store that reads as `inner` and keeps what is written to it in memory, so that `inner` is never written. What it takes of
/// memory goes with what was written, in pages of 4 KiB.
pub struct OverlayStore {
    inner: Arc<dyn BlockStore>,
    pages: RwLock<BTreeMap<u64, Box<[u8]>>>,
}

impl OverlayStore {
    /// Over `inner`, with nothing written yet.
    pub fn new(inner: Arc<dyn BlockStore>) -> Self {
        Self { inner, pages: RwLock::default() }
    }

    /// Where pieces of up to 4 KiB begin that something was written to, with their length: offsets rise.
    pub fn written(&self) -> Vec<(u64, usize)> {
        self.pages.read().iter().map(|(page, bytes)| (page * PAGE, bytes.len())).collect()
    }

    /// Bytes of page `page` that lie on the store.
    fn page_len(&self, page: u64) -> usize {
        PAGE.min(self.size().saturating_sub(page * PAGE)) as usize
    }

    fn write_one(&self, pages: &mut BTreeMap<u64, Box<[u8]>>, mut at: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let n = bytes.len().min(PAGE as usize - within);
            let (now, later) = bytes.split_at(n);
            let kept = match pages.entry(page) {
                Entry::Occupied(kept) => kept.into_mut(),
                Entry::Vacant(free) => {
                    let mut whole = vec![0; self.page_len(page)];
                    self.inner.read(page * PAGE, &mut whole)?;
                    free.insert(whole.into())
                }
            };
            if let Some(slot) = kept.get_mut(within..within + n) {
                slot.copy_from_slice(now);
            }
            (at, bytes) = (at + n as u64, later);
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
        Caps {
            durable_flush: false,
            byte_addressable: false,
            swap: None,
            batch: None,
            read_only: false,
            ..self.inner.caps()
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buf)?;
        let end = offset + buf.len() as u64;
        let pages = self.pages.read();
        for (page, bytes) in pages.range(offset / PAGE..end.div_ceil(PAGE)) {
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
        let mut pages = self.pages.write();
        let mut at = offset;
        for buf in bufs {
            self.write_one(&mut pages, at, buf)?;
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
}
