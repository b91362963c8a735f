//! Reading and validating one node.

use super::{ENTRY, Extent, Index, MAGIC, MAX_DEPTH, MAX_LOGICAL, RawExtent, RawHeader, RawIndex, capacity};
use crate::csum::crc32c;
use crate::error::{Place, Result};
use crate::superblock::Superblock;
use zerocopy::FromBytes;

const NODE: &str = "extent node";

/// A node whose header has been checked; [`Node::parse`] has checked its entries too.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    entries: &'a [u8],
    max: u16,
    depth: u16,
}

impl<'a> Node<'a> {
    /// Checks a whole node: header, and that entries are sorted, do not overlap and have a length. `bytes` are the 60
    /// bytes of i_block or a whole block; `depth` is what the parent demands, None for the root.
    pub fn parse(bytes: &'a [u8], depth: Option<u16>, place: Place) -> Result<Node<'a>> {
        let node = Node::header(bytes, depth, place)?;
        let mut free_from = 0u64;
        for i in 0..node.len() {
            let (logical, end) = match node.extent(i) {
                Some(extent) => {
                    if extent.len == 0 {
                        return Err(place.corrupt(NODE, format!("extent {i} has length 0")));
                    }
                    if extent.start == 0 {
                        return Err(place.corrupt(NODE, format!("extent {i} starts at block 0")));
                    }
                    (extent.logical, extent.end())
                }
                None => node.index(i).map_or((0, 1), |index| (index.logical, u64::from(index.logical) + 1)),
            };
            if u64::from(logical) < free_from {
                return Err(place.corrupt(NODE, format!("entry {i} at logical block {logical} is out of order")));
            }
            if end > u64::from(MAX_LOGICAL) {
                return Err(place.corrupt(NODE, format!("entry {i} ends past the last logical block")));
            }
            free_from = end;
        }
        Ok(node)
    }

    /// Checks the header alone: for nodes whose entries were checked when they were first read.
    pub fn header(bytes: &'a [u8], depth: Option<u16>, place: Place) -> Result<Node<'a>> {
        let Ok((header, rest)) = RawHeader::ref_from_prefix(bytes) else {
            return Err(place.corrupt(NODE, format!("only {} bytes", bytes.len())));
        };
        let (entries, max) = (header.eh_entries.get(), header.eh_max.get());
        let found = header.eh_depth.get();
        if header.eh_magic.get() != MAGIC {
            return Err(place.corrupt(NODE, format!("magic number {:#06x}, not 0xf30a", header.eh_magic.get())));
        }
        if max == 0 || max > capacity(bytes.len()) {
            return Err(place.corrupt(NODE, format!("a maximum of {max} entries, room for {}", capacity(bytes.len()))));
        }
        if entries > max {
            return Err(place.corrupt(NODE, format!("{entries} entries exceed the maximum {max}")));
        }
        if found > MAX_DEPTH || depth.is_some_and(|depth| depth != found) {
            let wanted = depth.map_or(format!("at most {MAX_DEPTH}"), |depth| depth.to_string());
            return Err(place.corrupt(NODE, format!("depth {found}, not {wanted}")));
        }
        if found > 0 && entries == 0 {
            return Err(place.corrupt(NODE, "an index node without entries"));
        }
        let entries = rest.get(..usize::from(entries) * ENTRY).unwrap_or_default();
        Ok(Node { entries, max, depth: found })
    }

    /// Checks that every block an entry points to lies on the volume.
    pub fn check_blocks(&self, sb: &Superblock, place: Place) -> Result<()> {
        for i in 0..self.len() {
            let blocks = match self.extent(i) {
                Some(extent) => extent.start..extent.start.saturating_add(u64::from(extent.len)),
                None => self.index(i).map_or(0..0, |index| index.leaf..index.leaf.saturating_add(1)),
            };
            if !sb.contains_blocks(&blocks) {
                let what = format!("entry {i} points to blocks {}..{} off the volume", blocks.start, blocks.end);
                return Err(place.corrupt(NODE, what));
            }
        }
        Ok(())
    }

    /// Entries in use.
    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY
    }

    /// Whether the node has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that fit.
    pub fn max(&self) -> usize {
        usize::from(self.max)
    }

    /// Levels below this node.
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Whether the entries are extents.
    pub fn is_leaf(&self) -> bool {
        self.depth == 0
    }

    fn entry(&self, i: usize) -> Option<&'a [u8]> {
        self.entries.get(i.checked_mul(ENTRY)?..)?.get(..ENTRY)
    }

    /// Extent `i` of a leaf.
    pub fn extent(&self, i: usize) -> Option<Extent> {
        let bytes = self.entry(i).filter(|_| self.is_leaf())?;
        RawExtent::ref_from_bytes(bytes).ok().map(Extent::decode)
    }

    /// Entry `i` of an index node.
    pub fn index(&self, i: usize) -> Option<Index> {
        let bytes = self.entry(i).filter(|_| !self.is_leaf())?;
        RawIndex::ref_from_bytes(bytes).ok().map(Index::decode)
    }

    /// First logical block of entry `i`, extent or index.
    pub fn logical(&self, i: usize) -> Option<u32> {
        self.entry(i)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// All extents of a leaf, in order.
    pub fn extents(self) -> impl Iterator<Item = Extent> + 'a {
        (0..self.len()).map_while(move |i| self.extent(i))
    }

    /// All entries of an index node, in order.
    pub fn indexes(self) -> impl Iterator<Item = Index> + 'a {
        (0..self.len()).map_while(move |i| self.index(i))
    }

    /// The last entry that starts at or before `logical`; None if all start behind it.
    pub fn search(&self, logical: u32) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.logical(middle).is_some_and(|first| first <= logical) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }
}

/// Where the checksum of a node in a block lies; None if eh_max leaves no room for it.
fn tail(block: &[u8]) -> Option<usize> {
    let header = RawHeader::ref_from_prefix(block).ok()?.0;
    let at = ENTRY + usize::from(header.eh_max.get()) * ENTRY;
    (at + 4 <= block.len()).then_some(at)
}

/// Writes the checksum of a node that has a block of its own. `inode_seed` is that of the owning inode.
pub fn seal(block: &mut [u8], inode_seed: u32) {
    if let Some(at) = tail(block) {
        let crc = crc32c(inode_seed, &block[..at]);
        block[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Verifies the checksum of a node that has a block of its own.
pub fn verify(block: &[u8], inode_seed: u32, place: Place) -> Result<()> {
    let at = tail(block).ok_or_else(|| place.corrupt(NODE, "no room for its checksum"))?;
    let stored = block[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let computed = crc32c(inode_seed, &block[..at]);
    if stored == computed { Ok(()) } else { Err(place.checksum(NODE, stored, computed)) }
}
