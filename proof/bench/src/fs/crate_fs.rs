//! Files in process: file systems of others, each behind the same few calls.
//!
//! The code is not ours, so it is watched: a panic in it becomes an error of the call, and nothing is asked of it
//! afterwards.

use super::{Append, Dir, Durable, File, Fs, Stat, in_op};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file or directory, as a crate numbers them.
pub(crate) type Node = u32;

/// What a crate is asked for. All calls come from many threads; an implementation has the locks that the crate demands.
pub(crate) trait Driver: Send + Sync {
    /// The root directory.
    fn root(&self) -> Node;
    /// What `name` is in `dir`.
    fn lookup(&self, dir: Node, name: &[u8]) -> io::Result<Node>;
    /// Size and kind.
    fn stat(&self, node: Node) -> io::Result<Stat>;
    /// Makes a file that must not exist, and opens it.
    fn create(&self, dir: Node, name: &[u8]) -> io::Result<Node>;
    /// Opens a file.
    fn open(&self, dir: Node, name: &[u8]) -> io::Result<Node>;
    /// Closes a file.
    fn close(&self, node: Node) -> io::Result<()>;
    /// Makes a directory.
    fn mkdir(&self, dir: Node, name: &[u8]) -> io::Result<Node>;
    /// Removes a file's name.
    fn unlink(&self, dir: Node, name: &[u8]) -> io::Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, dir: Node, name: &[u8]) -> io::Result<()>;
    /// Names, with `.` and `..` or without.
    fn list(&self, dir: Node) -> io::Result<Vec<Vec<u8>>>;
    /// Reads; 0 at the end.
    fn read(&self, node: Node, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `data`.
    fn write(&self, node: Node, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Writes all of `data` at the end, wherever that is by then.
    fn append(&self, node: Node, data: &[u8]) -> io::Result<()>;
    /// Makes everything durable. None of the crates has less than that for a file.
    fn sync(&self) -> io::Result<()>;
    /// Unmounts. Nothing is asked after it.
    fn unmount(&self) -> io::Result<()>;
}

/// A driver whose panics are caught.
pub(crate) struct Watched {
    name: &'static str,
    /// There until this is dropped.
    driver: Option<Box<dyn Driver>>,
    panicked: AtomicBool,
}

impl Watched {
    /// Mounts by `mount`, watched.
    pub(crate) fn mount(
        name: &'static str,
        mount: impl FnOnce() -> io::Result<Box<dyn Driver>>,
    ) -> io::Result<Arc<Self>> {
        let driver = catch_unwind(AssertUnwindSafe(mount)).unwrap_or_else(|panic| Err(words(name, panic.as_ref())));
        let driver = Some(driver.map_err(in_op("mount"))?);
        Ok(Arc::new(Self { name, driver, panicked: AtomicBool::new(false) }))
    }

    /// Unmounts, so that the image can be looked at.
    pub(crate) fn unmount(&self) -> io::Result<()> {
        self.call("unmount", |driver| driver.unmount())
    }

    fn call<T>(&self, op: &'static str, f: impl FnOnce(&dyn Driver) -> io::Result<T>) -> io::Result<T> {
        let driver = self.driver.as_deref().filter(|_| !self.panicked.load(Ordering::SeqCst));
        let Some(driver) = driver else {
            return Err(in_op(op)(io::Error::other(format!("{} has panicked before", self.name))));
        };
        let done = catch_unwind(AssertUnwindSafe(|| f(driver)));
        let done = done.unwrap_or_else(|panic| {
            self.panicked.store(true, Ordering::SeqCst);
            Err(words(self.name, panic.as_ref()))
        });
        done.map_err(in_op(op))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let driver = self.driver.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(move || drop(driver))) {
            eprintln!("ondol bench: {}", words(self.name, panic.as_ref()));
        }
    }
}

fn words(name: &str, panic: &(dyn Any + Send)) -> io::Error {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    io::Error::other(format!("{name} panicked: {}", said.as_deref().unwrap_or("without a word")))
}

/// A new directory of a crate's file system.
pub(crate) struct CrateFs {
    root: Arc<CrateDir>,
}

impl CrateFs {
    /// Works in a new directory `name` of the root. It stays: the image goes as a whole.
    pub(crate) fn new(crate_fs: Arc<Watched>, name: &str) -> io::Result<Self> {
        let node = crate_fs.call("mkdir", |driver| driver.mkdir(driver.root(), name.as_bytes()))?;
        Ok(Self { root: Arc::new(CrateDir { crate_fs, node }) })
    }
}

impl Fs for CrateFs {
    fn root(&self) -> Arc<dyn Dir> {
        Arc::clone(&self.root) as Arc<dyn Dir>
    }
}

struct CrateDir {
    crate_fs: Arc<Watched>,
    node: Node,
}

impl CrateDir {
    fn call<T>(&self, op: &'static str, f: impl FnOnce(&dyn Driver, Node) -> io::Result<T>) -> io::Result<T> {
        self.crate_fs.call(op, |driver| f(driver, self.node))
    }

    fn dir(&self, node: Node) -> Arc<dyn Dir> {
        Arc::new(Self { crate_fs: Arc::clone(&self.crate_fs), node })
    }

    fn file(&self, node: Node) -> Box<dyn File> {
        Box::new(CrateFile { crate_fs: Arc::clone(&self.crate_fs), node, open: true })
    }

    /// The directory itself, or what it has under `name`.
    fn find(&self, driver: &dyn Driver, name: &str) -> io::Result<Node> {
        if name == "." { Ok(self.node) } else { driver.lookup(self.node, name.as_bytes()) }
    }
}

impl Dir for CrateDir {
    fn mkdir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.call("mkdir", |driver, dir| driver.mkdir(dir, name.as_bytes())).map(|node| self.dir(node))
    }

    fn enter(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.call("lookup", |driver, dir| driver.lookup(dir, name.as_bytes())).map(|node| self.dir(node))
    }

    fn pass(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.enter(name)
    }

    fn create(&self, name: &str, _append: Append) -> io::Result<Box<dyn File>> {
        self.call("create", |driver, dir| driver.create(dir, name.as_bytes())).map(|node| self.file(node))
    }

    fn open(&self, name: &str, _append: Append) -> io::Result<Box<dyn File>> {
        self.call("open", |driver, dir| driver.open(dir, name.as_bytes())).map(|node| self.file(node))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.call("unlink", |driver, dir| driver.unlink(dir, name.as_bytes()))
    }

    fn rmdir(&self, name: &str) -> io::Result<()> {
        self.call("rmdir", |driver, dir| driver.rmdir(dir, name.as_bytes()))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.call("readdir", |driver, dir| driver.list(dir))?;
        let names = names.into_iter().filter(|name| name != b"." && name != b"..");
        Ok(names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        self.call("stat", |driver, _dir| driver.stat(self.find(driver, name)?))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.call("sync", |driver, _dir| driver.sync())
    }
}

struct CrateFile {
    crate_fs: Arc<Watched>,
    node: Node,
    open: bool,
}

impl CrateFile {
    fn call<T>(&self, op: &'static str, f: impl FnOnce(&dyn Driver, Node) -> io::Result<T>) -> io::Result<T> {
        self.crate_fs.call(op, |driver| f(driver, self.node))
    }
}

impl File for CrateFile {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.call("read", |driver, node| driver.read(node, offset, buf))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call("write", |driver, node| driver.write(node, offset, data))
    }

    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.call("append", |driver, node| driver.append(node, data))
    }

    fn fsync(&mut self, _sync: Durable) -> io::Result<()> {
        self.call("fsync", |driver, _node| driver.sync())
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.open = false;
        self.call("close", |driver, node| driver.close(node))
    }
}

impl Drop for CrateFile {
    fn drop(&mut self) {
        if self.open
            && let Err(e) = self.call("close", |driver, node| driver.close(node))
        {
            eprintln!("ondol bench: {e}");
        }
    }
}
