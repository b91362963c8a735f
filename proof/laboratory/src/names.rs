//! What blocks are, for readers of a violation: by where they lie, by whose they are, and by what is in them.

use crate::log::{Log, NvmLog};
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_format::group::GroupDesc;
use ondol_format::jbd2::{BlockType, Descriptor, Header, JournalSuperblock, LogFormat};
use ondol_format::{Place, Superblock, unit};
use ondol_power::Layer;
use ondol_volume::{FileType, Image, Ino, ROOT, Volume};
use std::collections::BTreeMap;

/// Names of the blocks of one volume.
#[derive(Clone, Debug, Default)]
pub struct Names {
    block_size: u64,
    by_place: BTreeMap<u64, String>,
    /// Blocks of files.
    by_owner: BTreeMap<u64, String>,
    log: Option<LogFormat>,
    /// The medium of the log.
    log_on: usize,
    /// Blocks of the log, by their number there.
    slots: BTreeMap<u64, u64>,
    nvm: Option<NvmLog>,
}

/// So many blocks of one write are named.
const MOST: usize = 12;

impl Names {
    /// Names of the volume that `base` holds with its log, and of what is in the recovered volumes `later`, which are
    /// opened as `open` does it.
    pub fn new(
        base: &[Layer],
        log: &Log,
        later: &[&[Layer]],
        open: impl Fn(&[Layer]) -> Option<ondol::Volume>,
    ) -> Self {
        let (log_on, slots) = (log.medium, log.slots.iter().copied().collect());
        let mut names = Self { log_on, slots, nvm: log.nvm.clone(), ..Self::default() };
        // What cannot be read has no names; the offsets are told in any case.
        let _unnamed = names.places(&base[0]);
        names.journal(&base[log.medium], log);
        for volume in later.iter().filter_map(|disks| open(disks)) {
            let _unnamed = names.owners(volume.inodes());
        }
        names
    }

    fn places(&mut self, base: &Layer) -> ondol_volume::Result<()> {
        let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(base.clone()));
        let image = Image::open(store)?;
        let sb = image.superblock();
        self.block_size = u64::from(sb.block_size());
        for g in 0..sb.groups() {
            self.group(sb, g, base);
        }
        Ok(())
    }

    fn journal(&mut self, base: &Layer, log: &Log) {
        let Some((first, _)) = log.slots.first() else { return };
        let mut bytes = vec![0; self.block_size as usize];
        base.read((first * self.block_size) as usize, &mut bytes);
        let blocks = base.len() as u64 / self.block_size.max(1);
        let parsed = JournalSuperblock::parse(&bytes, self.block_size as u32, blocks);
        self.log = parsed.ok().map(|journal| journal.format());
    }

    fn group(&mut self, sb: &Superblock, g: u32, base: &Layer) {
        let meta = sb.base_meta(g);
        let copy = if g == 0 { String::new() } else { format!(", copy in group {g}") };
        self.by_place.extend(meta.superblock.map(|block| (block, format!("superblock{copy}"))));
        self.by_place.extend(meta.descriptors.map(|block| (block, format!("group descriptors{copy}"))));
        let (block, offset) = sb.gdt().location(g);
        let at = block * self.block_size + offset as u64;
        let mut bytes = vec![0; usize::from(sb.gdt().desc_size())];
        base.read(at as usize, &mut bytes);
        // A crash may have left anything there.
        let Some(desc) = GroupDesc::parse(&bytes).ok().filter(|desc| desc.check(sb, g).is_ok()) else { return };
        self.by_place.insert(desc.block_bitmap, format!("block bitmap of group {g}"));
        self.by_place.insert(desc.inode_bitmap, format!("inode bitmap of group {g}"));
        let per_block = sb.block_size() / u32::from(sb.inode_size());
        for n in 0..sb.inode_table_blocks() {
            let from = g * sb.inodes_per_group() + n * per_block + 1;
            self.by_place.insert(desc.inode_table + u64::from(n), format!("inodes {from}..={}", from + per_block - 1));
        }
    }

    fn owners(&mut self, volume: &Volume) -> ondol_volume::Result<()> {
        let mut todo = vec![(ROOT, "/".to_owned())];
        while let Some((dir, path)) = todo.pop() {
            let mut entries: Vec<(Ino, String)> = Vec::new();
            volume.names().readdir(dir, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    let name = String::from_utf8_lossy(entry.name);
                    entries.push((entry.ino, format!("{}/{name}", path.trim_end_matches('/'))));
                }
                true
            })?;
            for (ino, path) in entries {
                match volume.getattr(ino)?.file_type {
                    FileType::Directory => todo.push((ino, path)),
                    FileType::Regular => self.file(volume, ino, &path),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, volume: &Volume, ino: Ino, path: &str) {
        let Ok(extents) = volume.files().extents(ino, 0, u64::MAX) else { return };
        for extent in extents.iter().filter(|extent| extent.len / self.block_size <= 1 << 16) {
            for n in 0..extent.len / self.block_size {
                let (block, of_file) = (extent.physical / self.block_size + n, extent.logical / self.block_size + n);
                self.by_owner.entry(block).or_insert_with(|| format!("block {of_file} of inode {ino}, {path}"));
            }
        }
    }

    /// What a byte of the medium that the log lies on is.
    pub(crate) fn of_log(&self, byte: u64) -> String {
        self.nvm.as_ref().map_or_else(|| self.of(self.log_on, byte, 1, None), |nvm| nvm.name(byte))
    }

    /// What `len` bytes at `offset` of a medium are, which hold `bytes` if these are known.
    pub fn of(&self, medium: usize, offset: u64, len: u64, bytes: Option<&[u8]>) -> String {
        if self.block_size == 0 || len == 0 || medium != 0 && medium != self.log_on {
            return String::new();
        }
        let size = self.block_size;
        let slot = |block: u64| self.slots.get(&block).filter(|_| medium == self.log_on);
        // Of the block of 1,024 bytes in which an ext4 superblock lies in larger blocks, too.
        let blocks = offset / size..(offset + len).div_ceil(size);
        let part = |block: u64| {
            let from = (block * size).checked_sub(offset)? as usize;
            let bytes = bytes?.get(from..)?;
            Some(&bytes[..bytes.len().min(size as usize)])
        };
        let mut homes = Vec::new().into_iter();
        let mut names: Vec<String> = Vec::new();
        for block in blocks.clone().take(if slot(blocks.start).is_some() { usize::MAX } else { MOST }) {
            let name = match slot(block) {
                Some(slot) => self.in_log(block, *slot, part(block), &mut homes),
                None if medium == 0 => self.home(block, part(block)),
                None => format!("block {block}"),
            };
            names.push(name);
            if names.len() == MOST {
                break;
            }
        }
        names.dedup();
        let more = (blocks.end - blocks.start) as usize > MOST;
        names.join(", ") + if more { ", …" } else { "" }
    }

    /// A block at home.
    fn home(&self, block: u64, bytes: Option<&[u8]>) -> String {
        if let Some(name) = self.by_place.get(&block) {
            return name.clone();
        }
        let owner = self.by_owner.get(&block).cloned();
        let word = |at: usize| Some(u32::from_le_bytes(bytes?.get(at..at + 4)?.try_into().ok()?));
        // `.` in the first entry of a directory's first block: inode, length, one byte of name, the name.
        let dot = bytes.is_some_and(|b| b.get(6..9).is_some_and(|name| name[0] == 1 && name[2] == b'.'));
        match (owner, word(0), dot) {
            (Some(owner), ..) => owner,
            (None, Some(ino), true) => format!("first block of directory inode {ino}"),
            (None, Some(first), _) if first & 0xFFFF == 0xF30A => format!("extent tree node in block {block}"),
            (None, Some(0xEA02_0000), _) => format!("attributes in block {block}"),
            _ => format!("block {block}"),
        }
    }

    /// A block of the log; images follow their descriptor, which leaves their homes in `homes`.
    fn in_log(&self, block: u64, slot: u64, bytes: Option<&[u8]>, homes: &mut std::vec::IntoIter<u64>) -> String {
        if slot == 0 {
            return "journal superblock".into();
        }
        let Some(bytes) = bytes else { return format!("log slot {slot}") };
        if let Some(home) = homes.next() {
            return format!("log slot {slot}: image of {}", self.home(home, Some(bytes)));
        }
        let ring = self.slots.len() as u64 * self.block_size;
        let what = match (Header::parse(bytes), unit::Header::parse(bytes, ring)) {
            (Some(Header { kind: BlockType::Descriptor, sequence }), _) => {
                let tags = self.log.and_then(|format| Descriptor::new(bytes, format, Place::NONE).ok());
                let found: Vec<u64> = tags.into_iter().flatten().filter_map(Result::ok).map(|tag| tag.block).collect();
                *homes = found.into_iter();
                format!("descriptor of transaction {sequence}")
            }
            (Some(Header { kind: BlockType::Commit, sequence }), _) => format!("commit of transaction {sequence}"),
            (Some(Header { kind: BlockType::Revoke, sequence }), _) => format!("revokes of transaction {sequence}"),
            (_, Some(unit)) => format!("unit {}", unit.sequence),
            _ => format!("part of a unit or image, block {block}"),
        };
        format!("log slot {slot}: {what}")
    }
}
