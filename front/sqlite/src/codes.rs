//! SQLite's numbers (`sqlite3.h`).

use std::ffi::c_int;

/// What a method returns. What went well is `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

pub(crate) type Result<T> = std::result::Result<T, Code>;

pub(crate) const OK: c_int = 0;
/// The extension stays when its connection is closed.
pub(crate) const OK_LOAD_PERMANENTLY: c_int = 256;
pub(crate) const ERROR: c_int = 1;

/// What is asked for is none of what can be done.
pub(crate) const REFUSED: Code = Code(ERROR);

pub(crate) const BUSY: Code = Code(5);
pub(crate) const READONLY: Code = Code(8);
pub(crate) const NOTFOUND: Code = Code(12);
pub(crate) const FULL: Code = Code(13);
pub(crate) const CANTOPEN: Code = Code(14);
pub(crate) const CANTOPEN_ISDIR: Code = Code(14 | 2 << 8);
pub(crate) const CANTOPEN_SYMLINK: Code = Code(14 | 6 << 8);

/// An I/O error of a kind.
const fn ioerr(kind: c_int) -> Code {
    Code(10 | kind << 8)
}

pub(crate) const IOERR: Code = Code(10);
pub(crate) const IOERR_READ: Code = ioerr(1);
pub(crate) const IOERR_SHORT_READ: Code = ioerr(2);
pub(crate) const IOERR_WRITE: Code = ioerr(3);
pub(crate) const IOERR_FSYNC: Code = ioerr(4);
pub(crate) const IOERR_TRUNCATE: Code = ioerr(6);
pub(crate) const IOERR_FSTAT: Code = ioerr(7);
pub(crate) const IOERR_DELETE: Code = ioerr(10);
pub(crate) const IOERR_NOMEM: Code = ioerr(12);
pub(crate) const IOERR_ACCESS: Code = ioerr(13);
pub(crate) const IOERR_SHMLOCK: Code = ioerr(20);
pub(crate) const IOERR_SHMMAP: Code = ioerr(21);
pub(crate) const IOERR_DELETE_NOENT: Code = ioerr(23);
pub(crate) const IOERR_COMMIT_ATOMIC: Code = ioerr(30);

/// Flags of an open.
pub(crate) mod open {
    use std::ffi::c_int;

    pub(crate) const READONLY: c_int = 1;
    pub(crate) const READWRITE: c_int = 2;
    pub(crate) const CREATE: c_int = 4;
    pub(crate) const DELETEONCLOSE: c_int = 8;
    pub(crate) const EXCLUSIVE: c_int = 0x10;
    pub(crate) const MAIN_DB: c_int = 0x100;
    pub(crate) const MAIN_JOURNAL: c_int = 0x800;
    pub(crate) const SUPER_JOURNAL: c_int = 0x4000;
}

/// What SQLite asks of a file beyond reading and writing.
pub(crate) mod control {
    use std::ffi::c_int;

    pub(crate) const VFSNAME: c_int = 12;
    pub(crate) const SYNC: c_int = 21;
    pub(crate) const COMMIT_PHASETWO: c_int = 22;
    pub(crate) const BEGIN_ATOMIC_WRITE: c_int = 31;
    pub(crate) const COMMIT_ATOMIC_WRITE: c_int = 32;
    pub(crate) const ROLLBACK_ATOMIC_WRITE: c_int = 33;
    pub(crate) const CKPT_DONE: c_int = 37;
    pub(crate) const CKPT_START: c_int = 39;
}

/// A write changes nothing beside its own bytes, also when power fails.
pub(crate) const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
/// Writes between BEGIN and COMMIT are one.
pub(crate) const IOCAP_BATCH_ATOMIC: c_int = 0x4000;

/// What is asked about a name: the other answers of a file that exists are the same.
pub(crate) const ACCESS_EXISTS: c_int = 0;

/// Of locks on shared memory.
pub(crate) mod shm {
    use std::ffi::c_int;

    pub(crate) const LOCK: c_int = 2;
    pub(crate) const EXCLUSIVE: c_int = 8;
    /// How many there are.
    pub(crate) const LOCKS: usize = 8;
}
