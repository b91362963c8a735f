//! Our own targets: an image through the library, and through `ondol mount`.

use super::device::Modelled;
use super::image::{self, ImageFile, WorkDir};
use super::mounted::Mounted;
use super::session::{Session, Setting};
use super::spec::{Image, On};
use super::{bucket, unique_name};
use crate::BenchError;
use crate::command::Program;
use crate::counters::Probe;
use crate::error::Context;
use crate::fs::lib_fs::LibFs;
use crate::fs::std_fs::StdFs;
use crate::guarantee;
use crate::interrupt::Interrupt;
use ondol::pool::CreateOptions;
use ondol::{DeviceClass, FormatOptions, Options, Volume};
use ondol_env::System;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume that the bench has opened in this process.
pub(super) struct Ours {
    volume: Arc<Volume>,
}

impl Ours {
    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Closes it: what is wrong with its last writes comes out here.
    pub(super) fn close(self) -> Result<(), BenchError> {
        match Arc::into_inner(self.volume) {
            Some(volume) => volume.close().map_err(|e| failed("closing the volume", &e)),
            None => Err(BenchError::Unfit("the volume is still in use".into())),
        }
    }
}

/// An image, opened in this process.
pub(super) fn lib(image: &Image, setting: &Setting) -> Result<Session, BenchError> {
    let (pool, options) = with_log(image, setting)?;
    let options = Options::parse(&options).map_err(|e| BenchError::Usage(format!("lib: {e}")))?;
    let options = if image.one_lock { options.with_checkpoint_threads(1) } else { options };
    let (path, made) = find_or_make(image, setting)?;
    let device = Modelled::of(image.on, &path)?;
    slow_from_now_on(device.as_ref());
    let volume = match &device {
        Some(device) => Volume::open_media(device.store(), &options, Arc::new(System)),
        None => Volume::open_with(&path, &options),
    };
    let volume = Arc::new(volume.map_err(|e| failed(path.display(), &e))?);
    let fs = LibFs::new(Arc::clone(&volume), &unique_name(), made.is_none(), image.one_lock)
        .context(|| path.display().to_string())?;
    let probe = Probe::Volume(Arc::clone(&volume));
    Ok(Session {
        fs: Box::new(fs),
        guarantee: guarantee::of_ours(&probe.info()?),
        probe,
        work: None,
        nvm: Some(volume.state().nvm_meter()),
        volume: Some(Ours { volume }),
        foreign: None,
        mount: None,
        device,
        image: made,
        pool,
        below: None,
    })
}

/// An image, mounted by this program's `mount` command.
pub(super) fn fuse(image: &Image, setting: &Setting, interrupt: &Interrupt) -> Result<Session, BenchError> {
    let (path, made) = find_or_make(image, setting)?;
    let (pool, options) = with_log(image, setting)?;
    let mut device = Modelled::of(image.on, &path)?;
    let path = device.as_mut().map_or(Ok(path), Modelled::serve)?;
    slow_from_now_on(device.as_ref());
    let program = setting.program.to_string_lossy();
    let mount = Mounted::by_server(&[&program, "umount", "--wait"], interrupt, |point| {
        let mount = Program::new(&setting.program)?.args(["mount", "-f"]);
        let mount = if options.is_empty() { mount } else { mount.arg("-o").arg(&options) };
        Ok(mount.arg(&path).arg(point))
    })?;
    let make = if made.is_some() { WorkDir::create_in_image } else { WorkDir::create_in };
    let work = make(mount.path())?;
    let fs = StdFs::new(work.path()).context(|| work.path().display().to_string())?;
    let of = if ondol::is_in_bucket(&path) { Probe::FarMount } else { Probe::Mount };
    let probe = of(mount.path().to_owned());
    Ok(Session {
        fs: Box::new(fs),
        guarantee: guarantee::of_ours(&probe.info()?),
        probe,
        work: Some(work),
        volume: None,
        foreign: None,
        nvm: None,
        mount: Some(mount),
        device,
        image: made,
        pool,
        below: None,
    })
}

/// A volume meets the disk from its opening on: it must not find another one there while it is filled.
fn slow_from_now_on(device: Option<&Modelled>) {
    if let Some(device) = device {
        device.set_slow(true);
    }
}

/// The class of a modelled disk: the system knows nothing of it.
fn class_of(image: &Image) -> Option<String> {
    match image.on {
        Some(On::Ssd) => Some(DeviceClass::Ssd),
        Some(On::Hdd) => Some(DeviceClass::Disk),
        _ => None,
    }
    .map(|class| format!("device={class}"))
}

/// The pool, or the log of a volume in object storage, that is made for an image, if one is, and the image's mount
/// options with it.
fn with_log(image: &Image, setting: &Setting) -> Result<(Option<ImageFile>, String), BenchError> {
    let words = class_of(image).into_iter().chain([image.options.clone()]);
    let options = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(",");
    let Some(bytes) = image.pool else { return Ok((bucket::log(image)?, options)) };
    let file = ImageFile::create_in(&super::in_memory(&setting.dir)?, bytes)?;
    ondol::pool::create(file.path(), &CreateOptions::new()).map_err(|e| failed(file.path().display(), &e))?;
    let options = format!("nvm={},{options}", file.path().display());
    Ok((Some(file), options.trim_end_matches(',').to_owned()))
}

/// The image, and its guard if it had to be made. A bare name that does not exist is made where images are made.
fn find_or_make(image: &Image, setting: &Setting) -> Result<(PathBuf, Option<ImageFile>), BenchError> {
    if let Some(pool) = ondol::pool_of(&image.path) {
        return find_or_make_in(pool, image, setting);
    }
    if ondol::is_in_bucket(&image.path) {
        return bucket::make(image, setting).map(|(target, made)| (target, Some(made)));
    }
    if image.on.is_none() && image.path.exists() {
        return Ok((image.path.clone(), None));
    }
    let bare = image.path.components().count() == 1;
    let path = if bare { image::directory(image.on, &setting.dir)?.join(&image.path) } else { image.path.clone() };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(&setting.dir);
    image::check_room(dir, setting.footprint)?;
    let made = ImageFile::create(path.clone(), image.size.unwrap_or(setting.image_size))?;
    // As the kernel's ext4 images are made: 4 KiB blocks at any size.
    let format = FormatOptions::new().block_size(4096);
    Volume::format(&path, &format).map_err(|e| failed(path.display(), &e))?;
    Ok((path, Some(made)))
}

/// As [`find_or_make`], of an image in a pool. A bare name is the pool's.
fn find_or_make_in(pool: &Path, image: &Image, setting: &Setting) -> Result<(PathBuf, Option<ImageFile>), BenchError> {
    if image.on.is_some() {
        return Err(BenchError::Usage("lib: an image in a pool lies where the pool does: `on=` is for files".into()));
    }
    if pool.exists() {
        return Ok((image.path.clone(), None));
    }
    let bare = pool.components().count() == 1;
    let pool = if bare { setting.dir.join(pool) } else { pool.to_owned() };
    let mut target = OsString::from("nvm:");
    target.push(&pool);
    let path = PathBuf::from(target);
    image::check_room(pool.parent().unwrap_or(Path::new("/")), setting.footprint)?;
    let format = FormatOptions::new().size(image.size.unwrap_or(setting.image_size));
    Volume::format(&path, &format).map_err(|e| failed(path.display(), &e))?;
    Ok((path, Some(ImageFile::made(pool))))
}

pub(super) fn failed(what: impl ToString, error: &ondol::Error) -> BenchError {
    BenchError::Io { what: what.to_string(), source: io::Error::other(error.to_string()) }
}
