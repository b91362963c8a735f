//! rust-fs-ext4: a lock around it lets calls that read go side by side, and those that change go alone. Its journal
//! writer and its documentation ask for that; its calls plan from what they have read and take its own lock for the
//! commit only.

use crate::fs::Stat;
use crate::fs::crate_fs::{Driver, Node};
use fs_ext4::Filesystem;
use fs_ext4::block_io::BlockDevice;
use ondol_block::BlockStore;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Number of every root directory.
const ROOT: Node = 2;

/// A store of ours as the crate wants it.
struct Disk(Arc<dyn BlockStore>);

impl BlockDevice for Disk {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> fs_ext4::Result<()> {
        self.0.read(offset, buf).map_err(|e| io::Error::other(e.to_string()).into())
    }

    fn size_bytes(&self) -> u64 {
        self.0.size()
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> fs_ext4::Result<()> {
        self.0.write(offset, buf).map_err(|e| io::Error::other(e.to_string()).into())
    }

    fn flush(&self) -> fs_ext4::Result<()> {
        self.0.flush().map_err(|e| io::Error::other(e.to_string()).into())
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// A mounted file system; `None` when it is unmounted.
struct Mounted(RwLock<Option<Filesystem>>);

/// Mounts what is on `store`.
pub(super) fn mount(store: Arc<dyn BlockStore>) -> io::Result<Box<dyn Driver>> {
    let fs = Filesystem::mount(Arc::new(Disk(store))).map_err(other)?;
    Ok(Box::new(Mounted(RwLock::new(Some(fs)))))
}

fn other(e: fs_ext4::Error) -> io::Error {
    io::Error::other(e.to_string())
}

fn poisoned<T>(_: PoisonError<T>) -> io::Error {
    io::Error::other("rust-fs-ext4 has panicked in another thread")
}

fn gone() -> io::Error {
    io::Error::other("it is unmounted")
}

impl Mounted {
    fn shared(&self) -> io::Result<RwLockReadGuard<'_, Option<Filesystem>>> {
        self.0.read().map_err(poisoned)
    }

    fn alone(&self) -> io::Result<RwLockWriteGuard<'_, Option<Filesystem>>> {
        self.0.write().map_err(poisoned)
    }

    fn look<T>(&self, f: impl FnOnce(&Filesystem) -> fs_ext4::Result<T>) -> io::Result<T> {
        f(self.shared()?.as_ref().ok_or_else(gone)?).map_err(other)
    }

    fn change<T>(&self, f: impl FnOnce(&Filesystem) -> fs_ext4::Result<T>) -> io::Result<T> {
        f(self.alone()?.as_ref().ok_or_else(gone)?).map_err(other)
    }
}

impl Driver for Mounted {
    fn root(&self) -> Node {
        ROOT
    }

    fn lookup(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.look(|fs| fs.lookup_at(dir, name))
    }

    fn stat(&self, node: Node) -> io::Result<Stat> {
        let inode = self.look(|fs| fs.stat_ino(node))?;
        Ok(Stat { size: inode.size, is_dir: inode.is_dir() })
    }

    fn create(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.change(|fs| fs.apply_create_at(dir, name, 0o644))
    }

    fn open(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.lookup(dir, name)
    }

    fn close(&self, _node: Node) -> io::Result<()> {
        Ok(())
    }

    fn mkdir(&self, dir: Node, name: &[u8]) -> io::Result<Node> {
        self.change(|fs| fs.apply_mkdir_at(dir, name, 0o755))
    }

    fn unlink(&self, dir: Node, name: &[u8]) -> io::Result<()> {
        self.change(|fs| fs.apply_unlink_at(dir, name))
    }

    fn rmdir(&self, dir: Node, name: &[u8]) -> io::Result<()> {
        self.change(|fs| fs.apply_rmdir_at(dir, name))
    }

    fn list(&self, dir: Node) -> io::Result<Vec<Vec<u8>>> {
        let entries = self.look(|fs| fs.read_dir_ino(dir))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn read(&self, node: Node, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.look(|fs| fs.read_ino(node, offset, buf))
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|fs| fs.apply_pwrite_ino(node, offset, data)).map(drop)
    }

    fn append(&self, node: Node, data: &[u8]) -> io::Result<()> {
        self.change(|fs| fs.apply_pwrite_ino(node, fs.stat_ino(node)?.size, data)).map(drop)
    }

    fn sync(&self) -> io::Result<()> {
        self.look(Filesystem::flush)
    }

    fn unmount(&self) -> io::Result<()> {
        self.alone()?.take().ok_or_else(gone)?.finish().map_err(other)
    }
}
