//! Write buffers in front of ordinary files.

use crate::call::{Failure, Result, call, counting, needed};
use crate::memory::{Bytes, Room, Text};
use ondol::buffer::{File, Identity, WriteBuffer, name};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A write buffer: NVM in front of the files of a directory.
pub struct Buffer(Arc<WriteBuffer>);

/// An open file behind a write buffer.
pub struct BufferFile {
    file: File,
    /// Counts: a buffer is closed after its files.
    _buffer: Arc<WriteBuffer>,
}

fn identity(path: &Text) -> Result<Identity> {
    Ok(name(path.path("path")?)?)
}

/// Opens the write buffer in the NVM pool `pool` for the files below the directory `dir`, on any file system. A pool of
/// `size` bytes is made if there is none, for the calling user alone. What an earlier use has left in the pool is
/// written to the files first, with the rights of the calling process. With `force`, damaged writes are given up;
/// without, they are -EUCLEAN. -EPERM for a pool that another user owns or can read.
///
/// A pool belongs to one directory: name the same one each time. Nobody else may change its files until the buffer is
/// closed.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_open(
    pool: Text,
    size: u64,
    dir: Text,
    force: bool,
    buffer: Option<&mut MaybeUninit<Option<Box<Buffer>>>>,
) -> c_int {
    call(|| {
        let room = needed(buffer, "buffer")?;
        let (opened, _) = WriteBuffer::open(pool.path("pool")?, size, dir.path("dir")?, force)?;
        room.write(Some(Box::new(Buffer(Arc::new(opened)))));
        Ok(())
    })
}

/// Writes everything to the files, durably, and closes the buffer.
///
/// -EBUSY, when files of it are open, changes nothing. After any other return the buffer is given up; after an error
/// the pool keeps what the files lack, and the next ondol_buffer_open() writes it to them. NULL is no error.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_close(buffer: Option<Box<Buffer>>) -> c_int {
    call(|| {
        let Some(buffer) = buffer else { return Ok(()) };
        let open = Arc::strong_count(&buffer.0) - 1;
        if open > 0 {
            // It stays C's.
            Box::leak(buffer);
            let files = ondol::counted(open as u64, "file");
            return Err(Failure::new(libc::EBUSY, format!("the buffer is still in use: {files} of it open")));
        }
        Ok(buffer.0.settle()?)
    })
}

/// Writes everything to the files, durably. The buffer stays open.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_settle(buffer: Option<&Buffer>) -> c_int {
    call(|| Ok(needed(buffer, "buffer")?.0.settle()?))
}

/// Removes a file, durably. What is open of it is -ESTALE from now on.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_remove(buffer: Option<&Buffer>, path: Text) -> c_int {
    call(|| Ok(needed(buffer, "buffer")?.0.remove(&identity(&path)?)?))
}

/// Opens a file for reading and writing. `path` is relative to the buffer's directory and cannot leave it. With
/// `create`, a file that does not exist is made.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_file_open(
    buffer: Option<&Buffer>,
    path: Text,
    create: bool,
    file: Option<&mut MaybeUninit<Option<Box<BufferFile>>>>,
) -> c_int {
    call(|| {
        let room = needed(file, "file")?;
        let buffer = &needed(buffer, "buffer")?.0;
        let opened = buffer.open_file(&identity(&path)?, create)?;
        room.write(Some(Box::new(BufferFile { file: opened, _buffer: buffer.clone() })));
        Ok(())
    })
}

/// Closes a file. NULL is no error.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_file_close(file: Option<Box<BufferFile>>) -> c_int {
    call(|| {
        drop(file);
        Ok(())
    })
}

/// Reads at `offset`. Returns how many bytes: fewer than asked for only at the end.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_file_pread(file: Option<&BufferFile>, mut buffer: Room, len: usize, offset: u64) -> i64 {
    counting(|| Ok(needed(file, "file")?.file.read_at(offset, buffer.slice(len)?)? as u64))
}

/// Writes all bytes at `offset`, durably, and returns `len`. After a crash before that, the bytes of each block of 16
/// KiB of the file are there or not. A full buffer is emptied first, which takes as long as the disk does.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_file_pwrite(file: Option<&BufferFile>, data: Bytes, len: usize, offset: u64) -> i64 {
    counting(|| {
        needed(file, "file")?.file.write_at(offset, data.slice(len)?)?;
        Ok(len as u64)
    })
}

/// Truncates the file or extends it with zeros, durably.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_file_set_len(file: Option<&BufferFile>, size: u64) -> c_int {
    call(|| Ok(needed(file, "file")?.file.set_len(size)?))
}

/// The size of the file.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_file_size(file: Option<&BufferFile>) -> i64 {
    counting(|| Ok(needed(file, "file")?.file.size()))
}

/// Fails, once, if the file could not be written in the background since the last call. Nothing is lost: the pool has
/// the bytes, and they are tried again. Writes are durable without this call.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_buffer_file_sync(file: Option<&BufferFile>) -> c_int {
    call(|| Ok(needed(file, "file")?.file.fsync()?))
}
