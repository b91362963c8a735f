//! Requests about open files and what is in them.

use super::inode::has_suid;
use super::pages::{Forget, write_late};
use super::sender::Capability;
use super::{Answer, Op, Ops, Sender};
use ondol::inodes::{Error, Inodes};
use ondol::{CopyRange, Fallocate, Ino, ROOT, Seek, SetAttr};

/// A part of a file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Range {
    fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
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
    /// It comes from the kernel's pages.
    pub(crate) from_pages: bool,
}

/// What is copied.
pub(crate) struct CopyFrom {
    pub(crate) ino: Ino,
    pub(crate) range: Range,
}

/// Where a range is copied to.
pub(crate) struct CopyTo {
    pub(crate) ino: Ino,
    pub(crate) offset: u64,
    /// As for [`Write`].
    pub(crate) opened: bool,
}

/// Bytes in a page of the kernel's.
const PAGE: u64 = 4096;

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
                i.inode_ops().check_open(ino, how.write, how.append, false)?;
            }
            i.inode_ops().open(ino).map(drop)
        })
    }

    /// Counts an opener of a directory.
    pub(crate) fn opendir(&self, ino: Ino) -> Answer<()> {
        self.ask(Op::Opendir, |i| i.inode_ops().open(ino).map(drop))
    }

    /// The end of one `open` or `create`.
    pub(crate) fn release(&self, ino: Ino) -> Answer<()> {
        self.ask(Op::Release, |i| i.inode_ops().release(ino))
    }

    /// The end of one `opendir`.
    pub(crate) fn releasedir(&self, ino: Ino) -> Answer<()> {
        self.ask(Op::Releasedir, |i| i.inode_ops().release(ino))
    }

    /// Reads into `space`, for the kernel's pages; how many bytes, and whether the file is said to have more space from
    /// now on.
    pub(crate) fn read_pages(&self, ino: Ino, offset: u64, space: &mut [u8]) -> Answer<(usize, bool)> {
        self.ask(Op::Read, |i| i.page_cache().read_pages(ino, offset, space))
    }

    /// Writes, after clearing setuid and setgid if the kernel asks for it. `forget` as for [`Ops::settle_end`].
    pub(crate) fn write(&self, ino: Ino, write: &Write<'_>, sender: Sender, forget: &Forget<'_>) -> Answer<Written> {
        self.change(Op::Write, sender, |i| {
            if !write.opened {
                i.inode_ops().check_open(ino, true, false, false)?;
            }
            let mode_changed = write.kill_suid && has_suid(&i.getattr(ino)?);
            if mode_changed {
                i.inode_ops().setattr(ino, &SetAttr { kill_suid: true, ..SetAttr::default() })?;
            }
            let &Write { offset, data, .. } = write;
            if !write.from_pages && !i.collects_writes() {
                // The kernel has the pages of such a write locked, and where it keeps sizes its end may be among them.
                self.settle_end(i, ino, |size| offset / PAGE > size / PAGE, forget);
            }
            let late = i.page_cache().late_in(ino, &(offset..offset.saturating_add(data.len() as u64)));
            let len = write_late(late.filter(|_| write.from_pages), offset, data, |offset, data| {
                if write.keep_times {
                    i.files().write_back(ino, offset, data)
                } else {
                    i.files().write(ino, offset, data)
                }
            })?;
            Ok(Written { len, mode_changed })
        })
    }

    /// Changes the allocation of a range, and clears setuid and setgid unless the sender may keep them; `how` is `None`
    /// for modes that nobody offers. Answers whether the mode changed. `forget` as for [`Ops::settle_end`].
    pub(crate) fn fallocate(
        &self,
        ino: Ino,
        how: Option<Fallocate>,
        range: Range,
        sender: Sender,
        forget: &Forget<'_>,
    ) -> Answer<bool> {
        self.change(Op::Fallocate, sender, |i| {
            let how = how.ok_or_else(|| Error::Unsupported("this mode of fallocate".into()))?;
            if matches!(how, Fallocate::Allocate | Fallocate::ZeroRange) {
                self.settle_end(i, ino, |size| range.end() > size, forget);
            }
            i.files().fallocate(ino, how, range.offset, range.len)?;
            clear_suid(i, ino, sender)
        })
    }

    /// Copies from file to file; how much, and whether the target's mode changed. `forget` as for [`Ops::settle_end`].
    pub(crate) fn copy(
        &self,
        from: &CopyFrom,
        into: &CopyTo,
        sender: Sender,
        forget: &Forget<'_>,
    ) -> Answer<(u64, bool)> {
        let &CopyTo { ino: to, offset: at, opened } = into;
        self.change(Op::CopyFileRange, sender, |i| {
            if !opened {
                i.inode_ops().check_open(to, true, false, false)?;
            }
            self.settle_end(i, to, |size| Range { offset: at, ..from.range }.end() > size, forget);
            let kill_suid = has_suid(&i.getattr(to)?) && !sender.may(Capability::Fsetid);
            let range = CopyRange { from: from.range.offset, to: at, len: from.range.len };
            Ok((i.ranges().copy_range(from.ino, to, range, kill_suid)?, kill_suid))
        })
    }

    /// Finds data or a hole; `what` is `None` for anything else.
    pub(crate) fn seek(&self, ino: Ino, offset: u64, what: Option<Seek>) -> Answer<u64> {
        self.ask(Op::Lseek, |i| {
            i.files().seek_pages(ino, offset, what.ok_or(Error::Invalid("seek knows data and holes"))?)
        })
    }

    /// Makes a file's changes, and every earlier one, durable.
    pub(crate) fn fsync(&self, ino: Ino, data_only: bool) -> Answer<()> {
        self.vouch(Op::Fsync, |i| i.fsync(ino, data_only))
    }

    /// The same for a directory. On the root directory it covers the whole volume under every `fsync=`: that is how
    /// `ondol sync` reaches the server, since the kernel keeps sync(2) from it.
    pub(crate) fn fsyncdir(&self, ino: Ino, data_only: bool) -> Answer<()> {
        self.vouch(Op::Fsyncdir, |i| if ino == ROOT { i.sync() } else { i.fsync(ino, data_only) })
    }

    /// Makes everything durable that was done before.
    pub(crate) fn syncfs(&self) -> Answer<()> {
        self.vouch(Op::Syncfs, Inodes::sync)
    }
}

/// Clears setuid and setgid after a change whose request does not say whether its sender may keep them.
fn clear_suid(inodes: &Inodes, ino: Ino, sender: Sender) -> Result<bool, Error> {
    let kill = has_suid(&inodes.getattr(ino)?) && !sender.may(Capability::Fsetid);
    if kill {
        inodes.inode_ops().setattr(ino, &SetAttr { kill_suid: true, ..SetAttr::default() })?;
    }
    Ok(kill)
}
