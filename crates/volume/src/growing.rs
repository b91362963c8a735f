//! A volume grows while it is used. What a step changes is planned as for a volume that nobody has open
//! ([`crate::resize`]), over the live blocks; it is committed as one handle, and its space is given away when the
//! superblock is home: until then recovery would refuse what lies behind the old end.

use crate::resize::Plan;
use crate::{Error, FreeSpace, Resized, Result, Volume, kind};
use ondol_block::{BlockStats, BlockStore, Caps};
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_env::sync::thread;
use ondol_env::sync::{Arc, Mutex};
use ondol_format::group::USED_DIRS_OFFSET;
use ondol_format::inode::RESIZE_INO;
use ondol_format::superblock::OFFSET;
use ondol_format::{RawSuperblock, Superblock};
use ondol_journal::{Block, Engine, Handle, Kind, Merge};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::mem::offset_of;
use std::ops::Range;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How often the superblock is waited for to come home, a millisecond apart where there is nothing else to do.
const TRIES_HOME: u32 = 10_000;

impl FreeSpace<'_> {
    /// Lets the volume grow up to `target` blocks, which [`crate::fitted_blocks`] gave; `store`, on which it lies, is
    /// made as long. Other operations go on. Durable when this returns.
    ///
    /// # Errors
    /// `Invalid`: fewer blocks than there are; `InUse`: it grows already; `TooBig`: a step does not fit into the
    /// journal; `Unsupported`: what can only be done to a volume that is not in use, or an engine whose log holds
    /// records; `ReadOnly`; corruption, or the store's or journal's failure. The volume then has the size of the last
    /// step.
    pub fn grow(self, store: &Arc<dyn BlockStore>, target: u64) -> Result<Resized> {
        self.vol.check_writable()?;
        if self.vol.engine.about().logs_bytes {
            let what =
                "growing in use with an engine whose log holds records, which are recovered by the descriptors at home";
            return Err(Error::Unsupported(what.into()));
        }
        let Some(_alone) = self.vol.growing.0.try_lock() else {
            return Err(Error::InUse("the volume is being resized already".into()));
        };
        let before = self.vol.shared.sb.blocks_count();
        if target < before {
            return Err(Error::Invalid("a volume that is in use can only grow"));
        }
        while self.vol.shared.sb.blocks_count() < target {
            self.grow_step(store, target).map_err(|e| self.vol.noted(e))?;
        }
        let sb = &self.vol.shared.sb;
        Ok(Resized { block_size: sb.block_size(), before, blocks: sb.blocks_count(), groups: sb.groups() })
    }

    fn grow_step(self, store: &Arc<dyn BlockStore>, target: u64) -> Result<()> {
        let live = Arc::new(Live::new(self.vol, store.clone()));
        let (sb, groups) = (&self.vol.shared.sb, &self.vol.shared.groups);
        let (last, count) = (sb.groups() - 1, sb.groups());
        let full = sb.group_first_block(last) + u64::from(sb.blocks_per_group());
        let raw = live.superblock()?;
        let mut plan = Plan::over(live.clone(), self.vol.env.clone(), raw, groups.places()?)?;
        let extends = sb.blocks_count() < full.min(target);
        let had = sb.clusters_in_group(last);
        if extends {
            groups.load_bitmap(sb, &*self.vol.engine, last)?;
            plan.extend(full.min(target))?;
        } else {
            plan.add(target)?;
        }
        // A refused plan has not made anything longer.
        store.lengthen(target * u64::from(sb.block_size()))?;
        let staged = plan.stage()?;
        store.flush()?;
        let new = plan.superblock().clone();
        let more = new.clusters_in_group(last) - had;
        let mut handle = Handle::begin(&*self.vol.engine, staged.len() as u32 + 3)?;
        for (block, bytes) in &staged {
            live.change(&mut handle, *block, bytes, &new)?;
        }
        if extends {
            let info = groups.get(last)?;
            handle.merge(info.block_bitmap, kind::block_bitmap(last), Merge::Clear { first: had, count: more })?;
            // What the descriptor says of it is derived where the transaction has both.
            let (block, kind, offset) = self.vol.shared.descriptor(last);
            handle.merge(block, kind, Merge::Add { offset: offset + USED_DIRS_OFFSET, width: 2, delta: 0 })?;
            // A seal of the longer bitmap counts the same before and after the close.
            sb.grown(new.clone());
        }
        let tid = handle.close();
        self.vol.engine.wait(tid)?;
        if let Err(e) = self.wait_for_home(&**store, new.blocks_count()) {
            // What is in memory is no longer what was committed.
            self.vol.engine.stop(&format!("the volume has grown, and its superblock does not come home: {e}"));
            return Err(e);
        }
        if extends {
            groups.extend(last, had, more)?;
            groups.give_added(&new, u64::from(more), 0);
            return Ok(());
        }
        sb.grown(new.clone());
        let added = plan.descs(count);
        groups.add(&new, added);
        let own = u64::from(2 + new.inode_table_blocks());
        let bases = (count..new.groups()).map(|g| new.base_meta(g).all);
        let taken: u64 = bases.map(|base| base.end - base.start + own).sum();
        self.vol.overhead.fetch_add(taken, Relaxed);
        let free = added.iter().map(|desc| u64::from(desc.free_blocks)).sum();
        let inodes = added.iter().map(|desc| u64::from(desc.free_inodes)).sum();
        groups.give_added(&new, free, inodes);
        Ok(())
    }

    /// Brings home what is committed until the superblock there has so many blocks.
    fn wait_for_home(self, store: &dyn BlockStore, blocks: u64) -> Result<()> {
        for _ in 0..TRIES_HOME {
            let worked = self.vol.engine.checkpoint()?;
            let mut raw = RawSuperblock::new_zeroed();
            store.read(OFFSET, raw.as_mut_bytes())?;
            let high = u64::from(raw.s_blocks_count_hi.get()) << 32;
            let high = if raw.features().is_64bit() { high } else { 0 };
            if u64::from(raw.s_blocks_count_lo.get()) | high >= blocks {
                // Whoever wrote it may not have flushed it yet.
                return Ok(store.flush()?);
            }
            if !worked {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Err(Error::Invalid("the superblock does not come home"))
    }
}

/// The blocks of a volume in use, as a store: read as they are now, written only where nothing in the volume points to.
struct Live {
    engine: Arc<dyn Engine>,
    store: Arc<dyn BlockStore>,
    sb: Superblock,
    /// The block with the resize inode, and its first inode.
    table: (u64, u32),
    bitmaps: Vec<u64>,
    /// What was read, as it was: what the plan changes is told by it.
    seen: Mutex<BTreeMap<u64, Block>>,
}

impl Live {
    fn new(vol: &Volume, store: Arc<dyn BlockStore>) -> Self {
        let sb = Superblock::clone(&vol.shared.sb);
        let index = RESIZE_INO - 1;
        let table = vol.shared.groups.get(0).map_or(0, |info| sb.inode_location(info.inode_table, index).0);
        let first = index - index % sb.inodes_per_block() + 1;
        let bitmaps = (0..sb.groups()).filter_map(|g| vol.shared.groups.get(g).ok().map(|i| i.block_bitmap)).collect();
        Self { engine: vol.engine.clone(), store, sb, table: (table, first), bitmaps, seen: Mutex::default() }
    }

    fn kind(&self, block: u64, sb: &Superblock) -> Kind {
        if block == sb.superblock_location().0 {
            return kind::SUPERBLOCK;
        }
        if block == self.table.0 {
            return kind::inode_table(self.table.1);
        }
        if let Some(g) = self.bitmaps.iter().position(|&bitmap| bitmap == block) {
            return kind::block_bitmap(g as u32);
        }
        match (0..sb.gdt().blocks()).find(|&index| sb.gdt().block(index) == block) {
            Some(index) => kind::group_descs(index * sb.gdt().desc_per_block()),
            // Blocks of pointers, and copies, in which nothing is checked.
            None => kind::INDIRECT,
        }
    }

    /// A block as it was when it was read first.
    fn block(&self, block: u64) -> Result<Block> {
        let mut seen = self.seen.lock();
        if let Some(bytes) = seen.get(&block) {
            return Ok(bytes.clone());
        }
        let bytes = self.engine.read(block, self.kind(block, &self.sb))?;
        seen.insert(block, bytes.clone());
        Ok(bytes)
    }

    fn superblock(&self) -> Result<RawSuperblock> {
        let (block, at) = self.sb.superblock_location();
        let bytes = self.block(block)?;
        let raw = bytes.get(at..).and_then(|bytes| RawSuperblock::read_from_prefix(bytes).ok());
        let (mut raw, _) = raw.ok_or(Error::Invalid("no superblock"))?;
        // That of the live block is as old as its last commit.
        raw.seal();
        Ok(raw)
    }

    /// Stages those bytes of a block that the plan has changed, and that are nobody else's.
    fn change(&self, handle: &mut Handle<'_>, block: u64, bytes: &[u8], new: &Superblock) -> Result<()> {
        let kind = self.kind(block, new);
        let was = self.kind(block, &self.sb);
        if kind != was {
            handle.fresh(block, kind)?;
            return Ok(handle.write(block, kind, 0, bytes)?);
        }
        let base = self.block(block)?;
        let derived = if kind == kind::SUPERBLOCK { counted(self.sb.superblock_location().1) } else { Vec::new() };
        let mine = |i: usize| !derived.iter().any(|range| range.contains(&i));
        handle.edit(block, kind, |live| {
            for (i, ((live, base), new)) in live.iter_mut().zip(base.iter()).zip(bytes).enumerate() {
                if base != new && mine(i) {
                    *live = *new;
                }
            }
        })?;
        Ok(())
    }
}

/// What of the superblock at byte `at` of its block others change, or follows from the rest.
fn counted(at: usize) -> Vec<Range<usize>> {
    let field = |offset: usize, len: usize| at + offset..at + offset + len;
    vec![
        field(offset_of!(RawSuperblock, s_free_blocks_count_lo), 4),
        field(offset_of!(RawSuperblock, s_free_blocks_count_hi), 4),
        field(offset_of!(RawSuperblock, s_free_inodes_count), 4),
        field(offset_of!(RawSuperblock, s_wtime), 4),
        field(offset_of!(RawSuperblock, s_wtime_hi), 1),
        field(offset_of!(RawSuperblock, s_checksum), 4),
    ]
}

impl BlockStore for Live {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn size(&self) -> u64 {
        self.store.size()
    }

    fn caps(&self) -> Caps {
        Caps { batch: None, ..self.store.caps() }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> ondol_block::Result<()> {
        let size = self.sb.block_size() as usize;
        for (block, part) in (offset / size as u64..).zip(buf.chunks_mut(size)) {
            let bytes = self.block(block).map_err(|e| ondol_block::BlockError::Io {
                op: "read",
                name: self.name().to_owned(),
                offset,
                len: size as u64,
                source: std::io::Error::other(e.to_string()),
            })?;
            part.copy_from_slice(&bytes[..part.len()]);
        }
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> ondol_block::Result<()> {
        self.store.write_vectored(offset, bufs)
    }

    fn flush(&self) -> ondol_block::Result<()> {
        self.store.flush()
    }

    fn discard(&self, _offset: u64, _len: u64) -> ondol_block::Result<bool> {
        Ok(false)
    }

    fn stats(&self) -> BlockStats {
        self.store.stats()
    }
}
