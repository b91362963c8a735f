//! Why an operation failed, in classes that a model, the library and a mount can agree on.

use rustix::io::Errno;

/// What an operation returns: bytes written by a write, 0 by everything else.
pub type Outcome = Result<u64, Fail>;

/// A class of failure: what remains of an error once wording and origin are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fail {
    /// ENOENT.
    NotFound,
    /// EEXIST.
    Exists,
    /// ENOTDIR.
    NotDirectory,
    /// EISDIR.
    IsDirectory,
    /// ENOTEMPTY.
    NotEmpty,
    /// ENAMETOOLONG.
    NameTooLong,
    /// EINVAL, and what is only wrong because the operation makes no sense for this type of file.
    Invalid,
    /// ELOOP: a symbolic link where the operation does not follow one.
    Symlink,
    /// ENOSPC, EDQUOT: depends on sizes and layouts that the model does not have.
    NoSpace,
    /// EFBIG.
    FileTooBig,
    /// EMLINK.
    TooManyLinks,
    /// EROFS.
    ReadOnly,
    /// EPERM, EACCES.
    NotPermitted,
    /// ENODATA.
    NoAttribute,
    /// EOPNOTSUPP, ENOSYS.
    Unsupported,
    /// E2BIG, ERANGE.
    TooBig,
    /// EBUSY.
    Busy,
    /// EBADF: the handle is not open.
    BadHandle,
    /// EUCLEAN: corruption found.
    Corrupt,
    /// EIO and everything else.
    Io,
}

impl From<Errno> for Fail {
    fn from(e: Errno) -> Self {
        match e {
            Errno::NOENT => Self::NotFound,
            Errno::EXIST => Self::Exists,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::ISDIR => Self::IsDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::INVAL => Self::Invalid,
            Errno::LOOP => Self::Symlink,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            Errno::FBIG => Self::FileTooBig,
            Errno::MLINK => Self::TooManyLinks,
            Errno::ROFS => Self::ReadOnly,
            Errno::PERM | Errno::ACCESS => Self::NotPermitted,
            Errno::NODATA => Self::NoAttribute,
            Errno::OPNOTSUPP | Errno::NOSYS => Self::Unsupported,
            Errno::TOOBIG | Errno::RANGE => Self::TooBig,
            Errno::BUSY => Self::Busy,
            Errno::BADF => Self::BadHandle,
            Errno::UCLEAN => Self::Corrupt,
            _ => Self::Io,
        }
    }
}

impl From<&ondol::Error> for Fail {
    fn from(e: &ondol::Error) -> Self {
        match e {
            ondol::Error::Volume(e) | ondol::Error::Path { source: e, .. } => Self::from(e),
            _ => Self::Io,
        }
    }
}

impl From<&ondol_volume::Error> for Fail {
    fn from(e: &ondol_volume::Error) -> Self {
        use ondol_volume::Error as E;
        match e {
            E::NotFound => Self::NotFound,
            E::Exists => Self::Exists,
            E::NotDirectory(_) => Self::NotDirectory,
            E::IsDirectory(_) => Self::IsDirectory,
            E::NotEmpty(_) => Self::NotEmpty,
            E::NameTooLong => Self::NameTooLong,
            E::Invalid(_) | E::Shorter { .. } => Self::Invalid,
            E::NoSpace(_) => Self::NoSpace,
            E::FileTooBig => Self::FileTooBig,
            E::TooManyLinks(_) => Self::TooManyLinks,
            E::ReadOnly(_) => Self::ReadOnly,
            E::NotPermitted(_) | E::Denied(_) => Self::NotPermitted,
            E::NoAttribute => Self::NoAttribute,
            E::Unsupported(_) => Self::Unsupported,
            E::TooBig { .. } | E::BufferTooSmall | E::ValueTooLong(_) => Self::TooBig,
            E::Corrupt(_) => Self::Corrupt,
            _ => Self::Io,
        }
    }
}
