//! `libondol`: volumes, and write buffers in front of ordinary files, for C programs. `include/ondol.h` is made from
//! this source (`cargo xtask header`), so the comments of public things speak to those who write C.
//!
//! The types at the border say what C hands over: `Option<&T>` is a pointer that may be NULL and is lent for the call,
//! `Option<Box<T>>` one that is given up, `Option<&mut MaybeUninit<T>>` room for an answer. C's strings and buffers
//! have types of their own in `memory.rs`, which alone reads and writes where C points. Everything else here is as safe
//! as if Rust had called it, if C keeps to what the header says. All of it is a C border, so `unsafe` is allowed in
//! this crate, block by block with its reason.
//!
//! No panic crosses the border: see `call.rs`.
#![allow(unsafe_code, reason = "a C border")]
#![allow(clippy::must_use_candidate, reason = "C decides")]

mod attr;
mod buffer;
mod call;
mod dir;
mod file;
mod memory;
mod names;
mod transaction;
mod volume;
mod xattr;

pub use attr::{Attr, Time};
pub use buffer::{
    Buffer, BufferFile, ondol_buffer_close, ondol_buffer_file_close, ondol_buffer_file_open, ondol_buffer_file_pread,
    ondol_buffer_file_pwrite, ondol_buffer_file_set_len, ondol_buffer_file_size, ondol_buffer_file_sync,
    ondol_buffer_open, ondol_buffer_remove, ondol_buffer_settle,
};
pub use call::ondol_error;
pub use dir::{Dir, Entry, ondol_dir_close, ondol_dir_next, ondol_dir_open};
pub use file::{
    File, ondol_file_allocate, ondol_file_close, ondol_file_open, ondol_file_pread, ondol_file_pwrite, ondol_file_read,
    ondol_file_seek, ondol_file_set_len, ondol_file_stat, ondol_file_sync, ondol_file_write,
};
pub use memory::{Bytes, Room, Text};
pub use names::{
    ondol_chmod, ondol_chown, ondol_link, ondol_lstat, ondol_mkdir, ondol_readlink, ondol_rename, ondol_rmdir,
    ondol_set_times, ondol_stat, ondol_symlink, ondol_unlink,
};
pub use transaction::{
    Transaction, ondol_tx_abort, ondol_tx_append, ondol_tx_begin, ondol_tx_chmod, ondol_tx_commit, ondol_tx_create,
    ondol_tx_link, ondol_tx_mkdir, ondol_tx_removexattr, ondol_tx_rename, ondol_tx_rmdir, ondol_tx_set_len,
    ondol_tx_setxattr, ondol_tx_symlink, ondol_tx_unlink, ondol_tx_write, ondol_tx_write_at,
};
pub use volume::{
    MkfsOptions, Space, Volume, ondol_act_as, ondol_close, ondol_mkfs, ondol_open, ondol_statfs, ondol_sync,
    ondol_version,
};
pub use xattr::{ondol_getxattr, ondol_listxattr, ondol_removexattr, ondol_setxattr};
