//! One target for one round: made, mounted, probed, taken away.

#[cfg(any(feature = "peers", test))]
use super::crates;
use super::device::{Counts, Modelled};
use super::image::{ImageFile, WorkDir};
use super::mounted::Mounted;
use super::ours::Ours;
use super::spec::{Kind, Target};
use super::{e2fsck, floors, ours, peers};
use crate::BenchError;
use crate::counters::{Device, Probe};
use crate::error::Context;
use crate::fs::Fs;
use crate::interrupt::Interrupt;
use crate::processes::Server;
use ondol::{NvmMeter, NvmStats, Volume};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// What targets are made with.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The program whose `mount` and `umount` commands serve `fuse:` targets.
    pub(crate) program: PathBuf,
    /// Where images are made.
    pub(crate) dir: PathBuf,
    /// Bytes of an image that fits the workload.
    pub(crate) image_size: u64,
    /// Bytes that the workload will write there.
    pub(crate) footprint: u64,
}

/// A file system that is open in this process and not ours.
pub(super) trait Foreign {
    /// Unmounts it.
    fn unmount(self: Box<Self>) -> io::Result<()>;
}

/// A target that can be worked on. Whatever was made goes with it; the fields are in the order in which that works.
pub(crate) struct Session {
    /// The files to work on, in a fresh directory.
    pub(crate) fs: Box<dyn Fs>,
    /// What the target promises.
    pub(crate) guarantee: String,
    pub(super) probe: Probe,
    pub(super) work: Option<WorkDir>,
    pub(super) volume: Option<Ours>,
    pub(super) foreign: Option<Box<dyn Foreign>>,
    /// The NVM of that volume.
    pub(super) nvm: Option<NvmMeter>,
    pub(super) mount: Option<Mounted>,
    pub(super) device: Option<Modelled>,
    pub(super) image: Option<ImageFile>,
    /// The NVM pool in front of it.
    pub(super) pool: Option<ImageFile>,
    /// What is handed on.
    pub(super) below: Option<WorkDir>,
}

/// Makes `target` ready.
///
/// # Errors
/// When it cannot be made or mounted; then nothing is left of it.
pub(crate) fn open(target: &Target, setting: &Setting, interrupt: &Interrupt) -> Result<Session, BenchError> {
    match &target.kind {
        Kind::Dir(path) => peers::directory(path),
        Kind::Tmpfs => peers::tmpfs(),
        Kind::Null(options) => floors::null(options, interrupt),
        Kind::Passthrough(target) => floors::passthrough(target, setting, interrupt),
        Kind::Kernel(fs, fresh) => peers::kernel(*fs, fresh, setting),
        Kind::Fuse2fs(fresh) => peers::fuse2fs(fresh, setting, interrupt),
        #[cfg(any(feature = "peers", test))]
        Kind::Crate(fresh) => crates::open(fresh, setting),
        #[cfg(not(any(feature = "peers", test)))]
        Kind::Crate(..) => Err(BenchError::Unfit(format!(
            "target {}: this program was built without other crates; build it with `cargo build --profile fast \
             --manifest-path proof/Cargo.toml -p ondol-lab --features peers`",
            target.text
        ))),
        Kind::Lib(image) => ours::lib(image, setting),
        Kind::Fuse(image) => ours::fuse(image, setting, interrupt),
    }
}

impl Session {
    /// The target's counters now.
    pub(crate) fn counters(&self) -> Result<Device, BenchError> {
        let mut counts = self.probe.read()?;
        if let Some(mount) = &self.mount {
            counts.server = mount.server().map(Server::of);
            let told = mount.ask()?;
            counts.fuse_requests = told.get("fuse_requests").and_then(Value::as_u64).or(counts.fuse_requests);
        }
        Ok(counts)
    }

    /// The working directory as other processes find it; `None` where there is none.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.work.as_ref().map(WorkDir::path)
    }

    /// The volume, where this process has it.
    pub(crate) fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref().map(Ours::volume)
    }

    /// Lets a modelled device take its time from now on, or no time.
    pub(crate) fn set_slow(&self, slow: bool) {
        if let Some(device) = &self.device {
            device.set_slow(slow);
        }
    }

    /// What the modelled device has done; `None` where there is none.
    pub(crate) fn device_counts(&self) -> Option<Counts> {
        self.device.as_ref().map(Modelled::counts)
    }

    /// What has been done to the NVM of a volume in this process; `None` where there is none.
    pub(crate) fn nvm_counts(&self) -> Option<NvmStats> {
        self.nvm.as_ref().map(NvmMeter::read)
    }

    /// Ends the work and closes or unmounts: everything is home then. (Dropping a session does the same and prints what
    /// fails.)
    pub(crate) fn close(self) -> (Result<(), BenchError>, Closed) {
        let Self { fs, guarantee: _, probe, work, volume, foreign, nvm, mount, device, image, pool, below } = self;
        drop(fs);
        drop(probe);
        let suspect = foreign.is_some();
        let unmount = |fs: Box<dyn Foreign>| fs.unmount().context(|| "unmounting");
        let done = [
            work.map_or(Ok(()), WorkDir::remove),
            volume.map_or(Ok(()), Ours::close),
            foreign.map_or(Ok(()), unmount),
            mount.map_or(Ok(()), Mounted::unmount),
        ];
        (done.into_iter().collect(), Closed { suspect, nvm, device, image, pool, below })
    }
}

/// What is left of a target that is closed.
pub(crate) struct Closed {
    /// Code that is not ours has written the image in this process.
    suspect: bool,
    nvm: Option<NvmMeter>,
    device: Option<Modelled>,
    image: Option<ImageFile>,
    pool: Option<ImageFile>,
    below: Option<WorkDir>,
}

impl Closed {
    /// As [`Session::device_counts`].
    pub(crate) fn device_counts(&self) -> Option<Counts> {
        self.device.as_ref().map(Modelled::counts)
    }

    /// As [`Session::nvm_counts`].
    pub(crate) fn nvm_counts(&self) -> Option<NvmStats> {
        self.nvm.as_ref().map(NvmMeter::read)
    }

    /// What e2fsck finds in an image that may be damaged, in words; `None` if nothing.
    pub(crate) fn damage(&self) -> Result<Option<String>, BenchError> {
        match &self.image {
            Some(image) if self.suspect => e2fsck::damage(image.path()),
            _ => Ok(None),
        }
    }

    /// Takes the rest away.
    pub(crate) fn remove(self) -> Result<(), BenchError> {
        let Self { suspect: _, nvm, device, image, pool, below } = self;
        drop(nvm);
        let done = [
            device.map_or(Ok(()), Modelled::remove),
            image.map_or(Ok(()), ImageFile::remove),
            pool.map_or(Ok(()), ImageFile::remove),
            below.map_or(Ok(()), WorkDir::remove),
        ];
        done.into_iter().collect()
    }
}
