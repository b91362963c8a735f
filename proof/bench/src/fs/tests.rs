//! What every implementation of the file API must do.

use super::crate_fs::{CrateFs, Driver, Node, Watched};
use super::lib_fs::LibFs;
use super::std_fs::StdFs;
use super::{Append, Durable, Fs, Stat, clear};
use ondol::{FormatOptions, Volume};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs through the whole file API.
pub(crate) fn exercise(fs: &dyn Fs) {
    let root = fs.root();
    let dir = root.mkdir("d").expect("mkdir");
    let mut file = dir.create("f", Append::Seek).expect("create");
    file.write_at(0, b"hello").expect("write");
    file.write_at(2, b"LL").expect("overwrite");
    file.append(b" world").expect("append");
    file.fsync(Durable::All).expect("fsync");
    file.close().expect("close");
    assert!(dir.create("f", Append::Seek).is_err(), "a file is created once");
    assert_eq!(dir.stat("f").expect("stat"), Stat { size: 11, is_dir: false });
    assert!(dir.stat(".").expect("stat of the directory").is_dir);

    let mut file = dir.open("f", Append::Flag).expect("open");
    file.append(b"!").expect("append");
    file.fsync(Durable::Data).expect("fdatasync");
    let mut buf = [0; 64];
    let len = file.read_at(0, &mut buf).expect("read");
    assert_eq!(buf.get(..len), Some(b"heLLo world!".as_slice()));
    assert_eq!(file.read_at(12, &mut buf).expect("read at the end"), 0);
    file.close().expect("close");

    fs.sync().expect("sync");
    dir.sync_all().expect("sync");
    assert_eq!(dir.list().expect("list"), ["f"]);
    assert!(root.rmdir("d").is_err(), "a full directory stays");
    let through = root.pass("d").expect("pass");
    assert_eq!(through.stat("f").expect("stat").size, 12);
    through.mkdir("deep").expect("mkdir");
    let deep = through.pass("deep").expect("pass");
    deep.create("x", Append::Seek).expect("create").close().expect("close");
    deep.unlink("x").expect("unlink");
    through.rmdir("deep").expect("rmdir");
    let again = root.enter("d").expect("enter");
    again.mkdir("sub").expect("mkdir").create("g", Append::Flag).expect("create").close().expect("close");
    clear(root.as_ref()).expect("clear");
    assert!(root.list().expect("list").is_empty());
    assert!(dir.open("f", Append::Seek).is_err(), "the file is gone");
    assert!(root.unlink("nothing").is_err());
}

#[test]
fn system_calls() {
    let dir = tempfile::tempdir().expect("a directory");
    exercise(&StdFs::new(dir.path()).expect("open"));
}

#[test]
fn in_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("volume.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20)).expect("format");
    let volume = Arc::new(Volume::open(&image).expect("open"));
    exercise(&LibFs::new(Arc::clone(&volume), "kept", false, false).expect("directory"));
    assert!(volume.exists("/kept").expect("exists"));

    let fs = LibFs::new(Arc::clone(&volume), "removed", true, false).expect("directory");
    fs.root().mkdir("d").expect("mkdir").create("f", Append::Seek).expect("create").close().expect("close");
    drop(fs);
    assert!(!volume.exists("/removed").expect("exists"), "a directory goes with all that is in it");
    Arc::into_inner(volume).expect("no other user").close().expect("close");
}

/// A file system that panics when a file is read, and counts what it is asked for.
struct Brittle(Arc<AtomicU32>);

impl Brittle {
    fn asked<T>(&self, answer: T) -> io::Result<T> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(answer)
    }
}

impl Driver for Brittle {
    fn root(&self) -> Node {
        2
    }
    fn lookup(&self, _dir: Node, _name: &[u8]) -> io::Result<Node> {
        self.asked(3)
    }
    fn stat(&self, _node: Node) -> io::Result<Stat> {
        self.asked(Stat { size: 1, is_dir: false })
    }
    fn create(&self, _dir: Node, _name: &[u8]) -> io::Result<Node> {
        self.asked(3)
    }
    fn open(&self, _dir: Node, _name: &[u8]) -> io::Result<Node> {
        self.asked(3)
    }
    fn close(&self, _node: Node) -> io::Result<()> {
        self.asked(())
    }
    fn mkdir(&self, _dir: Node, _name: &[u8]) -> io::Result<Node> {
        self.asked(4)
    }
    fn unlink(&self, _dir: Node, _name: &[u8]) -> io::Result<()> {
        self.asked(())
    }
    fn rmdir(&self, _dir: Node, _name: &[u8]) -> io::Result<()> {
        self.asked(())
    }
    fn list(&self, _dir: Node) -> io::Result<Vec<Vec<u8>>> {
        self.asked(Vec::new())
    }
    fn read(&self, node: Node, offset: u64, _buf: &mut [u8]) -> io::Result<usize> {
        panic!("node {node} has no byte {offset}");
    }
    fn write(&self, _node: Node, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Err(io::Error::other("full"))
    }
    fn append(&self, _node: Node, _data: &[u8]) -> io::Result<()> {
        self.asked(())
    }
    fn sync(&self) -> io::Result<()> {
        self.asked(())
    }
    fn unmount(&self) -> io::Result<()> {
        self.asked(())
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        assert_eq!(self.0.load(Ordering::SeqCst), u32::MAX, "it panics at its end, too");
    }
}

#[test]
fn a_panic_of_a_crate_is_an_error_and_the_last_that_it_is_asked() {
    let asked = Arc::new(AtomicU32::new(0));
    let driver = Brittle(Arc::clone(&asked));
    let watched = Watched::mount("brittle", move || Ok(Box::new(driver))).expect("mounted");
    let fs = CrateFs::new(Arc::clone(&watched), "d").expect("directory");
    let mut file = fs.root().create("f", Append::Seek).expect("create");
    assert_eq!(file.write_at(0, b"x").expect_err("refused").to_string(), "write: full");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let error = file.read_at(7, &mut [0]).expect_err("a panic").to_string();
    assert_eq!(error, "read: brittle panicked: node 3 has no byte 7");
    for error in [file.fsync(Durable::All).err(), file.close().err(), fs.sync().err(), watched.unmount().err()] {
        let error = error.expect("nothing more is asked").to_string();
        assert!(error.ends_with("brittle has panicked before"), "{error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    drop((fs, watched));

    let mounted = Watched::mount("brittle", || panic!("at once"));
    assert_eq!(mounted.err().expect("a panic").to_string(), "mount: brittle panicked: at once");
}
