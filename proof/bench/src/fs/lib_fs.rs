//! Files in process: the library's inode-level API, without a kernel between.

use super::{Append, Dir, Durable, File, Fs, Stat, clear, in_op};
use ondol::inodes::{Error, Inodes};
use ondol::{Caller, FileType, Ino, ROOT, Volume};
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open volume, and the lock that each call takes, if they are to take one: what papers/5 calls fine-grained,
/// records without what makes them scale.
#[derive(Clone)]
struct Calls {
    volume: Arc<Volume>,
    one: Option<Arc<Mutex<()>>>,
}

/// The volume for one call.
struct Call<'v> {
    inodes: &'v Inodes,
    _one: Option<MutexGuard<'v, ()>>,
}

impl Calls {
    fn inodes(&self) -> Call<'_> {
        let one = self.one.as_ref().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
        Call { inodes: self.volume.inodes(), _one: one }
    }
}

impl Deref for Call<'_> {
    type Target = Inodes;

    fn deref(&self) -> &Inodes {
        self.inodes
    }
}

/// A directory of an open volume. Dropping it empties and removes the directory, if it was asked to.
pub(crate) struct LibFs {
    root: Arc<LibDir>,
    name: String,
    remove: bool,
}

impl LibFs {
    /// Works in a new directory `name` of the volume's root, which is removed at the end if `remove` is set.
    /// `one_lock`: one call at a time.
    pub(crate) fn new(volume: Arc<Volume>, name: &str, remove: bool, one_lock: bool) -> io::Result<Self> {
        let calls = Calls { volume, one: one_lock.then(Arc::default) };
        let made = calls.inodes().names().mkdir(ROOT, name.as_bytes(), 0o755, Caller::default());
        let ino = made.map_err(|e| failed("mkdir", &e))?.ino;
        Ok(Self { root: Arc::new(LibDir { calls, ino }), name: name.to_owned(), remove })
    }
}

impl Fs for LibFs {
    fn root(&self) -> Arc<dyn Dir> {
        Arc::clone(&self.root) as Arc<dyn Dir>
    }
}

impl Drop for LibFs {
    fn drop(&mut self) {
        if !self.remove {
            return;
        }
        let gone = clear(self.root.as_ref()).and_then(|()| {
            self.root.inodes().names().rmdir(ROOT, self.name.as_bytes()).map_err(|e| failed("rmdir", &e))
        });
        if let Err(e) = gone {
            eprintln!("ondol bench: directory {} stays in the volume: {e}", self.name);
        }
    }
}

struct LibDir {
    calls: Calls,
    ino: Ino,
}

impl LibDir {
    fn inodes(&self) -> Call<'_> {
        self.calls.inodes()
    }

    fn file(&self, ino: Ino) -> io::Result<Box<dyn File>> {
        self.inodes().inode_ops().open(ino).map_err(|e| failed("open", &e))?;
        Ok(Box::new(LibFile { calls: self.calls.clone(), ino, open: true }))
    }
}

impl Dir for LibDir {
    fn mkdir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        let made = self.inodes().names().mkdir(self.ino, name.as_bytes(), 0o755, Caller::default());
        let ino = made.map_err(|e| failed("mkdir", &e))?.ino;
        Ok(Arc::new(Self { calls: self.calls.clone(), ino }))
    }

    fn enter(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        let ino = self.inodes().names().lookup(self.ino, name.as_bytes()).map_err(|e| failed("lookup", &e))?.ino;
        Ok(Arc::new(Self { calls: self.calls.clone(), ino }))
    }

    fn pass(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.enter(name)
    }

    fn create(&self, name: &str, _append: Append) -> io::Result<Box<dyn File>> {
        let made = self.inodes().names().create(self.ino, name.as_bytes(), 0o644, Caller::default());
        self.file(made.map_err(|e| failed("create", &e))?.ino)
    }

    fn open(&self, name: &str, _append: Append) -> io::Result<Box<dyn File>> {
        let ino = self.inodes().names().lookup(self.ino, name.as_bytes()).map_err(|e| failed("lookup", &e))?.ino;
        self.file(ino)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.inodes().names().unlink(self.ino, name.as_bytes()).map_err(|e| failed("unlink", &e))
    }

    fn rmdir(&self, name: &str) -> io::Result<()> {
        self.inodes().names().rmdir(self.ino, name.as_bytes()).map_err(|e| failed("rmdir", &e))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let read = self.inodes().names().readdir(self.ino, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
            }
            true
        });
        read.map_err(|e| failed("readdir", &e))?;
        Ok(names)
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        let attr = match name {
            "." => self.inodes().getattr(self.ino),
            _ => self.inodes().names().lookup(self.ino, name.as_bytes()),
        };
        let attr = attr.map_err(|e| failed("stat", &e))?;
        Ok(Stat { size: attr.size, is_dir: attr.file_type == FileType::Directory })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inodes().sync().map_err(|e| failed("sync", &e))
    }
}

struct LibFile {
    calls: Calls,
    ino: Ino,
    open: bool,
}

impl LibFile {
    fn inodes(&self) -> Call<'_> {
        self.calls.inodes()
    }
}

impl File for LibFile {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.inodes().files().read(self.ino, offset, buf).map_err(|e| failed("read", &e))
    }

    fn write_at(&mut self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let written = self.inodes().files().write(self.ino, offset, data).map_err(|e| failed("write", &e))?;
            data = match data.get(written..) {
                Some(rest) if written > 0 => rest,
                _ => return Err(in_op("write")(io::ErrorKind::WriteZero.into())),
            };
            offset += written as u64;
        }
        Ok(())
    }

    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.inodes().files().append(self.ino, data).map(|_offset| ()).map_err(|e| failed("append", &e))
    }

    fn fsync(&mut self, sync: Durable) -> io::Result<()> {
        self.inodes().fsync(self.ino, sync == Durable::Data).map_err(|e| failed("fsync", &e))
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.open = false;
        self.inodes().inode_ops().release(self.ino).map_err(|e| failed("close", &e))
    }
}

impl Drop for LibFile {
    fn drop(&mut self) {
        if self.open
            && let Err(e) = self.inodes().inode_ops().release(self.ino)
        {
            eprintln!("ondol bench: closing inode {}: {e}", self.ino);
        }
    }
}

/// The library's error with the operation before it. The text is the library's own: it names block and structure.
fn failed(op: &'static str, error: &Error) -> io::Error {
    in_op(op)(io::Error::other(error.to_string()))
}
