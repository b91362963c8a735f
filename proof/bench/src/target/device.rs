//! Modelled devices under images: an image in memory behind delays, opened in this process, or served as a file to
//! others.

use super::spec::On;
use super::unique_name;
use crate::BenchError;
use crate::command::Program;
use crate::error::Context;
use ondol_block::{Access, BlockError, BlockStore, FileStore};
use ondol_fuse::{Contents, MountError, SingleFile};
use ondol_stores::model::{Device, ModelStore, RealPace};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A store behind a modelled device.
type Slow = ModelStore<FileStore>;

/// Requests that a served device works on at once: as many as a SATA disk takes.
const QUEUE: usize = 32;
/// How long the kernel may take to let go of what was unmounted.
const PATIENCE: Duration = Duration::from_secs(5);

/// An image behind a modelled device. The fields are in the order in which they go.
pub(crate) struct Modelled {
    looped: Option<LoopDevice>,
    served: Option<Served>,
    store: Arc<Slow>,
}

impl Modelled {
    /// Puts the model that `on` names before `image`; `None` if it names none. Nothing is slow yet.
    pub(super) fn of(on: Option<On>, image: &Path) -> Result<Option<Self>, BenchError> {
        let size = || fs::metadata(image).map(|file| file.len()).context(|| image.display().to_string());
        let device = match on {
            Some(On::Ssd) => Device::ssd(),
            Some(On::Hdd) => Device::hdd(size()?),
            _ => return Ok(None),
        };
        let file = FileStore::open(image, Access::Write).map_err(into_io).context(|| image.display().to_string())?;
        let store = Arc::new(ModelStore::new(file, device, Arc::new(RealPace::default())));
        Ok(Some(Self { looped: None, served: None, store }))
    }

    /// The store itself.
    pub(super) fn store(&self) -> Arc<Slow> {
        Arc::clone(&self.store)
    }

    /// Serves it as a file, and says where that is.
    pub(super) fn serve(&mut self) -> Result<PathBuf, BenchError> {
        let served = Served::new(self.store())?;
        let path = served.file.path().to_owned();
        self.served = Some(served);
        Ok(path)
    }

    /// Serves it as a block device, and says where that is.
    pub(super) fn attach(&mut self) -> Result<PathBuf, BenchError> {
        let looped = LoopDevice::over(&self.serve()?)?;
        let path = looped.path.clone();
        self.looped = Some(looped);
        Ok(path)
    }

    /// From now on requests take their time, or none.
    pub(super) fn set_slow(&self, slow: bool) {
        self.store.set_slow(slow);
    }

    /// What it has done.
    pub(super) fn counts(&self) -> Counts {
        let stats = self.store.stats();
        Counts { bytes: stats.written_bytes, flushes: stats.flushes, way: self.store.way() }
    }

    /// Takes everything away but the image.
    pub(super) fn remove(self) -> Result<(), BenchError> {
        let Self { looped, served, store: _ } = self;
        looped.map_or(Ok(()), LoopDevice::detach).and(served.map_or(Ok(()), Served::remove))
    }
}

/// What a modelled device has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Bytes written.
    pub(crate) bytes: u64,
    pub(crate) flushes: u64,
    /// Bytes that its arm has moved over, if it has one.
    pub(crate) way: Option<u64>,
}

impl Counts {
    /// Since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        let way = self.way.zip(before.way).map(|(now, before)| now.saturating_sub(before));
        let (bytes, flushes) = (self.bytes.saturating_sub(before.bytes), self.flushes.saturating_sub(before.flushes));
        Self { bytes, flushes, way }
    }
}

fn into_io(e: BlockError) -> io::Error {
    match e {
        BlockError::Io { source, .. } | BlockError::Open { source, .. } => source,
        other => io::Error::other(other.to_string()),
    }
}

/// The store as the contents of a file.
struct Bytes(Arc<Slow>);

impl Contents for Bytes {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, buf).map_err(into_io)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data).map_err(into_io)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.flush().map_err(into_io)
    }
}

/// A served file and the empty one that it covers.
struct Served {
    file: SingleFile,
    below: PathBuf,
}

impl Served {
    fn new(store: Arc<Slow>) -> Result<Self, BenchError> {
        let temp = std::env::temp_dir();
        let below = temp.canonicalize().context(|| temp.display().to_string())?.join(unique_name());
        fs::File::create_new(&below).context(|| format!("making {}", below.display()))?;
        match SingleFile::mount(Arc::new(Bytes(store)), &below, QUEUE) {
            Ok(file) => Ok(Self { file, below }),
            Err(e) => {
                remove_file(&below);
                Err(failed(&e))
            }
        }
    }

    fn remove(mut self) -> Result<(), BenchError> {
        let since = Instant::now();
        loop {
            match self.file.unmount() {
                Ok(()) => return Ok(()),
                Err(e) if since.elapsed() >= PATIENCE => return Err(failed(&e)),
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Err(e) = self.file.close() {
            eprintln!("ondol bench: {e}");
        }
        remove_file(&self.below);
    }
}

fn remove_file(path: &Path) {
    if let Err(e) = fs::remove_file(path) {
        eprintln!("ondol bench: {} stays: {e}", path.display());
    }
}

fn failed(e: &MountError) -> BenchError {
    BenchError::Unfit(format!("a modelled device: {e}"))
}

/// A loop device of our own.
struct LoopDevice {
    path: PathBuf,
    attached: bool,
}

impl LoopDevice {
    /// Over `file`, past the page cache: every flush of the device is an fsync of the file.
    fn over(file: &Path) -> Result<Self, BenchError> {
        let said = Program::new("losetup")?.args(["--find", "--show", "--direct-io=on"]).arg(file).output()?;
        Ok(Self { path: said.trim().into(), attached: true })
    }

    fn detach(mut self) -> Result<(), BenchError> {
        self.attached = false;
        Program::new("losetup")?.arg("--detach").arg(&self.path).run()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if self.attached
            && let Err(e) = Program::new("losetup").and_then(|p| p.arg("--detach").arg(&self.path).run())
        {
            eprintln!("ondol bench: {} stays: {e}", self.path.display());
        }
    }
}
