//! The file systems to compare with: directories, tmpfs, the kernel's, fuse2fs.

use super::device::Modelled;
use super::image::{self, ImageFile, WorkDir};
use super::mounted::{Mounted, mount_table};
use super::session::{Session, Setting};
use super::spec::{Fresh, KernelFs};
use crate::BenchError;
use crate::command::Program;
use crate::counters::Probe;
use crate::error::Context;
use crate::fs::std_fs::StdFs;
use crate::guarantee;
use crate::interrupt::Interrupt;
use ondol::machine::mountinfo::{self, Entry};
use std::path::Path;

/// Where tmpfs is found on every distribution.
const SHM: &str = "/dev/shm";

/// The mount that `path` lies on.
fn mount_of(path: &Path) -> Result<Entry, BenchError> {
    let path = path.canonicalize().context(|| path.display().to_string())?;
    let table = mount_table()?;
    let mount = mountinfo::covering(&table, &path).cloned();
    mount.ok_or_else(|| BenchError::Unfit(format!("{}: no mount holds it", path.display())))
}

/// A fresh directory in `path`.
pub(super) fn directory(path: &Path) -> Result<Session, BenchError> {
    let mount = mount_of(path)?;
    let work = WorkDir::create_in(path)?;
    let fs = StdFs::new(work.path()).context(|| work.path().display().to_string())?;
    Ok(Session {
        fs: Box::new(fs),
        guarantee: guarantee::of_mount(&mount),
        probe: Probe::None,
        work: Some(work),
        volume: None,
        foreign: None,
        nvm: None,
        mount: None,
        device: None,
        image: None,
        pool: None,
        below: None,
    })
}

/// A fresh directory in memory: of the system's tmpfs, otherwise of one that is mounted for it.
pub(super) fn tmpfs() -> Result<Session, BenchError> {
    let shm = Path::new(SHM);
    if shm.is_dir() && mount_of(shm)?.fs_type == "tmpfs" {
        return directory(shm);
    }
    need_root("tmpfs", "it mounts one, as /dev/shm is none")?;
    let mount = Mounted::by_command(&["umount"], |point| {
        Ok(Program::new("mount")?.args(["-t", "tmpfs", "ondol-bench"]).arg(point))
    })?;
    let mut session = directory(mount.path())?;
    session.mount = Some(mount);
    Ok(session)
}

/// A fresh image, mounted by the kernel through a loop device.
pub(super) fn kernel(fs: KernelFs, fresh: &Fresh, setting: &Setting) -> Result<Session, BenchError> {
    need_root(&format!("kernel:{}", fs.name()), "it mounts an image through a loop device")?;
    let image = fresh_image(fresh, setting)?;
    make_fs(fs, fresh, image.path())?;
    let mut device = Modelled::of(fresh.on, image.path())?;
    // The kernel frees a loop device of its own with the mount.
    let (source, how) = match &mut device {
        Some(device) => (device.attach()?, "defaults"),
        None => (image.path().to_owned(), "loop"),
    };
    let options = if fresh.options.is_empty() { how.to_owned() } else { format!("{how},{}", fresh.options) };
    let mount = Mounted::by_command(&["umount"], |point| {
        Ok(Program::new("mount")?.args(["-t", fs.name(), "-o", &options]).arg(source).arg(point))
    })?;
    let entry = mount.table_entry()?;
    let work = WorkDir::create_in_image(mount.path())?;
    let files = StdFs::new(work.path()).context(|| work.path().display().to_string())?;
    Ok(Session {
        fs: Box::new(files),
        guarantee: guarantee::of_mount(&entry),
        probe: match &device {
            Some(device) => Probe::Store(device.store()),
            None => Probe::of_device(&entry.source),
        },
        work: Some(work),
        volume: None,
        foreign: None,
        nvm: None,
        mount: Some(mount),
        device,
        image: Some(image),
        pool: None,
        below: None,
    })
}

/// A fresh ext4 image, mounted by fuse2fs.
pub(super) fn fuse2fs(fresh: &Fresh, setting: &Setting, interrupt: &Interrupt) -> Result<Session, BenchError> {
    let image = fresh_image(fresh, setting)?;
    make_fs(KernelFs::Ext4, fresh, image.path())?;
    let mut device = Modelled::of(fresh.on, image.path())?;
    let source = device.as_mut().map_or(Ok(image.path().to_owned()), Modelled::serve)?;
    let umount: &[&str] = if rustix::process::geteuid().is_root() { &["umount"] } else { &["fusermount3", "-u"] };
    let mount = Mounted::by_server(umount, interrupt, |point| {
        let program = Program::new("fuse2fs")?.arg("-f").arg(&source).arg(point);
        Ok(if fresh.options.is_empty() { program } else { program.arg("-o").arg(&fresh.options) })
    })?;
    let work = WorkDir::create_in_image(mount.path())?;
    let files = StdFs::new(work.path()).context(|| work.path().display().to_string())?;
    Ok(Session {
        fs: Box::new(files),
        guarantee: guarantee::FUSE2FS.to_owned(),
        probe: device.as_ref().map_or(Probe::None, |device| Probe::Store(device.store())),
        work: Some(work),
        volume: None,
        foreign: None,
        nvm: None,
        mount: Some(mount),
        device,
        image: Some(image),
        pool: None,
        below: None,
    })
}

pub(super) fn fresh_image(fresh: &Fresh, setting: &Setting) -> Result<ImageFile, BenchError> {
    let dir = image::directory(fresh.on, &setting.dir)?;
    image::check_room(&dir, setting.footprint)?;
    ImageFile::create_in(&dir, fresh.size.unwrap_or(setting.image_size))
}

/// Makes the file system as its own tool does by default, but whole: nothing is left to be initialised while the
/// workload runs.
pub(super) fn make_fs(fs: KernelFs, fresh: &Fresh, image: &Path) -> Result<(), BenchError> {
    let program = match fs {
        KernelFs::Ext4 => {
            let whole = "lazy_itable_init=0,lazy_journal_init=0";
            let program = Program::new("mke2fs")?.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-E", whole]);
            if fresh.features.is_empty() { program } else { program.args(["-O", &fresh.features.join(",")]) }
        }
        KernelFs::Xfs => Program::new("mkfs.xfs")?.args(["-q", "-f"]),
        KernelFs::Btrfs => Program::new("mkfs.btrfs")?.args(["-q", "-f"]),
    };
    program.arg(image).run()
}

fn need_root(target: &str, why: &str) -> Result<(), BenchError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(BenchError::Unfit(format!("{target} needs root: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_on_a_mount() {
        assert_eq!(mount_of(Path::new("/proc/self")).expect("a mount").fs_type, "proc");
        assert!(mount_of(Path::new("/does/not/exist")).is_err());
    }
}
