//! What every implementation of the file API must do.

use super::lib_fs::LibFs;
use super::std_fs::StdFs;
use super::{Append, Durable, Fs, Stat, clear};
use ondol::{FormatOptions, Volume};
use std::sync::Arc;

/// Runs through the whole file API.
pub(super) fn exercise(fs: &dyn Fs) {
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
    assert_eq!(file.size().expect("size"), 12);
    file.close().expect("close");

    fs.sync().expect("sync");
    dir.sync_all().expect("sync");
    dir.touch("f").expect("touch");
    dir.touch("nothing").expect_err("no such file");
    assert!(dir.free().expect("free") > 0);
    assert_eq!(dir.list().expect("list"), ["f"]);
    assert!(root.rmdir("d").is_err(), "a full directory stays");
    let through = root.pass("d").expect("pass");
    assert_eq!(through.stat("f").expect("stat").size, 12);
    through.rename("f", "h").expect("rename");
    assert_eq!(through.list().expect("list"), ["h"]);
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
    exercise(&LibFs::new(Arc::clone(&volume), "kept", false).expect("directory"));
    assert!(volume.exists("/kept").expect("exists"));

    let fs = LibFs::new(Arc::clone(&volume), "removed", true).expect("directory");
    fs.root().mkdir("d").expect("mkdir").create("f", Append::Seek).expect("create").close().expect("close");
    drop(fs);
    assert!(!volume.exists("/removed").expect("exists"), "a directory goes with all that is in it");
    Arc::into_inner(volume).expect("no other user").close().expect("close");
}
