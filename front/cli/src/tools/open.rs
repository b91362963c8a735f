//! Opening an image for a command, and telling what fails on it.

use super::args;
use crate::failure::Message;
use crate::failure::{FAILED, Failure};
use crate::image::unopened;
use crate::log;
use crate::options::{located, volume_options};
use crate::passed::source;
use ondol::machine::locks::shown;
use ondol::{Attr, Caller, Error, Volume, inodes};
use ondol_fuse::client;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// An image that is open for one command.
pub(crate) struct Opened {
    pub(crate) volume: Volume,
    /// To whom new files belong.
    caller: Caller,
    /// What it is called in messages.
    name: String,
}

/// What a command does to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Reading,
    Writing,
}

impl Opened {
    /// Opens an image; for reading, nothing is written to it: a journal that is not empty is replayed in memory.
    ///
    /// # Errors
    /// It is mounted, and the message says where; it is in use, or cannot be opened, or cannot be written.
    pub(crate) fn new(image: &args::Image, what_for: For) -> Result<Self, Failure> {
        let (options, part) = volume_options(&image.options, FAILED)?;
        let target = &located(&image.image, part, image.partition).map_err(Failure::with(FAILED))?;
        refuse_mounted(target)?;
        let fail = |e: Error| Failure::new(FAILED, unopened(e, target));
        let volume = match what_for {
            For::Reading => Volume::open_with(target, &options.with_read_only(true)).map_err(fail)?,
            For::Writing if options.read_only() => {
                return Err(Failure::new(FAILED, "option `ro` does not go with a command that writes"));
            }
            For::Writing => Volume::open_with(target, &options).map_err(fail)?,
        };
        let caller = Caller::new(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let opened = Self { volume, caller, name: shown(target) };
        if what_for == For::Writing && opened.volume.is_read_only() {
            let why = "it can only be read: it has no journal, or a feature with which Ondol does not write";
            return Err(Failure::new(FAILED, format!("{}: {why} (`ondol info` shows both)", opened.name)));
        }
        Ok(opened)
    }

    /// From now on new files do not get these permissions.
    pub(crate) fn mask(&mut self, umask: u16) {
        self.caller.umask = umask;
        self.volume.act_as(self.caller);
    }

    /// To whom new files belong, and what they do not get.
    pub(crate) fn caller(&self) -> Caller {
        self.caller
    }

    /// A path in it as messages have it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        format!("{}:{}", self.name, shown(path))
    }

    /// The layer by inode number.
    pub(crate) fn inodes(&self) -> &inodes::Inodes {
        self.volume.inodes()
    }

    /// What lstat(2) would tell.
    ///
    /// # Errors
    /// As lstat(2), in words.
    pub(crate) fn find(&self, path: &Path) -> Result<Attr, String> {
        let found = self.volume.symlink_metadata(path).map_err(|e| self.said(path, &e))?;
        self.inodes().getattr(found.ino()).map_err(|e| self.said_of(path, e))
    }

    /// An error of a path.
    pub(crate) fn said(&self, path: &Path, e: &Error) -> String {
        match e {
            // Its path may be an inode's number.
            Error::Path { source, .. } => format!("{}: {source}", self.shown(path)),
            e => format!("{}: {e}", self.shown(path)),
        }
    }

    /// An error of the layer by inode number.
    pub(crate) fn said_of(&self, path: &Path, source: inodes::Error) -> String {
        self.said(path, &source.into())
    }

    /// An error of reading or writing a file, which names the path.
    pub(crate) fn said_by_file(&self, e: &std::io::Error) -> String {
        format!("{}:{e}", self.name)
    }

    /// Closes it; what was changed is durable then.
    ///
    /// # Errors
    /// Something could not be written.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let Self { volume, name, .. } = self;
        volume.close().map_err(|e| Failure::new(FAILED, format!("{name}: {}", e.said())))
    }
}

/// Refuses an image that is mounted by Ondol, and a directory of a mount, with where its files are.
fn refuse_mounted(image: &Path) -> Result<(), Failure> {
    if let Some(entry) = client::mounted_on(image) {
        let (point, source) = (shown(&entry.point), shown(&entry.source));
        let what = format!("{point} is where {source} is mounted: its files are there for every program");
        return Err(Failure::new(FAILED, what));
    }
    let served = source(image).ok().and_then(|full| client::serving(&full));
    match served {
        Some(entry) => {
            let (image, point) = (shown(image), shown(&entry.point));
            let by = client::server_of(&entry).map_or_else(String::new, |pid| format!(" by process {pid}"));
            let what = format!(
                "{image} is mounted on {point}{by}: work with its files there, or run `ondol umount {point}` first"
            );
            Err(Failure::new(FAILED, what))
        }
        None => Ok(()),
    }
}

/// A path in an image as it was given: from the root on, with or without a colon.
pub(crate) fn inside(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    Path::new("/").join(OsStr::from_bytes(bytes.strip_prefix(b":").unwrap_or(bytes)))
}

/// What failed so far, each told at once.
#[derive(Debug, Default)]
pub(crate) struct Troubles(u8);

impl Troubles {
    /// Tells of one; the exit code is at least this.
    pub(crate) fn tell(&mut self, code: u8, what: impl Message) {
        let failure = Failure::new(code, what);
        log::failure("ondol", &failure.message);
        self.0 = self.0.max(failure.code);
    }

    /// The worst exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.0)
    }
}
