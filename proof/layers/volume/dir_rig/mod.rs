//! What the directory tests share: images, volumes in memory, the oracles.

use ondol_block::RamStore;
use ondol_env::{Fixed, Timestamp};
use ondol_journal::Engine;
pub(crate) use ondol_testkit::image::with_kernel;
use ondol_testkit::image::{read_sparse, write_sparse};
use ondol_testkit::rig::open;
use ondol_volume::{Attr, Caller, FileType, Image, Ino, OnError, ROOT, Volume, VolumeOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Root, as the owner of everything that tests make.
pub(crate) const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// A directory for images, on tmpfs where there is one.
pub(crate) fn scratch() -> TempDir {
    let base = Path::new("/dev/shm");
    let made = if base.is_dir() { tempfile::tempdir_in(base) } else { tempfile::tempdir() };
    made.expect("a scratch directory")
}

pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    let path = ondol_skips::find(program).unwrap_or_else(|| panic!("{program} is not installed"));
    let output = Command::new(path).args(args).stdin(Stdio::null()).env("LC_ALL", "C").output();
    output.unwrap_or_else(|e| panic!("{program}: {e}"))
}

/// An image of `mib` MiB as mke2fs makes it.
pub(crate) fn mkfs(mib: u64, args: &[&str]) -> Vec<u8> {
    let dir = scratch();
    let path = dir.path().join("image");
    std::fs::File::create(&path).and_then(|f| f.set_len(mib << 20)).expect("an image file");
    let path_text = path.to_str().expect("a path");
    let all: Vec<&str> = ["-q", "-F", "-t", "ext4"].iter().chain(args).chain([&path_text]).copied().collect();
    let output = run("mke2fs", &all);
    assert!(output.status.success(), "mke2fs {all:?}: {}", String::from_utf8_lossy(&output.stderr));
    read_sparse(&path).expect("the image")
}

/// Gives `act` the image as a file; returns what it made of it.
pub(crate) fn as_file<T>(bytes: &[u8], act: impl FnOnce(&str) -> T) -> (T, Vec<u8>) {
    let dir = scratch();
    let path = dir.path().join("image");
    write_sparse(&path, bytes).expect("an image file");
    let done = act(path.to_str().expect("a path"));
    (done, read_sparse(&path).expect("the image"))
}

/// Fails unless `e2fsck -fn` finds nothing at all.
pub(crate) fn fsck(bytes: &[u8], what: &str) {
    let (output, _) = as_file(bytes, |path| run("e2fsck", &["-fn", path]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{what}: {text}{}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn debugfs(bytes: &[u8], request: &str) -> String {
    let (output, _) = as_file(bytes, |path| run("debugfs", &["-R", request, path]));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A volume over an image in memory.
pub(crate) struct Fs {
    pub(crate) store: Arc<RamStore>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) env: Arc<Fixed>,
    pub(crate) volume: Volume,
}

impl Fs {
    pub(crate) fn open(bytes: Vec<u8>) -> Self {
        Self::open_with(bytes, VolumeOptions::default())
    }

    /// A volume that goes on after corruption has been found.
    pub(crate) fn open_going_on(bytes: Vec<u8>) -> Self {
        Self::open_with(bytes, VolumeOptions { on_error: OnError::Continue, ..VolumeOptions::default() })
    }

    fn open_with(bytes: Vec<u8>, options: VolumeOptions) -> Self {
        let store = Arc::new(RamStore::from_bytes(bytes));
        let env = Arc::new(Fixed::new(Timestamp { sec: 1_700_000_000, nsec: 123_456_789 }, 7));
        let (engine, volume) = open(store.clone(), env.clone(), options);
        Self { store, engine, env, volume }
    }

    /// The image as a clean unmount leaves it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.engine.checkpoint_all().expect("a checkpoint");
        let copy = Arc::new(RamStore::from_bytes(self.store.to_bytes()));
        let image = Image::open(copy.clone()).expect("an image");
        image.mark_unmounted(&self.volume).expect("a superblock");
        copy.to_bytes()
    }

    /// Checks the image with e2fsck.
    pub(crate) fn check(&self, what: &str) {
        fsck(&self.bytes(), what);
    }

    /// All entries but "." and ".." of a directory, listed `chunk` entries at a time; fails on repetitions.
    pub(crate) fn names(&self, dir: Ino, chunk: usize) -> BTreeMap<Vec<u8>, (Ino, Option<FileType>)> {
        let mut names = BTreeMap::new();
        let mut cookie = 0;
        loop {
            let mut seen = 0;
            let listed = self.volume.names().readdir(dir, cookie, &mut |e| {
                if seen == chunk {
                    return false;
                }
                seen += 1;
                assert!(e.next != cookie && e.next < 1 << 63, "cookie {} after {cookie}", e.next);
                cookie = e.next;
                let twice = names.insert(e.name.to_vec(), (e.ino, e.file_type));
                assert!(twice.is_none(), "{:?} is listed twice", String::from_utf8_lossy(e.name));
                true
            });
            listed.expect("a listing");
            if seen < chunk {
                break;
            }
        }
        assert_eq!(names.remove(&b"."[..]).map(|e| e.0), Some(dir));
        assert!(names.remove(&b".."[..]).is_some());
        names
    }

    /// Everything below `dir` by path: attributes and, for symlinks, the target.
    pub(crate) fn tree(&self, dir: Ino, path: &str, into: &mut BTreeMap<String, (Attr, Vec<u8>)>) {
        for (name, (ino, _)) in self.names(dir, 100) {
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            let attr = self.volume.names().lookup(dir, &name).expect("an entry");
            assert_eq!(attr.ino, ino);
            let link = attr.file_type == FileType::Symlink;
            let target = if link { self.volume.names().readlink(ino).expect("a target") } else { Vec::new() };
            into.insert(path.clone(), (attr, target));
            if attr.file_type == FileType::Directory {
                self.tree(ino, &path, into);
            }
        }
    }

    pub(crate) fn mkdir(&self, dir: Ino, name: &str) -> Ino {
        self.volume.names().mkdir(dir, name.as_bytes(), 0o755, USER).unwrap_or_else(|e| panic!("mkdir {name}: {e}")).ino
    }

    pub(crate) fn create(&self, dir: Ino, name: &str) -> Ino {
        self.volume
            .names()
            .create(dir, name.as_bytes(), 0o644, USER)
            .unwrap_or_else(|e| panic!("create {name}: {e}"))
            .ino
    }

    pub(crate) fn is(&self, dir: Ino, name: &str) -> Option<Ino> {
        self.volume.names().lookup(dir, name.as_bytes()).ok().map(|a| a.ino)
    }
}

pub(crate) const TOP: Ino = ROOT;
