//! Opcodes and flags.

/// The protocol spoken here.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version whose structures are known here.
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version that is served.
pub(crate) const MINOR_OLDEST: u32 = 31;

macro_rules! opcodes {
    ($($name:ident = $value:literal),* $(,)?) => { $(pub(crate) const $name: u32 = $value;)* };
}

/// What a request asks for.
pub(crate) mod opcode {
    opcodes! {
        LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9, UNLINK = 10,
        RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17, RELEASE = 18, FSYNC = 20,
        SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24, INIT = 26, OPENDIR = 27,
        READDIR = 28, RELEASEDIR = 29, FSYNCDIR = 30, CREATE = 35, INTERRUPT = 36,
        DESTROY = 38, IOCTL = 39, BATCH_FORGET = 42, FALLOCATE = 43, READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46,
        COPY_FILE_RANGE = 47, SYNCFS = 50, TMPFILE = 51, STATX = 52, COPY_FILE_RANGE_64 = 53,
    }
}

bitflags::bitflags! {
    /// What kernel and server agree on at the start.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Init: u64 {
        /// Several reads of one file may be under way.
        const ASYNC_READ = 1 << 0;
        /// LOOKUP knows `.` and `..`: file handles outlive the kernel's cache.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes larger than a page.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask.
        const DONT_MASK = 1 << 6;
        /// Listings with attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between the two kinds of listing.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Several direct reads and writes of one call may be under way.
        const ASYNC_DIO = 1 << 15;
        /// The kernel collects writes.
        const WRITEBACK_CACHE = 1 << 16;
        /// Lookups and listings of one directory may run side by side.
        const PARALLEL_DIROPS = 1 << 18;
        /// The kernel checks access control lists; implies `default_permissions`.
        const POSIX_ACL = 1 << 20;
        /// `max_pages` is valid.
        const MAX_PAGES = 1 << 22;
        /// Targets of symbolic links are kept.
        const CACHE_SYMLINKS = 1 << 23;
        /// Pages are dropped only when the server says so.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// The server clears setuid and setgid where the request says so.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has flags of its own.
        const SETXATTR_EXT = 1 << 29;
        /// `flags2` is valid.
        const INIT_EXT = 1 << 30;
        /// Mounts may map users and groups; needs `default_permissions`.
        const ALLOW_IDMAP = 1 << 40;
        /// Requests go through rings, once each processor's queue has a place.
        const OVER_IO_URING = 1 << 41;
    }

    /// What the kernel is told about what it has opened.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Fopen: u32 {
        /// Reads and writes go past the page cache.
        const DIRECT_IO = 1 << 0;
        /// Pages, or the listing, stay valid between opens.
        const KEEP_CACHE = 1 << 1;
        /// The listing is kept.
        const CACHE_DIR = 1 << 3;
        /// Closing needs no request.
        const NOFLUSH = 1 << 5;
        /// Under `DIRECT_IO`: writes need not wait for each other.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }
}

/// Which fields of `SetattrIn` count.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// In `write_flags`: clear setuid and setgid.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// In `write_flags`: it comes from the kernel's page cache.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// In `fsync_flags`: data only.
pub(crate) const FSYNC_FDATASYNC: u32 = 1 << 0;
/// In `setxattr_flags`: clear setgid with the new access control list.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

/// Messages that the server sends unasked; they stand where an answer has its error.
pub(crate) mod notify {
    pub(crate) const INVAL_INODE: i32 = 2;
}
