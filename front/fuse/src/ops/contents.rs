//! Requests about open files and what is in them.

use super::batches::Collected;
use super::inode::has_suid;
use super::sender::Capability;
use super::{Answer, Op, Ops, Sender};
use ondol::inodes::{Error, Inodes};
use ondol::{Fallocate, Ino, ROOT, Seek, SetAttr};

/// A part of a file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) write: bool,
    pub(crate) append: bool,
}

/// What is to be written.
pub(crate) struct Write<'a> {
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    /// Clear setuid and setgid.
    pub(crate) kill_suid: bool,
    /// The kernel keeps the file's times.
    pub(crate) keep_times: bool,
    /// The descriptor is one that an append-only file may have: it was opened by a request, or appends.
    pub(crate) opened: bool,
    /// The number of the open file; 0 where none may have a batch.
    pub(crate) handle: u64,
    /// It goes to the end of what is stored, whatever `offset` says.
    pub(crate) at_end: bool,
}

/// What is copied.
pub(crate) struct CopyFrom {
    pub(crate) ino: Ino,
    pub(crate) range: Range,
    /// As for [`Write`].
    pub(crate) handle: u64,
}

/// Where a range is copied to.
pub(crate) struct CopyTo {
    pub(crate) ino: Ino,
    pub(crate) offset: u64,
    /// As for [`Write`].
    pub(crate) opened: bool,
    pub(crate) handle: u64,
}

/// Most bytes that are copied at a time where a batch is read or written.
const COPIED: u64 = 1 << 20;

/// What a write did.
pub(crate) struct Written {
    /// Bytes written.
    pub(crate) len: usize,
    /// Setuid or setgid was cleared, of which the kernel does not know yet.
    pub(crate) mode_changed: bool,
}

impl Ops {
    /// Counts an opener of a file, unless the inode's flags are against it.
    pub(crate) fn open(&self, ino: Ino, how: Opening) -> Answer<()> {
        self.ask(Op::Open, |i| {
            if how.write {
                i.check_open(ino, how.write, how.append, false)?;
            }
            i.open(ino).map(drop)
        })
    }

    /// Counts an opener of a directory.
    pub(crate) fn opendir(&self, ino: Ino) -> Answer<()> {
        self.ask(Op::Opendir, |i| i.open(ino).map(drop))
    }

    /// The end of one `open` or `create`.
    pub(crate) fn release(&self, ino: Ino) -> Answer<()> {
        self.ask(Op::Release, |i| i.release(ino))
    }

    /// The end of one `opendir`.
    pub(crate) fn releasedir(&self, ino: Ino) -> Answer<()> {
        self.ask(Op::Releasedir, |i| i.release(ino))
    }

    /// Reads into `space`; how many bytes.
    pub(crate) fn read(&self, ino: Ino, handle: u64, offset: u64, space: &mut [u8]) -> Answer<usize> {
        let batch = self.batches.of(handle);
        self.ask(Op::Read, |i| read_with(i, batch.as_ref(), ino, offset, space))
    }

    /// Writes, after clearing setuid and setgid if the kernel asks for it.
    pub(crate) fn write(&self, ino: Ino, write: &Write<'_>, sender: Sender) -> Answer<Written> {
        self.change(Op::Write, sender, |i| {
            if !write.opened {
                i.check_open(ino, true, false, false)?;
            }
            let mode_changed = write.kill_suid && has_suid(&i.getattr(ino)?);
            if mode_changed {
                i.setattr(ino, &SetAttr { kill_suid: true, ..SetAttr::default() })?;
            }
            let &Write { mut offset, data, handle, .. } = write;
            if let Some(batch) = self.batches.of(handle) {
                if write.at_end {
                    // Where the end is by COMMIT nobody knows.
                    return Err(Error::Invalid("what is appended cannot be part of a batch"));
                }
                if self.batches.write(&batch, offset, data)? {
                    return Ok(Written { len: data.len(), mode_changed });
                }
            }
            // The kernel has one append of a file served at a time; what else makes files longer waits.
            let _ends_stay = write.at_end.then(|| self.ends_stay());
            if write.at_end {
                offset = i.getattr(ino)?.size;
            }
            let len = if write.keep_times { i.write_back(ino, offset, data)? } else { i.write(ino, offset, data)? };
            Ok(Written { len, mode_changed })
        })
    }

    /// Changes the allocation of a range, and clears setuid and setgid unless the sender may keep them; `how` is `None` for modes
    /// that nobody offers. Answers whether the mode changed.
    pub(crate) fn fallocate(&self, ino: Ino, how: Option<Fallocate>, range: Range, sender: Sender) -> Answer<bool> {
        self.change(Op::Fallocate, sender, |i| {
            let how = how.ok_or_else(|| Error::Unsupported("this mode of fallocate".into()))?;
            i.fallocate(ino, how, range.offset, range.len)?;
            clear_suid(i, ino, sender)
        })
    }

    /// Copies from file to file; how much, and whether the target's mode changed. Through an open file that has a batch it reads and writes as READ and WRITE do.
    pub(crate) fn copy(&self, from: &CopyFrom, into: &CopyTo, sender: Sender) -> Answer<(u64, bool)> {
        let &CopyTo { ino: to, offset: at, opened, handle } = into;
        let (source, target) = (self.batches.of(from.handle), self.batches.of(handle));
        self.change(Op::CopyFileRange, sender, |i| {
            if !opened {
                i.check_open(to, true, false, false)?;
            }
            let kill_suid = has_suid(&i.getattr(to)?) && !sender.may(Capability::Fsetid);
            if source.is_none() && target.is_none() {
                let range = from.range;
                return Ok((i.copy_range(from.ino, range.offset, to, at, range.len, kill_suid)?, kill_suid));
            }
            let copied = self.copy_batched(i, (from, source.as_ref()), (into, target.as_ref()))?;
            Ok((copied, clear_suid(i, to, sender)?))
        })
    }

    /// Copies where at least one of the two has a batch, and not all of a long range at once.
    fn copy_batched(
        &self,
        i: &Inodes,
        (from, source): (&CopyFrom, Option<&Collected>),
        (into, target): (&CopyTo, Option<&Collected>),
    ) -> Result<u64, Error> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(from.range.len.min(COPIED) as usize).map_err(|_| Error::NoMemory)?;
        bytes.resize(from.range.len.min(COPIED) as usize, 0);
        let n = read_with(i, source, from.ino, from.range.offset, &mut bytes)?;
        let bytes = bytes.get(..n).unwrap_or(&bytes);
        if let Some(target) = target
            && self.batches.write(target, into.offset, bytes)?
        {
            return Ok(n as u64);
        }
        Ok(i.write(into.ino, into.offset, bytes)? as u64)
    }

    /// Finds data or a hole; `what` is `None` for anything else.
    pub(crate) fn seek(&self, ino: Ino, offset: u64, what: Option<Seek>) -> Answer<u64> {
        self.ask(Op::Lseek, |i| i.seek(ino, offset, what.ok_or(Error::Invalid("seek knows data and holes"))?))
    }

    /// Makes a file's changes, and every earlier one, durable.
    pub(crate) fn fsync(&self, ino: Ino, data_only: bool) -> Answer<()> {
        self.vouch(Op::Fsync, |i| i.fsync(ino, data_only))
    }

    /// The same for a directory. On the root directory it covers the whole volume under every `fsync=`: that is how `ondol
    /// sync` reaches the server, since the kernel keeps sync(2) from it.
    pub(crate) fn fsyncdir(&self, ino: Ino, data_only: bool) -> Answer<()> {
        self.vouch(Op::Fsyncdir, |i| if ino == ROOT { i.sync() } else { i.fsync(ino, data_only) })
    }

    /// Makes everything durable that was done before.
    pub(crate) fn syncfs(&self) -> Answer<()> {
        self.vouch(Op::Syncfs, Inodes::sync)
    }
}

/// Reads through an open file, with the batch that it has.
fn read_with(i: &Inodes, batch: Option<&Collected>, ino: Ino, offset: u64, space: &mut [u8]) -> Result<usize, Error> {
    if let Some(batch) = batch
        && let Some(batch) = &*batch.lock()
    {
        return i.read_with(batch, offset, space);
    }
    i.read(ino, offset, space)
}

/// Clears setuid and setgid after a change whose request does not say whether its sender may keep them.
pub(super) fn clear_suid(inodes: &Inodes, ino: Ino, sender: Sender) -> Result<bool, Error> {
    let kill = has_suid(&inodes.getattr(ino)?) && !sender.may(Capability::Fsetid);
    if kill {
        inodes.setattr(ino, &SetAttr { kill_suid: true, ..SetAttr::default() })?;
    }
    Ok(kill)
}
