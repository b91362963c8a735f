//! Open files.

use crate::attr::Attr;
use crate::call::{Failure, Result, call, counting, needed};
use crate::memory::{Bytes, Room, Text};
use crate::volume::Volume;
use ondol::{Fallocate, OpenOptions};
use std::ffi::c_int;
use std::io::{Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;

/// An open file.
pub struct File(ondol::File);

/// Flags of open(2) that change nothing here.
const WITHOUT_EFFECT: c_int = libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_LARGEFILE;

/// Those that do.
const WITH_EFFECT: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_APPEND;

fn options(flags: c_int, mode: u32) -> Result<OpenOptions> {
    let unknown = flags & !(WITH_EFFECT | WITHOUT_EFFECT);
    if unknown != 0 {
        return Err(Failure::invalid(format!("flags {unknown:#o} are not among those that a file is opened with")));
    }
    let has = |flag: c_int| flags & flag != 0;
    let (read, write) = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => (true, false),
        libc::O_WRONLY => (false, true),
        libc::O_RDWR => (true, true),
        _ => return Err(Failure::invalid("a file is opened with O_RDONLY, O_WRONLY or O_RDWR")),
    };
    if has(libc::O_APPEND) && !write {
        return Err(Failure::invalid("a file is opened with O_APPEND only for writing"));
    }
    let mut options = OpenOptions::new();
    options.read(read).write(write).append(has(libc::O_APPEND)).truncate(has(libc::O_TRUNC));
    options.create(has(libc::O_CREAT)).create_new(has(libc::O_CREAT) && has(libc::O_EXCL));
    Ok(options.mode((mode & 0o7777) as u16).clone())
}

/// Opens a file with flags of open(2): O_RDONLY, O_WRONLY or O_RDWR; O_CREAT, O_EXCL and O_TRUNC for writing; O_APPEND
/// (not with O_TRUNC). `mode` are the permission bits of a file that is created. The file stays readable and writable
/// when its last name is removed.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_open(
    volume: Option<&Volume>,
    path: Text,
    flags: c_int,
    mode: u32,
    file: Option<&mut MaybeUninit<Option<Box<File>>>>,
) -> c_int {
    call(|| {
        let room = needed(file, "file")?;
        let opened = options(flags, mode)?.open(&needed(volume, "volume")?.0, path.path("path")?)?;
        room.write(Some(Box::new(File(opened))));
        Ok(())
    })
}

/// Closes a file, which makes nothing durable. NULL is no error.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_close(file: Option<Box<File>>) -> c_int {
    call(|| {
        drop(file);
        Ok(())
    })
}

/// Reads at the file's position and moves it. Returns how many bytes: fewer than asked for only at the end.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_read(file: Option<&File>, mut buffer: Room, len: usize) -> i64 {
    counting(|| Ok((&needed(file, "file")?.0).read(buffer.slice(len)?)? as u64))
}

/// Writes at the file's position (at the end, with O_APPEND) and moves it. Returns how many bytes: fewer only when
/// space ran out after some.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_write(file: Option<&File>, data: Bytes, len: usize) -> i64 {
    counting(|| Ok((&needed(file, "file")?.0).write(data.slice(len)?)? as u64))
}

/// Reads at `offset`; the position stays. Returns how many bytes: fewer than asked for only at the end.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_pread(file: Option<&File>, mut buffer: Room, len: usize, offset: u64) -> i64 {
    counting(|| Ok(needed(file, "file")?.0.read_at(buffer.slice(len)?, offset)? as u64))
}

/// Writes at `offset`; the position stays. Returns how many bytes: fewer only when space ran out after some. One atomic
/// operation up to the volume's atomic size.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_pwrite(file: Option<&File>, data: Bytes, len: usize, offset: u64) -> i64 {
    counting(|| Ok(needed(file, "file")?.0.write_at(data.slice(len)?, offset)? as u64))
}

/// Moves the position as lseek(2) with SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA or SEEK_HOLE, and returns it.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_seek(file: Option<&File>, offset: i64, whence: c_int) -> i64 {
    counting(|| {
        let file = &needed(file, "file")?.0;
        let from_start =
            || u64::try_from(offset).map_err(|_| Failure::invalid("an offset before the start of the file"));
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(from_start()?),
            libc::SEEK_CUR => SeekFrom::Current(offset),
            libc::SEEK_END => SeekFrom::End(offset),
            libc::SEEK_DATA => SeekFrom::Start(file.find(ondol::Seek::Data, from_start()?)?),
            libc::SEEK_HOLE => SeekFrom::Start(file.find(ondol::Seek::Hole, from_start()?)?),
            _ => return Err(Failure::invalid(format!("whence {whence} is unknown"))),
        };
        Ok((&mut &*file).seek(to)?)
    })
}

/// Truncates the file or extends it with zeros.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_set_len(file: Option<&File>, size: u64) -> c_int {
    call(|| Ok(needed(file, "file")?.0.set_len(size)?))
}

/// Allocates, punches, zeroes, cuts out or makes room for `len` bytes from `offset` on: what fallocate(2) does with
/// these flags (FALLOC_FL_KEEP_SIZE and others). -EOPNOTSUPP for flags that are not offered.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_allocate(file: Option<&File>, flags: u32, offset: u64, len: u64) -> c_int {
    call(|| {
        let file = &needed(file, "file")?.0;
        let how = Fallocate::of_flags(flags);
        let how = how.ok_or_else(|| Failure::new(libc::EOPNOTSUPP, format!("flags {flags:#x} are not offered")))?;
        Ok(file.fallocate(how, offset, len)?)
    })
}

/// Makes every earlier operation of the volume durable, this file's included. After an error nothing may be taken as
/// durable that was not so before.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_sync(file: Option<&File>) -> c_int {
    call(|| Ok(needed(file, "file")?.0.sync_all()?))
}

/// What fstat(2) tells.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_file_stat(file: Option<&File>, attr: Option<&mut MaybeUninit<Attr>>) -> c_int {
    call(|| {
        let found = needed(file, "file")?.0.metadata()?;
        needed(attr, "attr")?.write(Attr::of(&found));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_would_have_no_effect_are_refused() {
        for flags in [libc::O_DIRECTORY, libc::O_SYNC | libc::O_WRONLY, libc::O_ACCMODE, libc::O_APPEND] {
            assert!(options(flags, 0).is_err(), "{flags:#o}");
        }
        assert!(options(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC, 0o600).is_ok());
    }
}
