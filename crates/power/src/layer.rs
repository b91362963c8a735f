//! Contents that share what they have in common: a base and the pages that differ from it.

use ondol_env::sync::Arc;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

const PAGE: usize = 1024;
type Page = [u8; PAGE];

/// Pages that are shared, or copied, together.
const FAN: usize = 64;

/// What a medium holds, as a base and changed pages. Copies are cheap, and equal contents have equal fingerprints.
#[derive(Clone)]
pub struct Layer {
    base: Arc<Base>,
    /// Changed pages, `FAN` by `FAN`.
    groups: Vec<Option<Arc<Group>>>,
    /// Pages whose hash is not current, in the order of their first change since.
    touched: Vec<usize>,
    /// Exclusive or of the hashes of all pages, with those of the base for pages that are touched.
    hash: u128,
}

struct Base {
    bytes: Arc<[u8]>,
    hashes: Vec<u128>,
    hash: u128,
    /// Pages that are zeros.
    zeros: Vec<bool>,
    /// What somebody has made of it.
    made: OnceLock<Arc<dyn Any + Send + Sync>>,
}

#[derive(Clone)]
struct Group {
    pages: [Option<Changed>; FAN],
}

/// A page of a layer's own.
#[derive(Clone)]
struct Changed {
    bytes: Arc<Page>,
    /// `None` while the page is touched.
    hash: Option<u128>,
}

impl fmt::Debug for Layer {
    /// How long it is: its bytes would fill the screen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A set of pages, by the byte ranges that cover them wholly.
#[derive(Clone, Debug, Default)]
pub struct Pages(BTreeSet<usize>);

impl Pages {
    /// All pages that lie wholly in one of `ranges` of bytes.
    pub fn inside(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let pages = |r: Range<u64>| (r.start as usize).div_ceil(PAGE)..r.end as usize / PAGE;
        Self(ranges.into_iter().flat_map(pages).collect())
    }
}

impl Layer {
    /// The base itself.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let pages = bytes.len().div_ceil(PAGE);
        let zeros: Vec<bool> = bytes.chunks(PAGE).map(is_zero).collect();
        // Most of an image is zeros.
        let hash = |n| hash_page(n, &if zeros[n] { [0; PAGE] } else { base_page(&bytes, n) });
        let hashes: Vec<u128> = (0..pages).map(hash).collect();
        let hash = hashes.iter().fold(0, |all, h| all ^ h);
        let base = Arc::new(Base { bytes, hashes, hash, zeros, made: OnceLock::new() });
        Self { hash: base.hash, base, groups: vec![None; pages.div_ceil(FAN)], touched: Vec::new() }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.base.bytes.len()
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.base.bytes.is_empty()
    }

    /// Writes into pages of its own. The range lies inside the layer.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (n, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let len = (PAGE - from).min(bytes.len() - done);
            self.page_mut(n)[from..from + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
        }
    }

    /// Makes a range zeros, which lies inside the layer. Pages that are zeros already stay as they are.
    pub fn zero(&mut self, offset: usize, len: usize) {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let (n, from) = (at / PAGE, at % PAGE);
            let part = from..(from + end - at).min(PAGE);
            let is_zero = match self.page(n) {
                Some(page) => is_zero(&page.bytes[part.clone()]),
                None => self.base.zeros[n] || is_zero(&self.base.bytes[at..at + part.len()]),
            };
            if !is_zero {
                self.page_mut(n)[part.clone()].fill(0);
            }
            at += part.len();
        }
    }

    /// A page to be changed.
    fn page_mut(&mut self, n: usize) -> &mut Page {
        let base = &self.base;
        let group = self.groups[n / FAN].get_or_insert_with(|| Arc::new(Group { pages: [const { None }; FAN] }));
        let slot = &mut Arc::make_mut(group).pages[n % FAN];
        let new = || Changed { bytes: Arc::new(base_page(&base.bytes, n)), hash: Some(base.hashes[n]) };
        let page = slot.get_or_insert_with(new);
        if let Some(hash) = page.hash.take() {
            self.touched.push(n);
            self.hash ^= hash ^ base.hashes[n];
        }
        Arc::make_mut(&mut page.bytes)
    }

    /// A page of its own, if it has one.
    fn page(&self, n: usize) -> Option<&Changed> {
        self.groups.get(n / FAN)?.as_ref()?.pages[n % FAN].as_ref()
    }

    /// All pages of its own, by number.
    fn pages(&self) -> impl Iterator<Item = (usize, &Changed)> {
        let groups = self.groups.iter().enumerate().filter_map(|(i, group)| Some((i, group.as_ref()?)));
        groups.flat_map(|(i, group)| {
            let pages = group.pages.iter().enumerate();
            pages.filter_map(move |(at, page)| Some((i * FAN + at, page.as_ref()?)))
        })
    }

    /// Reads; the range lies inside the layer.
    pub fn read(&self, offset: usize, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            let (n, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let len = (PAGE - from).min(buf.len() - done);
            let out = &mut buf[done..done + len];
            match self.page(n) {
                Some(page) => out.copy_from_slice(&page.bytes[from..from + len]),
                None => out.copy_from_slice(&self.base.bytes[offset + done..offset + done + len]),
            }
            done += len;
        }
    }

    /// Lends `len` bytes at `offset`, if they lie in one page.
    pub fn borrow(&self, offset: usize, len: usize) -> Option<&[u8]> {
        let (n, from) = (offset / PAGE, offset % PAGE);
        match self.page(n) {
            Some(page) => page.bytes.get(from..from + len),
            None if from + len <= PAGE => self.base.bytes.get(offset..offset + len),
            None => None,
        }
    }

    /// What `make` makes of the base: kept with it, and shared by all layers over it. Only one type can be made of one
    /// base; `None` for others.
    pub fn of_base<T: Any + Send + Sync>(&self, make: impl FnOnce(&[u8]) -> T) -> Option<Arc<T>> {
        let made = self.base.made.get_or_init(|| Arc::new(make(&self.base.bytes)));
        Arc::clone(made).downcast().ok()
    }

    /// Bytes that may differ from those of the base, with where they begin.
    pub fn changed(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let len = |at: usize| PAGE.min(self.len() - at);
        self.pages().map(move |(n, page)| (n * PAGE, &page.bytes[..len(n * PAGE)]))
    }

    /// Whether a range of both is known to hold the same without a look at it: they have one base, and share the
    /// range's pages.
    pub fn shares(&self, other: &Self, range: Range<usize>) -> bool {
        let is_shared = |n| match (self.page(n), other.page(n)) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.bytes, &b.bytes),
            (a, b) => a.is_none() && b.is_none(),
        };
        Arc::ptr_eq(&self.base, &other.base) && (range.start / PAGE..range.end.div_ceil(PAGE)).all(is_shared)
    }

    /// A number that is equal for equal contents, and for others practically never.
    pub fn fingerprint(&mut self) -> u128 {
        for n in std::mem::take(&mut self.touched) {
            let Some(group) = &mut self.groups[n / FAN] else { continue };
            if let Some(page) = &mut Arc::make_mut(group).pages[n % FAN] {
                let hash = hash_page(n, &page.bytes);
                page.hash = Some(hash);
                self.hash ^= hash ^ self.base.hashes[n];
            }
        }
        self.hash
    }

    /// One number for several media: as [`Layer::fingerprint`].
    pub fn fingerprint_of(layers: &mut [Layer]) -> u128 {
        layers.iter_mut().fold(0, |all, one| all.rotate_left(29) ^ one.fingerprint())
    }

    /// As [`Layer::fingerprint`], of everything but the pages of `scratch`. Comparable between layers of one base.
    pub fn fingerprint_without(&mut self, scratch: &Pages) -> u128 {
        let all = self.fingerprint();
        let hidden = self.pages().filter(|(n, _)| scratch.0.contains(n));
        hidden.fold(all, |hash, (n, page)| hash ^ page.hash.unwrap_or_default() ^ self.base.hashes[n])
    }

    /// All bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.base.bytes.to_vec();
        for (n, page) in self.pages() {
            let at = n * PAGE;
            let len = PAGE.min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&page.bytes[..len]);
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

/// Whether all of them are zeros. As fast in a build for tests as in others, since whole images are asked.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(PAGE).all(|part| part == &[0; PAGE][..part.len()])
}

/// Two hashes by folded multiplication; fast, and only ever fed with contents of our own making. All zeros are as one
/// pair of words.
fn hash_page(n: usize, page: &Page) -> u128 {
    let page = if is_zero(page) { &page[..16] } else { &page[..] };
    let fold = |x: u64, y: u64| {
        let product = u128::from(x) * u128::from(y);
        product as u64 ^ (product >> 64) as u64
    };
    let (mut a, mut b) = (n as u64 ^ 0x9E37_79B9_7F4A_7C15, n as u64 ^ 0xC2B2_AE3D_27D4_EB4F);
    for pair in page.as_chunks::<16>().0 {
        let (low, high) = pair.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let (x, y) = (word(low), word(high));
        a = fold(a ^ x, y ^ 0x9FB2_1C65_1E98_DF25);
        b = fold(b ^ y, x ^ 0xD6E8_FEB8_6659_FD93);
    }
    u128::from(a) << 64 | u128::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_have_equal_fingerprints_whatever_led_there() {
        let base: Arc<[u8]> = vec![7; 3 * PAGE + 100].into();
        let mut a = Layer::new(base.clone());
        a.write(100, &[1; 2500]);
        let first = a.fingerprint();
        let mut b = a.clone();
        b.write(100, &[2; 10]);
        assert_ne!(b.fingerprint(), first);
        b.write(100, &[1; 10]);
        assert_eq!(b.fingerprint(), first);
        assert_eq!(Layer::new(b.to_bytes()).fingerprint(), first);
        b.write(100, &[7; 2500]);
        assert_eq!(b.fingerprint(), Layer::new(base.clone()).fingerprint());
        assert_eq!(b.to_bytes(), &base[..]);
    }

    #[test]
    fn zeroed_is_what_lies_in_the_range_and_nothing_else() {
        let mut bytes = vec![0; 4 * PAGE + 300];
        bytes[PAGE..2 * PAGE].fill(7);
        bytes[3 * PAGE..].fill(9);
        let base = Layer::new(bytes.clone());
        for (from, to) in [(0, PAGE), (PAGE + 3, PAGE + 5), (10, 4 * PAGE + 250), (3 * PAGE, 4 * PAGE + 300)] {
            for written in [None, Some(2 * PAGE + 100), Some(3 * PAGE + 8)] {
                let (mut layer, mut plain) = (base.clone(), bytes.clone());
                if let Some(at) = written {
                    layer.write(at, &[5; 50]);
                    plain[at..at + 50].fill(5);
                }
                layer.zero(from, to - from);
                plain[from..to].fill(0);
                assert_eq!(layer.to_bytes(), plain);
                assert_eq!(layer.fingerprint(), Layer::new(plain).fingerprint());
            }
        }
        let mut fresh = base.clone();
        fresh.zero(0, PAGE);
        assert!(fresh.pages().next().is_none(), "what was zeros has no page of its own");
    }

    #[test]
    fn scratch_pages_do_not_count() {
        let mut a = Layer::new(vec![7; 4 * PAGE]);
        let mut b = a.clone();
        a.write(PAGE, &[1; 100]);
        let scratch = Pages::inside(std::iter::once(PAGE as u64 - 1..3 * PAGE as u64 + 5));
        assert_eq!(a.fingerprint_without(&scratch), b.fingerprint_without(&scratch));
        a.write(3 * PAGE, &[1]);
        assert_ne!(a.fingerprint_without(&scratch), b.fingerprint_without(&scratch));
    }
}
