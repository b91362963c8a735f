//! A volume in this process, by its inode-level calls. What the kernel checks before it asks a file system (types,
//! mostly) is checked here, because the volume leaves it to the kernel.

use super::Target;
use super::opened::Opened;
use super::steps::transaction;
use crate::dump::{self, Snapshot};
use crate::image::clock;
use crate::model::Mapping;
use crate::op::{File, Fill, Flags, Op, Path, SetXattr};
use crate::{Fail, Outcome};
use ondol::{Media, OpenOptions, Options, Volume};
use ondol_env::Fixed;
use ondol_env::sync::Arc;
use ondol_volume::{
    Attr, Caller, CopyRange, Device, Exchange, FileType, Ino, ROOT, SetAttr, SetTime, Volume as Inodes,
};
use std::collections::BTreeMap;

/// An open volume and its handles.
pub struct Library {
    /// What it lies on, each time that it is opened.
    media: Box<dyn Fn() -> ondol::Result<Media> + Send>,
    options: Options,
    clock: Arc<Fixed>,
    /// `None` after a failed remount.
    volume: Option<Volume>,
    opened: Opened,
    failure: Option<String>,
}

/// Between two calls, in nanoseconds.
const TICK: u64 = 1_000_000;

impl Library {
    /// Opens the image on `media`.
    ///
    /// # Errors
    /// As [`Volume::open_stepped`].
    pub fn open(media: impl Into<Media>, options: &Options, seed: u64) -> ondol::Result<Self> {
        let media = media.into();
        Self::open_by(move || Ok(media.clone()), options, seed)
    }

    /// Opens the image on what `media` says, which is asked again at each remount.
    ///
    /// # Errors
    /// As [`Library::open`]; those of `media`.
    pub fn open_by(
        media: impl Fn() -> ondol::Result<Media> + Send + 'static,
        options: &Options,
        seed: u64,
    ) -> ondol::Result<Self> {
        let (media, clock) = (Box::new(media), clock(seed));
        let volume = Some(open(media()?, options, &clock)?);
        Ok(Self { media, options: options.clone(), clock, volume, opened: Opened::default(), failure: None })
    }

    /// Bytes that a write may have and still be atomic; 0 after a failed remount.
    pub fn atomic_bytes(&self) -> u64 {
        self.volume.as_ref().map_or(0, |volume| volume.inodes().files().atomic_bytes())
    }

    /// The open volume.
    ///
    /// # Errors
    /// `Io` after a failed remount.
    pub fn volume(&self) -> Result<&Volume, Fail> {
        self.volume.as_ref().ok_or(Fail::Io)
    }

    /// What the last failed call said, in words.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Closes all handles and the volume.
    ///
    /// # Errors
    /// As [`Volume::close`].
    pub fn close(mut self) -> ondol::Result<()> {
        self.release_all()?;
        self.volume.take().map_or(Ok(()), Volume::close)
    }

    fn release_all(&mut self) -> ondol::Result<()> {
        let opened = std::mem::take(&mut self.opened);
        let Some(volume) = &self.volume else { return Ok(()) };
        Ok(opened.handles.into_values().try_for_each(|ino| volume.inodes().inode_ops().release(ino))?)
    }

    fn remount(&mut self) -> ondol::Result<()> {
        self.release_all()?;
        if let Some(volume) = self.volume.take() {
            volume.close()?;
        }
        self.volume = Some(open((self.media)()?, &self.options, &self.clock)?);
        Ok(())
    }

    /// Closes all handles; the volume and its clock, for others to use.
    ///
    /// # Errors
    /// A file that was deleted while it was open cannot be freed, or a remount has failed.
    pub fn into_parts(mut self) -> ondol::Result<(Volume, Arc<Fixed>)> {
        self.release_all()?;
        let gone = ondol_volume::Error::Invalid("the volume could not be mounted again");
        Ok((self.volume.ok_or(gone)?, self.clock))
    }

    fn do_op(&mut self, op: &Op) -> Result<u64, Why> {
        if *op == Op::Remount {
            self.opened.views.check()?;
            self.remount()?;
            return Ok(0);
        }
        let volume = self.volume.as_ref().ok_or(Why::Fail(Fail::Io))?;
        do_op(volume, &self.clock, &mut self.opened, &[], op)
    }
}

/// Does one call of somebody who has `opened` files. What `pins` says of a path is not looked up again.
pub(super) fn do_op(
    volume: &Volume,
    clock: &Fixed,
    opened: &mut Opened,
    pins: &[(Path, Ino)],
    op: &Op,
) -> Result<u64, Why> {
    clock.advance(TICK);
    let Opened { handles, views } = opened;
    let call = Call { volume: volume.inodes(), handles, pins };
    match op {
        Op::Open { handle, path } => {
            let attr = call.openable(&path.clone().into())?;
            call.volume.inode_ops().check_open(attr.ino, attr.file_type == FileType::Regular, false, false)?;
            call.volume.inode_ops().open(attr.ino)?;
            if let Some(old) = handles.insert(*handle, attr.ino) {
                volume.inodes().inode_ops().release(old)?;
            }
        }
        Op::Tmpfile { handle, dir, mode } => {
            let dir = call.find(&dir.clone().into())?.ino;
            let attr = call.volume.names().tmpfile(dir, *mode, Caller::default())?;
            if let Some(old) = handles.insert(*handle, attr.ino) {
                volume.inodes().inode_ops().release(old)?;
            }
        }
        Op::Close { handle } => {
            let ino = handles.remove(handle).ok_or(Why::Fail(Fail::BadHandle))?;
            volume.inodes().inode_ops().release(ino)?;
        }
        Op::Idle { seconds } => {
            clock.advance(seconds.saturating_mul(1_000_000_000));
            volume.step_until_idle()?;
        }
        Op::Read { file, at, len, kept } => {
            let ino = call.readable(file)?.ino;
            return Ok(views.read(call.volume, ino, *at, *len, *kept)?);
        }
        Op::Sync => volume.sync()?,
        Op::Trim => drop(volume.inodes().space().trim(0, u64::MAX, 0)?),
        Op::Scratch { pages } => scratch(volume, *pages)?,
        Op::BringHome => drop(volume.checkpoint()?),
        Op::Checkpoint => {}
        Op::Transaction(steps) => transaction(volume, steps)?,
        Op::MapCommit { file, fill, .. } => {
            let ino = call.regular(file, false)?;
            map_commit(volume, ino, &op.stores(), *fill)?;
        }
        Op::Write { .. }
        | Op::WriteBack { .. }
        | Op::Append { .. }
        | Op::Truncate { .. }
        | Op::Fallocate { .. }
        | Op::Copy { .. }
        | Op::Exchange { .. } => return call.change_bytes(op),
        Op::Fsync { .. }
        | Op::SetXattr { .. }
        | Op::RemoveXattr { .. }
        | Op::SetAcl { .. }
        | Op::Chattr { .. }
        | Op::Chmod { .. }
        | Op::Chown { .. }
        | Op::Utimens { .. } => call.change_attributes(op)?,
        _ => call.change_names(op)?,
    }
    Ok(0)
}

/// Stores to a map of what it takes of a file, and commits.
fn map_commit(volume: &Volume, ino: Ino, stores: &[(u64, u64)], fill: Fill) -> Result<(), Why> {
    let ends = stores.iter().map(|(at, len)| at.saturating_add(*len));
    let first = stores.first().map_or(0, |(at, _)| at / PAGE * PAGE);
    let file = OpenOptions::new().read(true).write(true).reopen(volume, ino)?;
    let mut map = file.map_mut_range(first..ends.max().unwrap_or(first))?;
    for (at, len) in stores {
        map.store((at - first) as usize, &fill.bytes(*at, *len))?;
    }
    Ok(map.commit()?)
}

/// Memory that is had for a moment, if there is so much.
fn scratch(volume: &Volume, pages: u64) -> Result<(), Why> {
    match volume.scratch(pages.saturating_mul(PAGE)) {
        Ok(mut memory) => memory.fill(0xA5),
        // Simulated pools cannot be mapped a second time; which pages it takes is seen all the same.
        Err(e) if matches!(Fail::from(&e), Fail::NoSpace | Fail::Unsupported) => {}
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

/// Where a map may begin, bytes.
const PAGE: u64 = 4096;

fn open(media: Media, options: &Options, clock: &Arc<Fixed>) -> ondol::Result<Volume> {
    let mut volume = Volume::open_stepped(media, options, clock.clone())?;
    volume.act_as(Caller::default());
    Ok(volume)
}

/// A failure: the volume's own, or one of the checks made here.
pub(super) enum Why {
    Volume(ondol::Error),
    Fail(Fail),
}

impl From<&Why> for Fail {
    fn from(why: &Why) -> Self {
        match why {
            Why::Volume(e) => Self::from(e),
            Why::Fail(fail) => *fail,
        }
    }
}

impl Why {
    /// Its class; what the volume said is left in `failure`.
    pub(super) fn noted(&self, failure: &mut Option<String>) -> Fail {
        if let Self::Volume(e) = self {
            *failure = Some(e.to_string());
        }
        Fail::from(self)
    }
}

impl From<ondol::Error> for Why {
    fn from(e: ondol::Error) -> Self {
        Self::Volume(e)
    }
}

impl From<ondol_volume::Error> for Why {
    fn from(e: ondol_volume::Error) -> Self {
        Self::Volume(e.into())
    }
}

/// The attribute that holds an ACL.
pub(super) fn acl_name(default: bool) -> &'static str {
    if default { "system.posix_acl_default" } else { "system.posix_acl_access" }
}

/// One call on a volume.
struct Call<'a> {
    volume: &'a Inodes,
    handles: &'a BTreeMap<u8, Ino>,
    pins: &'a [(Path, Ino)],
}

/// The inode that `path` names.
pub(super) fn walk(volume: &Inodes, path: &Path) -> Result<Ino, Why> {
    Ok(path.components().try_fold(ROOT, |dir, name| volume.names().lookup(dir, name.as_bytes()).map(|a| a.ino))?)
}

impl Call<'_> {
    fn walk(&self, path: &Path) -> Result<Ino, Why> {
        match self.pins.iter().find(|(pinned, _)| pinned == path) {
            Some((_, ino)) => Ok(*ino),
            None => walk(self.volume, path),
        }
    }

    fn parent<'p>(&self, path: &'p Path) -> Result<(Ino, &'p [u8]), Why> {
        let (dir, name) = path.split().ok_or(Why::Fail(Fail::Busy))?;
        let dir = self.walk(&dir)?;
        if self.volume.getattr(dir)?.file_type != FileType::Directory {
            return Err(Why::Fail(Fail::NotDirectory));
        }
        Ok((dir, name.as_bytes()))
    }

    fn find(&self, file: &File) -> Result<Attr, Why> {
        let ino = match file {
            File::Path(path) => self.walk(path)?,
            File::Handle(handle) => *self.handles.get(handle).ok_or(Why::Fail(Fail::BadHandle))?,
        };
        Ok(self.volume.getattr(ino)?)
    }

    fn openable(&self, file: &File) -> Result<Attr, Why> {
        let attr = self.find(file)?;
        match attr.file_type {
            FileType::Regular | FileType::Directory => Ok(attr),
            FileType::Symlink => Err(Why::Fail(Fail::Symlink)),
            _ => Err(Why::Fail(Fail::Invalid)),
        }
    }

    /// A regular file.
    fn readable(&self, file: &File) -> Result<Attr, Why> {
        let attr = self.openable(file)?;
        if attr.file_type == FileType::Directory { Err(Why::Fail(Fail::IsDirectory)) } else { Ok(attr) }
    }

    /// A regular file, opened for writing if it is not open yet.
    fn regular(&self, file: &File, append: bool) -> Result<Ino, Why> {
        let attr = self.readable(file)?;
        if file.is_path() {
            self.volume.inode_ops().check_open(attr.ino, true, append, false)?;
        }
        Ok(attr.ino)
    }

    fn change_names(&self, op: &Op) -> Result<(), Why> {
        let (volume, caller) = (self.volume, Caller::default());
        match op {
            Op::Create { path, mode } => {
                let (dir, name) = self.parent(path)?;
                volume.names().create(dir, name, *mode, caller)?;
            }
            Op::Mkdir { path, mode } => {
                let (dir, name) = self.parent(path)?;
                volume.names().mkdir(dir, name, *mode, caller)?;
            }
            Op::Mkfifo { path, mode } => {
                let (dir, name) = self.parent(path)?;
                volume.names().mknod(dir, name, FileType::Fifo.mode_bits() | mode, Device::default(), caller)?;
            }
            Op::Symlink { path, target } => {
                let (dir, name) = self.parent(path)?;
                volume.names().symlink(dir, name, target.as_bytes(), caller)?;
            }
            Op::Link { from, to } => {
                let source = self.find(from)?;
                let (dir, name) = self.parent(to)?;
                volume.names().link(source.ino, dir, name)?;
            }
            Op::Unlink { path } => {
                let (dir, name) = self.parent(path)?;
                volume.names().unlink(dir, name)?;
            }
            Op::Rmdir { path } => {
                let (dir, name) = self.parent(path)?;
                volume.names().rmdir(dir, name)?;
            }
            Op::Rename { from, to, how } => {
                let (from_dir, from_name) = self.parent(from)?;
                let (to_dir, to_name) = self.parent(to)?;
                volume.names().lookup(from_dir, from_name)?;
                volume.names().rename(from_dir, from_name, to_dir, to_name, *how)?;
            }
            _ => return Err(Why::Fail(Fail::Unsupported)),
        }
        Ok(())
    }

    fn change_bytes(&self, op: &Op) -> Result<u64, Why> {
        let volume = self.volume;
        match op {
            Op::Write { file, at, len, fill } => {
                let ino = self.regular(file, false)?;
                Ok(volume.files().write(ino, *at, &fill.bytes(*at, *len))? as u64)
            }
            Op::WriteBack { file, at, len, fill } => {
                let ino = self.regular(file, false)?;
                Ok(volume.files().write_back(ino, *at, &fill.bytes(*at, *len))? as u64)
            }
            Op::Append { file, len, fill } => {
                let ino = self.regular(file, true)?;
                let end = volume.getattr(ino)?.size;
                let at = volume.files().append(ino, &fill.bytes(end, *len))?;
                // Somebody else's append in between would have moved it.
                if at == end { Ok(*len) } else { Err(Why::Fail(Fail::Io)) }
            }
            Op::Truncate { file, size } => {
                let ino = self.regular(file, false)?;
                volume.inode_ops().setattr(ino, &SetAttr { size: Some(*size), ..SetAttr::default() })?;
                Ok(0)
            }
            Op::Fallocate { file, how, at, len } => {
                let ino = self.regular(file, false)?;
                if *len == 0 {
                    return Err(Why::Fail(Fail::Invalid));
                }
                volume.files().fallocate(ino, *how, *at, *len)?;
                Ok(0)
            }
            Op::Copy { from, at, to, to_at, len } => {
                let (from, to) = (self.regular(from, false)?, self.regular(to, false)?);
                // A copy within a file makes it longer.
                let len = volume.getattr(from)?.size.saturating_sub(*at).min(*len);
                let mut done = 0;
                loop {
                    let range = CopyRange { from: at + done, to: to_at + done, len: len - done };
                    match volume.ranges().copy_range(from, to, range, false) {
                        Ok(0) => return Ok(done),
                        Ok(n) => done += n,
                        Err(_) if done > 0 => return Ok(done),
                        Err(e) => return Err(e.into()),
                    }
                }
            }
            Op::Exchange { file, at, other, other_at, len } => {
                let (one, two) = (self.regular(file, false)?, self.regular(other, false)?);
                let how = Exchange { len: *len, ..Exchange::default() };
                volume.ranges().exchange(one, *at, two, *other_at, &how)?;
                Ok(0)
            }
            _ => Err(Why::Fail(Fail::Unsupported)),
        }
    }

    fn change_attributes(&self, op: &Op) -> Result<(), Why> {
        let volume = self.volume;
        match op {
            Op::Fsync { file, data_only } => volume.fsync(self.openable(file)?.ino, *data_only)?,
            Op::SetXattr { file, name, len, fill, how } => {
                let ino = self.takes_xattr(file, name)?;
                volume.xattrs().setxattr(ino, name.as_bytes(), &fill.bytes(0, *len), *how)?;
            }
            Op::RemoveXattr { file, name } => {
                let ino = self.takes_xattr(file, name)?;
                volume.xattrs().removexattr(ino, name.as_bytes())?;
            }
            Op::SetAcl { file, default, acl } => {
                let name = acl_name(*default).as_bytes();
                let ino = self.find(file)?.ino;
                match acl {
                    Some(acl) => volume.xattrs().setxattr(ino, name, &acl.value(), SetXattr::Any)?,
                    None => volume.xattrs().removexattr(ino, name)?,
                }
            }
            Op::Chattr { file, flags } => {
                let ino = self.openable(file)?.ino;
                let others = volume.inode_ops().flags(ino)? & !Flags::KNOWN;
                volume.inode_ops().set_flags(ino, others | flags.0, u32::MAX)?;
            }
            Op::Chmod { file, mode } => {
                let attr = self.find(file)?;
                if attr.file_type == FileType::Symlink {
                    return Err(Why::Fail(Fail::Unsupported));
                }
                volume.inode_ops().setattr(attr.ino, &SetAttr { perm: Some(*mode), ..SetAttr::default() })?;
            }
            Op::Chown { file, uid, gid } => {
                let set = SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() };
                volume.inode_ops().setattr(self.find(file)?.ino, &set)?;
            }
            Op::Utimens { file, atime, mtime } => {
                let (atime, mtime) = (Some(SetTime::To(*atime)), Some(SetTime::To(*mtime)));
                volume.inode_ops().setattr(self.find(file)?.ino, &SetAttr { atime, mtime, ..SetAttr::default() })?;
            }
            _ => return Err(Why::Fail(Fail::Unsupported)),
        }
        Ok(())
    }

    fn takes_xattr(&self, file: &File, name: &str) -> Result<Ino, Why> {
        let attr = self.find(file)?;
        let plain = matches!(attr.file_type, FileType::Regular | FileType::Directory);
        if name.starts_with("user.") && !plain { Err(Why::Fail(Fail::NotPermitted)) } else { Ok(attr.ino) }
    }
}

impl Target for Library {
    fn apply(&mut self, op: &Op) -> Outcome {
        self.do_op(op).map_err(|why| why.noted(&mut self.failure))
    }

    fn snapshot(&mut self) -> Result<Snapshot, String> {
        self.opened.views.check().map_err(|e| e.to_string())?;
        let volume = self.volume.as_ref().ok_or("the volume is not mounted")?;
        dump::of_volume(volume.inodes()).map_err(|e| e.to_string())
    }

    fn is_roomy(&self) -> bool {
        self.volume
            .as_ref()
            .map(|volume| volume.inodes().statfs())
            .is_some_and(|statfs| statfs.free > statfs.blocks / 2 && statfs.files_free > statfs.files / 2)
    }

    fn mapping(&self) -> Mapping {
        let Some(volume) = &self.volume else { return Mapping::default() };
        let (info, inodes) = (volume.info(), volume.inodes());
        Mapping {
            extents: info.as_ref().is_ok_and(|info| info.features.iter().any(|name| name == "extent")),
            cluster: u64::from(inodes.cluster_size() / inodes.statfs().block_size),
            whole_seconds: info.is_ok_and(|info| info.inode_size == 128),
        }
    }
}
