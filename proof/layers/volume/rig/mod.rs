//! What the tests of orphans, attributes and the check share: images, volumes in memory, the oracles.

use ondol_block::{BlockStore, LayerStore, RamStore};
use ondol_env::{Fixed, Timestamp};
use ondol_journal::Engine;
use ondol_power::Layer;
pub(crate) use ondol_testkit::image::with_kernel;
use ondol_testkit::image::{read_sparse, write_store};
use ondol_testkit::rig::open;
use ondol_volume::{Caller, CheckReport, Device, Fallocate, Image, Ino, ROOT, Volume, VolumeOptions, check};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Root, as the owner of everything that tests make.
pub(crate) const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
/// The clock of volumes that tests open.
pub(crate) const NOW: Timestamp = Timestamp { sec: 1_700_000_000, nsec: 123_456_789 };

/// A directory for images, on tmpfs where there is one.
pub(crate) fn scratch() -> TempDir {
    let base = Path::new("/dev/shm");
    let made = if base.is_dir() { tempfile::tempdir_in(base) } else { tempfile::tempdir() };
    made.expect("a scratch directory")
}

pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(ondol_skips::find(program).unwrap_or_else(|| panic!("{program} is not installed")));
    command.args(args).stdin(Stdio::null()).env("LC_ALL", "C");
    // So that mke2fs makes the same image on every run.
    let output = command.env("E2FSPROGS_FAKE_TIME", "1700000000").output();
    output.unwrap_or_else(|e| panic!("{program}: {e}"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// An image in a file, for other programs to work on.
pub(crate) struct ImageFile {
    dir: TempDir,
}

impl ImageFile {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self::of(&*memory(bytes))
    }

    fn of(store: &dyn BlockStore) -> Self {
        let file = Self { dir: scratch() };
        write_store(&file.path(), store).expect("an image file");
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    pub(crate) fn name(&self) -> String {
        self.path().to_str().expect("a path").to_owned()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        read_sparse(&self.path()).expect("the image")
    }

    /// Runs requests of debugfs, one a line, writing.
    pub(crate) fn debugfs(&self, requests: &str) -> String {
        let script = self.dir.path().join("requests");
        std::fs::write(&script, requests).expect("a script");
        let output = run("debugfs", &["-w", "-f", script.to_str().expect("a path"), &self.name()]);
        text(&output)
    }

    /// Runs one request of debugfs, reading only.
    pub(crate) fn ask(&self, request: &str) -> String {
        String::from_utf8_lossy(&run("debugfs", &["-R", request, &self.name()]).stdout).into_owned()
    }

    /// Exit code and words of e2fsck.
    pub(crate) fn e2fsck(&self, how: &str) -> (i32, String) {
        let output = run("e2fsck", &[how, &self.name()]);
        (output.status.code().unwrap_or(-1), text(&output))
    }
}

/// An image of `mib` MiB as mke2fs makes it.
pub(crate) fn mkfs(mib: u64, args: &[&str]) -> Vec<u8> {
    let file = ImageFile::new(&[]);
    let image = std::fs::File::options().write(true).open(file.path()).expect("an image file");
    image.set_len(mib << 20).expect("room");
    let name = file.name();
    let all: Vec<&str> = ["-q", "-F", "-t", "ext4"].iter().chain(args).chain([&name.as_str()]).copied().collect();
    let output = run("mke2fs", &all);
    assert!(output.status.success(), "mke2fs {all:?}: {}", text(&output));
    file.bytes()
}

/// Fails unless `e2fsck -fn` finds nothing at all, and our check neither.
pub(crate) fn assert_clean(bytes: &[u8], what: &str) {
    must_be_clean(memory(bytes), what);
}

/// As [`assert_clean`].
fn must_be_clean(store: Arc<dyn BlockStore>, what: &str) {
    let (code, words) = ImageFile::of(&*store).e2fsck("-fn");
    assert_eq!(code, 0, "{what}: e2fsck says: {words}");
    let report = checked_on(store);
    assert!(report.is_clean(), "{what}: {:#?}", report.problems);
}

/// What our check says.
pub(crate) fn checked(bytes: &[u8]) -> CheckReport {
    checked_on(memory(bytes))
}

fn checked_on(store: Arc<dyn BlockStore>) -> CheckReport {
    check(&Image::open(store).expect("an image"), &mut |_| ()).expect("a check")
}

/// A store that begins with `bytes`.
fn memory(bytes: &[u8]) -> Arc<dyn BlockStore> {
    Arc::new(LayerStore::new(Layer::new(bytes)))
}

/// A volume over an image in memory.
pub(crate) struct Fs {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) env: Arc<Fixed>,
    pub(crate) volume: Volume,
}

impl Fs {
    /// Mounts an image, orphans not yet processed.
    pub(crate) fn open(bytes: Vec<u8>) -> Self {
        Self::over(Arc::new(RamStore::from_bytes(bytes)))
    }

    /// Mounts what a store holds, orphans not yet processed.
    pub(crate) fn over(store: Arc<dyn BlockStore>) -> Self {
        let env = Arc::new(Fixed::new(NOW, 7));
        let (engine, volume) = open(store.clone(), env.clone(), VolumeOptions::default());
        Self { store, engine, env, volume }
    }

    /// Mounts an image.
    pub(crate) fn mount(bytes: Vec<u8>) -> Self {
        let fs = Self::open(bytes);
        fs.volume.inode_ops().process_orphans().expect("orphans");
        fs
    }

    /// The image as it is now, everything written home: as after a crash and its recovery.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.copy(|image| image.mark_recovered().expect("a superblock"))
    }

    /// The image as a clean unmount leaves it.
    pub(crate) fn unmounted(&self) -> Vec<u8> {
        self.copy(|image| image.mark_unmounted(&self.volume).expect("a superblock"))
    }

    /// Unmounts it cleanly; then nobody finds anything.
    pub(crate) fn unmount_clean(self, what: &str) {
        self.engine.checkpoint_all().expect("a checkpoint");
        Image::open(self.store.clone()).and_then(|image| image.mark_unmounted(&self.volume)).expect("a superblock");
        must_be_clean(self.store, what);
    }

    fn copy(&self, mark: impl FnOnce(Image)) -> Vec<u8> {
        self.engine.checkpoint_all().expect("a checkpoint");
        let mut bytes = vec![0; self.store.size() as usize];
        self.store.read(0, &mut bytes).expect("the image");
        let copy = Arc::new(RamStore::from_bytes(bytes));
        mark(Image::open(copy.clone()).expect("an image"));
        copy.to_bytes()
    }

    pub(crate) fn create(&self, dir: Ino, name: &str) -> Ino {
        self.volume
            .names()
            .create(dir, name.as_bytes(), 0o644, USER)
            .unwrap_or_else(|e| panic!("create {name}: {e}"))
            .ino
    }

    pub(crate) fn mkdir(&self, dir: Ino, name: &str) -> Ino {
        self.volume.names().mkdir(dir, name.as_bytes(), 0o755, USER).unwrap_or_else(|e| panic!("mkdir {name}: {e}")).ino
    }

    pub(crate) fn lookup(&self, name: &str) -> Ino {
        self.volume.names().lookup(ROOT, name.as_bytes()).unwrap_or_else(|e| panic!("lookup {name}: {e}")).ino
    }
}

/// Bytes of a block of [`base`].
pub(crate) const BLOCK: usize = 1024;
/// Options of an image that is the same on every run, without and with checksums.
pub(crate) const PLAIN: &[&str] = &["-b", "1024", "-O", "^metadata_csum,uninit_bg", "-U", UUID, "-E", SEED];
pub(crate) const CHECKSUMMED: &[&str] = &["-b", "1024", "-O", "metadata_csum,orphan_file", "-U", UUID, "-E", SEED];
const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";
const SEED: &str = "hash_seed=fedcba98-7654-3210-fedc-ba9876543210";

/// A volume with a little of everything.
pub(crate) fn base(options: &[&str]) -> Vec<u8> {
    let fs = Fs::mount(mkfs(16, options));
    let v = &fs.volume;
    let (f, g, frag) = (fs.create(ROOT, "f"), fs.create(ROOT, "g"), fs.create(ROOT, "frag"));
    v.files().write(f, 0, &[1; 5 * BLOCK]).expect("a write");
    v.files().write(g, 0, &[2; 5 * BLOCK]).expect("a write");
    for i in 0..160 {
        v.files().write(frag, i * 3 * BLOCK as u64, &[3; BLOCK]).expect("a write");
    }
    let (d, big) = (fs.mkdir(ROOT, "d"), fs.mkdir(ROOT, "big"));
    fs.mkdir(d, "sub");
    fs.create(d, "one");
    fs.create(d, "two");
    for i in 0..400 {
        v.names().link(g, big, format!("a_name_that_is_long_enough_{i}").as_bytes()).expect("a link");
    }
    v.names().symlink(ROOT, b"fast", b"target", USER).expect("a symlink");
    v.names().symlink(ROOT, b"slow", &[b'x'; 300], USER).expect("a symlink");
    v.names().mknod(ROOT, b"pipe", 0o10_644, Device::default(), USER).expect("a pipe");
    let x = fs.create(ROOT, "x");
    v.xattrs().setxattr(x, b"user.large", &[7; 500], Default::default()).expect("an attribute");
    v.xattrs().setxattr(x, b"user.small", &[8; 20], Default::default()).expect("an attribute");
    let pre = fs.create(ROOT, "pre");
    v.files().fallocate(pre, Fallocate::Allocate, 0, 20 * BLOCK as u64).expect("blocks");
    fs.unmounted()
}
