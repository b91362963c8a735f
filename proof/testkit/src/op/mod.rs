//! POSIX calls as values: what the model, the library and a mount are all asked to do.
//!
//! An [`Op`] names files by path, or by a handle that an earlier `open` left behind (so that unlinked files stay in
//! reach). Symbolic links are never followed. [`text`] writes and reads them, one call a line.

mod acl;
mod fill;
mod flags;
mod path;
pub mod text;
mod words;

pub use acl::Acl;
pub use fill::Fill;
pub use flags::Flags;
pub use ondol_volume::{Fallocate, Rename, SetXattr};
pub use path::{File, Path};

use ondol_env::Timestamp;
use ondol_medium::crc32c;

/// One call. See the grammar in [`text`] for how each is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes a regular file; fails if the name exists.
    Create {
        /// Its name.
        path: Path,
        /// Permission bits.
        mode: u16,
    },
    /// Makes a directory.
    Mkdir {
        /// Its name.
        path: Path,
        /// Permission bits.
        mode: u16,
    },
    /// Makes a named pipe.
    Mkfifo {
        /// Its name.
        path: Path,
        /// Permission bits.
        mode: u16,
    },
    /// Makes a symbolic link.
    Symlink {
        /// Its name.
        path: Path,
        /// What it points to; never resolved here.
        target: String,
    },
    /// Gives a file another name, or one without names its first.
    Link {
        /// The file.
        from: File,
        /// The new name.
        to: Path,
    },
    /// Removes a name of anything but a directory.
    Unlink {
        /// The name.
        path: Path,
    },
    /// Removes an empty directory.
    Rmdir {
        /// Its name.
        path: Path,
    },
    /// Moves a name, as renameat2(2).
    Rename {
        /// The old name.
        from: Path,
        /// The new name.
        to: Path,
        /// Flags.
        how: Rename,
    },
    /// Opens a regular file or directory and keeps it as a handle, closing what the handle held before.
    Open {
        /// The handle.
        handle: u8,
        /// What to open.
        path: Path,
    },
    /// Makes a regular file without a name and keeps it as a handle, closing what the handle held before.
    Tmpfile {
        /// The handle.
        handle: u8,
        /// The directory that it inherits from.
        dir: Path,
        /// Permission bits.
        mode: u16,
    },
    /// Closes a handle.
    Close {
        /// The handle.
        handle: u8,
    },
    /// Writes at an offset.
    Write {
        /// The file.
        file: File,
        /// Offset in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
        /// What is written.
        fill: Fill,
    },
    /// As [`Op::Write`], by a cache above that keeps the file's times itself. A mount by FUSE does it on its own.
    WriteBack {
        /// The file.
        file: File,
        /// First byte.
        at: u64,
        /// How many.
        len: u64,
        /// With what.
        fill: Fill,
    },
    /// Writes at the end.
    Append {
        /// The file.
        file: File,
        /// Length in bytes.
        len: u64,
        /// What is written.
        fill: Fill,
    },
    /// Sets the size.
    Truncate {
        /// The file.
        file: File,
        /// The new size in bytes.
        size: u64,
    },
    /// Copies from file to file, as copy_file_range(2).
    Copy {
        /// Where from.
        from: File,
        /// Offset in bytes.
        at: u64,
        /// Where to.
        to: File,
        /// Offset in bytes.
        to_at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Exchanges ranges of two files.
    Exchange {
        /// The first file.
        file: File,
        /// Offset in bytes.
        at: u64,
        /// The second file.
        other: File,
        /// Offset in bytes.
        other_at: u64,
        /// Length in bytes; everything to the ends of the files, and the sizes, without one.
        len: Option<u64>,
    },
    /// Maps a file, stores to it at several places, and commits the stores as one.
    MapCommit {
        /// The file.
        file: File,
        /// Where the first store begins, in bytes.
        at: u64,
        /// Bytes of each.
        len: u64,
        /// From the beginning of one to that of the next, in bytes.
        step: u64,
        /// How many.
        count: u64,
        /// What is stored.
        fill: Fill,
    },
    /// fallocate(2) in all its modes, hole punching included.
    Fallocate {
        /// The file.
        file: File,
        /// The mode.
        how: Fallocate,
        /// Offset in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// The file.
        file: File,
        /// Full name with prefix.
        name: String,
        /// Length of the value.
        len: u64,
        /// What the value is.
        fill: Fill,
        /// Flags.
        how: SetXattr,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// The file.
        file: File,
        /// Full name with prefix.
        name: String,
    },
    /// Sets a POSIX ACL, or removes it.
    SetAcl {
        /// The file.
        file: File,
        /// A directory's default ACL; else the access ACL.
        default: bool,
        /// The ACL.
        acl: Option<Acl>,
    },
    /// Sets the flags of chattr(1).
    Chattr {
        /// The file.
        file: File,
        /// The flags.
        flags: Flags,
    },
    /// Sets the permission bits.
    Chmod {
        /// The file.
        file: File,
        /// Permission bits.
        mode: u16,
    },
    /// Sets the owner.
    Chown {
        /// The file.
        file: File,
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// Sets the times.
    Utimens {
        /// The file.
        file: File,
        /// Last access.
        atime: Timestamp,
        /// Last change of the contents.
        mtime: Timestamp,
    },
    /// Reads a file; it returns a [sum](sum_of) of the bytes.
    Read {
        /// The file.
        file: File,
        /// First byte.
        at: u64,
        /// How many, at most.
        len: u64,
        /// Where pages are lent, those that were read are kept, and looked at again later.
        kept: bool,
    },
    /// Makes a file durable, and with it everything before.
    Fsync {
        /// The file or directory.
        file: File,
        /// fdatasync(2).
        data_only: bool,
    },
    /// Makes everything durable.
    Sync,
    /// Gives the medium back what is free.
    Trim,
    /// Takes memory out of the free space, stores to all of it and gives it back; nothing, where there is none.
    Scratch {
        /// In pages of 4096 bytes.
        pages: u64,
    },
    /// Lets time pass: background commits and checkpoints get their turn.
    Idle {
        /// For how long, in seconds of the volume's clock.
        seconds: u64,
    },
    /// A checkpoint that no commit comes before: the oldest of what is durable goes home, and what is not stays so.
    BringHome,
    /// Unmounts cleanly and mounts again; closes all handles.
    Remount,
    /// Does nothing. Marks that what was synced so far must hold from here on, and a place at which power may be cut.
    Checkpoint,
    /// All of these calls as one, or none of them. Each must be a [step](Op::is_step).
    Transaction(Vec<Op>),
}

/// What a call that reads returns of what it has read.
pub fn sum_of<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> u64 {
    parts.into_iter().fold(!0, |sum, part| crc32c(sum, &[part])).into()
}

/// A map is stored to at so many places at most.
const MOST_STORES: u64 = 4096;

impl Op {
    /// The file that a call reads, changes or syncs, if that is what it does.
    pub fn file_mut(&mut self) -> Option<&mut File> {
        match self {
            Self::Write { file, .. }
            | Self::WriteBack { file, .. }
            | Self::Append { file, .. }
            | Self::Truncate { file, .. }
            | Self::Fallocate { file, .. }
            | Self::Copy { to: file, .. }
            | Self::Exchange { file, .. }
            | Self::MapCommit { file, .. }
            | Self::SetXattr { file, .. }
            | Self::RemoveXattr { file, .. }
            | Self::SetAcl { file, .. }
            | Self::Chattr { file, .. }
            | Self::Chmod { file, .. }
            | Self::Chown { file, .. }
            | Self::Utimens { file, .. }
            | Self::Read { file, .. }
            | Self::Fsync { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Whether everything before this call is durable once it has returned.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Fsync { .. } | Self::Sync | Self::Remount | Self::MapCommit { .. })
    }

    /// The file whose durability it waits for, if it is of one file.
    pub fn synced_file(&self) -> Option<&File> {
        match self {
            Self::Fsync { file, .. } | Self::MapCommit { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Where a map is stored to, and how many bytes: none where that is nothing.
    pub fn stores(&self) -> Vec<(u64, u64)> {
        match *self {
            Self::MapCommit { at, len: len @ 1.., step, count, .. } => {
                (0..count.min(MOST_STORES)).map(|n| (at.saturating_add(step.saturating_mul(n)), len)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it can be part of a transaction: a change of files that are named by path, which says all that it
    /// writes (what `append` writes depends on where).
    pub fn is_step(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Mkdir { .. } | Self::Symlink { .. } => true,
            Self::Link { from, .. } => from.is_path(),
            Self::Unlink { .. } | Self::Rmdir { .. } | Self::Rename { .. } => true,
            Self::Write { file, .. } | Self::Truncate { file, .. } => file.is_path(),
            Self::SetXattr { file, .. } | Self::RemoveXattr { file, .. } | Self::Chmod { file, .. } => file.is_path(),
            _ => false,
        }
    }

    /// Whether a crash in its midst may leave part of it: a call that is a sequence of atomic steps, as a write of more
    /// than `atomic` bytes is.
    pub fn is_stepwise(&self, atomic: u64) -> bool {
        match self {
            Self::Write { len, .. } | Self::WriteBack { len, .. } | Self::Append { len, .. } => *len > atomic,
            // What moves, moves as one.
            Self::Fallocate { how: Fallocate::CollapseRange | Fallocate::InsertRange, .. } => false,
            Self::Fallocate { .. } | Self::Copy { .. } => true,
            _ => false,
        }
    }
}
