//! The volume: `std::fs` over an image.

use crate::background;
use crate::compose::{self, Composed};
use crate::file::{File, OpenOptions};
use crate::media::Media;
use crate::mounted::{Doors, Mounted};
use crate::path::{Follow, at, resolve, resolve_parent};
use crate::{Open, Options, RecoverReport, Result};
use ondol_env::sync::Arc;
use ondol_env::{Background, Env};
use ondol_journal::JournalError;
use ondol_volume::{Caller, Error as VolumeError, Exchange, Rename, StatFs, Volume as Inodes};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// An opened ext4 image. Share it between threads by reference or `Arc`; all calls take `&self`. What is opened of it
/// (files, listings, views, maps, memory) does not borrow it: it can go to other threads and live beside its volume in
/// a struct, and keeps it mounted.
///
/// Paths are paths inside the volume; relative ones start at its root. New files belong to the process's own user and
/// group. Nothing checks permissions: who can open the image can do everything in it.
///
/// Dropping a volume, or the last of what is open of it if that comes later, closes it and logs an error where
/// [`Volume::close`] would return it. The exception are volumes of [`Volume::open_stepped`].
pub struct Volume {
    pub(crate) doors: Doors,
    pub(crate) caller: Caller,
}

impl Volume {
    /// Opens the image or block device at `path` for reading and writing, replaying its journal first if need be.
    ///
    /// # Errors
    /// The image is in use, not ext4, corrupt, or needs a feature that is not known (named).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::default())
    }

    /// As [`Volume::open`], with mount options.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let composed = compose::open(path.as_ref(), options)?;
        Ok(Self::new(background::start(composed.steps()), composed, true))
    }

    /// As [`Volume::open_with`], over any block stores and with any clock: for tests and simulators.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_media(media: impl Into<Media>, options: &Options, env: Arc<dyn Env>) -> Result<Self> {
        let composed = compose::open_media(media.into(), options, env)?;
        Ok(Self::new(background::start(composed.steps()), composed, true))
    }

    /// As [`Volume::open_media`], without threads: background work (commits by time, checkpoints) happens in
    /// [`Volume::step_until_idle`] and where operations cannot do without. Dropping such a volume writes nothing, as if
    /// power had failed: only [`Volume::close`] closes it.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_stepped(media: impl Into<Media>, options: &Options, env: Arc<dyn Env>) -> Result<Self> {
        let composed = compose::open_media(media.into(), options, env)?;
        Ok(Self::new(Background::default(), composed, false))
    }

    fn new(background: Background<JournalError>, composed: Composed, closes: bool) -> Self {
        let caller = Caller::new(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { doors: Doors::new(Mounted::new(background, composed, closes)), caller }
    }

    /// Runs all background work that is due by the volume's clock, until nothing is left to do.
    ///
    /// # Errors
    /// The first failure of a step.
    pub fn step_until_idle(&self) -> Result<()> {
        self.usable()?;
        background::run_until_idle(&self.doors.composed().steps())
    }

    /// Brings the oldest of what is committed home, as the background does when the journal is crowded, and commits
    /// nothing: what is not durable stays so. False: nothing could go home, now. Durable when this returns.
    ///
    /// # Errors
    /// The journal's or the store's failure; nothing that was durable is lost.
    pub fn checkpoint(&self) -> Result<bool> {
        self.usable()?;
        Ok(self.doors.composed().engine.checkpoint()?)
    }

    /// What opening had to recover.
    pub fn recovered(&self) -> RecoverReport {
        RecoverReport::of(self.doors.composed().recovered, self.doors.composed().orphans)
    }

    /// Commits everything, writes it home, marks the image clean and unlocks it. Durable when this returns.
    ///
    /// ```
    /// # use ondol::{Error, FormatOptions, Volume};
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// let log = volume.create("/log")?;
    /// let refused = volume.close().unwrap_err();
    /// assert!(matches!(&refused, Error::StillOpen(open) if open.len() == 1));
    /// assert!(refused.to_string().contains("the file /log"));
    ///
    /// // The file is as good as before, and with it the volume is closed.
    /// log.write_all_at(b"the end", 0)?;
    /// drop(log);
    /// assert_eq!(Volume::open(&image)?.read("/log")?, b"the end");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::StillOpen`](crate::Error::StillOpen) when something of it is open ([`Volume::still_open`]): nothing is
    /// closed then, and whatever is dropped last closes, as if the volume had been dropped. Otherwise the journal's or
    /// the store's failure: the image then still needs recovery, and nothing that was synced is lost.
    pub fn close(self) -> Result<()> {
        self.doors.close()
    }

    /// What of it is open now, and would keep [`Volume::close`] from closing it.
    pub fn still_open(&self) -> Vec<Open> {
        self.doors.open()
    }

    /// As [`Mounted::usable`].
    pub(crate) fn usable(&self) -> Result<&Inodes> {
        self.doors.usable()
    }

    /// The layer below: calls by inode number.
    pub fn inodes(&self) -> &Inodes {
        self.doors.inodes()
    }

    /// Makes everything that has returned so far durable.
    ///
    /// # Errors
    /// The journal's failure: then nothing that was not durable before may be taken as durable.
    pub fn sync(&self) -> Result<()> {
        Ok(self.usable()?.sync()?)
    }

    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.inodes().is_read_only()
    }

    /// Space and inodes.
    pub fn statfs(&self) -> StatFs {
        self.inodes().statfs()
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As open(2).
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for writing, creating it or truncating it.
    ///
    /// # Errors
    /// As open(2).
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(self, path)
    }

    /// Whether the path names something.
    ///
    /// # Errors
    /// Anything but "not found".
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(crate::Error::Path { source: VolumeError::NotFound, .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Moves `from` to `to`, replacing what is there.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_with(from, to, Rename::Replace)
    }

    /// As [`Volume::rename`], with the flags of renameat2(2).
    ///
    /// # Errors
    /// As renameat2(2).
    pub fn rename_with(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, how: Rename) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let (from_dir, from_name) = resolve_parent(self.usable()?, from)?;
        let (to_dir, to_name) = resolve_parent(self.usable()?, to)?;
        at(from, self.act(|inodes| inodes.names().rename(from_dir, from_name, to_dir, to_name, how)))
    }

    /// Exchanges what two files hold, as [`File::exchange`] of both, opened for reading and writing, does: their
    /// contents from `offset` and `other_offset` on.
    ///
    /// A database that changes some of its pages at once puts the new ones into a file of its own, and exchanges what
    /// is written there:
    ///
    /// ```
    /// use ondol::{Exchange, FormatOptions, Volume};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// volume.write("/database", vec![1; 40 * 4096])?;
    ///
    /// let new = volume.create("/new pages")?;
    /// for page in [3, 17, 30] {
    ///     new.write_all_at(&[2; 4096], page * 4096)?;
    /// }
    /// new.set_len(40 * 4096)?;
    /// let changes = Exchange { written_only: true, durable: true, ..Exchange::default() };
    /// volume.exchange("/new pages", 0, "/database", 0, &changes)?;
    ///
    /// // Whatever happens, all three pages are the new ones, or none is. The old ones are in the other file.
    /// assert_eq!(volume.read("/database")?[17 * 4096], 2);
    /// assert_eq!(volume.read("/new pages")?[17 * 4096], 1);
    /// # drop(new);
    /// # volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As open(2) and [`File::exchange`].
    pub fn exchange(
        &self,
        one: impl AsRef<Path>,
        offset: u64,
        other: impl AsRef<Path>,
        other_offset: u64,
        how: &Exchange,
    ) -> Result<()> {
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(self, path);
        open(one.as_ref())?.exchange(offset, &open(other.as_ref())?, other_offset, how)
    }

    /// Removes a name that is not a directory.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (parent, name) = resolve_parent(self.usable()?, path)?;
        at(path, self.usable()?.names().unlink(parent, name))
    }

    /// Gives the file at `original` a further name.
    ///
    /// # Errors
    /// As link(2).
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (original, link) = (original.as_ref(), link.as_ref());
        let ino = resolve(self.usable()?, original, Follow::No)?.ino;
        let (parent, name) = resolve_parent(self.usable()?, link)?;
        at(link, self.act(|inodes| inodes.names().link(ino, parent, name))).map(|_| ())
    }

    /// Makes a symbolic link at `link` that says `target`.
    ///
    /// # Errors
    /// As symlink(2).
    pub fn symlink(&self, target: impl AsRef<OsStr>, link: impl AsRef<Path>) -> Result<()> {
        let link = link.as_ref();
        let (parent, name) = resolve_parent(self.usable()?, link)?;
        at(link, self.usable()?.names().symlink(parent, name, target.as_ref().as_bytes(), self.caller)).map(|_| ())
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// As readlink(2).
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        let ino = resolve(self.usable()?, path, Follow::No)?.ino;
        Ok(PathBuf::from(OsString::from_vec(at(path, self.usable()?.names().readlink(ino))?)))
    }

    /// From now on new files belong to `caller` instead of the process's own user and group. Files that are open stay
    /// with whom they were opened for.
    pub fn act_as(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// Does something that may need space, for whom the volume's calls are made.
    pub(crate) fn act<T>(&self, work: impl FnOnce(&Inodes) -> T) -> T {
        self.doors.act(self.caller, work)
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Volume({})", self.doors.composed().store.name())
    }
}
