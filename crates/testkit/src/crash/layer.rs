//! Images that share what they have in common: a base and the pages that differ from it.

use ondol_block::{BlockError, BlockStats, BlockStore, Caps, Counters, Result};
use ondol_env::sync::{Arc, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;

const PAGE: usize = 4096;
type Page = [u8; PAGE];

/// An image as a base and changed pages, with a hash of what is different from the base. Copies are cheap.
#[derive(Clone, Debug)]
pub struct Layer {
    base: Arc<[u8]>,
    pages: BTreeMap<usize, (Arc<Page>, u128)>,
    /// Pages whose hash is not current.
    touched: BTreeSet<usize>,
    /// Exclusive or of the hashes of all pages that are not touched.
    hash: u128,
}

impl Layer {
    /// The base itself.
    pub fn new(base: Arc<[u8]>) -> Self {
        Self { base, pages: BTreeMap::new(), touched: BTreeSet::new(), hash: 0 }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.base.len()
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.base.is_empty()
    }

    /// Writes into pages of its own. The range lies inside the image.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (n, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let len = (PAGE - from).min(bytes.len() - done);
            let base = &self.base;
            let (page, hash) = self.pages.entry(n).or_insert_with(|| (Arc::new(base_page(base, n)), 0));
            if self.touched.insert(n) {
                self.hash ^= *hash;
            }
            Arc::make_mut(page)[from..from + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
        }
    }

    /// Reads; the range lies inside the image.
    pub fn read(&self, offset: usize, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            let (n, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let len = (PAGE - from).min(buf.len() - done);
            let out = &mut buf[done..done + len];
            match self.pages.get(&n) {
                Some((page, _)) => out.copy_from_slice(&page[from..from + len]),
                None => out.copy_from_slice(&self.base[offset + done..offset + done + len]),
            }
            done += len;
        }
    }

    /// A number that is equal for equal contents over one base, and for others practically never.
    pub fn fingerprint(&mut self) -> u128 {
        for n in std::mem::take(&mut self.touched) {
            let base = base_page(&self.base, n);
            if let Some((page, hash)) = self.pages.get_mut(&n) {
                *hash = if **page == base { 0 } else { hash_page(n, page) };
                self.hash ^= *hash;
            }
        }
        self.hash
    }

    /// The whole image.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.base.to_vec();
        for (n, (page, _)) in &self.pages {
            let at = n * PAGE;
            let len = PAGE.min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&page[..len]);
        }
        bytes
    }
}

fn base_page(base: &[u8], n: usize) -> Page {
    let mut page = [0; PAGE];
    let from = n * PAGE;
    let len = PAGE.min(base.len().saturating_sub(from));
    page[..len].copy_from_slice(&base[from..from + len]);
    page
}

/// Two independent multiplicative hashes; fast, and only ever fed with images of our own making.
fn hash_page(n: usize, page: &Page) -> u128 {
    let (mut a, mut b) = (n as u64 ^ 0x9E37_79B9_7F4A_7C15, n as u64 ^ 0xC2B2_AE3D_27D4_EB4F);
    for word in page.chunks_exact(8) {
        let word = word.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        a = (a ^ word).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        a ^= a >> 32;
        b = (b ^ word).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        b ^= b >> 29;
    }
    u128::from(a) << 64 | u128::from(b)
}

/// A layer as a store that can be written to, like a medium after the power is back.
#[derive(Debug)]
pub struct CowStore {
    layer: RwLock<Layer>,
    size: u64,
    counters: Counters,
}

impl CowStore {
    /// A store that begins with `layer`.
    pub fn new(layer: Layer) -> Self {
        Self { size: layer.len() as u64, layer: RwLock::new(layer), counters: Counters::default() }
    }

    /// What it holds now.
    pub fn layer(&self) -> Layer {
        self.layer.read().clone()
    }

    fn start(&self, op: &'static str, offset: u64, len: usize) -> Result<usize> {
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= self.size);
        let outside =
            || BlockError::OutOfRange { op, name: self.name().to_owned(), offset, len: len as u64, size: self.size };
        if inside { Ok(offset as usize) } else { Err(outside()) }
    }
}

impl BlockStore for CowStore {
    fn name(&self) -> &str {
        "crash state"
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn caps(&self) -> Caps {
        Caps { atomic_unit: 512, durable_flush: false, byte_addressable: false, swap: false, read_only: false }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let at = self.start("read", offset, buf.len())?;
        self.counters.read(buf.len());
        self.layer.read().read(at, buf);
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len = bufs.iter().map(|b| b.len()).sum();
        let mut at = self.start("write", offset, len)?;
        self.counters.write(len);
        let mut layer = self.layer.write();
        for buf in bufs {
            layer.write(at, buf);
            at += buf.len();
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.counters.flush();
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.start("discard", offset, len as usize).map(|_| ())
    }

    fn stats(&self) -> BlockStats {
        self.counters.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_have_equal_fingerprints_whatever_led_there() {
        let base: Arc<[u8]> = vec![7; 3 * PAGE].into();
        let mut a = Layer::new(base.clone());
        a.write(100, &[1; 5000]);
        let first = a.fingerprint();
        let mut b = a.clone();
        b.write(100, &[2; 10]);
        assert_ne!(b.fingerprint(), first);
        b.write(100, &[1; 10]);
        assert_eq!(b.fingerprint(), first);
        b.write(100, &[7; 5000]);
        assert_eq!(b.fingerprint(), Layer::new(base.clone()).fingerprint());
        assert_eq!(b.to_bytes(), &base[..]);
    }

    #[test]
    fn a_store_reads_what_was_written_and_leaves_the_base() {
        let base: Arc<[u8]> = vec![7; 2 * PAGE].into();
        let store = CowStore::new(Layer::new(base.clone()));
        store.write(4000, &[1; 200]).unwrap();
        let mut buf = [0; 4];
        store.read(4198, &mut buf).unwrap();
        assert_eq!((buf, base[4000]), ([1, 1, 7, 7], 7));
        assert!(store.read(8190, &mut buf).is_err());
    }
}
