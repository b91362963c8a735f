//! Changing one node in place.

use super::{ENTRY, Extent, Index, MAGIC, Node, RawHeader, capacity};
use crate::error::{Place, Result};
use zerocopy::{FromBytes, IntoBytes};

/// A node to be changed. Positions past the entries are refused with `false`; the order of entries is the caller's
/// matter, and [`Node::parse`] checks it. The checksum is not kept up: see [`super::seal`].
#[derive(Debug)]
pub struct NodeMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> NodeMut<'a> {
    /// Makes `bytes`, 60 bytes of i_block or a whole block, an empty node.
    pub fn init(bytes: &'a mut [u8], depth: u16) -> NodeMut<'a> {
        bytes.fill(0);
        let max = capacity(bytes.len());
        let mut node = NodeMut { bytes };
        if let Some(header) = node.header() {
            header.eh_magic.set(MAGIC);
            header.eh_max.set(max);
            header.eh_depth.set(depth);
        }
        node
    }

    /// A node to be changed, whose header is checked first.
    pub fn open(bytes: &'a mut [u8], place: Place) -> Result<NodeMut<'a>> {
        Node::header(bytes, None, place)?;
        Ok(NodeMut { bytes })
    }

    fn header(&mut self) -> Option<&mut RawHeader> {
        RawHeader::mut_from_prefix(self.bytes).ok().map(|(header, _)| header)
    }

    fn raw(&self) -> Option<&RawHeader> {
        RawHeader::ref_from_prefix(self.bytes).ok().map(|(header, _)| header)
    }

    /// Entries in use.
    pub fn len(&self) -> usize {
        self.raw().map_or(0, |header| usize::from(header.eh_entries.get()))
    }

    /// Whether the node has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries that fit.
    pub fn max(&self) -> usize {
        self.raw().map_or(0, |header| usize::from(header.eh_max.get()))
    }

    /// Levels below this node.
    pub fn depth(&self) -> u16 {
        self.raw().map_or(0, |header| header.eh_depth.get())
    }

    /// Sets the levels below this node.
    pub fn set_depth(&mut self, depth: u16) {
        if let Some(header) = self.header() {
            header.eh_depth.set(depth);
        }
    }

    /// This node, to be read.
    pub fn view(&self) -> Result<Node<'_>> {
        Node::header(self.bytes, None, Place::NONE)
    }

    fn set_len(&mut self, len: usize) {
        if let Some(header) = self.header() {
            header.eh_entries.set(len as u16);
        }
    }

    fn put(&mut self, i: usize, entry: &[u8]) -> bool {
        if i >= self.len() {
            return false;
        }
        let at = (i + 1) * ENTRY;
        let Some(slot) = self.bytes.get_mut(at..at + ENTRY) else { return false };
        slot.copy_from_slice(entry);
        true
    }

    fn insert(&mut self, i: usize, entry: &[u8]) -> bool {
        let len = self.len();
        if i > len || len >= self.max() {
            return false;
        }
        self.bytes.copy_within((i + 1) * ENTRY..(len + 1) * ENTRY, (i + 2) * ENTRY);
        self.set_len(len + 1);
        self.put(i, entry)
    }

    /// Replaces extent `i` of a leaf.
    pub fn set_extent(&mut self, i: usize, extent: Extent) -> bool {
        self.put(i, extent.encode().as_bytes())
    }

    /// Replaces entry `i` of an index node.
    pub fn set_index(&mut self, i: usize, index: Index) -> bool {
        self.put(i, index.encode().as_bytes())
    }

    /// Inserts an extent before entry `i` of a leaf; false if the node is full.
    pub fn insert_extent(&mut self, i: usize, extent: Extent) -> bool {
        self.insert(i, extent.encode().as_bytes())
    }

    /// Inserts an entry before entry `i` of an index node; false if the node is full.
    pub fn insert_index(&mut self, i: usize, index: Index) -> bool {
        self.insert(i, index.encode().as_bytes())
    }

    /// Removes `count` entries from entry `i` on; the freed places become zero.
    pub fn remove(&mut self, i: usize, count: usize) -> bool {
        let len = self.len();
        let Some(end) = i.checked_add(count).filter(|end| *end <= len) else { return false };
        self.bytes.copy_within((end + 1) * ENTRY..(len + 1) * ENTRY, (i + 1) * ENTRY);
        self.bytes[(len - count + 1) * ENTRY..(len + 1) * ENTRY].fill(0);
        self.set_len(len - count);
        true
    }

    /// Moves the entries from `at` on to the end of `other`, a node of the same depth; false if they do not fit.
    pub fn split_off(&mut self, at: usize, other: &mut NodeMut<'_>) -> bool {
        let (len, there) = (self.len(), other.len());
        let Some(count) = len.checked_sub(at).filter(|count| there + count <= other.max()) else { return false };
        let from = &self.bytes[(at + 1) * ENTRY..(len + 1) * ENTRY];
        other.bytes[(there + 1) * ENTRY..(there + 1 + count) * ENTRY].copy_from_slice(from);
        other.set_len(there + count);
        self.remove(at, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u32, len: u32) -> Extent {
        Extent { logical, start: 1000 + u64::from(logical), len, unwritten: logical % 2 == 1 }
    }

    #[test]
    fn entries_move_as_told() {
        let mut bytes = [0u8; 1024];
        let mut node = NodeMut::init(&mut bytes, 0);
        assert_eq!(node.max(), 84);
        for i in 0..84 {
            assert!(node.insert_extent(i / 2, extent(i as u32, 1)));
        }
        assert!(!node.insert_extent(0, extent(0, 1)));
        assert!(node.remove(10, 4));
        assert!(!node.remove(80, 1));
        let mut more = [0u8; 1024];
        let mut other = NodeMut::init(&mut more, 0);
        let before: Vec<_> = node.view().unwrap().extents().collect();
        assert!(node.split_off(30, &mut other));
        let after: Vec<_> = node.view().unwrap().extents().chain(other.view().unwrap().extents()).collect();
        assert_eq!(before, after);
        assert_eq!((node.len(), other.len()), (30, 50));
    }

    #[test]
    fn rules_are_enforced() {
        let place = Place::inode(12).in_block(1234);
        let mut bytes = [0u8; 60];
        let mut node = NodeMut::init(&mut bytes, 0);
        assert!(node.insert_extent(0, extent(0, 5)) && node.insert_extent(1, extent(4, 5)));
        let error = Node::parse(&bytes, None, place).unwrap_err().to_string();
        assert_eq!(error, "extent node in block 1234 of inode 12: entry 1 at logical block 4 is out of order");
        bytes[2] = 5;
        let error = Node::parse(&bytes, None, place).unwrap_err().to_string();
        assert_eq!(error, "extent node in block 1234 of inode 12: 5 entries exceed the maximum 4");
        assert!(Node::parse(&[0; 60], None, place).is_err());
        let mut node = NodeMut::init(&mut bytes, 0);
        assert!(node.insert_extent(0, extent(u32::MAX, 1)));
        assert!(Node::parse(&bytes, None, place).is_err());
        assert!(Node::parse(&bytes, Some(1), place).is_err());
    }

    #[test]
    fn lengths_and_high_halves() {
        for (len, unwritten) in [(1, false), (32768, false), (1, true), (32767, true)] {
            let extent = Extent { logical: 7, start: 0xabcd_1234_5678, len, unwritten };
            assert_eq!(Extent::decode(&extent.encode()), extent);
        }
    }
}
