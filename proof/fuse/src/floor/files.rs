//! From requests to calls of a file system, and their results back.

use crate::channel::Channel;
use crate::coming::{Coming, Serve};
use crate::dispatch::answer::Answering;
use crate::flags::TTL;
use crate::ops::{Answer, Carrier, Counters, Errno as Number, Op};
use crate::options::Shown;
use crate::proto::reply::{self, Listing};
use crate::proto::wire::{Attr, AttrOut, EntryOut, ReadIn, SetattrIn, StatfsOut, WriteOut};
use crate::proto::{Operation, numbers};
use rustix::io::Errno;
use std::sync::Arc;

/// The root's number.
pub(super) const ROOT: u64 = 1;

/// What the kernel is told of.
pub(super) struct Told {
    /// Its number.
    pub(super) node: u64,
    pub(super) attr: Attr,
}

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct InDir<'a> {
    pub(super) dir: u64,
    pub(super) name: &'a [u8],
}

/// One entry of a listing.
pub(super) struct Listed<'a> {
    pub(super) name: &'a [u8],
    pub(super) ino: u64,
    /// `DT_DIR` and so on.
    pub(super) kind: u32,
    /// What a listing that goes on after it begins with.
    pub(super) next: u64,
}

/// Extended attributes of files, asked as [`Files`] are.
pub(super) trait Attributes: Send + Sync {
    /// With `NOSYS` the kernel never asks again.
    fn getxattr(&self, node: u64, name: &[u8]) -> Answer<Vec<u8>>;
    fn setxattr(&self, node: u64, name: &[u8], value: &[u8], flags: u32) -> Answer<()>;
    fn listxattr(&self, node: u64) -> Answer<Vec<u8>>;
    fn removexattr(&self, node: u64, name: &[u8]) -> Answer<()>;
}

/// A file system, asked by numbers that it has told the kernel.
pub(super) trait Files: Attributes {
    /// Finds a name, and counts it as told.
    fn lookup(&self, dir: u64, name: &[u8]) -> Answer<Told>;
    /// The kernel forgets so many times that it was told.
    fn forget(&self, node: u64, times: u64);
    fn getattr(&self, node: u64) -> Answer<Attr>;
    fn setattr(&self, node: u64, set: &SetattrIn) -> Answer<Attr>;
    /// Makes what a mode says, a directory too, and counts it as told.
    fn make(&self, dir: u64, name: &[u8], mode: u32, rdev: u32) -> Answer<Told>;
    fn symlink(&self, dir: u64, name: &[u8], target: &[u8]) -> Answer<Told>;
    fn readlink(&self, node: u64) -> Answer<Vec<u8>>;
    fn link(&self, node: u64, dir: u64, name: &[u8]) -> Answer<Told>;
    fn remove(&self, dir: u64, name: &[u8], is_dir: bool) -> Answer<()>;
    /// `flags` are those of renameat2(2).
    fn rename(&self, from: InDir<'_>, to: InDir<'_>, flags: u32) -> Answer<()>;
    /// Takes setuid away, and setgid where the group may execute; whether that changed something.
    fn take_suid(&self, node: u64) -> Answer<bool>;
    fn read(&self, node: u64, offset: u64, space: &mut [u8]) -> Answer<usize>;
    fn write(&self, node: u64, offset: u64, data: &[u8]) -> Answer<usize>;
    fn fsync(&self, node: u64, data_only: bool) -> Answer<()>;
    /// Lists from `offset` on until `each` wants no more.
    fn list(&self, dir: u64, offset: u64, each: &mut dyn FnMut(&Listed<'_>) -> bool) -> Answer<()>;
    fn statfs(&self) -> Answer<StatfsOut>;
}

/// Serves a file system.
pub(super) struct Serving {
    pub(super) files: Box<dyn Files>,
    pub(super) counters: Arc<Counters>,
}

impl Serve for Serving {
    fn serve(&self, channel: &dyn Channel, message: Coming<'_>) {
        let Some(request) = message.request(channel) else { return };
        if let Some(op) = counted(&request.operation) {
            self.counters.count(op);
        }
        let answer = Answering { channel, header: &request.header, shown: Shown::default() };
        self.run(&answer, request.header.nodeid, request.operation);
    }

    fn is_carried_by(&self, _carrier: Carrier, _excess: usize) {}
}

impl Serving {
    fn run(&self, answer: &Answering<'_>, at: u64, operation: Operation<'_>) {
        use Operation as O;
        let files = &*self.files;
        match operation {
            O::Forget(times) => files.forget(at, times),
            O::BatchForget(all) => all.for_each(|one| files.forget(one.nodeid, one.nlookup)),
            O::Lookup(name) => match files.lookup(at, name) {
                Err(e) if e == Errno::NOENT.into() => answer.no_such_name(),
                found => told(answer, found),
            },
            O::Getattr => attr(answer, files.getattr(at)),
            O::Setattr(set) => {
                let kill = set.valid & numbers::fattr::KILL_SUIDGID != 0;
                let taken = if kill { files.take_suid(at) } else { Ok(false) };
                attr(answer, taken.and_then(|_| files.setattr(at, &set)));
            }
            O::Mknod(how, name) => told(answer, files.make(at, name, how.mode, how.rdev)),
            O::Mkdir(how, name) => told(answer, files.make(at, name, DIRECTORY | how.mode & 0o7777, 0)),
            O::Symlink { name, target } => told(answer, files.symlink(at, name, target)),
            O::Readlink => answer.with(files.readlink(at), |target| answer.data(target)),
            O::Link { node, name } => told(answer, files.link(node, at, name)),
            O::Unlink(name) => answer.done(files.remove(at, name, false)),
            O::Rmdir(name) => answer.done(files.remove(at, name, true)),
            O::Rename { name, new_dir, new_name, flags } => {
                let to = InDir { dir: new_dir, name: new_name };
                answer.done(files.rename(InDir { dir: at, name }, to, flags));
            }
            O::Read(what) => answer.filled(what.size, &mut |space| files.read(at, what.offset, space)),
            O::Write(how, data) => {
                let kill = how.write_flags & numbers::WRITE_KILL_SUIDGID != 0;
                let taken = if kill { files.take_suid(at) } else { Ok(false) };
                answer.forget_mode(taken == Ok(true), at);
                answer.with(taken.and_then(|_| files.write(at, how.offset, data)), |&n| {
                    answer.body(&WriteOut { size: u32::try_from(n).unwrap_or(u32::MAX), padding: 0 });
                });
            }
            O::Fsync { data_only } | O::Fsyncdir { data_only } => answer.done(files.fsync(at, data_only)),
            O::Readdir(what) => self.list(answer, at, &what, false),
            O::Readdirplus(what) => self.list(answer, at, &what, true),
            O::Statfs => answer.with(files.statfs(), |s| answer.body(s)),
            O::Getxattr { name, size } => answer.xattr(files.getxattr(at, name), size),
            O::Setxattr { name, value, how } => answer.done(files.setxattr(at, name, value, how.flags)),
            O::Listxattr { size } => answer.xattr(files.listxattr(at), size),
            O::Removexattr(name) => answer.done(files.removexattr(at, name)),
            O::Destroy => answer.done(Ok(())),
            O::Init { .. } => answer.error(Errno::IO),
            // OPEN, OPENDIR and CREATE among them, so that the kernel opens without asking and makes files by MKNOD.
            _ => answer.error(Errno::NOSYS),
        }
    }

    fn list(&self, answer: &Answering<'_>, dir: u64, what: &ReadIn, plus: bool) {
        answer.filled(what.size, &mut |space| {
            let mut listing = Listing::new(space);
            self.files.list(dir, what.offset, &mut |e| {
                if !plus {
                    return listing.add(None, e.ino, e.next, e.kind, e.name);
                }
                let itself = e.name == b"." || e.name == b"..";
                let found = if itself { None } else { self.files.lookup(dir, e.name).ok() };
                // Node 0: the kernel takes the name alone.
                let entry = found.as_ref().map_or_else(EntryOut::default, entry);
                let fits = listing.add(Some(&entry), e.ino, e.next, e.kind, e.name);
                if let Some(found) = found.filter(|_| !fits) {
                    self.files.forget(found.node, 1);
                }
                fits
            })?;
            Ok(listing.len())
        });
    }
}

/// The type of a directory in a mode.
pub(super) const DIRECTORY: u32 = 0o040_000;
/// The bits of a mode that say what it is.
pub(super) const TYPE: u32 = 0o170_000;

/// A mode without setuid, and without setgid where the group may execute.
pub(super) fn without_suid(mode: u32) -> u32 {
    const SETUID: u32 = 0o4000;
    const SETGID_AND_EXECUTE: u32 = 0o2010;
    let mode = mode & !SETUID;
    if mode & SETGID_AND_EXECUTE == SETGID_AND_EXECUTE { mode & !0o2000 } else { mode }
}

/// `DT_DIR` and so on from a mode.
pub(super) fn kind(mode: u32) -> u32 {
    (mode & TYPE) >> 12
}

fn entry(told: &Told) -> EntryOut {
    reply::entry(told.node, 0, told.attr, TTL)
}

fn told(answer: &Answering<'_>, result: Answer<Told>) {
    answer.with(result, |told| answer.body(&entry(told)));
}

fn attr(answer: &Answering<'_>, result: Answer<Attr>) {
    answer.with(result, |&attr| answer.body(&AttrOut { attr_valid: TTL, attr, ..AttrOut::default() }));
}

/// `NOSYS` as an answer.
pub(super) fn not_offered<T>() -> Answer<T> {
    Err(Errno::NOSYS.into())
}

/// What the kernel should not know any more.
pub(super) fn stale() -> Number {
    Errno::STALE.into()
}

/// As what a request counts.
fn counted(operation: &Operation<'_>) -> Option<Op> {
    use Operation as O;
    Some(match operation {
        O::Lookup(_) => Op::Lookup,
        O::Forget(_) | O::BatchForget(_) => Op::Forget,
        O::Getattr => Op::Getattr,
        O::Setattr(_) => Op::Setattr,
        O::Mknod(..) => Op::Mknod,
        O::Mkdir(..) => Op::Mkdir,
        O::Symlink { .. } => Op::Symlink,
        O::Readlink => Op::Readlink,
        O::Link { .. } => Op::Link,
        O::Unlink(_) => Op::Unlink,
        O::Rmdir(_) => Op::Rmdir,
        O::Rename { .. } => Op::Rename,
        O::Open(_) => Op::Open,
        O::Create(..) => Op::Create,
        O::Opendir => Op::Opendir,
        O::Read(_) => Op::Read,
        O::Write(..) => Op::Write,
        O::Fsync { .. } => Op::Fsync,
        O::Fsyncdir { .. } => Op::Fsyncdir,
        O::Readdir(_) => Op::Readdir,
        O::Readdirplus(_) => Op::Readdirplus,
        O::Statfs => Op::Statfs,
        O::Statx(_) => Op::Statx,
        O::Getxattr { .. } => Op::Getxattr,
        O::Setxattr { .. } => Op::Setxattr,
        O::Listxattr { .. } => Op::Listxattr,
        O::Removexattr(_) => Op::Removexattr,
        _ => return None,
    })
}
