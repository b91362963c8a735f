//! A new mapping for an inode: its nodes lie where nothing was, so that the inode alone decides which counts.

use super::scan::join;
use super::shrink::Shrink;
use crate::{Ino, Result};
use ondol_format::Inode;
use ondol_format::extent::{self, Extent, Index, MAX_LEN, MAX_UNWRITTEN_LEN, NodeMut, ROOT_SIZE};

impl Shrink {
    /// Has `inode` map `extents`: the new blocks of its mapping.
    pub(super) fn build(&mut self, ino: Ino, inode: &mut Inode, extents: &[Extent]) -> Result<Vec<u64>> {
        if inode.has_extents() {
            return self.build_tree(ino, inode, &pieces(extents));
        }
        let mut nodes = Vec::new();
        let blocks: Vec<(u64, u32)> = extents
            .iter()
            .flat_map(|e| (0..u64::from(e.len)).map(move |i| (u64::from(e.logical) + i, (e.start + i) as u32)))
            .collect();
        let mut logical = 0;
        for word in 0..15usize {
            let level = word.saturating_sub(11) as u32;
            let count = (self.edit.block_size() as u64 / 4).pow(level);
            let block = self.build_pointers(part(&blocks, logical, count), logical, level, &mut nodes)?;
            inode.set_block_word(word, block);
            logical += count;
        }
        Ok(nodes)
    }

    fn build_pointers(&mut self, blocks: &[(u64, u32)], first: u64, level: u32, nodes: &mut Vec<u64>) -> Result<u32> {
        let Some(&(_, block)) = blocks.first() else { return Ok(0) };
        if level == 0 {
            return Ok(block);
        }
        let size = self.edit.block_size();
        let step = (size as u64 / 4).pow(level - 1);
        let at = self.take_node()?;
        nodes.push(at);
        let mut bytes = vec![0; size];
        for (i, word) in (0..).zip(bytes.chunks_exact_mut(4)) {
            let logical = first + i * step;
            let block = self.build_pointers(part(blocks, logical, step), logical, level - 1, nodes)?;
            word.copy_from_slice(&block.to_le_bytes());
        }
        self.edit.write_around(at, &bytes)?;
        Ok(at as u32)
    }

    fn build_tree(&mut self, ino: Ino, inode: &mut Inode, extents: &[Extent]) -> Result<Vec<u64>> {
        let in_root = usize::from(extent::capacity(ROOT_SIZE));
        let size = self.edit.block_size();
        let in_node = usize::from(extent::capacity(size));
        let mut nodes = Vec::new();
        if extents.len() <= in_root {
            fill(&mut NodeMut::init(&mut inode.i_block, 0), extents);
            return Ok(nodes);
        }
        let seed = self.edit.sb.inode_seed(ino, inode.generation);
        let mut store = |this: &mut Self, mut bytes: Vec<u8>, logical: u32| {
            let leaf = this.take_node()?;
            nodes.push(leaf);
            if let Some(seed) = seed {
                extent::seal(&mut bytes, seed);
            }
            this.edit.write_around(leaf, &bytes).map(|()| Index { logical, leaf })
        };
        let mut indexes = Vec::new();
        for part in extents.chunks(in_node) {
            let mut bytes = vec![0; size];
            fill(&mut NodeMut::init(&mut bytes, 0), part);
            indexes.push(store(self, bytes, part[0].logical)?);
        }
        let mut depth = 1;
        while indexes.len() > in_root {
            let mut above = Vec::new();
            for part in indexes.chunks(in_node) {
                let mut bytes = vec![0; size];
                link(&mut NodeMut::init(&mut bytes, depth), part);
                above.push(store(self, bytes, part[0].logical)?);
            }
            indexes = above;
            depth += 1;
        }
        link(&mut NodeMut::init(&mut inode.i_block, depth), &indexes);
        Ok(nodes)
    }
}

fn fill(node: &mut NodeMut<'_>, extents: &[Extent]) {
    extents.iter().enumerate().for_each(|(i, extent)| {
        node.insert_extent(i, *extent);
    });
}

fn link(node: &mut NodeMut<'_>, indexes: &[Index]) {
    indexes.iter().enumerate().for_each(|(i, index)| {
        node.insert_index(i, *index);
    });
}

/// Those of the blocks, by rising number, that lie in `count` from `first` on.
fn part(blocks: &[(u64, u32)], first: u64, count: u64) -> &[(u64, u32)] {
    let from = blocks.partition_point(|&(logical, _)| logical < first);
    let to = blocks.partition_point(|&(logical, _)| logical < first + count);
    &blocks[from..to]
}

/// Runs as long as an extent can be, and neighbours joined.
fn pieces(extents: &[Extent]) -> Vec<Extent> {
    let mut list = Vec::new();
    for extent in extents {
        let (mut rest, most) = (*extent, if extent.unwritten { MAX_UNWRITTEN_LEN } else { MAX_LEN });
        while rest.len > most {
            join(&mut list, Extent { len: most, ..rest }, most);
            rest = Extent {
                logical: rest.logical + most,
                start: rest.start + u64::from(most),
                len: rest.len - most,
                ..rest
            };
        }
        join(&mut list, rest, most);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_piece_is_longer_than_an_extent_can_be() {
        let run = |logical, len, unwritten| Extent { logical, start: 1000 + u64::from(logical), len, unwritten };
        let lengths =
            |list: &[Extent]| {
                let list = pieces(list);
                // Together they are the same blocks.
                assert!(list.windows(2).all(|two| two[0].end() == u64::from(two[1].logical)
                    && two[0].start + u64::from(two[0].len) == two[1].start));
                list.iter().map(|extent| extent.len).collect::<Vec<_>>()
            };
        assert_eq!(lengths(&[run(0, 65536, false)]), [32768, 32768]);
        assert_eq!(lengths(&[run(5, 65535, true)]), [32767, 32767, 1]);
        assert_eq!(
            lengths(&[run(0, 10, false), run(10, 70000, false), run(70010, 3, false)]),
            [10, 32768, 32768, 4467]
        );
        assert_eq!(lengths(&[run(0, 10, false), run(10, 3, false)]), [13]);
    }
}
