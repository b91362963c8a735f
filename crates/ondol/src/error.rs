//! The facade's errors, and the only place that knows errno.

use crate::{Open, OptionError, Remedy, remedy};
use ondol_block::BlockError;
use ondol_journal::JournalError;
use ondol_medium::{NvmError, PoolError};
use ondol_nvm_log::LogError;
use ondol_page_table::TableError;
use ondol_run_log::RunLogError;
use ondol_volume::Error as VolumeError;
use ondol_write_buffer::BufferError;
use rustix::io::Errno;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The result of a facade operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something about a volume failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The same, for an operation on a path.
    #[error("{path}: {source}")]
    Path {
        /// The path inside the volume.
        path: PathBuf,
        /// What failed.
        source: VolumeError,
    },
    /// A file that was read as text is none.
    #[error("{path}: not UTF-8 text from byte {at} on; read it as bytes")]
    NotText {
        /// The path inside the volume.
        path: PathBuf,
        /// Its first byte that is no text.
        at: usize,
    },
    /// The volume is called while a transaction of it is recorded.
    #[error(
        "the volume is called within the closure of its own transaction: read before, and change by what the closure \
         is given"
    )]
    Recording,
    /// The volume cannot be closed yet.
    #[error("the volume is still in use by {}; it is closed when the last of it is dropped", crate::open::all(.0))]
    StillOpen(Vec<Open>),
    /// A mount option cannot be taken.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Making an image failed.
    #[error("cannot make a file system on {target}: {what}")]
    Format {
        /// The image.
        target: String,
        /// Why.
        what: String,
        /// What helps.
        remedy: Option<Remedy>,
    },
    /// Something would be made over something else.
    #[error("{target} is not empty: it holds {what}")]
    Holds {
        /// The file or device.
        target: String,
        /// What it holds, in words.
        what: String,
        /// What helps, besides making it nevertheless.
        remedy: Option<Remedy>,
    },
    /// NVM failed, or cannot be used.
    #[error(transparent)]
    Nvm(#[from] NvmError),
    /// A pool cannot be used.
    #[error(transparent)]
    Pool(PoolError),
    /// The page table of a pool cannot be used.
    #[error(transparent)]
    Table(Box<TableError>),
    /// The log of running programs in a pool cannot be used.
    #[error(transparent)]
    Run(Box<RunLogError>),
    /// A write buffer failed, or cannot be used.
    #[error(transparent)]
    Buffer(Box<BufferError>),
    /// A volume in object storage cannot be reached, opened, written or snapshotted.
    #[error("{what}")]
    Bucket {
        /// Why, with the volume's name.
        what: String,
        /// The error number that a system call would give.
        errno: i32,
        /// What helps.
        remedy: Option<Remedy>,
    },
    /// The image is in a state in which this cannot be done.
    #[error("{target}: {what}")]
    State {
        /// The image.
        target: String,
        /// What is in the way.
        what: String,
        /// What helps.
        remedy: Option<Remedy>,
    },
}

impl From<BlockError> for Error {
    fn from(e: BlockError) -> Self {
        Self::Volume(e.into())
    }
}

impl From<JournalError> for Error {
    fn from(e: JournalError) -> Self {
        Self::Volume(e.into())
    }
}

impl From<PoolError> for Error {
    fn from(e: PoolError) -> Self {
        match e {
            PoolError::Nvm(e) => Self::Nvm(e),
            e => Self::Pool(e),
        }
    }
}

impl From<TableError> for Error {
    fn from(e: TableError) -> Self {
        match e {
            TableError::Nvm(e) => Self::Nvm(e),
            TableError::Pool(e) => e.into(),
            e => Self::Table(Box::new(e)),
        }
    }
}

impl From<RunLogError> for Error {
    fn from(e: RunLogError) -> Self {
        match e {
            RunLogError::Nvm(e) => Self::Nvm(e),
            RunLogError::Pool(e) => e.into(),
            e => Self::Run(Box::new(e)),
        }
    }
}

impl From<BufferError> for Error {
    fn from(e: BufferError) -> Self {
        match e {
            BufferError::Nvm(e) => Self::Nvm(e),
            BufferError::Pool(e) => (*e).into(),
            e => Self::Buffer(Box::new(e)),
        }
    }
}

impl Error {
    pub(crate) fn state(target: impl Into<String>, what: impl Into<String>) -> Self {
        Self::State { target: target.into(), what: what.into(), remedy: None }
    }

    pub(crate) fn format(target: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Format { target: target.into(), what: what.into(), remedy: None }
    }

    pub(crate) fn holds(target: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Holds { target: target.into(), what: what.into(), remedy: None }
    }

    /// With what helps.
    pub(crate) fn helped(mut self, by: impl Into<Option<Remedy>>) -> Self {
        if let Self::State { remedy, .. } | Self::Format { remedy, .. } | Self::Holds { remedy, .. } = &mut self {
            *remedy = by.into();
        }
        self
    }

    /// The error number that a system call would give for this.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Volume(e) | Self::Path { source: e, .. } => errno_of(e),
            Self::Option(_) | Self::Format { .. } => Errno::INVAL.raw_os_error(),
            Self::Recording => Errno::DEADLK.raw_os_error(),
            Self::StillOpen(_) => Errno::BUSY.raw_os_error(),
            Self::NotText { .. } => Errno::ILSEQ.raw_os_error(),
            Self::Bucket { errno, .. } => *errno,
            Self::Buffer(e) => errno_of_buffer(e).raw_os_error(),
            Self::Nvm(e) => errno_of_nvm(e),
            Self::Pool(PoolError::Attached { .. }) => Errno::BUSY.raw_os_error(),
            Self::Holds { .. } | Self::Pool(PoolError::Holds { .. }) => Errno::EXIST.raw_os_error(),
            Self::Pool(PoolError::Size { .. } | PoolError::Areas { .. } | PoolError::NoFree { .. }) => {
                Errno::NOSPC.raw_os_error()
            }
            Self::Pool(PoolError::NotAPool { .. } | PoolError::Newer { .. }) => Errno::INVAL.raw_os_error(),
            Self::Run(e) if matches!(**e, RunLogError::Small { .. }) => Errno::NOSPC.raw_os_error(),
            Self::Table(e) if matches!(**e, TableError::Small { .. }) => Errno::NOSPC.raw_os_error(),
            Self::Table(e) if matches!(**e, TableError::NoTable { .. } | TableError::Newer { .. }) => {
                Errno::INVAL.raw_os_error()
            }
            Self::Pool(_) | Self::Table(_) | Self::Run(_) | Self::State { .. } => Errno::UCLEAN.raw_os_error(),
        }
    }
}

impl Error {
    /// What helps, if one step does.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Volume(e) | Self::Path { source: e, .. } => remedy::of_volume(e),
            Self::State { remedy, .. }
            | Self::Format { remedy, .. }
            | Self::Holds { remedy, .. }
            | Self::Bucket { remedy, .. } => remedy.clone(),
            Self::Pool(e) => remedy::of_pool(e),
            Self::Table(e) => remedy::of_table(e),
            Self::Run(e) => remedy::of_run(e),
            Self::Nvm(e) => remedy::of_nvm(e),
            _ => None,
        }
    }

    /// The kind that `std::fs` would give for this, as `std::io::Error::kind`.
    ///
    /// ```
    /// # use ondol::{FormatOptions, Volume};
    /// # use std::io::ErrorKind;
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// match volume.read_to_string("/settings") {
    ///     Ok(text) => println!("{text}"),
    ///     Err(e) if e.kind() == ErrorKind::NotFound => println!("no settings yet"),
    ///     Err(e) => return Err(e.into()),
    /// }
    /// # volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotText { .. } => ErrorKind::InvalidData,
            e => std::io::Error::from_raw_os_error(e.errno()).kind(),
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(e: Error) -> Self {
        Self::new(e.kind(), e)
    }
}

fn errno_of_nvm(e: &NvmError) -> i32 {
    let errno = match e {
        NvmError::Locked { .. } => Errno::BUSY,
        NvmError::Foreign { .. } => Errno::PERM,
        NvmError::ReadOnly { .. } => Errno::ROFS,
        NvmError::Unfit { .. } | NvmError::Domain { .. } | NvmError::OutOfRange { .. } => Errno::INVAL,
        e => return e.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
    };
    errno.raw_os_error()
}

fn errno_of_buffer(e: &BufferError) -> Errno {
    match e {
        BufferError::Home(e) | BufferError::Full(e) => {
            let invalid = e.source.kind() == std::io::ErrorKind::InvalidInput;
            let other = if invalid { Errno::INVAL } else { Errno::IO };
            Errno::from_io_error(&e.source).unwrap_or(other)
        }
        BufferError::Shape { .. } => Errno::NOSPC,
        BufferError::NoAreas { .. } | BufferError::Newer { .. } => Errno::INVAL,
        BufferError::Files { .. } => Errno::NFILE,
        BufferError::NotFound(_) => Errno::NOENT,
        BufferError::Removed(_) => Errno::STALE,
        BufferError::Range { .. } => Errno::FBIG,
        BufferError::Identity(0) => Errno::INVAL,
        BufferError::Identity(_) => Errno::NAMETOOLONG,
        BufferError::Spent => Errno::OVERFLOW,
        // Damage.
        _ => Errno::UCLEAN,
    }
}

/// The error number that a system call would give for a failed operation on inodes.
pub fn errno_of(e: &VolumeError) -> i32 {
    let errno = match e {
        VolumeError::NotFound => Errno::NOENT,
        VolumeError::Exists => Errno::EXIST,
        VolumeError::NotDirectory(_) => Errno::NOTDIR,
        VolumeError::IsDirectory(_) => Errno::ISDIR,
        VolumeError::NotEmpty(_) => Errno::NOTEMPTY,
        VolumeError::NameTooLong => Errno::NAMETOOLONG,
        VolumeError::Invalid(_) | VolumeError::Shorter { .. } => Errno::INVAL,
        VolumeError::NoSpace(_) => Errno::NOSPC,
        VolumeError::PastEnd => Errno::NXIO,
        VolumeError::FileTooBig => Errno::FBIG,
        VolumeError::TooManyLinks(_) => Errno::MLINK,
        VolumeError::ReadOnly(_) => Errno::ROFS,
        VolumeError::InUse(_) => Errno::BUSY,
        VolumeError::NotPermitted(_) => Errno::PERM,
        VolumeError::Denied(_) => Errno::ACCESS,
        VolumeError::OtherProject => Errno::XDEV,
        VolumeError::ValueTooLong(_) => Errno::TOOBIG,
        VolumeError::NoAttribute => Errno::NODATA,
        VolumeError::BufferTooSmall => Errno::RANGE,
        VolumeError::Unsupported(_) => Errno::OPNOTSUPP,
        VolumeError::TooBig { .. } => Errno::TOOBIG,
        VolumeError::NoMemory => Errno::NOMEM,
        VolumeError::Contended => Errno::AGAIN,
        VolumeError::Corrupt(_) => Errno::UCLEAN,
        VolumeError::Block(BlockError::Locked { .. }) => Errno::BUSY,
        VolumeError::Block(BlockError::ReadOnly { .. }) => Errno::ROFS,
        VolumeError::Journal(JournalError::Log(e)) if matches!(**e, LogError::Damaged { .. }) => Errno::UCLEAN,
        VolumeError::Journal(JournalError::LostData { .. }) => Errno::UCLEAN,
        VolumeError::Block(b) => return b.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
        _ => Errno::IO,
    };
    errno.raw_os_error()
}
