//! Where the journal lies: read before anything else of an image can be trusted, because it may have to be recovered
//! first.

use crate::file::{Mapped, Source, find};
use crate::image::{Image, corrupt};
use crate::kind::class;
use crate::{Error, Ino, Result};
use ondol_block::BlockStore;
use ondol_format::group::{DescCsum, GroupDesc};
use ondol_format::inode::{FileType, InodeFlags};
use ondol_format::{Inode, Place, Superblock, extent};
use ondol_journal::{Block, Kind};

/// jbd2 takes no shorter journal.
const MIN_BLOCKS: u64 = 1024;
/// More pieces than this is no journal that anybody made.
const MAX_RUNS: usize = 65_536;

impl Image {
    /// The runs of the journal inode in file order: `(first block, blocks)`. Of the rest of the image only the
    /// superblock and what leads to that inode is read; when the inode itself is unreadable, the superblock's copy of
    /// it serves.
    ///
    /// # Errors
    /// `Unsupported` without an internal journal; corruption: a hole, a run off the volume or over metadata, a journal
    /// that is too short; the store's failure.
    pub fn journal_map(&self) -> Result<Vec<(u64, u64)>> {
        let ino = self.journal_ino()?;
        self.runs_of(ino, &self.journal_inode(ino)?)
    }

    /// The journal's inode.
    ///
    /// # Errors
    /// `Unsupported` without an internal journal.
    pub(crate) fn journal_ino(&self) -> Result<Ino> {
        let none = || Error::Unsupported("an image without an internal journal".into());
        self.superblock().journal_inum().ok_or_else(none)
    }

    /// The runs of an inode that is the journal or is to become it.
    pub(crate) fn runs_of(&self, ino: Ino, inode: &Inode) -> Result<Vec<(u64, u64)>> {
        let sb = self.superblock();
        let block_size = u64::from(sb.block_size());
        let blocks = inode.size / block_size;
        let bad = |what: String| Error::corrupt(format!("journal (inode {ino})"), 0, what);
        if !(MIN_BLOCKS..=sb.blocks_count().min(u64::from(u32::MAX - 1))).contains(&blocks) {
            return Err(bad(format!("{blocks} blocks long")));
        }
        let mut source = Unmounted { store: self.store(), sb, ino, generation: inode.generation };
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut at = 0;
        while u64::from(at) < blocks {
            let run = find(&mut source, ino, inode, at)?.run;
            let Mapped::Written(start) = run.what else { return Err(bad(format!("a hole at its block {at}"))) };
            let len = u64::from(run.len).min(blocks - u64::from(at));
            match runs.last_mut() {
                Some((s, n)) if *s + *n == start => *n += len,
                _ => runs.push((start, len)),
            }
            if runs.len() > MAX_RUNS {
                return Err(bad(format!("more than {MAX_RUNS} pieces")));
            }
            at += len as u32;
        }
        self.keep_off_metadata(&runs).map(|()| runs)
    }

    /// Refuses a journal whose inode is damaged. The superblock's copy of it is good enough for recovery, and nobody
    /// else goes by it: the kernel refuses such a volume, and e2fsck writes the inode anew.
    ///
    /// # Errors
    /// What is wrong with the inode; the store's failure. A volume without a journal in it has nothing to be wrong.
    pub fn require_journal_inode(&self) -> Result<()> {
        let Some(ino) = self.sb.journal_inum() else { return Ok(()) };
        match self.own_journal_inode(ino) {
            Ok(_) => Ok(()),
            Err(Error::Corrupt(mut found)) => {
                found.structure = format!("journal (inode {ino})");
                Err(Error::Corrupt(found))
            }
            Err(e) => Err(e),
        }
    }

    fn own_journal_inode(&self, ino: Ino) -> Result<Inode> {
        let inode = self.read_inode(ino)?;
        if inode.file_type() == Some(FileType::Regular) && inode.links > 0 {
            return Ok(inode);
        }
        let what = format!("mode {:#o}, {} links", inode.mode, inode.links);
        Err(Error::corrupt(format!("journal (inode {ino})"), 0, what))
    }

    fn journal_inode(&self, ino: Ino) -> Result<Inode> {
        let sb = self.superblock();
        match (self.own_journal_inode(ino), sb.raw().jnl_blocks()) {
            (Ok(inode), _) => Ok(inode),
            (Err(_), Some(copy)) => {
                let mut inode = Inode::new(0, &sb.inode_format());
                for (bytes, word) in inode.i_block.chunks_exact_mut(4).zip(copy) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
                inode.flags.set(InodeFlags::EXTENTS, extent::Node::header(&inode.i_block, None, Place::NONE).is_ok());
                inode.size = u64::from(copy[15]) << 32 | u64::from(copy[16]);
                Ok(inode)
            }
            (Err(e), None) => Err(e),
        }
    }

    /// Block and offset of an inode.
    pub(crate) fn place_of_inode(&self, ino: Ino) -> Result<(u64, usize)> {
        let sb = self.superblock();
        let (g, index) = sb.group_of_inode(ino).ok_or(Error::NotFound)?;
        let (at, offset) = sb.gdt().location(g);
        let mut desc = vec![0; usize::from(sb.gdt().desc_size())];
        self.store().read(at * u64::from(sb.block_size()) + offset as u64, &mut desc)?;
        let desc = GroupDesc::parse(&desc).and_then(|d| d.check(sb, g).map(|()| d)).map_err(|e| corrupt(at, &e))?;
        Ok(sb.inode_location(desc.inode_table, index))
    }

    /// The inode as it is on the medium.
    pub(crate) fn read_inode(&self, ino: Ino) -> Result<Inode> {
        let sb = self.superblock();
        let (block, offset) = self.place_of_inode(ino)?;
        let mut bytes = vec![0; usize::from(sb.inode_size())];
        self.store().read(block * u64::from(sb.block_size()) + offset as u64, &mut bytes)?;
        let format = sb.inode_format();
        let verified = ondol_format::inode::verify(&bytes, ino, &format);
        verified.and_then(|()| Inode::parse(&bytes, ino, &format)).map_err(|e| corrupt(block, &e))
    }

    /// Refuses runs over superblocks, descriptors, bitmaps or inode tables. Descriptors are taken as they are: recovery
    /// may be about to mend their checksums, and never moves what they point to. Before it, those of groups that are
    /// added may say nothing.
    fn keep_off_metadata(&self, runs: &[(u64, u64)]) -> Result<()> {
        let sb = self.superblock();
        let size = usize::from(sb.gdt().desc_size());
        let mut sorted = runs.to_vec();
        sorted.sort_unstable();
        let meet = |(a, n): (u64, u64), (b, m): (u64, u64)| a < b.saturating_add(m) && b < a.saturating_add(n);
        if let Some(pair) = sorted.windows(2).find(|pair| meet(pair[0], pair[1])) {
            return Err(Error::corrupt("journal", pair[1].0, "it has this block twice"));
        }
        let mut block = vec![0; sb.block_size() as usize];
        for g in 0..sb.groups() {
            let (at, offset) = sb.gdt().location(g);
            if g % sb.gdt().desc_per_block() == 0 {
                self.store().read(at * u64::from(sb.block_size()), &mut block)?;
            }
            let bytes = block.get(offset..offset + size).unwrap_or_default();
            if self.may_not_be_home(g, bytes) {
                continue;
            }
            // Where a group has been taken away and is added again, its descriptor is zeros until recovery writes it.
            if self.needs_recovery() && bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            let desc = GroupDesc::parse(bytes).map_err(|e| corrupt(at, &e))?;
            let table = u64::from(sb.inode_table_blocks());
            let base = sb.base_meta(g).all;
            let own = [
                (base.start, base.end - base.start),
                (desc.block_bitmap, 1),
                (desc.inode_bitmap, 1),
                (desc.inode_table, table),
            ];
            let first_behind = |o: (u64, u64)| sorted.get(sorted.partition_point(|&(s, n)| s + n <= o.0)).copied();
            let hit = own.iter().filter(|o| o.1 > 0).find_map(|&o| first_behind(o).filter(|&run| meet(run, o)));
            if let Some((start, len)) = hit {
                let what = format!("its run of {len} blocks lies over metadata of group {g}");
                return Err(Error::corrupt("journal", start, what));
            }
        }
        Ok(())
    }

    /// Whether a descriptor may be what its block was before descriptors lay there, because power failed when the
    /// superblock of a volume that grows was home and it was not. Only the last block of them can be new.
    fn may_not_be_home(&self, g: u32, desc: &[u8]) -> bool {
        let per_block = self.sb.gdt().desc_per_block();
        let is_last = g / per_block + 1 == self.sb.gdt().blocks();
        let csum = DescCsum::of(&self.sb);
        self.needs_recovery() && is_last && g >= per_block && (csum == DescCsum::None || csum.verify(g, desc).is_err())
    }
}

/// An image as a source of its journal's mapping.
struct Unmounted<'a> {
    store: &'a dyn BlockStore,
    sb: &'a Superblock,
    ino: Ino,
    generation: u32,
}

impl Source for Unmounted<'_> {
    fn node(&mut self, block: u64, kind: Kind) -> Result<Block> {
        let size = u64::from(self.sb.block_size());
        let mut bytes = vec![0; size as usize];
        self.store.read(block.saturating_mul(size), &mut bytes)?;
        if kind.class == class::EXTENT_NODE {
            let place = Place::inode(self.ino).in_block(block);
            let seed = self.sb.inode_seed(self.ino, self.generation);
            let sound = seed.map_or(Ok(()), |seed| extent::verify(&bytes, seed, place));
            let sound = sound.and_then(|()| extent::Node::parse(&bytes, None, place).map(|_| ()));
            sound.map_err(|e| corrupt(block, &e))?;
        }
        Ok(bytes.into())
    }

    fn may_own(&self, _ino: Ino, start: u64, len: u64) -> bool {
        self.sb.contains_blocks(&(start..start.saturating_add(len)))
    }

    fn block_size(&self) -> u32 {
        self.sb.block_size()
    }
}
