//! The structures of requests and answers. Names and order of the fields are the protocol's.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! wire {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* }
    )* };
}

wire! {
    /// Before every request.
    InHeader { len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16,
        padding: u16 }
    /// Before every answer. `error` is 0 or a negative errno; in a notification, which has `unique` 0, its code.
    OutHeader { len: u32, error: i32, unique: u64 }
    /// INIT as every kernel sends it.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    /// The rest of INIT under `INIT_EXT`.
    InitInMore { flags2: u32, unused: [u32; 11] }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    ForgetIn { nlookup: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    ForgetOne { nodeid: u64, nlookup: u64 }
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { newdir: u64 }
    Rename2In { newdir: u64, flags: u32, padding: u32 }
    LinkIn { oldnodeid: u64 }
    OpenIn { flags: u32, open_flags: u32 }
    /// CREATE and TMPFILE.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    OpenOut { fh: u64, open_flags: u32, backing_id: i32 }
    /// READ, READDIR and READDIRPLUS.
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteOut { size: u32, padding: u32 }
    /// RELEASE and RELEASEDIR.
    /// FSYNC and FSYNCDIR.
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
    /// SETXATTR without `SETXATTR_EXT`.
    SetxattrInOld { size: u32, flags: u32 }
    SetxattrIn { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
    /// GETXATTR and LISTXATTR; also their answer to size 0.
    GetxattrIn { size: u32, padding: u32 }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    LseekOut { offset: u64 }
    CopyFileRangeIn { fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64 }
    /// To COPY_FILE_RANGE_64.
    CopyFileRangeOut { bytes_copied: u64 }
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr,
    }
    /// To CREATE and TMPFILE.
    CreateOut { entry: EntryOut, open: OpenOut }
    StatxTime { tv_sec: i64, tv_nsec: u32, reserved: i32 }
    Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64,
        size: u64, blocks: u64, attributes_mask: u64, atime: StatxTime, btime: StatxTime, ctime: StatxTime,
        mtime: StatxTime, rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx }
    /// Before every name of a listing; entries are filled up to multiples of 8 bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
    NotifyInvalInode { ino: u64, off: i64, len: i64 }
}

const _: () = {
    assert!(size_of::<InHeader>() == 40 && size_of::<OutHeader>() == 16);
    assert!(size_of::<InitIn>() + size_of::<InitInMore>() == 64 && size_of::<InitOut>() == 64);
    assert!(size_of::<SetattrIn>() == 88 && size_of::<Attr>() == 88 && size_of::<EntryOut>() == 128);
    assert!(size_of::<StatfsOut>() == 80 && size_of::<Statx>() == 256 && size_of::<StatxOut>() == 288);
    assert!(size_of::<CopyFileRangeIn>() == 56 && size_of::<IoctlIn>() == 32 && size_of::<WriteIn>() == 40);
};
