//! rsext4: one lock around it, which its documentation asks the embedding program for. So is keeping files that are open and
//! have no name: it frees them when it is told that nobody has them.

use crate::fs::Stat;
use crate::fs::crate_fs::{Driver, Node};
use ondol_block::{BlockError, BlockStore};
use rsext4::bmalloc::InodeNumber;
use rsext4::{
    BLOCK_SIZE_U32, BlockIo, Clock, DeviceCapabilities, DeviceGeometry, DirectoryCursor, Ext4, Ext4Error, Ext4Result,
    Ext4Timestamp, FileName, FilePermissions, InodeMetadataUpdate, MountOptions, MountServices, MountedServices,
    MutationContext, NoopObserver, RenameOptions, SectorId, UnlinkOutcome,
};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// Entries of a directory that are asked for at once.
const BATCH: usize = 256;
/// Who changes things: root, with all permission bits as they are given.
const ROOT: MutationContext = MutationContext::new(0, 0, 0, 0);

/// A store of ours as the crate wants it.
struct Disk(Arc<dyn BlockStore>);

impl Disk {
    fn at(sector: SectorId) -> u64 {
        sector.raw().saturating_mul(BLOCK_SIZE_U32.into())
    }
}

impl BlockIo for Disk {
    fn write(&mut self, buffer: &[u8], sector: SectorId, _count: u32) -> Ext4Result<()> {
        self.0.write(Self::at(sector), buffer).map_err(refused)
    }

    fn read(&mut self, buffer: &mut [u8], sector: SectorId, _count: u32) -> Ext4Result<()> {
        self.0.read(Self::at(sector), buffer).map_err(refused)
    }

    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry::new(BLOCK_SIZE_U32, self.0.size() / u64::from(BLOCK_SIZE_U32))
    }

    /// Without FUA, which a file does not have either: the crate writes and flushes in its place.
    fn capabilities(&self) -> DeviceCapabilities {
        DeviceCapabilities { flush: true, ..DeviceCapabilities::default() }
    }

    fn flush(&mut self) -> Ext4Result<()> {
        self.0.flush().map_err(refused)
    }
}

/// The crate's error has no room for the text.
fn refused(e: BlockError) -> Ext4Error {
    eprintln!("ondol bench: rsext4: {e}");
    Ext4Error::io()
}

fn now() -> Ext4Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ext4Timestamp::new(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

struct Wall;

impl Clock for Wall {
    fn now(&self) -> Ext4Result<Ext4Timestamp> {
        Ok(now())
    }
}

/// How often a file is open, and whether it goes with the last of those.
#[derive(Default)]
struct Opened {
    count: u32,
    nameless: bool,
}

struct Volume {
    fs: Ext4<Disk, MountedServices<(), NoopObserver>>,
    open: HashMap<Node, Opened>,
}

struct Mounted(Mutex<Volume>);

/// Mounts what is on `store`.
pub(super) fn mount(store: Arc<dyn BlockStore>) -> io::Result<Box<dyn Driver>> {
    let services = MountServices::new(Wall, (), NoopObserver);
    let fs = Ext4::mount(Disk(store), services, MountOptions::read_write()).map_err(other)?;
    Ok(Box::new(Mounted(Mutex::new(Volume { fs, open: HashMap::new() }))))
}

fn other(e: Ext4Error) -> io::Error {
    io::Error::other(e.to_string())
}

impl Volume {
    fn lookup(&mut self, dir: Node, name: &[u8]) -> Ext4Result<Node> {
        let found = self.fs.lookup_child(InodeNumber::new(dir)?, FileName::new(name)?)?;
        found.map(|info| info.number.raw()).ok_or_else(Ext4Error::not_found)
    }

    /// What has lost a name goes if it was the last and nobody has it open.
    fn lost(&mut self, outcome: UnlinkOutcome) -> Ext4Result<()> {
        if !outcome.requires_reap() {
            return Ok(());
        }
        match self.open.get_mut(&outcome.inode.raw()) {
            Some(opened) => opened.nameless = true,
            None => self.fs.reap_unlinked_inode(outcome.inode)?,
        }
        Ok(())
    }

    fn opened(&mut self, node: Node) -> Node {
        self.open.entry(node).or_default().count += 1;
        node
    }

    fn closed(&mut self, node: Node) -> Ext4Result<()> {
        let Some(opened) = self.open.get_mut(&node) else { return Err(Ext4Error::badf()) };
        opened.count -= 1;
        if opened.count > 0 {
            return Ok(());
        }
        let nameless = opened.nameless;
        self.open.remove(&node);
        if nameless { self.fs.reap_unlinked_inode(InodeNumber::new(node)?) } else { Ok(()) }
    }

    fn list(&mut self, dir: Node) -> Ext4Result<Vec<Vec<u8>>> {
        let mut reader = self.fs.open_directory_reader(InodeNumber::new(dir)?)?;
        let (mut names, mut cursor) = (Vec::new(), DirectoryCursor::Start);
        loop {
            let entries = self.fs.read_directory_with_reader(&mut reader, cursor, BATCH)?;
            let Some(last) = entries.last() else { return Ok(names) };
            cursor = last.next_cursor;
            names.extend(entries.into_iter().map(|entry| entry.name));
        }
    }
}

impl Mounted {
    fn lock(&self) -> io::Result<MutexGuard<'_, Volume>> {
        self.0.lock().map_err(|_| io::Error::other("rsext4 has panicked in another thread"))
    }

    fn call<T>(&self, f: impl FnOnce(&mut Volume) -> Ext4Result<T>) -> io::Result<T> {
        f(&mut *self.lock()?).map_err(other)
    }
}

impl Driver for Mounted {
    fn root(&self) -> Node {
        self.lock().map_or(2, |volume| volume.fs.root_inode().raw())
    }

    fn lookup(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.call(|volume| volume.lookup(dir, name))
    }

    fn stat(&self, node: Node) -> io::Result<Stat> {
        let info = self.call(|volume| volume.fs.inode(InodeNumber::new(node)?))?;
        Ok(Stat { size: info.size, is_dir: info.is_directory() })
    }

    fn create(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.call(|volume| {
            let (dir, name, mode) = (InodeNumber::new(dir)?, FileName::new(name)?, FilePermissions::new(0o644)?);
            let made = volume.fs.create_regular_file(ROOT, dir, name, mode)?;
            Ok(volume.opened(made.number.raw()))
        })
    }

    fn open(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.call(|volume| {
            let node = volume.lookup(dir, name)?;
            Ok(volume.opened(node))
        })
    }

    fn close(&self, node: Node) -> io::Result<()> {
        self.call(|volume| volume.closed(node))
    }

    fn mkdir(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.call(|volume| {
            let (dir, name, mode) = (InodeNumber::new(dir)?, FileName::new(name)?, FilePermissions::new(0o755)?);
            volume.fs.create_directory(ROOT, dir, name, mode).map(|made| made.number.raw())
        })
    }

    fn unlink(&self, dir: Node, name: &[u8]) -> io::Result<()> {
        self.call(|volume| {
            let outcome = volume.fs.unlink(InodeNumber::new(dir)?, FileName::new(name)?)?;
            volume.lost(outcome)
        })
    }

    fn rmdir(&self, dir: Node, name: &[u8]) -> io::Result<()> {
        self.call(|volume| {
            let outcome = volume.fs.remove_empty_directory(InodeNumber::new(dir)?, FileName::new(name)?)?;
            volume.lost(outcome)
        })
    }

    fn rename(&self, dir: Node, from: &[u8], to: &[u8]) -> io::Result<()> {
        self.call(|volume| {
            let (dir, from, to) = (InodeNumber::new(dir)?, FileName::new(from)?, FileName::new(to)?);
            let outcome = volume.fs.rename(dir, from, dir, to, RenameOptions::REPLACE)?;
            outcome.replaced.map_or(Ok(()), |replaced| volume.lost(replaced))
        })
    }

    fn list(&self, dir: Node) -> io::Result<Vec<Vec<u8>>> {
        self.call(|volume| volume.list(dir))
    }

    fn touch(&self, node: Node) -> io::Result<()> {
        let times = InodeMetadataUpdate { atime: Some(now()), mtime: Some(now()), ..InodeMetadataUpdate::default() };
        self.call(|volume| volume.fs.update_inode_metadata(InodeNumber::new(node)?, times)).map(drop)
    }

    fn free(&self) -> io::Result<u64> {
        let stats = self.call(|volume| Ok(volume.fs.statfs()))?;
        Ok(stats.free_blocks.saturating_mul(stats.block_size))
    }

    fn read(&self, node: Node, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.call(|volume| volume.fs.read_inode(InodeNumber::new(node)?, offset, buf))
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(|volume| volume.fs.write_inode(InodeNumber::new(node)?, offset, data))
    }

    fn append(&self, node: Node, data: &[u8]) -> io::Result<()> {
        self.call(|volume| {
            let node = InodeNumber::new(node)?;
            let size = volume.fs.inode(node)?.size;
            volume.fs.write_inode(node, size, data)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.call(|volume| volume.fs.sync())
    }

    fn unmount(&self) -> io::Result<()> {
        self.call(|volume| {
            // Unmounting writes the superblock outside of any operation, and is refused (`Busy`) if the journal has to make room
            // in the middle of that. An operation makes room before it begins.
            let root = volume.fs.root_inode();
            let times = InodeMetadataUpdate { mtime: Some(now()), ..InodeMetadataUpdate::default() };
            volume.fs.update_inode_metadata(root, times)?;
            volume.fs.unmount()
        })
    }
}
