//! Volumes in object storage: a fresh one for each turn, below the place that was named, deleted afterwards.

use super::image::{self, ImageFile};
use super::ours::failed;
use super::session::Setting;
use super::spec::Image;
use crate::BenchError;
use ondol::{FormatOptions, Remedy, Volume};
use ondol_env::{Env, System};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// How a directory is named that stands in for a store.
const DIRECTORY: &str = "file://";

/// Bytes that go up for each byte that is written: a log object, an object of the database, and compactions.
const UP: u64 = 4;

/// Refuses a place that is named wrongly, or that this program cannot reach, before anything is made.
pub(super) fn require_named(place: &Path) -> Result<(), BenchError> {
    let Err(e) = ondol::require_named_in_bucket(place) else { return Ok(()) };
    let how = match e.remedy() {
        Some(Remedy::OtherBuild) => "; build it with `cargo build --profile fast -p ondol-cli --features object`",
        _ => "",
    };
    Err(BenchError::Usage(format!("{e}{how}")))
}

/// The directory that stands in for a store, if one does.
fn directory(place: &Path) -> Option<&Path> {
    place.to_str().and_then(|place| place.strip_prefix(DIRECTORY)).map(Path::new)
}

/// Makes a volume of its own below the place, which nobody else has.
pub(super) fn make(image: &Image, setting: &Setting) -> Result<(PathBuf, ImageFile), BenchError> {
    require_named(&image.path)?;
    if let Some(dir) = directory(&image.path) {
        if !dir.is_dir() {
            return Err(BenchError::Unfit(format!("{}: there is no such directory", image.path.display())));
        }
        image::check_room(dir, setting.footprint.saturating_mul(UP))?;
    }
    let own: String = System.random_uuid().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut target = OsString::from(&image.path);
    target.push(format!("/ondol-bench-{own}"));
    let target = PathBuf::from(target);
    let made = ImageFile::made(target.clone());
    Volume::format(&target, &FormatOptions::new().size(image.size.unwrap_or(setting.image_size)))
        .map_err(|e| failed(target.display(), &e))?;
    Ok((target, made))
}

/// The guard of the log on this machine that a turn gets with `redo=FILE`. A file that is there already is somebody's.
pub(super) fn log(image: &Image) -> Result<Option<ImageFile>, BenchError> {
    let file = image.options.split(',').find_map(|option| option.strip_prefix("redo=")).map(PathBuf::from);
    match file.filter(|_| ondol::is_in_bucket(&image.path)) {
        None => Ok(None),
        Some(file) if file.symlink_metadata().is_ok() => {
            let file = file.display();
            Err(BenchError::Unfit(format!("redo={file}: it exists; the bench makes a log for each turn")))
        }
        Some(file) => Ok(Some(ImageFile::made(file))),
    }
}

/// Deletes a volume that [`make`] has made, or has begun to make.
pub(super) fn delete(target: &Path) -> io::Result<()> {
    let deleted = match ondol::delete_volume(target) {
        Err(e) if e.errno() == rustix::io::Errno::NOENT.raw_os_error() => Ok(()),
        deleted => deleted.map_err(|e| io::Error::other(e.to_string())),
    };
    // The directory is nobody else's, whatever is in it.
    match directory(target).map(std::fs::remove_dir_all) {
        Some(Err(e)) if e.kind() != io::ErrorKind::NotFound => deleted.and(Err(e)),
        Some(Ok(())) => Ok(()),
        _ => deleted,
    }
}
