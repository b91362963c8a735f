//! Taking and returning inode numbers.

use super::{GroupInfo, Groups};
use crate::{Error, Ino, Result, kind};
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::{Superblock, bitmap};
use ondol_journal::Engine;

fn load<'a>(
    inodes: &'a mut Option<Vec<u8>>,
    info: &GroupInfo,
    g: u32,
    sb: &Superblock,
    engine: &dyn Engine,
) -> Result<&'a mut Vec<u8>> {
    if inodes.is_none() {
        let map = engine.read(info.inode_bitmap, kind::inode_bitmap(g))?.to_vec();
        let free = bitmap::count_zeros(&map, sb.inodes_per_group() as usize) as u32;
        if free != info.free_inodes.load(SeqCst) {
            let what = format!("{free} inodes are free, its descriptor says {}", info.free_inodes.load(SeqCst));
            return Err(Error::corrupt(format!("inode bitmap of group {g}"), info.inode_bitmap, what));
        }
        *inodes = Some(map);
    }
    inodes.as_mut().ok_or(Error::Invalid("no bitmap"))
}

/// Whether no inode is in use in the block of the table that has inode `index` of group `g`, by a bitmap that has a
/// checksum: then the block holds nothing but what is left of freed inodes.
fn is_alone(sb: &Superblock, map: &[u8], g: u32, index: usize) -> bool {
    let inodes = sb.inodes_per_block() as usize;
    let first = index - index % inodes;
    // The file system's own inodes are never left to a bitmap.
    let is_own = g == 0 && first + 1 < sb.first_ino() as usize;
    !is_own
        && sb.features().has_metadata_csum()
        && bitmap::find_next_one(map, first, sb.inodes_per_group() as usize).is_none_or(|next| next >= first + inodes)
}

impl Groups {
    /// Free inodes of the volume.
    pub(crate) fn free_inodes(&self) -> u64 {
        // Between two parts others may have taken one here and returned one there.
        self.free_inodes.sum().max(0).cast_unsigned()
    }

    /// Takes a free inode: for a file in its directory's group or the nearest behind it; for a directory (`dir` says
    /// whether it is one of those that are spread over the volume) in a group with room for what will be put into it.
    pub(crate) fn take_inode(
        &self,
        sb: &Superblock,
        engine: &dyn Engine,
        parent: Ino,
        dir: Option<bool>,
    ) -> Result<Ino> {
        let near = sb.group_of_inode(parent).map_or(0, |(g, _)| g);
        let home = dir.map_or(near, |top| self.group_for_directory(sb, near, top));
        for step in 0..self.count() {
            let g = (home + step) % self.count();
            if let Some(ino) = self.take_inode_in_group(sb, engine, g)? {
                return Ok(ino);
            }
        }
        Err(Error::NoSpace("inodes"))
    }

    fn take_inode_in_group(&self, sb: &Superblock, engine: &dyn Engine, g: u32) -> Result<Option<Ino>> {
        let info = self.get(g)?;
        if info.free_inodes.load(SeqCst) == 0 {
            return Ok(None);
        }
        let mut busy = info.busy.lock();
        let hint = busy.inode_hint as usize;
        let map = load(&mut busy.inodes, info, g, sb, engine)?;
        let first = if g == 0 { sb.first_ino() as usize - 1 } else { 0 };
        let found = bitmap::find_next_zero(map, hint.max(first), sb.inodes_per_group() as usize);
        let Some(index) = found else { return Ok(None) };
        if is_alone(sb, map, g, index) {
            // Before anybody else can take one of its inodes.
            let ino = g * sb.inodes_per_group() + index as u32 + 1;
            let (block, _) = sb.inode_location(info.inode_table, index as u32);
            engine.take_as_empty(block, kind::inode_table(ino - index as u32 % sb.inodes_per_block()));
        }
        bitmap::set(map, index);
        busy.inode_hint = index as u32 + 1;
        info.free_inodes.fetch_sub(1, SeqCst);
        self.free_inodes.add(-1);
        Ok(Some(g * sb.inodes_per_group() + index as u32 + 1))
    }

    /// Whether an inode number is taken.
    pub(crate) fn inode_is_used(&self, sb: &Superblock, engine: &dyn Engine, ino: Ino) -> Result<bool> {
        let (g, index) = sb.group_of_inode(ino).ok_or(Error::Invalid("no such inode"))?;
        let info = self.get(g)?;
        let mut busy = info.busy.lock();
        Ok(bitmap::test(load(&mut busy.inodes, info, g, sb, engine)?, index as usize))
    }

    /// Takes this inode number, which must be free.
    pub(crate) fn claim_inode(&self, sb: &Superblock, engine: &dyn Engine, ino: Ino) -> Result<()> {
        let (g, index) = sb.group_of_inode(ino).ok_or(Error::Invalid("no such inode"))?;
        let info = self.get(g)?;
        let mut busy = info.busy.lock();
        let map = load(&mut busy.inodes, info, g, sb, engine)?;
        if bitmap::test(map, index as usize) {
            return Err(Error::Invalid("an inode that is in use was to be taken"));
        }
        bitmap::set(map, index as usize);
        info.free_inodes.fetch_sub(1, SeqCst);
        self.free_inodes.add(-1);
        Ok(())
    }

    /// Makes an inode number allocatable again.
    pub(crate) fn return_inode(&self, sb: &Superblock, ino: Ino) {
        let Some((g, index)) = sb.group_of_inode(ino) else { return };
        let Ok(info) = self.get(g) else { return };
        let mut busy = info.busy.lock();
        if let Some(map) = &mut busy.inodes {
            bitmap::clear(map, index as usize);
            busy.inode_hint = busy.inode_hint.min(index);
            info.free_inodes.fetch_add(1, SeqCst);
            self.free_inodes.add(1);
        }
    }

    /// Checks that an inode that is to be freed is allocated.
    pub(crate) fn check_freeing_inode(&self, sb: &Superblock, engine: &dyn Engine, ino: Ino) -> Result<()> {
        let (g, index) = sb.group_of_inode(ino).ok_or(Error::Invalid("no such inode"))?;
        let info = self.get(g)?;
        let mut busy = info.busy.lock();
        let map = load(&mut busy.inodes, info, g, sb, engine)?;
        if bitmap::test(map, index as usize) {
            return Ok(());
        }
        Err(Error::corrupt(
            format!("inode bitmap of group {g}"),
            info.inode_bitmap,
            format!("inode {ino} is not in use"),
        ))
    }

    /// Directories at the top go where there are fewest; below, they stay with their parent while its group has nearly
    /// as much room as others have: what belongs together lies together, and a commit has few bitmaps.
    fn group_for_directory(&self, sb: &Superblock, near: u32, top: bool) -> u32 {
        let count = self.count();
        let (inodes, clusters) = (self.free_inodes(), self.visible_free() / u64::from(sb.cluster_ratio()));
        let less = |all: u64, quarter: u32| (all / u64::from(count.max(1))).saturating_sub(quarter.into()).max(1);
        let (inodes, clusters) = match top {
            true => (less(inodes, 0), 1),
            false => (less(inodes, sb.inodes_per_group() / 4), less(clusters, sb.clusters_per_group() / 4)),
        };
        let roomy = |g: u32| {
            self.get(g).is_ok_and(|info| {
                u64::from(info.free_inodes.load(SeqCst)) >= inodes
                    && u64::from(info.free_blocks.load(SeqCst)) >= clusters
            })
        };
        let mut candidates = (0..count).map(|step| (near + step) % count).filter(|&g| roomy(g));
        if top {
            let emptiest = |&g: &u32| self.get(g).map_or(u32::MAX, |i| i.used_dirs.load(SeqCst));
            return candidates.min_by_key(emptiest).unwrap_or(near);
        }
        candidates.next().unwrap_or(near)
    }
}
