//! Fast commits, as the kernel's ext4 leaves them behind a log that nobody has replayed.
//!
//! Each takes a block of the journal's last ones. What they tell is put together from what the volume is once its log
//! is replayed.

use ondol::Volume;
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_format::csum::crc32c;
use ondol_format::group::GroupDesc;
use ondol_format::jbd2::{JournalIncompat, JournalSuperblock, SUPERBLOCK_SIZE};
use ondol_format::superblock::RawSuperblock;
use ondol_format::{Compat, Incompat, Superblock, bitmap};
use ondol_journal::{LogMap, jbd2};
use ondol_power::Layer;
use ondol_testkit::image;
use ondol_volume::Image;
use std::fmt::Display;

/// Adds commits to a volume whose log was not replayed. It has the files `/a` and `/b` and the directory `/d`, all
/// mapped by extents.
///
/// # Errors
/// It is another volume.
pub(super) fn add(disk: &mut Layer) -> Result<(), String> {
    let known = Known::of(disk)?;
    let Known { sb, map, .. } = &known;
    let size = sb.block_size() as usize;
    let at = |slot: u64| map.physical(slot).map(|block| block as usize * size).map_err(text);
    let mut bytes = [0; SUPERBLOCK_SIZE];
    disk.read(at(0)?, &mut bytes);
    let mut journal = JournalSuperblock::parse(&bytes, size as u32, map.blocks()).map_err(text)?;
    journal.set_incompat(journal.incompat() | JournalIncompat::FAST_COMMIT);
    disk.write(at(0)?, &journal.encode());
    let (first, commits) = (u64::from(journal.end()) + 1, known.commits()?);
    for (block, contents) in &known.contents {
        disk.write(*block as usize * size, contents);
    }
    // They follow the last transaction of the log, of which they know the number.
    for tid in journal.sequence()..journal.sequence() + MOST {
        for (n, tags) in (0..).zip(&commits) {
            disk.write(at(first + n)?, &block_of(tags, tid, size));
        }
        let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(disk.clone()));
        if jbd2::fast_commits(&*store, map).map_err(text)?.is_some() {
            marked(disk);
            return Ok(());
        }
    }
    Err("the log has more transactions than are looked for".into())
}

/// Transactions of the log, at most.
const MOST: u32 = 100;

fn text(e: impl Display) -> String {
    e.to_string()
}

/// As the kernel marks a volume that it has mounted with fast commits.
fn marked(disk: &mut Layer) {
    super::starts::superblock(disk, |raw: &mut RawSuperblock| {
        raw.s_feature_compat.set(raw.s_feature_compat.get() | Compat::FAST_COMMIT.bits());
        raw.s_feature_incompat.set(raw.s_feature_incompat.get() | Incompat::RECOVER.bits());
    });
}

/// The volume behind its log.
struct Known {
    sb: Superblock,
    map: LogMap,
    recovered: Layer,
    /// Numbers of `/a`, `/b` and `/d`, and of an inode that is free.
    inodes: [u32; 4],
    /// What is in blocks that were free.
    contents: Vec<(u64, Vec<u8>)>,
}

impl Known {
    fn of(disk: &Layer) -> Result<Self, String> {
        let store = Arc::new(LayerStore::new(disk.clone()));
        let options = image::options(ondol::DataMode::Ordered);
        let volume = Volume::open_stepped(store.clone(), &options, image::clock(3)).map_err(text)?;
        let number = |path| volume.metadata(path).map(|found| found.ino()).map_err(text);
        let found = [number("/a")?, number("/b")?, number("/d")?];
        volume.close().map_err(text)?;
        let recovered = store.layer();
        let image = Image::open(store).map_err(text)?;
        let sb = image.superblock().clone();
        let map = LogMap::new(sb.block_size(), image.journal_map().map_err(text)?);
        let mut known = Self { sb, map, recovered, inodes: [0; 4], contents: Vec::new() };
        let desc = known.desc()?;
        let free = |at: u64| {
            let bits = known.bytes(at as usize * known.sb.block_size() as usize, known.sb.block_size() as usize);
            bitmap::find_zero_run(&bits, 0, bits.len() * 8, BLOCKS)
        };
        let ino = free(desc.inode_bitmap).ok_or("no inode is free")? as u32 + 1;
        let run = free(desc.block_bitmap).ok_or("no blocks are free")? as u64 + u64::from(known.sb.first_data_block());
        known.inodes = [found[0], found[1], found[2], ino];
        let fill = |n: u64| vec![0xF0 | n as u8; known.sb.block_size() as usize];
        known.contents = (0..BLOCKS as u64).map(|n| (run + n, fill(n))).collect();
        Ok(known)
    }

    fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.recovered.read(at, &mut bytes);
        bytes
    }

    /// Of the first group.
    fn desc(&self) -> Result<GroupDesc, String> {
        let (block, offset) = self.sb.gdt().location(0);
        let at = block as usize * self.sb.block_size() as usize + offset;
        GroupDesc::parse(&self.bytes(at, self.sb.gdt().desc_size().into())).map_err(text)
    }

    /// Inode `ino` as `/a` or `/b` is, but for its links and size; a new one has another generation.
    fn inode(&self, like: u32, ino: u32, links: u16, size: u32) -> Result<Tag, String> {
        let (block, offset) = self.sb.inode_location(self.desc()?.inode_table, like - 1);
        let generation = if ino == like { 0 } else { GENERATION };
        let mut raw = self.bytes(block as usize * self.sb.block_size() as usize + offset, OLD_INODE + EXTRA);
        raw[0x1A..0x1C].copy_from_slice(&links.to_le_bytes());
        raw[0x04..0x08].copy_from_slice(&size.to_le_bytes());
        raw[0x64..0x68].iter_mut().zip(generation.to_le_bytes()).for_each(|(byte, new)| *byte ^= new);
        Ok(Tag(6, [&ino.to_le_bytes()[..], &raw].concat()))
    }

    /// Blocks of the file from `logical` on are those from `free` on of what was free.
    fn range(&self, ino: u32, logical: u32, free: usize) -> Tag {
        let (len, start) = (RUN as u16, self.contents[free].0 as u32);
        let extent = [&logical.to_le_bytes()[..], &len.to_le_bytes(), &[0, 0], &start.to_le_bytes()].concat();
        Tag(1, [&ino.to_le_bytes()[..], &extent].concat())
    }

    /// An append; a new file and one that loses its name; a link, and blocks that are no longer mapped.
    fn commits(&self) -> Result<[Vec<Tag>; 3], String> {
        let [a, b, d, new] = self.inodes;
        let size = self.sb.block_size();
        let root = 2;
        let gap = Tag(2, [a, 0, 1].map(u32::to_le_bytes).concat());
        Ok([
            vec![self.range(a, 20, 0), self.inode(a, a, 1, 22 * size)?],
            vec![
                Tag::name(5, root, b, "b"),
                self.inode(b, b, 0, 0)?,
                self.inode(a, new, 1, 2 * size - 7)?,
                self.range(new, 0, RUN),
                Tag::name(3, d, new, "new"),
            ],
            vec![Tag::name(4, d, a, "link"), gap, self.inode(a, a, 2, 22 * size)?],
        ])
    }
}

/// Blocks that a commit maps.
const RUN: usize = 2;

/// Blocks that are mapped anew.
const BLOCKS: usize = 2 * RUN;

/// What makes the generation of a new inode another one.
const GENERATION: u32 = 9;

/// Bytes of an inode, and of its further fields, as a commit tells them.
const OLD_INODE: usize = 128;
const EXTRA: usize = 32;

/// A type and its value.
struct Tag(u16, Vec<u8>);

impl Tag {
    fn name(kind: u16, parent: u32, ino: u32, name: &str) -> Self {
        Self(kind, [&parent.to_le_bytes()[..], &ino.to_le_bytes(), name.as_bytes()].concat())
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.0.to_le_bytes()[..], &(self.1.len() as u16).to_le_bytes(), &self.1].concat()
    }
}

/// One commit, with head and tail.
fn block_of(tags: &[Tag], tid: u32, size: usize) -> Vec<u8> {
    let head = Tag(9, [0, tid].map(u32::to_le_bytes).concat());
    let mut bytes = tags.iter().fold(head.bytes(), |all, tag| [all, tag.bytes()].concat());
    let rest = (size - bytes.len() - 4) as u16;
    bytes.extend([8u16, rest].map(u16::to_le_bytes).concat());
    bytes.extend(tid.to_le_bytes());
    bytes.extend(crc32c(0, &bytes).to_le_bytes());
    bytes.resize(size, 0);
    bytes
}
