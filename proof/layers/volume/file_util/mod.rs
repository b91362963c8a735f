//! Images made by mke2fs in memory, mounted with the current setup, and judged by e2fsck and debugfs.

use ondol_block::{BlockStore, RamStore};
use ondol_env::{Fixed, Timestamp};
use ondol_journal::Engine;
use ondol_power::{Kind, Layer, Medium};
use ondol_testkit::image::{read_sparse, write_sparse};
pub(crate) use ondol_testkit::rig::open;
use ondol_volume::{Atime, Image, Ino, Volume, VolumeOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A mounted image.
pub(crate) struct Rig {
    pub(crate) store: Arc<RamStore>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) env: Arc<Fixed>,
    pub(crate) vol: Volume,
}

/// Runs a tool; its standard output and exit code.
pub(crate) fn run(tool: &str, args: &[&str]) -> (String, i32) {
    let path = ondol_skips::find(tool).unwrap_or_else(|| panic!("{tool} is not installed"));
    let out = Command::new(path).args(args).stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{tool}: {e}"));
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    (text, out.status.code().unwrap_or(-1))
}

/// An image of `size` (as mke2fs takes it) with empty files `f0`, `f1`, ….
pub(crate) fn mkfs(size: &str, args: &[&str], files: usize) -> Vec<u8> {
    let dir = tempfile::tempdir_in(shm()).unwrap();
    let image = dir.path().join("image");
    let path = image.to_str().unwrap();
    let all: Vec<&str> =
        ["-q", "-F", "-t", "ext4"].into_iter().chain(args.iter().copied()).chain([path, size]).collect();
    let (text, code) = run("mke2fs", &all);
    assert_eq!(code, 0, "mke2fs: {text}");
    for i in 0..files {
        run("debugfs", &["-w", "-R", &format!("write /dev/null f{i}"), path]);
    }
    read_sparse(&image).unwrap()
}

/// A directory in memory where there is one.
fn shm() -> std::path::PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm.into() } else { std::env::temp_dir() }
}

/// The inode number of a file in the root directory.
pub(crate) fn ino_of(bytes: &[u8], name: &str) -> Ino {
    let (text, _) = debugfs(bytes, &format!("stat {name}"));
    let number = text.split("Inode:").nth(1).and_then(|rest| rest.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no inode in {text}"))
}

/// What debugfs answers to one request about the image.
pub(crate) fn debugfs(bytes: &[u8], request: &str) -> (String, i32) {
    with_file(bytes, |path| run("debugfs", &["-R", request, path]))
}

/// The content of a file as debugfs reads it.
pub(crate) fn dump(bytes: &[u8], name: &str) -> Vec<u8> {
    with_file(bytes, |path| {
        let out = format!("{path}.out");
        run("debugfs", &["-R", &format!("dump {name} {out}"), path]);
        std::fs::read(&out).unwrap()
    })
}

/// e2fsck finds nothing.
pub(crate) fn fsck(bytes: &[u8]) {
    let (text, code) = with_file(bytes, |path| run("e2fsck", &["-fn", path]));
    assert_eq!(code, 0, "e2fsck: {text}");
}

fn with_file<R>(bytes: &[u8], f: impl FnOnce(&str) -> R) -> R {
    let dir = tempfile::tempdir_in(shm()).unwrap();
    let path = dir.path().join("image");
    write_sparse(&path, bytes).unwrap();
    f(path.to_str().unwrap())
}

/// Mounts an image with the current setup.
pub(crate) fn mount(bytes: Vec<u8>) -> Rig {
    mount_with(bytes, options())
}

/// Access times stay as they are.
pub(crate) fn options() -> VolumeOptions {
    VolumeOptions { atime: Atime::Never, ..VolumeOptions::default() }
}

/// Mounts an image with the current setup and with options.
pub(crate) fn mount_with(bytes: Vec<u8>, options: VolumeOptions) -> Rig {
    let store = Arc::new(RamStore::from_bytes(bytes));
    let env = Arc::new(Fixed::new(Timestamp { sec: 2_000_000_000, nsec: 0 }, 1));
    let (engine, vol) = open(store.clone(), env.clone(), options);
    Rig { store, engine, env, vol }
}

/// Brings everything home and marks the image clean.
pub(crate) fn unmount(engine: &dyn Engine, vol: &Volume, store: Arc<dyn BlockStore>) {
    engine.checkpoint_all().unwrap();
    Image::open(store).unwrap().mark_unmounted(vol).unwrap();
}

impl Rig {
    /// Everything home; the image.
    pub(crate) fn unmount(self) -> Vec<u8> {
        unmount(&*self.engine, &self.vol, self.store.clone());
        self.store.to_bytes()
    }

    /// As [`Rig::unmount`], and e2fsck finds nothing.
    pub(crate) fn unmount_checked(self) -> Vec<u8> {
        let bytes = self.unmount();
        fsck(&bytes);
        bytes
    }

    /// All of a file.
    pub(crate) fn read_all(&self, ino: Ino) -> Vec<u8> {
        let size = self.vol.getattr(ino).unwrap().size as usize;
        let mut buf = vec![0xEE; size + 10];
        let n = self.vol.files().read(ino, 0, &mut buf).unwrap();
        assert_eq!(n, size);
        buf.truncate(n);
        buf
    }
}

/// The only medium, which held `base`; the superblock arrives whole: no program opens an image whose superblock is
/// torn.
pub(crate) fn medium(base: &[u8]) -> [Medium; 1] {
    [Medium { base: Layer::new(base), kind: Kind::Block, whole: Some(1024..2048) }]
}

/// A small deterministic random source.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }

    /// `len` bytes, none of them zero.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(255) as u8 + 1).collect()
    }
}
