//! What the store and its volumes have against something, with the error number that a system call would give, and what
//! helps.

use crate::{Error, Remedy};
use ondol_object_home::{HomeError, PlaceError};
use rustix::io::Errno;

impl From<HomeError> for Error {
    fn from(e: HomeError) -> Self {
        let errno = match &e {
            HomeError::Missing { .. } | HomeError::SnapshotMissing { .. } | HomeError::NoBucket { .. } => Errno::NOENT,
            HomeError::Exists { .. } | HomeError::SnapshotExists { .. } => Errno::EXIST,
            HomeError::Held { .. } | HomeError::Needed { .. } => Errno::BUSY,
            HomeError::Denied { .. } => Errno::ACCESS,
            HomeError::Size { .. }
            | HomeError::SnapshotName { .. }
            | HomeError::OtherStore { .. }
            | HomeError::Inside { .. }
            | HomeError::LogSmall { .. } => Errno::INVAL,
            HomeError::LogMissing { .. } | HomeError::LogForeign { .. } | HomeError::LogOld { .. } => Errno::STALE,
            HomeError::Damaged { .. } | HomeError::Chunk { .. } => Errno::UCLEAN,
            HomeError::Away { .. } => Errno::TIMEDOUT,
            HomeError::NotWriting { .. } => Errno::ROFS,
            HomeError::Threads { .. } => Errno::AGAIN,
            _ => Errno::IO,
        };
        let remedy = match &e {
            HomeError::Held { name, .. } => Some(Remedy::TakeOver { target: name.clone() }),
            HomeError::Missing { .. } => Some(Remedy::MakeInBucket),
            HomeError::LogMissing { log, .. } => Some(Remedy::LocalLog { log: log.clone() }),
            HomeError::LogOld { uuid, .. } => Some(Remedy::LocalLog { log: uuid.clone() }),
            _ => None,
        };
        Self::Bucket { what: e.to_string(), errno: errno.raw_os_error(), remedy }
    }
}

impl From<PlaceError> for Error {
    fn from(e: PlaceError) -> Self {
        let errno = match &e {
            PlaceError::Directory { source, .. } => source.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
            _ => Errno::INVAL.raw_os_error(),
        };
        let is_missing = errno == Errno::NOENT.raw_os_error();
        Self::Bucket { what: e.to_string(), errno, remedy: is_missing.then_some(Remedy::MakeInBucket) }
    }
}
