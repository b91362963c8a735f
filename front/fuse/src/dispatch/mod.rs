//! Turns each request into a call of `ops` and the result into an answer.
//!
//! Nobody but this mount changes the image, so the kernel may keep what it learns: names (also names that do not
//! exist), attributes, pages and directory listings. Inode numbers are ext4's, with 1 and 2 exchanged: FUSE's root is
//! 1. An inode without names lives as long as it is open or the kernel has not forgotten it.

pub(crate) mod answer;
mod exchange;
mod ioctl;
#[cfg(test)]
mod tests;

use crate::channel::Channel;
use crate::coming::{Coming, Serve};
use crate::flags::{DIR, FILE, TTL};
use crate::ops::{
    Carrier, CopyFrom, CopyTo, Listed, ListedPlus, Named, Op, Ops, Range, Sender, SetAttribute, Ticket, UNTOLD, Write,
};
use crate::options::Shown;
use crate::proto::numbers::{self, Init};
use crate::proto::reply::{self, Listing};
use crate::proto::wire::{
    CopyFileRangeIn, CopyFileRangeOut, EntryOut, FallocateIn, LseekOut, OpenIn, ReadIn, SetattrIn, SetxattrIn, WriteIn,
    WriteOut,
};
use crate::proto::{Header, Operation, Request};
use crate::words::{
    appends, attr, decode_device, ino, listed, maker, node, opening, perm, rename_how, seek_what, sender, set_attr,
    statfs, statx, xattr_how,
};
use answer::Answering;
use ondol::{Attr, Ino};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// The attribute that holds a file's access control list.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// The most that an answer to COPY_FILE_RANGE can tell, in whole pages.
const NARROW: u64 = 0xFFFF_F000;

/// Serves the requests of one mount.
pub(crate) struct Dispatch {
    ops: Arc<Ops>,
    terms: Terms,
}

/// On what terms requests are served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What kernel and server agreed on at the start.
    pub(crate) agreed: Init,
    /// The only user besides root, under `allow_root`.
    pub(crate) only: Option<u32>,
    /// Files are opened and closed by requests. Without them an inode lives until the kernel forgets it, and what flags
    /// forbid is refused when it is written to.
    pub(crate) opens: bool,
    /// What is shown of files in the place of what the image says.
    pub(crate) shown: Shown,
    /// The volume's own blocks count, too.
    pub(crate) minixdf: bool,
    /// While a request waits for the kernel, which waits for another request, there is somebody to serve that one.
    pub(crate) others_serve: bool,
}

impl Serve for Dispatch {
    fn serve(&self, channel: &dyn Channel, message: Coming<'_>) {
        let Some(request) = message.request(channel) else { return };
        let answer = Answering { channel, header: &request.header, shown: self.terms.shown };
        if self.lets_in(&request) {
            self.run(&answer, &request.header, request.operation);
        } else {
            answer.error(Errno::ACCESS);
        }
    }

    fn is_carried_by(&self, carrier: Carrier, excess: usize) {
        self.ops.is_carried_by(carrier, excess);
    }
}

impl Dispatch {
    pub(crate) fn new(ops: Arc<Ops>, terms: Terms) -> Self {
        if terms.agreed.contains(Init::WRITEBACK_CACHE) {
            ops.writes_are_collected();
        }
        Self { ops, terms }
    }

    /// The kernel keeps out everybody but the mounting user and those of `allow_other`, which `allow_root` needs too.
    /// What it sends on its own account bears no user.
    fn lets_in(&self, request: &Request<'_>) -> bool {
        use Operation as O;
        let uid = request.header.uid;
        self.terms.only.is_none_or(|only| uid == only || uid == 0)
            || matches!(
                request.operation,
                O::Destroy
                    | O::Interrupt
                    | O::Forget(_)
                    | O::BatchForget(_)
                    | O::Read(_)
                    | O::Write(..)
                    | O::Readdir(_)
                    | O::Readdirplus(_)
                    | O::Fsync { .. }
                    | O::Fsyncdir { .. }
                    | O::Release
                    | O::Releasedir
                    | O::Syncfs
            )
    }

    fn run(&self, answer: &Answering<'_>, header: &Header, operation: Operation<'_>) {
        use Operation as O;
        let (ops, at, from) = (&*self.ops, ino(header.nodeid), sender(header));
        match operation {
            O::Forget(times) => ops.forget(std::iter::once((at, times))),
            O::BatchForget(all) => ops.forget(all.map(|one| (ino(one.nodeid), one.nlookup))),
            O::Getattr => answer.attr(ops.getattr(Op::Getattr, at)),
            O::Statx(_) => answer.with(ops.getattr(Op::Statx, at), |a| answer.body(&statx(&answer.shown.of(a), TTL))),
            O::Setattr(set) => self.setattr(answer, header, &set),
            O::Readlink => answer.with(ops.readlink(at), |target| answer.data(target)),
            // After this answer the kernel opens without asking. A file is made by MKNOD then, and there is no RELEASE.
            O::Open(_) | O::Opendir | O::Create(..) if !self.terms.opens => answer.error(Errno::NOSYS),
            O::Open(how) => self.open(answer, header, &how),
            O::Opendir => answer.with(ops.opendir(at), |()| answer.opened(DIR)),
            O::Read(what) => self.read(answer, header, &what),
            O::Write(how, data) => self.write(answer, header, &how, data),
            O::Statfs => answer.with(ops.statfs(), |s| answer.body(&statfs(s, self.terms.minixdf))),
            O::Release => answer.done(ops.release(at)),
            O::Releasedir => answer.done(ops.releasedir(at)),
            O::Fsync { data_only } => answer.done(ops.fsync(at, data_only)),
            O::Fsyncdir { data_only } => answer.done(ops.fsyncdir(at, data_only)),
            O::Syncfs => answer.done(ops.syncfs()),
            O::Setxattr { name, value, how } => self.setxattr(answer, header, name, value, &how),
            O::Getxattr { name, size } => {
                let exchange = exchange::ask(ops, &self.terms, header, name);
                answer.xattr(exchange.unwrap_or_else(|| ops.getxattr(at, name, from)), size);
            }
            O::Listxattr { size } => answer.xattr(ops.listxattr(at, from), size),
            O::Removexattr(name) => {
                let removed = ops.removexattr(at, name, from);
                self.access_changed(answer, header, name);
                answer.done(removed);
            }
            O::Readdir(what) => self.readdir(answer, header, &what),
            O::Readdirplus(what) => self.readdirplus(answer, header, &what),
            O::Ioctl(how, data) => ioctl::serve(ops, &self.terms, answer, &how, data),
            O::Fallocate(what) => self.fallocate(answer, header, &what),
            O::CopyFileRange { what, wide } => self.copy(answer, header, &what, wide),
            // Without it the kernel takes all of a file for data: here it has some that nobody has heard of.
            O::Lseek(_) if self.terms.agreed.contains(Init::WRITEBACK_CACHE) => answer.error(Errno::NOSYS),
            O::Lseek(what) => {
                let found = ops.seek(at, what.offset, seek_what(what.whence));
                answer.with(found, |offset| answer.body(&LseekOut { offset: *offset }));
            }
            O::Destroy => answer.done(Ok(())),
            O::Init { .. } => answer.error(Errno::IO),
            // With this answer the kernel goes without: closing makes nothing durable, permissions are the kernel's to
            // check, locks are its own, and no request waits for anything that an interruption could shorten.
            O::Interrupt | O::Other => answer.error(Errno::NOSYS),
            named => self.run_named(answer, header, named),
        }
    }

    /// Requests about names.
    fn run_named(&self, answer: &Answering<'_>, header: &Header, operation: Operation<'_>) {
        use Operation as O;
        let (names, at, from) = (self.ops.names(), ino(header.nodeid), self.maker(header, 0));
        if makes_inode(&operation) && (header.uid == UNTOLD || header.gid == UNTOLD) {
            return answer.error(Errno::OVERFLOW);
        }
        match operation {
            O::Lookup(name) => match names.lookup(at, name) {
                Ok(None) => answer.no_such_name(),
                Ok(Some(a)) => answer.entry(Ok(a)),
                Err(e) => answer.entry(Err(e)),
            },
            O::Symlink { name, target } => answer.entry(names.symlink(at, name, target, from)),
            O::Mknod(how, name) => {
                answer.entry(names.mknod(
                    at,
                    name,
                    how.mode as u16,
                    decode_device(how.rdev),
                    self.maker(header, how.umask),
                ));
            }
            O::Mkdir(how, name) => answer.entry(names.mkdir(at, name, perm(how.mode), self.maker(header, how.umask))),
            O::Create(how, name) => {
                answer.created(names.create(at, name, perm(how.mode), self.maker(header, how.umask)), FILE);
            }
            O::Tmpfile(how) => {
                answer.created(names.tmpfile(at, perm(how.mode), self.maker(header, how.umask)), FILE);
            }
            O::Unlink(name) => answer.done(names.unlink(at, name, from)),
            O::Rmdir(name) => answer.done(names.rmdir(at, name, from)),
            O::Rename { name, new_dir, new_name, flags } => {
                let (old, new) = (Named { dir: at, name }, Named { dir: ino(new_dir), name: new_name });
                answer.done(names.rename(old, new, rename_how(flags, from), from));
            }
            O::Link { node, name } => answer.entry(names.link(ino(node), at, name, from)),
            _ => answer.error(Errno::NOSYS),
        }
    }

    /// The sender of a request about names, some of which make inodes.
    fn maker(&self, header: &Header, umask: u32) -> Sender {
        maker(header, umask, self.terms.agreed.contains(Init::ALLOW_IDMAP))
    }

    fn setattr(&self, answer: &Answering<'_>, header: &Header, set: &SetattrIn) {
        answer.attr(self.ops.setattr(ino(header.nodeid), set_attr(set), sender(header)));
    }

    fn open(&self, answer: &Answering<'_>, header: &Header, how: &OpenIn) {
        answer.with(self.ops.open(ino(header.nodeid), opening(how)), |()| answer.opened(FILE));
    }

    fn read(&self, answer: &Answering<'_>, header: &Header, what: &ReadIn) {
        answer.filled(what.size, &mut |space| {
            self.ops.read_pages(ino(header.nodeid), what.offset, space).map(|(n, grows)| {
                // It keeps what it was told of the space.
                answer.forget_mode(grows, header.nodeid);
                n
            })
        });
    }

    fn write(&self, answer: &Answering<'_>, header: &Header, how: &WriteIn, data: &[u8]) {
        let kill_suid = how.write_flags & numbers::WRITE_KILL_SUIDGID != 0;
        // With the writeback cache the kernel keeps the times, and tells them by SETATTR, before or after the bytes.
        let keep_times =
            how.write_flags & numbers::WRITE_CACHE != 0 && self.terms.agreed.contains(Init::WRITEBACK_CACHE);
        let from_pages = how.write_flags & numbers::WRITE_CACHE != 0;
        let appends = !from_pages && appends(how.flags);
        let opened = self.terms.opens || appends;
        let write = Write { offset: how.offset, data, kill_suid, keep_times, opened, from_pages };
        let forget = |ino, bytes| self.forget(answer, ino, bytes);
        let written = self.ops.write(ino(header.nodeid), &write, sender(header), &forget);
        // A write that fails may have cleared them before.
        answer.forget_mode(written.as_ref().map_or(kill_suid, |written| written.mode_changed), header.nodeid);
        answer.with(written, |written| {
            answer.body(&WriteOut { size: u32::try_from(written.len).unwrap_or(u32::MAX), padding: 0 });
        });
    }

    fn fallocate(&self, answer: &Answering<'_>, header: &Header, what: &FallocateIn) {
        if let Some(ticket) = Ticket::of(what.mode, what.offset, what.length) {
            return exchange::present(&self.ops, answer, header, ticket);
        }
        let (at, how) = (ino(header.nodeid), ondol::Fallocate::of_flags(what.mode));
        let range = Range { offset: what.offset, len: what.length };
        let forget = |ino, bytes| self.forget(answer, ino, bytes);
        answer.with(self.ops.fallocate(at, how, range, sender(header), &forget), |mode_changed| {
            answer.forget_mode(*mode_changed, header.nodeid);
            answer.data(&[]);
        });
    }

    /// Has the kernel write and forget pages, if somebody can serve it meanwhile.
    fn forget(&self, answer: &Answering<'_>, ino: Ino, bytes: std::ops::Range<u64>) -> io::Result<()> {
        match self.terms.others_serve {
            true => answer.channel.forget_some(node(ino), bytes),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn copy(&self, answer: &Answering<'_>, header: &Header, what: &CopyFileRangeIn, wide: bool) {
        if what.flags != 0 {
            return answer.error(Errno::INVAL);
        }
        let most = if wide { u64::MAX } else { NARROW };
        let range = Range { offset: what.off_in, len: what.len.min(most) };
        let from = CopyFrom { ino: ino(header.nodeid), range };
        let into = CopyTo { ino: ino(what.nodeid_out), offset: what.off_out, opened: self.terms.opens };
        let copied = self.ops.copy(&from, &into, sender(header), &|ino, bytes| self.forget(answer, ino, bytes));
        answer.forget_mode(copied.is_ok_and(|(_, changed)| changed) || copied.is_err(), what.nodeid_out);
        answer.with(copied, |&(bytes_copied, _)| match u32::try_from(bytes_copied) {
            Ok(size) if !wide => answer.body(&WriteOut { size, padding: 0 }),
            _ => answer.body(&CopyFileRangeOut { bytes_copied }),
        });
    }

    fn setxattr(&self, answer: &Answering<'_>, header: &Header, name: &[u8], value: &[u8], how: &SetxattrIn) {
        let kill_sgid = how.setxattr_flags & numbers::SETXATTR_ACL_KILL_SGID != 0;
        let set = SetAttribute { name, value, how: xattr_how(how.flags), kill_sgid };
        let set = self.ops.setxattr(ino(header.nodeid), &set, sender(header));
        self.access_changed(answer, header, name);
        answer.done(set);
    }

    /// Has the kernel ask for the mode again where it does not know that an access control list is a mode, too.
    fn access_changed(&self, answer: &Answering<'_>, header: &Header, name: &[u8]) {
        answer.forget_mode(name == ACCESS_LIST && !self.terms.agreed.contains(Init::POSIX_ACL), header.nodeid);
    }

    fn readdir(&self, answer: &Answering<'_>, header: &Header, what: &ReadIn) {
        answer.filled(what.size, &mut |space| {
            let mut listing = Listing::new(space);
            self.ops.names().readdir(ino(header.nodeid), what.offset, &mut |e: Listed<'_>| {
                listing.add(None, e.ino.into(), e.next, listed(e.file_type), e.name)
            })?;
            Ok(listing.len())
        });
    }

    fn readdirplus(&self, answer: &Answering<'_>, header: &Header, what: &ReadIn) {
        answer.filled(what.size, &mut |space| {
            let mut listing = Listing::new(space);
            self.ops.names().readdirplus(ino(header.nodeid), what.offset, &mut |e: ListedPlus<'_>| {
                let Listed { ino, file_type, name, next } = e.entry;
                // Node 0: the kernel takes the name alone.
                let told = |a: Attr| reply::entry(node(ino), a.generation, attr(&answer.shown.of(&a)), TTL);
                let entry = e.attr.map_or_else(EntryOut::default, told);
                listing.add(Some(&entry), ino.into(), next, listed(file_type), name)
            })?;
            Ok(listing.len())
        });
    }
}

/// Whether a request makes an inode of its sender's.
fn makes_inode(operation: &Operation<'_>) -> bool {
    use Operation as O;
    const WHITEOUT: u32 = 4;
    match operation {
        O::Symlink { .. } | O::Mknod(..) | O::Mkdir(..) | O::Create(..) | O::Tmpfile(_) => true,
        O::Rename { flags, .. } => flags & WHITEOUT != 0,
        _ => false,
    }
}
