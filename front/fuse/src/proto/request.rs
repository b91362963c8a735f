//! From the bytes of one message to a typed request.

use super::numbers::opcode;
use super::wire::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, FallocateIn, ForgetIn, ForgetOne, FsyncIn, GetxattrIn, InHeader, InitIn,
    InitInMore, IoctlIn, LinkIn, LseekIn, MkdirIn, MknodIn, OpenIn, ReadIn, Rename2In, RenameIn, SetattrIn, SetxattrIn,
    SetxattrInOld, StatxIn, WriteIn,
};
use zerocopy::FromBytes;

pub(crate) use super::wire::InHeader as Header;

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// Too short for a header, or of another length than the header says: nobody can be answered.
    #[error("no whole message: {0} bytes")]
    Message(usize),
    /// The part after the header is too short or makes no sense.
    #[error("request with opcode {opcode}: {what}")]
    Body {
        /// What the header says.
        opcode: u32,
        /// What is wrong.
        what: &'static str,
    },
}

/// A name in a directory: not empty, without `/` and zero bytes. Only a lookup may ask for `.` and `..`.
pub(crate) type Name<'a> = &'a [u8];

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) header: Header,
    pub(crate) operation: Operation<'a>,
}

/// What is asked. Requests that go to an inode find it in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Init {
        first: InitIn,
        flags2: u32,
    },
    Destroy,
    Interrupt,
    Forget(u64),
    BatchForget(Forgets<'a>),
    Lookup(Name<'a>),
    Getattr,
    Statx(StatxIn),
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: Name<'a>,
        target: &'a [u8],
    },
    Mknod(MknodIn, Name<'a>),
    Mkdir(MkdirIn, Name<'a>),
    Unlink(Name<'a>),
    Rmdir(Name<'a>),
    /// RENAME and RENAME2; `flags` are those of renameat2(2).
    Rename {
        name: Name<'a>,
        new_dir: u64,
        new_name: Name<'a>,
        flags: u32,
    },
    Link {
        node: u64,
        name: Name<'a>,
    },
    Open(OpenIn),
    Create(CreateIn, Name<'a>),
    Tmpfile(CreateIn),
    Read(ReadIn),
    Write(WriteIn, &'a [u8]),
    Statfs,
    Release,
    Fsync {
        data_only: bool,
    },
    Setxattr {
        name: Name<'a>,
        value: &'a [u8],
        how: SetxattrIn,
    },
    Getxattr {
        name: Name<'a>,
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr(Name<'a>),
    Opendir,
    Readdir(ReadIn),
    Readdirplus(ReadIn),
    Releasedir,
    Fsyncdir {
        data_only: bool,
    },
    Ioctl(IoctlIn, &'a [u8]),
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    /// COPY_FILE_RANGE, or COPY_FILE_RANGE_64, whose answer is wider.
    CopyFileRange {
        what: CopyFileRangeIn,
        wide: bool,
    },
    Syncfs,
    /// Anything else: answered with ENOSYS, after which the kernel goes without.
    Other,
}

/// The pairs of a BATCH_FORGET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forgets<'a>(&'a [u8]);

impl Iterator for Forgets<'_> {
    type Item = ForgetOne;

    fn next(&mut self) -> Option<ForgetOne> {
        let (one, rest) = ForgetOne::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(one)
    }
}

impl<'a> Request<'a> {
    /// Reads one message. `setxattr_ext` says whether `SETXATTR_EXT` was agreed on.
    ///
    /// # Errors
    /// Bytes that are no request: with the header if at least that could be read.
    pub(crate) fn parse(bytes: &'a [u8], setxattr_ext: bool) -> Result<Self, (Option<Header>, Malformed)> {
        let short = (None, Malformed::Message(bytes.len()));
        let (header, rest) = InHeader::read_from_prefix(bytes).map_err(|_| short)?;
        if header.len as usize != bytes.len() {
            return Err(short);
        }
        let fail = |what| (Some(header), Malformed::Body { opcode: header.opcode, what });
        // Extensions, which nobody asked for, stand at the end in units of 8 bytes.
        let kept = rest.len().checked_sub(usize::from(header.total_extlen) * 8);
        let body = kept.and_then(|n| rest.get(..n)).ok_or_else(|| fail("extensions longer than the message"))?;
        let operation = operation(header.opcode, Body(body), setxattr_ext).map_err(fail)?;
        Ok(Self { header, operation })
    }
}

type Parsed<T> = Result<T, &'static str>;

fn operation(code: u32, mut body: Body<'_>, setxattr_ext: bool) -> Parsed<Operation<'_>> {
    use Operation as O;
    Ok(match code {
        opcode::INIT => init(&mut body)?,
        opcode::DESTROY => O::Destroy,
        opcode::INTERRUPT => O::Interrupt,
        opcode::FORGET => O::Forget(body.take::<ForgetIn>()?.nlookup),
        opcode::BATCH_FORGET => {
            let count = body.take::<BatchForgetIn>()?.count as usize;
            let bytes = count.checked_mul(size_of::<ForgetOne>()).ok_or("count too large")?;
            O::BatchForget(Forgets(body.bytes(bytes)?))
        }
        opcode::GETATTR => O::Getattr,
        opcode::STATX => O::Statx(body.take()?),
        opcode::SETATTR => O::Setattr(body.take()?),
        opcode::READLINK => O::Readlink,
        opcode::STATFS => O::Statfs,
        opcode::OPENDIR => O::Opendir,
        opcode::RELEASE => O::Release,
        opcode::RELEASEDIR => O::Releasedir,
        opcode::OPEN => O::Open(body.take()?),
        opcode::READ => O::Read(body.take()?),
        opcode::READDIR => O::Readdir(body.take()?),
        opcode::READDIRPLUS => O::Readdirplus(body.take()?),
        opcode::WRITE => {
            let how: WriteIn = body.take()?;
            O::Write(how, body.bytes(how.size as usize)?)
        }
        opcode::FSYNC => O::Fsync { data_only: body.data_only()? },
        opcode::FSYNCDIR => O::Fsyncdir { data_only: body.data_only()? },
        opcode::SYNCFS => O::Syncfs,
        opcode::IOCTL => {
            let how: IoctlIn = body.take()?;
            O::Ioctl(how, body.bytes(how.in_size as usize)?)
        }
        opcode::FALLOCATE => O::Fallocate(body.take()?),
        opcode::LSEEK => O::Lseek(body.take()?),
        opcode::COPY_FILE_RANGE => O::CopyFileRange { what: body.take()?, wide: false },
        opcode::COPY_FILE_RANGE_64 => O::CopyFileRange { what: body.take()?, wide: true },
        opcode::TMPFILE => O::Tmpfile(body.take()?),
        opcode::SETXATTR => {
            let how = body.setxattr(setxattr_ext)?;
            O::Setxattr { name: body.word()?, value: body.bytes(how.size as usize)?, how }
        }
        opcode::GETXATTR => O::Getxattr { size: body.take::<GetxattrIn>()?.size, name: body.word()? },
        opcode::LISTXATTR => O::Listxattr { size: body.take::<GetxattrIn>()?.size },
        opcode::REMOVEXATTR => O::Removexattr(body.word()?),
        _ => return named(code, body),
    })
}

/// Requests about names.
fn named(code: u32, mut body: Body<'_>) -> Parsed<Operation<'_>> {
    use Operation as O;
    Ok(match code {
        opcode::LOOKUP => O::Lookup(body.component()?),
        opcode::SYMLINK => O::Symlink { name: body.name()?, target: body.word()? },
        opcode::MKNOD => O::Mknod(body.take()?, body.name()?),
        opcode::MKDIR => O::Mkdir(body.take()?, body.name()?),
        opcode::UNLINK => O::Unlink(body.name()?),
        opcode::RMDIR => O::Rmdir(body.name()?),
        opcode::RENAME => {
            let new_dir = body.take::<RenameIn>()?.newdir;
            O::Rename { new_dir, flags: 0, name: body.name()?, new_name: body.name()? }
        }
        opcode::RENAME2 => {
            let Rename2In { newdir: new_dir, flags, .. } = body.take()?;
            O::Rename { new_dir, flags, name: body.name()?, new_name: body.name()? }
        }
        opcode::LINK => O::Link { node: body.take::<LinkIn>()?.oldnodeid, name: body.name()? },
        opcode::CREATE => O::Create(body.take()?, body.name()?),
        _ => O::Other,
    })
}

fn init<'a>(body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    let first = body.take()?;
    let flags2 = body.take::<InitInMore>().map_or(0, |more| more.flags2);
    Ok(Operation::Init { first, flags2 })
}

/// What is left of a request.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take<T: FromBytes>(&mut self) -> Parsed<T> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| "too short")?;
        self.0 = rest;
        Ok(value)
    }

    fn bytes(&mut self, n: usize) -> Parsed<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n).ok_or("less data than it says")?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Bytes up to a zero.
    fn word(&mut self) -> Parsed<&'a [u8]> {
        let end = self.0.iter().position(|b| *b == 0).ok_or("text without an end")?;
        let word = self.bytes(end)?;
        self.bytes(1)?;
        Ok(word)
    }

    fn component(&mut self) -> Parsed<Name<'a>> {
        match self.word()? {
            [] => Err("empty name"),
            name if name.contains(&b'/') => Err("slash in a name"),
            name => Ok(name),
        }
    }

    fn name(&mut self) -> Parsed<Name<'a>> {
        match self.component()? {
            b"." | b".." => Err("name . or .."),
            name => Ok(name),
        }
    }

    fn data_only(&mut self) -> Parsed<bool> {
        Ok(self.take::<FsyncIn>()?.fsync_flags & super::numbers::FSYNC_FDATASYNC != 0)
    }

    fn setxattr(&mut self, extended: bool) -> Parsed<SetxattrIn> {
        if extended {
            return self.take();
        }
        let SetxattrInOld { size, flags } = self.take()?;
        Ok(SetxattrIn { size, flags, setxattr_flags: 0, padding: 0 })
    }
}
