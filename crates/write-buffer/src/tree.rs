//! A file's balanced tree in DRAM: LBN → where in NVM the newest bytes of that block of the file are (papers/2, §2.2).
//! It is cut into shards, each with a lock of its own.

use crate::phase::Phase;
use std::collections::BTreeMap;

/// Bytes of one LBN that lie in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// First byte, in the LBN.
    pub(crate) start: u32,
    /// Behind the last byte, in the LBN.
    pub(crate) end: u32,
    /// The data block.
    pub(crate) block: u32,
    /// Where in the data block the first byte is.
    pub(crate) at: u32,
    /// Sequence of the record.
    pub(crate) sequence: u64,
}

impl Segment {
    pub(crate) fn len(&self) -> u32 {
        self.end - self.start
    }

    fn from(self, start: u32) -> Self {
        Self { start, at: self.at + (start - self.start), ..self }
    }

    fn until(self, end: u32) -> Self {
        Self { end, ..self }
    }
}

/// Bytes of a data block that nothing refers to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) block: u32,
    pub(crate) bytes: u32,
}

/// One LBN of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Sorted and disjoint.
    pub(crate) segments: Vec<Segment>,
    pub(crate) phase: Phase,
}

impl Node {
    /// Puts a segment over what is there.
    pub(crate) fn put(&mut self, new: Segment, gone: &mut Vec<Gone>) {
        let first = self.segments.partition_point(|s| s.end <= new.start);
        let behind = self.segments.partition_point(|s| s.start < new.end);
        let mut fresh = Vec::with_capacity(3);
        let covered = self.segments.get(first..behind).unwrap_or_default();
        if let Some(head) = covered.first().filter(|s| s.start < new.start) {
            fresh.push(head.until(new.start));
        }
        fresh.push(new);
        if let Some(tail) = covered.last().filter(|s| s.end > new.end) {
            fresh.push(tail.from(new.end));
        }
        for old in covered {
            let (start, end) = (old.start.max(new.start), old.end.min(new.end));
            gone.push(Gone { block: old.block, bytes: end - start });
        }
        self.segments.splice(first..behind.max(first), fresh);
    }

    /// Lets go of everything from byte `from` of the LBN on.
    fn cut(&mut self, from: u32, gone: &mut Vec<Gone>) {
        self.segments.retain_mut(|s| {
            if s.end > from {
                let start = s.start.max(from);
                gone.push(Gone { block: s.block, bytes: s.end - start });
                s.end = start.max(s.start);
            }
            s.start < s.end
        });
    }

    /// Lets go of everything: logical deletion, the node stays in the tree.
    pub(crate) fn clear(&mut self, gone: &mut Vec<Gone>) {
        gone.extend(self.segments.drain(..).map(|s| Gone { block: s.block, bytes: s.len() }));
    }
}

/// Whether a file takes operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Open,
    /// It was removed; its slot is not released yet.
    Removed,
    /// Its slot belongs to nobody, or to another file.
    Released,
}

/// The blocks of one shard of a file.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The same in all shards of a file: it changes while all are locked.
    pub(crate) life: Life,
    pub(crate) nodes: BTreeMap<u64, Node>,
    /// Counts up when something was taken out: a read that sees it change begins again.
    pub(crate) taken_out: u64,
    block_size: u64,
}

impl Tree {
    pub(crate) fn new(block_size: u64) -> Self {
        Self { life: Life::Open, nodes: BTreeMap::new(), taken_out: 0, block_size }
    }

    /// Puts a record's bytes into the tree.
    pub(crate) fn put(&mut self, lbn: u64, new: Segment, gone: &mut Vec<Gone>) -> &mut Node {
        let node = self.nodes.entry(lbn).or_default();
        node.put(new, gone);
        node
    }

    /// Lets go of what lies behind the first `len` bytes of the file.
    pub(crate) fn cut(&mut self, len: u64, gone: &mut Vec<Gone>) {
        let block_size = self.block_size;
        for (lbn, node) in self.nodes.range_mut(len / block_size..) {
            node.cut(len.saturating_sub(lbn * block_size).min(block_size) as u32, gone);
        }
        self.taken_out += 1;
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self, gone: &mut Vec<Gone>) {
        self.nodes.values_mut().for_each(|node| node.clear(gone));
        self.nodes.clear();
    }

    /// First sequence that is not written home.
    pub(crate) fn unflushed(&self) -> Option<u64> {
        self.nodes.values().filter_map(|node| node.phase.unflushed()).min()
    }

    /// Everything up to `point` is durable at home.
    pub(crate) fn set_synced(&mut self, point: u64) {
        self.nodes.values_mut().for_each(|node| node.phase.synced(point));
    }

    /// Lets go of all clean segments that `wanted` asks for. Returns whether there were any.
    pub(crate) fn let_go_of_clean(&mut self, wanted: impl Fn(&Phase) -> bool, gone: &mut Vec<Gone>) -> bool {
        let before = gone.len();
        let mut empty = 0;
        for node in self.nodes.values_mut() {
            if wanted(&node.phase) {
                node.clear(gone);
            }
            empty += usize::from(node.segments.is_empty());
        }
        if gone.len() > before {
            self.taken_out += 1;
        }
        // The tree keeps its form until half of it is of no use.
        if empty * 2 >= self.nodes.len() {
            self.nodes.retain(|_, node| !node.segments.is_empty() || !node.phase.is_clean() || !node.phase.is_idle());
        }
        gone.len() > before
    }

    /// Nothing of it is needed from NVM any more.
    pub(crate) fn is_clean(&self) -> bool {
        self.nodes.values().all(|node| node.phase.is_clean() && node.phase.is_idle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u32 = 64;

    proptest! {
        /// Bytes of the tree are those of an array, and what is let go of is what the array lost.
        #[test]
        fn as_with_an_array(ops in proptest::collection::vec((0u64..3, 0u32..SIZE, 1u32..SIZE, any::<bool>()), 1..40)) {
            let mut tree = Tree::new(SIZE.into());
            let mut array = vec![None; 3 * SIZE as usize];
            let mut held = std::collections::BTreeMap::<u32, i64>::new();
            for (block, (lbn, start, len, is_cut)) in (0u32..).zip(ops) {
                let mut gone = Vec::new();
                let end = (start + len).min(SIZE);
                if is_cut && block % 4 == 0 {
                    let at = lbn * u64::from(SIZE) + u64::from(start);
                    tree.cut(at, &mut gone);
                    array[at as usize..].fill(None);
                } else {
                    let at = 7 * block;
                    tree.put(lbn, Segment { start, end, block, at, sequence: block.into() }, &mut gone);
                    *held.entry(block).or_default() += i64::from(end - start);
                    for i in start..end {
                        array[(lbn * u64::from(SIZE)) as usize + i as usize] = Some((block, at + (i - start)));
                    }
                }
                for g in gone {
                    *held.entry(g.block).or_default() -= i64::from(g.bytes);
                }
                let mut found = vec![None; array.len()];
                for (lbn, node) in &tree.nodes {
                    prop_assert!(node.segments.windows(2).all(|s| s[0].end <= s[1].start));
                    for s in &node.segments {
                        for i in s.start..s.end {
                            let at = (lbn * u64::from(SIZE)) as usize + i as usize;
                            found[at] = Some((s.block, s.at + (i - s.start)));
                        }
                    }
                }
                prop_assert_eq!(&found, &array);
                for (block, bytes) in &held {
                    let live = array.iter().flatten().filter(|(b, _)| b == block).count();
                    prop_assert_eq!(*bytes, live as i64);
                }
            }
        }
    }
}
