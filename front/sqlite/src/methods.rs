//! The methods of open files, as C calls them.

use crate::call::{call, code};
use crate::codes::{
    Code, IOCAP_BATCH_ATOMIC, IOCAP_POWERSAFE_OVERWRITE, IOERR_FSTAT, IOERR_FSYNC, IOERR_READ, IOERR_SHMMAP,
    IOERR_SHORT_READ, IOERR_TRUNCATE, IOERR_WRITE, NOTFOUND, OK, Result, control, shm,
};
use crate::database::Database;
use crate::ffi::{FileSlot, IoMethods};
use crate::images::Used;
use crate::journal::{Journal, Super};
use crate::locks::Level;
use ondol::File;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// An open file.
pub(crate) enum Opened {
    Database(Database),
    Journal(Journal),
    Super(Arc<Super>),
    Plain(Plain),
}

/// A file that is what it is at once: a write-ahead log, or a journal that somebody else has left.
pub(crate) struct Plain {
    // Closed before the image.
    pub(crate) file: File,
    pub(crate) _image: Used,
}

/// Of all files. Locks and shared memory are asked of databases alone.
pub(crate) static METHODS: IoMethods = IoMethods {
    version: 2,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map,
    shm_lock,
    shm_barrier,
    shm_unmap,
};

/// Blocks of volumes are not larger as a rule, and SQLite takes it for how much a torn write may damage; nothing is.
const SECTOR: c_int = 4096;

/// The file in a slot.
fn opened<'a>(slot: *mut FileSlot) -> Result<&'a mut Opened> {
    // SAFETY: SQLite hands over slots that `vfs.rs` has filled, until it has closed them, and each to one thread at a
    // time.
    unsafe { slot.as_ref().and_then(|slot| slot.file.as_mut()) }.ok_or(NOTFOUND)
}

fn database<'a>(slot: *mut FileSlot) -> Result<&'a mut Database> {
    match opened(slot)? {
        Opened::Database(database) => Ok(database),
        _ => Err(NOTFOUND),
    }
}

/// SQLite's offsets are not negative.
fn place(offset: i64) -> u64 {
    offset.max(0).cast_unsigned()
}

extern "C" fn close(slot: *mut FileSlot) -> c_int {
    call(|| {
        // SAFETY: SQLite closes a file that was opened, once, and its slot is still there.
        let slot = unsafe { slot.as_mut() }.ok_or(NOTFOUND)?;
        let file = std::mem::replace(&mut slot.file, std::ptr::null_mut());
        slot.methods = std::ptr::null();
        if !file.is_null() {
            // SAFETY: `vfs.rs` has made it from a box, and nobody else has it now.
            drop(unsafe { Box::from_raw(file) });
        }
        Ok(())
    })
}

extern "C" fn read(slot: *mut FileSlot, buf: *mut c_void, len: c_int, offset: i64) -> c_int {
    call(|| {
        // SAFETY: SQLite's room for that many bytes, for this call alone.
        let buf = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), len.max(0) as usize) };
        match opened(slot)? {
            Opened::Database(database) => database.read(buf, place(offset)),
            Opened::Journal(file) => file.lock().read(buf, place(offset)),
            Opened::Super(journal) => journal.file.lock().read(buf, place(offset)),
            Opened::Plain(plain) => {
                let n = plain.file.read_at(buf, place(offset)).map_err(|e| code(&e, IOERR_READ))?;
                buf[n..].fill(0);
                if n == buf.len() { Ok(()) } else { Err(IOERR_SHORT_READ) }
            }
        }
    })
}

extern "C" fn write(slot: *mut FileSlot, data: *const c_void, len: c_int, offset: i64) -> c_int {
    call(|| {
        // SAFETY: SQLite lends that many bytes for this call.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len.max(0) as usize) };
        match opened(slot)? {
            Opened::Database(database) => database.write(data, place(offset))?,
            Opened::Journal(file) => file.lock().write(data, place(offset))?,
            Opened::Super(journal) => journal.write(data, place(offset))?,
            Opened::Plain(plain) => {
                plain.file.write_all_at(data, place(offset)).map_err(|e| code(&e, IOERR_WRITE))?;
            }
        }
        Ok(())
    })
}

extern "C" fn truncate(slot: *mut FileSlot, size: i64) -> c_int {
    call(|| {
        match opened(slot)? {
            Opened::Database(database) => database.truncate(place(size))?,
            Opened::Journal(file) => file.lock().truncate(place(size)),
            Opened::Super(journal) => journal.file.lock().truncate(place(size)),
            Opened::Plain(plain) => plain.file.set_len(place(size)).map_err(|e| code(&e, IOERR_TRUNCATE))?,
        }
        Ok(())
    })
}

extern "C" fn sync(slot: *mut FileSlot, _: c_int) -> c_int {
    call(|| match opened(slot)? {
        Opened::Database(database) => database.sync(),
        Opened::Journal(_) | Opened::Super(_) => Ok(()),
        Opened::Plain(plain) => plain.file.sync_data().map_err(|e| code(&e, IOERR_FSYNC)),
    })
}

extern "C" fn file_size(slot: *mut FileSlot, size: *mut i64) -> c_int {
    call(|| {
        let len = match opened(slot)? {
            Opened::Database(database) => database.len()?,
            Opened::Journal(file) => file.lock().len(),
            Opened::Super(journal) => journal.file.lock().len(),
            Opened::Plain(plain) => plain.file.metadata().map_err(|e| code(&e, IOERR_FSTAT))?.len(),
        };
        put(size, i64::try_from(len).unwrap_or(i64::MAX));
        Ok(())
    })
}

extern "C" fn lock(slot: *mut FileSlot, level: c_int) -> c_int {
    call(|| database(slot)?.lock(Level::from_number(level)))
}

extern "C" fn unlock(slot: *mut FileSlot, level: c_int) -> c_int {
    call(|| {
        database(slot)?.unlock(Level::from_number(level));
        Ok(())
    })
}

extern "C" fn check_reserved_lock(slot: *mut FileSlot, found: *mut c_int) -> c_int {
    call(|| {
        put(found, c_int::from(database(slot)?.is_reserved()));
        Ok(())
    })
}

extern "C" fn file_control(slot: *mut FileSlot, what: c_int, argument: *mut c_void) -> c_int {
    call(|| {
        let Opened::Database(database) = opened(slot)? else { return Err(NOTFOUND) };
        match what {
            control::VFSNAME => {
                // SAFETY: the slot of an open file, as was just seen.
                let api = unsafe { (*slot).api };
                put(argument.cast::<*mut c_char>(), api.owned_string(crate::vfs::NAME));
                Ok(())
            }
            control::SYNC => {
                // SAFETY: SQLite's argument of SYNC is NULL, or the name of a super-journal.
                let journal = (!argument.is_null()).then(|| unsafe { CStr::from_ptr(argument.cast()) });
                database.control(what, journal.and_then(|name| name.to_str().ok()))
            }
            _ => database.control(what, None),
        }
    })
}

extern "C" fn sector_size(_: *mut FileSlot) -> c_int {
    SECTOR
}

extern "C" fn device_characteristics(slot: *mut FileSlot) -> c_int {
    match opened(slot) {
        Ok(Opened::Database(_)) => IOCAP_POWERSAFE_OVERWRITE | IOCAP_BATCH_ATOMIC,
        _ => IOCAP_POWERSAFE_OVERWRITE,
    }
}

extern "C" fn shm_map(slot: *mut FileSlot, at: c_int, size: c_int, make: c_int, region: *mut *mut c_void) -> c_int {
    call(|| {
        let (Ok(at), Ok(size)) = (usize::try_from(at), usize::try_from(size)) else { return Err(IOERR_SHMMAP) };
        put(region, database(slot)?.shm_map(at, size, make != 0).cast());
        Ok(())
    })
}

extern "C" fn shm_lock(slot: *mut FileSlot, first: c_int, count: c_int, flags: c_int) -> c_int {
    call(|| {
        let (first, count) = (first.max(0) as usize, count.max(0) as usize);
        let end = (first + count).min(shm::LOCKS);
        database(slot)?.shm_lock(first.min(end)..end, flags & shm::LOCK != 0, flags & shm::EXCLUSIVE != 0)
    })
}

extern "C" fn shm_barrier(_: *mut FileSlot) {
    fence(Ordering::SeqCst);
}

extern "C" fn shm_unmap(slot: *mut FileSlot, _: c_int) -> c_int {
    match call(|| {
        database(slot)?.shm_unmap();
        Ok(())
    }) {
        // There is nothing to unmap of what is no database.
        code if Code(code) == NOTFOUND => OK,
        code => code,
    }
}

/// Puts an answer where SQLite wants it.
pub(crate) fn put<T>(room: *mut T, value: T) {
    if !room.is_null() {
        // SAFETY: SQLite's room for an answer, for this call alone.
        unsafe { room.write(value) }
    }
}
