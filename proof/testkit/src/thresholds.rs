//! Where the code begins to do something else: sizes and numbers that tests have to cross.
//!
//! One table, [`all`], for volumes of one [`Geometry`]. Each row is computed from the constants and functions of the
//! code that it is about, so that it follows them. [`Threshold::around`] gives the values on both sides; [`bytes`],
//! [`values`] and [`targets`] are what generators draw from, for blocks of every size that tests use.

use ondol_format::extent::{self, MAX_LEN, MAX_LOGICAL};
use ondol_format::inode::{FAST_SYMLINK_MAX, LINK_MAX};
use ondol_format::unit::CHUNK;
use ondol_format::xattr::{VALUE_MAX, Xattr, block_fits, index, inode_fits};
use ondol_format::{dirent, htree};
use ondol_journal::thresholds as journal;
use ondol_volume::thresholds as volume;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What of a volume decides where its thresholds lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in a block.
    pub block_size: u32,
    /// Bytes in an inode.
    pub inode_size: u16,
    /// Blocks of the journal.
    pub journal_blocks: u64,
}

impl Geometry {
    /// Blocks of this size; inodes of 256 bytes and the smallest journal, of 1,024 blocks.
    pub fn of_blocks(block_size: u32) -> Self {
        Self { block_size, inode_size: 256, journal_blocks: 1024 }
    }

    /// The block sizes that tests make images of.
    pub fn usual() -> [Self; 3] {
        [1024, 2048, 4096].map(Self::of_blocks)
    }

    /// Bytes behind the fixed fields of an inode.
    fn tail(&self) -> usize {
        usize::from(self.inode_size).saturating_sub(ondol_format::inode::GOOD_OLD_SIZE + 32)
    }
}

/// What a threshold counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Bytes that one call changes.
    Length,
    /// The byte that a change begins or ends with, and the size of a file.
    Offset,
    /// Bytes that are changed in one transaction.
    Transaction,
    /// Runs of blocks of one file that are not neighbours.
    Extents,
    /// Entries of one directory, with names of [`NAME`] bytes.
    Entries,
    /// Names of one inode.
    Links,
    /// Bytes in the value of an attribute called `user.a`.
    Value,
    /// Bytes that a symbolic link says.
    Target,
    /// Inodes that one operation changes.
    Inodes,
}

/// Bytes in the names that [`Counts::Entries`] speaks of.
pub const NAME: usize = 24;

/// A value at which the code begins to do something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// What changes there.
    pub name: &'static str,
    /// What is counted.
    pub counts: Counts,
    /// The value.
    pub at: u64,
    /// What it is counted in: bytes of a block where whole blocks decide, otherwise 1.
    pub unit: u64,
}

impl Threshold {
    /// The value, and those next to it: one less and one more, and where whole blocks decide, a block less and a block
    /// more.
    pub fn around(self) -> impl Iterator<Item = u64> {
        let Self { at, unit, .. } = self;
        let all = [at.saturating_sub(unit), at.saturating_sub(1), at, at.saturating_add(1), at.saturating_add(unit)];
        all.into_iter().collect::<BTreeSet<_>>().into_iter()
    }

    /// The values around it and around its first multiples, for what goes in steps of it.
    pub fn steps(self) -> impl Iterator<Item = u64> {
        (1..=3).flat_map(move |n| Self { at: self.at.saturating_mul(n), ..self }.around())
    }
}

/// All thresholds of volumes of this geometry.
pub fn all(geometry: &Geometry) -> Vec<Threshold> {
    [lengths_of(geometry), offsets_of(geometry), counts_of(geometry)].concat()
}

/// Sizes of one change.
fn lengths_of(geometry: &Geometry) -> Vec<Threshold> {
    let block = u64::from(geometry.block_size);
    let size = |name, at: usize| Threshold { name, counts: Counts::Length, at: at as u64, unit: block };
    let blocks = |name, n: u64| Threshold { name, counts: Counts::Length, at: n * block, unit: block };
    let share = geometry.journal_blocks / journal::HANDLE_SHARE;
    vec![
        blocks("one block", 1),
        blocks("the blocks of a handle get an index", journal::FEW as u64),
        size("a new run that does not compress goes home", journal::STAGE_DENSE),
        size("a new run may go home before its commit", journal::STAGE_EARLY),
        size("a new run goes home", journal::STAGE_PLAIN),
        size("stored bytes are written in place", journal::IN_PLACE),
        size("a chunk of a unit", CHUNK),
        blocks("one write of the store", journal::MERGE as u64),
        blocks("writes home by several threads", journal::WORTH_THREADS as u64),
        blocks("one checkpoint of the background", journal::BATCH as u64),
        size("a second thread compresses", 2 * journal::WORTH_A_THREAD),
        size("one operation", volume::ATOMIC_MAX as usize),
        Threshold { counts: Counts::Transaction, ..blocks("one transaction", share) },
        blocks("one operation where data is journaled", share),
        blocks("one unwritten extent, one step of fallocate", volume::STEP_BLOCKS),
        blocks("one extent", MAX_LEN.into()),
        size("one call that copies", volume::MOST_BYTES as usize),
    ]
}

/// Places in a file.
fn offsets_of(geometry: &Geometry) -> Vec<Threshold> {
    let block = u64::from(geometry.block_size);
    let per = block / 4;
    let byte = |name, at: u64| Threshold { name, counts: Counts::Offset, at, unit: 1 };
    let blocks = |name, n: u64| Threshold { name, counts: Counts::Offset, at: n * block, unit: block };
    vec![
        byte("contents in i_block", volume::IN_BLOCK as u64),
        byte("contents in the inode", inline_most(geometry)),
        blocks("one block", 1),
        byte("a page of the kernel's", volume::PAGE),
        blocks("pointers in the inode", volume::DIRECT),
        blocks("a pointer block", volume::DIRECT + per),
        blocks("two levels of pointer blocks", volume::DIRECT + per + per * per),
        byte("sizes without large_file", 1 << 31),
        byte("sizes of 32 bits", 1 << 32),
        blocks("the last logical block", MAX_LOGICAL.into()),
    ]
}

/// Numbers of things, and sizes of what is no contents.
fn counts_of(geometry: &Geometry) -> Vec<Threshold> {
    let size = geometry.block_size as usize;
    let root = usize::from(extent::capacity(extent::ROOT_SIZE));
    let leaf = usize::from(extent::capacity(size));
    let in_leaf = (size - dirent::TAIL) / dirent::rec_len_for(NAME);
    let one = |name, counts, at: usize| Threshold { name, counts, at: at as u64, unit: 1 };
    vec![
        one("extents in the inode", Counts::Extents, root),
        one("extents in one leaf", Counts::Extents, leaf),
        one("extents in the leaves of one index", Counts::Extents, root * leaf),
        one("runs in one call that copies", Counts::Extents, volume::MOST_RUNS as usize),
        one("entries in i_block", Counts::Entries, (volume::IN_BLOCK - 4) / dirent::rec_len_for(NAME)),
        one("entries in one block", Counts::Entries, in_leaf),
        one("leaves of one htree root", Counts::Entries, htree::root_limit(size, true) * in_leaf),
        one("names of one inode", Counts::Links, LINK_MAX.into()),
        one("a value in the inode", Counts::Value, value_most(|list| inode_fits(list, geometry.tail()))),
        one("a value in a block", Counts::Value, value_most(|list| block_fits(list, size))),
        one("a value", Counts::Value, VALUE_MAX),
        one("a target in the inode", Counts::Target, FAST_SYMLINK_MAX),
        one("a target in the inode, with inline data", Counts::Target, inline_most(geometry) as usize),
        one("a target in a block", Counts::Target, size - 1),
        one("the inodes of an operation get an index", Counts::Inodes, volume::FEW),
    ]
}

/// The longest contents that an inode without other attributes holds, bytes.
fn inline_most(geometry: &Geometry) -> u64 {
    let fits = |n: usize| inode_fits(&[Xattr::new(index::SYSTEM, volume::DATA, vec![0; n])], geometry.tail());
    (volume::IN_BLOCK + (0..).take_while(|&n| fits(n)).last().unwrap_or_default()) as u64
}

/// The longest value of `user.a` that fits.
fn value_most(fits: impl Fn(&[Xattr]) -> bool) -> usize {
    (0..).take_while(|&n| fits(&[Xattr::new(index::USER, "a", vec![0; n])])).last().unwrap_or_default()
}

/// Values around all thresholds that count one of these, and around their multiples, of volumes of all
/// [`Geometry::usual`] ones, in order. Generators ask for them at each call that they make, so they are computed once.
struct Drawn(LazyLock<Vec<u64>>);

impl Drawn {
    const fn of(values: fn() -> Vec<u64>) -> Self {
        Self(LazyLock::new(values))
    }

    /// Those that are not above `most`.
    fn up_to(&self, most: u64) -> Vec<u64> {
        self.0[..self.0.partition_point(|&value| value <= most)].to_vec()
    }
}

fn values_of(counts: &[Counts]) -> Vec<u64> {
    let usual = Geometry::usual();
    let rows = usual.iter().flat_map(all).filter(|row| counts.contains(&row.counts));
    let values: BTreeSet<u64> = rows.flat_map(Threshold::steps).filter(|&value| value > 0).collect();
    values.into_iter().collect()
}

/// Bytes that are changed at once, where changes begin, and where files end: at most `most`.
pub fn bytes(most: u64) -> Vec<u64> {
    static BYTES: Drawn = Drawn::of(|| values_of(&[Counts::Length, Counts::Offset, Counts::Transaction]));
    BYTES.up_to(most)
}

/// Lengths of the value of an attribute, at most `most`.
pub fn values(most: u64) -> Vec<u64> {
    static VALUES: Drawn = Drawn::of(|| values_of(&[Counts::Value]));
    VALUES.up_to(most)
}

/// Lengths of what symbolic links say, at most `most`.
pub fn targets(most: u64) -> Vec<u64> {
    static TARGETS: Drawn = Drawn::of(|| values_of(&[Counts::Target]));
    TARGETS.up_to(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, geometry: &Geometry) -> Threshold {
        *all(geometry).iter().find(|row| row.name == name).expect("a row")
    }

    #[test]
    fn rows_follow_the_code() {
        let small = Geometry::of_blocks(1024);
        assert_eq!(row("one transaction", &small).at, 256 << 10);
        assert_eq!(row("extents in the inode", &small).at, 4);
        assert_eq!(row("extents in one leaf", &Geometry::of_blocks(4096)).at, 340);
        // Of 256 bytes 128 are fixed, 32 extra, 4 magic, 20 entry and name, 4 the end of the list.
        assert_eq!(row("contents in the inode", &small).at, 60 + 68);
        assert_eq!(row("contents in the inode", &Geometry { inode_size: 128, ..small }).at, 60);
    }

    #[test]
    fn both_sides_of_every_row_are_drawn() {
        for geometry in Geometry::usual() {
            let drawn = bytes(1 << 20);
            for row in all(&geometry).iter().filter(|row| row.counts == Counts::Length && row.at < 1 << 20) {
                let sides = [row.at - 1, row.at, row.at + 1];
                assert!(sides.iter().all(|side| drawn.contains(side)), "{row:?}");
            }
        }
    }
}
