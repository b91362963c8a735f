//! Files that the bench makes: image files and working directories, gone when their guard is.

use super::spec::On;
use super::{bucket, unique_name};
use crate::BenchError;
use crate::error::Context;
use crate::units::format_size;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where images in memory lie.
const RAM_DIR: &str = "/dev/shm";
/// Where images on a disk lie, unless the directory for images is on one: files there outlive a reboot.
const DISK_DIR: &str = "/var/tmp";
/// File system numbers of tmpfs and ramfs (statfs(2)).
const MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// An image file, or a volume in object storage, of our own making.
#[derive(Debug)]
pub(crate) struct ImageFile {
    path: PathBuf,
    present: bool,
}

impl ImageFile {
    /// Makes a sparse file of `size` bytes at `path`, where nothing may be yet.
    pub(crate) fn create(path: PathBuf, size: u64) -> Result<Self, BenchError> {
        let file = fs::File::create_new(&path).context(|| format!("making {}", path.display()))?;
        let image = Self { path, present: true };
        file.set_len(size).context(|| format!("making {} {} large", image.path.display(), format_size(size)))?;
        Ok(image)
    }

    /// The guard of a file that the bench has others make, or of such a volume.
    pub(crate) fn made(path: PathBuf) -> Self {
        Self { path, present: true }
    }

    /// Makes a sparse file of `size` bytes with a name of its own in `dir`.
    pub(crate) fn create_in(dir: &Path, size: u64) -> Result<Self, BenchError> {
        Self::create(dir.join(unique_name()).with_extension("img"), size)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it.
    pub(crate) fn remove(mut self) -> Result<(), BenchError> {
        self.present = false;
        self.gone().context(|| format!("removing {}", self.path.display()))
    }

    fn gone(&self) -> io::Result<()> {
        if ondol::is_in_bucket(&self.path) {
            return bucket::delete(&self.path);
        }
        match fs::remove_file(&self.path) {
            // It was to be made, and something else failed first.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        if self.present
            && let Err(e) = self.gone()
        {
            eprintln!("ondol bench: {} stays: {e}", self.path.display());
        }
    }
}

/// A fresh working directory.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    stays: bool,
}

impl WorkDir {
    /// Makes one in `parent`, to be removed with its guard.
    pub(crate) fn create_in(parent: &Path) -> Result<Self, BenchError> {
        let path = parent.join(unique_name());
        fs::create_dir(&path).context(|| format!("making {}", path.display()))?;
        Ok(Self { path, stays: false })
    }

    /// Makes one in an image that goes as a whole.
    pub(crate) fn create_in_image(parent: &Path) -> Result<Self, BenchError> {
        let mut dir = Self::create_in(parent)?;
        dir.stays = true;
        Ok(dir)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with all that is in it.
    pub(crate) fn remove(mut self) -> Result<(), BenchError> {
        if std::mem::replace(&mut self.stays, true) {
            return Ok(());
        }
        fs::remove_dir_all(&self.path).context(|| format!("removing {}", self.path.display()))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !self.stays
            && let Err(e) = fs::remove_dir_all(&self.path)
        {
            eprintln!("ondol bench: {} stays: {e}", self.path.display());
        }
    }
}

/// The directory in which an image shall be made.
pub(crate) fn directory(on: Option<On>, dir: &Path) -> Result<PathBuf, BenchError> {
    let chosen = match on {
        None => return Ok(dir.to_owned()),
        Some(On::Ssd | On::Hdd) if is_memory(dir)? => return Ok(dir.to_owned()),
        Some(On::Ram | On::Ssd | On::Hdd) => Path::new(RAM_DIR),
        Some(On::Disk) if !is_memory(dir)? => dir,
        Some(On::Disk) => Path::new(DISK_DIR),
    };
    if is_memory(chosen)? == (on != Some(On::Disk)) {
        return Ok(chosen.to_owned());
    }
    Err(BenchError::Unfit(match on {
        Some(On::Disk) => format!("on=disk: {} is in memory; name a directory on a disk with --dir", chosen.display()),
        _ => format!("on=ram: {} is not in memory; mount a tmpfs and name it with --dir", chosen.display()),
    }))
}

/// True if files in `dir` live in memory.
pub(crate) fn is_memory(dir: &Path) -> Result<bool, BenchError> {
    let stat = rustix::fs::statfs(dir).context(|| dir.display().to_string())?;
    Ok(MEMORY.contains(&stat.f_type))
}

/// Refuses to begin what would end in a full file system: `need` bytes have to fit into `dir`.
pub(crate) fn check_room(dir: &Path, need: u64) -> Result<(), BenchError> {
    let stat = rustix::fs::statvfs(dir).context(|| dir.display().to_string())?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if need <= free {
        return Ok(());
    }
    let (dir, need) = (dir.display(), format_size(need));
    Err(BenchError::Unfit(format!("{dir} has {free} bytes free, the workload writes {need}: fewer --ops, or --dir")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_with_their_guards() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = ImageFile::create_in(dir.path(), 1 << 20).expect("image");
        assert_eq!(fs::metadata(image.path()).expect("metadata").len(), 1 << 20);
        assert!(ImageFile::create(image.path().to_owned(), 1).is_err(), "nothing is overwritten");
        assert!(image.path().exists(), "and what was there stays");
        let work = WorkDir::create_in(dir.path()).expect("directory");
        fs::write(work.path().join("file"), "x").expect("write");
        work.remove().expect("remove");
        drop(image);
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 0);
    }

    #[test]
    fn room_is_checked() {
        check_room(Path::new("/"), 0).expect("nothing fits everywhere");
        let refusal = check_room(Path::new("/"), u64::MAX).expect_err("too much").to_string();
        assert!(refusal.contains("--dir"), "{refusal}");
    }
}
