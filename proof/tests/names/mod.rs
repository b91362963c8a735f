//! One image on both sides: mounted by the kernel, and opened by the library.

mod times;

use ondol::inodes::{Error, Inodes};
use ondol::{Attr, Caller, DataMode, Device, FileType, Options, ROOT, SetXattr, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::{Env, Fixed};
use ondol_skips::skips;
use ondol_testkit::image::{self, KernelMount, Spec, scratch_dir};
use ondol_testkit::op::{Op, text};
use ondol_tests::no_kernel_mount;
use rustix::fs::{self, CWD, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// The umask belongs to the whole process.
static UMASK: Mutex<()> = Mutex::new(());

/// One image, mounted by the kernel and opened by the library, with a second copy of it.
pub(crate) struct Sides {
    _dir: tempfile::TempDir,
    pub(crate) mount: KernelMount,
    volume: Volume,
    pub(crate) clock: Arc<Fixed>,
    _umask: MutexGuard<'static, ()>,
}

/// What a call returned: an error number, or something.
pub(crate) type Told<T> = Result<T, i32>;

pub(crate) fn told<T>(result: Result<T, Error>) -> Told<T> {
    result.map_err(|e| ondol::errno_of(&e))
}

pub(crate) fn kernel<T>(result: Result<T, Errno>) -> Told<T> {
    result.map_err(Errno::raw_os_error)
}

impl Sides {
    pub(crate) fn new(spec: &Spec, options: &str) -> Option<Self> {
        if skips(no_kernel_mount()) {
            return None;
        }
        let umask = UMASK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        rustix::process::umask(Mode::empty());
        let dir = scratch_dir().unwrap();
        let path = dir.path().join("image");
        spec.make_file(&path).unwrap();
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(std::fs::read(&path).unwrap()));
        let clock = image::clock(1);
        let env: Arc<dyn Env> = clock.clone();
        let ours = Options::parse(options).unwrap().with_data(DataMode::Ordered);
        let mut volume = Volume::open_stepped(store, &ours, env).unwrap();
        volume.act_as(Caller::default());
        Some(Self { mount: KernelMount::new(&path, options).unwrap(), _dir: dir, volume, clock, _umask: umask })
    }

    pub(crate) fn ours(&self) -> &Inodes {
        self.volume.inodes()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mount.dir().join(name)
    }

    pub(crate) fn ino(&self, path: &str) -> u32 {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(ROOT, |dir, name| self.ours().names().lookup(dir, name.as_bytes()).map(|a| a.ino)).unwrap()
    }

    /// The same calls on both; they must succeed.
    pub(crate) fn make(&self, lines: &str) {
        for op in text::parse(lines).unwrap() {
            let (kernel, ours) = self.both(&op);
            assert_eq!((kernel, ours), (Ok(()), Ok(())), "{op}");
        }
    }

    pub(crate) fn both(&self, op: &Op) -> (Told<()>, Told<()>) {
        let at = |path: &ondol_testkit::op::Path| self.path(path.as_str().trim_start_matches('/'));
        let split = |path: &ondol_testkit::op::Path| {
            let (dir, name) = path.split().unwrap();
            (self.ino(dir.as_str()), name.to_owned())
        };
        let (ours, root) = (self.ours(), Caller::default());
        match op {
            Op::Create { path, mode } => {
                let (dir, name) = split(path);
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
                let made = kernel(fs::open(at(path), flags, Mode::from_raw_mode((*mode).into())));
                (made.map(drop), told(ours.names().create(dir, name.as_bytes(), *mode, root)).map(drop))
            }
            Op::Mkdir { path, mode } => {
                let (dir, name) = split(path);
                let made = kernel(fs::mkdir(at(path), Mode::from_raw_mode((*mode).into())));
                (made, told(ours.names().mkdir(dir, name.as_bytes(), *mode, root)).map(drop))
            }
            Op::Mkfifo { path, mode } => {
                let (dir, name) = split(path);
                let mode_bits = Mode::from_raw_mode((*mode).into());
                let made = kernel(fs::mknodat(CWD, at(path), fs::FileType::Fifo, mode_bits, 0));
                let mode = FileType::Fifo.mode_bits() | mode;
                (made, told(ours.names().mknod(dir, name.as_bytes(), mode, Device::default(), root)).map(drop))
            }
            Op::Symlink { path, target } => {
                let (dir, name) = split(path);
                let made = kernel(fs::symlink(target.as_str(), at(path)));
                (made, told(ours.names().symlink(dir, name.as_bytes(), target.as_bytes(), root)).map(drop))
            }
            op => panic!("not for this: {op}"),
        }
    }

    pub(crate) fn set_xattr(&self, path: &str, name: &str, value: &[u8]) -> (Told<()>, Told<()>) {
        let set = kernel(fs::lsetxattr(self.path(path), name, value, XattrFlags::empty()));
        (set, told(self.ours().xattrs().setxattr(self.ino(path), name.as_bytes(), value, SetXattr::Any)))
    }

    pub(crate) fn xattr(&self, path: &str, name: &str) -> (Told<Vec<u8>>, Told<Vec<u8>>) {
        let mut value = vec![0; 70_000];
        let got = kernel(fs::lgetxattr(self.path(path), name, &mut value));
        (got.map(|n| value[..n].to_vec()), told(self.ours().xattrs().getxattr(self.ino(path), name.as_bytes())))
    }

    pub(crate) fn same_xattr(&self, path: &str, name: &str, why: &str) {
        let (kernel, ours) = self.xattr(path, name);
        assert_eq!(ours, kernel, "{name} of {path}: {why}");
    }

    pub(crate) fn stat(&self, path: &str) -> (std::fs::Metadata, Attr) {
        (std::fs::symlink_metadata(self.path(path)).unwrap(), self.ours().getattr(self.ino(path)).unwrap())
    }

    pub(crate) fn same_mode(&self, path: &str, why: &str) {
        let (kernel, ours) = self.stat(path);
        let (kernel, ours) = ((kernel.mode() & 0o7777, kernel.gid()), (u32::from(ours.perm), ours.gid));
        assert_eq!(ours, kernel, "mode {:o} and {:o} of {path}: {why}", ours.0, kernel.0);
    }
}
