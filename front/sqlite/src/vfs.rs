//! The VFS: what SQLite asks about files that are not open yet, and how it comes to know of it.

use crate::call::{call, code, is_missing};
use crate::codes::{
    ACCESS_EXISTS, CANTOPEN, CANTOPEN_ISDIR, ERROR, IOERR_ACCESS, IOERR_DELETE, IOERR_DELETE_NOENT, NOTFOUND, OK,
    OK_LOAD_PERMANENTLY, Result, open,
};
use crate::database::Database;
use crate::ffi::{self, ApiRoutines, FileSlot, Sqlite3, Vfs};
use crate::images::{self, Used};
use crate::journal::InMemory;
use crate::methods::{METHODS, Opened, Plain, put};
use crate::name::Name;
use ondol::{File, FileType, OpenOptions};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Its name.
pub(crate) const NAME: &CStr = c"ondol";

/// The first SQLite that says when a checkpoint begins and ends.
const OLDEST: c_int = 3_035_000;

/// Longest name of a file, with the image.
const MOST_PATHNAME: c_int = 4096;

/// Image of databases whose URI names none.
const IMAGE: &str = "ONDOL_IMAGE";

/// Whether it becomes the VFS of programs that name none.
const DEFAULT: &str = "ONDOL_VFS_DEFAULT";

/// What SQLite calls when it loads `libondol_sqlite.so`: makes the VFS `ondol` known.
///
/// # Safety
/// SQLite calls it, with its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_ondolsqlite_init(
    _: *mut Sqlite3,
    message: *mut *mut c_char,
    api: *const ApiRoutines,
) -> c_int {
    ffi::set_api(api);
    if ffi::version() < OLDEST {
        put(message, ffi::owned_string(c"the ondol VFS needs SQLite 3.35 or newer"));
        return ERROR;
    }
    if !ffi::find_vfs(NAME.as_ptr()).is_null() {
        return OK_LOAD_PERMANENTLY;
    }
    let base = ffi::find_vfs(std::ptr::null());
    // SAFETY: SQLite's default VFS, which stays registered.
    let Some(below) = (unsafe { base.as_ref() }) else { return ERROR };
    let room = c_int::try_from(size_of::<FileSlot>()).unwrap_or(c_int::MAX);
    let vfs = Vfs {
        version: 2,
        file_size: room.max(below.file_size),
        most_pathname: MOST_PATHNAME,
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        app_data: base.cast(),
        open,
        delete,
        access,
        full_pathname,
        dl_open,
        dl_error,
        dl_sym,
        dl_close,
        randomness,
        sleep,
        current_time,
        get_last_error,
        current_time_int64,
    };
    let as_default = std::env::var_os(DEFAULT).is_some_and(|value| value == "1");
    match ffi::register_vfs(Box::into_raw(Box::new(vfs)), as_default) {
        OK => OK_LOAD_PERMANENTLY,
        failed => failed,
    }
}

/// As [`sqlite3_ondolsqlite_init`], for a library that was renamed to `ondol.so`.
///
/// # Safety
/// As [`sqlite3_ondolsqlite_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_ondol_init(
    connection: *mut Sqlite3,
    message: *mut *mut c_char,
    api: *const ApiRoutines,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { sqlite3_ondolsqlite_init(connection, message, api) }
}

/// The VFS for files without a name, and for everything that is none of a volume's.
fn below<'a>(vfs: *mut Vfs) -> (&'a Vfs, *mut Vfs) {
    // SAFETY: SQLite hands over the VFS that was registered above; it and the default one are there as long as the program is.
    let base = unsafe { (*vfs).app_data.cast::<Vfs>() };
    // SAFETY: as above.
    (unsafe { &*base }, base)
}

/// A name that SQLite hands over.
fn text<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: SQLite's names end with a zero byte, and are there for the call.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    name.to_str().ok()
}

extern "C" fn open(vfs: *mut Vfs, name: *const c_char, slot: *mut FileSlot, flags: c_int, out: *mut c_int) -> c_int {
    if name.is_null() {
        let (below, base) = below(vfs);
        return (below.open)(base, name, slot, flags, out);
    }
    // SAFETY: SQLite's room for `file_size` bytes.
    unsafe { (&raw mut (*slot).methods).write(std::ptr::null()) };
    call(|| {
        let text = text(name).ok_or(CANTOPEN)?;
        let named = Name::whole(text).ok_or(CANTOPEN)?;
        let makes = flags & open::CREATE != 0;
        let mut given = flags;
        let file = if flags & open::MAIN_DB != 0 {
            // SAFETY: the name of a database, as SQLite gives it to a VFS.
            let lockless = unsafe { ffi::uri_boolean(name, c"nolock") };
            let (file, image, read_only) = open_database(&named, flags)?;
            if read_only {
                given = given & !(open::READWRITE | open::CREATE) | open::READONLY;
            }
            Opened::Database(Database::new(file, image, read_only, lockless))
        } else if flags & open::MAIN_JOURNAL != 0 && makes {
            Opened::Journal(InMemory::default())
        } else if flags & open::SUPER_JOURNAL != 0 && makes {
            Opened::Super(images::make_super(text))
        } else {
            let image = Used::of(&named).map_err(|e| code(&e, CANTOPEN))?;
            Opened::Plain(Plain { file: open_file(&image, &named, flags)?, _image: image })
        };
        let filled = FileSlot { methods: &raw const METHODS, file: Box::into_raw(Box::new(file)) };
        put(slot, filled);
        put(out, given);
        Ok(())
    })
}

/// Opens a database; whether it can only be read.
fn open_database(name: &Name, flags: c_int) -> Result<(File, Used, bool)> {
    let image = Used::of(name).map_err(|e| code(&e, CANTOPEN))?;
    if image.volume().metadata(&name.path).is_ok_and(|meta| meta.file_type() == FileType::Directory) {
        return Err(CANTOPEN_ISDIR);
    }
    let read_only = flags & open::READWRITE == 0 || image.volume().is_read_only();
    let flags = if read_only { open::READONLY } else { flags };
    Ok((open_file(&image, name, flags)?, image, read_only))
}

fn open_file(image: &Used, name: &Name, flags: c_int) -> Result<File> {
    let has = |flag: c_int| flags & flag != 0;
    let writes = has(open::READWRITE);
    let mut options = OpenOptions::new();
    options.read(true).write(writes).create(writes && has(open::CREATE));
    options.create_new(writes && has(open::CREATE) && has(open::EXCLUSIVE));
    let opened = options.open(image.volume(), &name.path);
    let file = opened.map_err(|e| if is_missing(&e) { CANTOPEN } else { code(&e, CANTOPEN) })?;
    if has(open::DELETEONCLOSE) {
        image.volume().remove_file(&name.path).map_err(|e| code(&e, CANTOPEN))?;
    }
    Ok(file)
}

extern "C" fn delete(_: *mut Vfs, name: *const c_char, durable: c_int) -> c_int {
    call(|| {
        let text = text(name).ok_or(IOERR_DELETE)?;
        if let Some(journal) = images::take_super(text) {
            return journal.commit();
        }
        let name = Name::whole(text).ok_or(IOERR_DELETE)?;
        let image = Used::of(&name).map_err(|e| code(&e, IOERR_DELETE))?;
        match image.volume().remove_file(&name.path) {
            // A journal that was in memory alone.
            Err(e) if is_missing(&e) && name.path.ends_with("-journal") => return Ok(()),
            Err(e) if is_missing(&e) => return Err(IOERR_DELETE_NOENT),
            removed => removed.map_err(|e| code(&e, IOERR_DELETE))?,
        }
        match durable {
            0 => Ok(()),
            _ => image.volume().sync().map_err(|e| code(&e, IOERR_DELETE)),
        }
    })
}

extern "C" fn access(_: *mut Vfs, name: *const c_char, what: c_int, found: *mut c_int) -> c_int {
    call(|| {
        let text = text(name).ok_or(IOERR_ACCESS)?;
        let is_super = images::super_journal(text).is_some();
        let name = Name::whole(text).ok_or(IOERR_ACCESS)?;
        let image = Used::of(&name).map_err(|e| code(&e, IOERR_ACCESS))?;
        let exists = match image.volume().metadata(&name.path) {
            // SQLite takes an empty file for none, as it does elsewhere.
            Ok(meta) if what == ACCESS_EXISTS => meta.file_type() != FileType::Regular || meta.len() > 0,
            Ok(_) => !image.volume().is_read_only(),
            Err(e) if is_missing(&e) => false,
            Err(e) => return Err(code(&e, IOERR_ACCESS)),
        };
        put(found, c_int::from(exists || is_super));
        Ok(())
    })
}

extern "C" fn full_pathname(_: *mut Vfs, name: *const c_char, room: c_int, out: *mut c_char) -> c_int {
    call(|| {
        // SAFETY: SQLite asks for the full name of a database alone, by the name that its URI gave, with the parameters behind it.
        let image = text(unsafe { ffi::uri_parameter(name, c"image") });
        let asked = text(name).ok_or(CANTOPEN)?;
        let environment = std::env::var(IMAGE).ok();
        let Some(full) = Name::asked(asked, image, environment.as_deref()) else {
            ffi::log(CANTOPEN, "the ondol VFS is told no image: by image=, by IMAGE//PATH, or by ONDOL_IMAGE");
            return Err(CANTOPEN);
        };
        let full = CString::new(full.text()).map_err(|_| CANTOPEN)?;
        let bytes = full.as_bytes_with_nul();
        if bytes.len() > room.max(0) as usize {
            ffi::log(CANTOPEN, "the name of a database is too long");
            return Err(CANTOPEN);
        }
        // SAFETY: SQLite's room for `room` bytes, which is enough, as was looked.
        unsafe { out.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
        Ok(())
    })
}

extern "C" fn dl_open(vfs: *mut Vfs, name: *const c_char) -> *mut c_void {
    let (below, base) = below(vfs);
    (below.dl_open)(base, name)
}

extern "C" fn dl_error(vfs: *mut Vfs, room: c_int, out: *mut c_char) {
    let (below, base) = below(vfs);
    (below.dl_error)(base, room, out);
}

extern "C" fn dl_sym(vfs: *mut Vfs, library: *mut c_void, name: *const c_char) -> *mut c_void {
    let (below, base) = below(vfs);
    (below.dl_sym)(base, library, name)
}

extern "C" fn dl_close(vfs: *mut Vfs, library: *mut c_void) {
    let (below, base) = below(vfs);
    (below.dl_close)(base, library);
}

extern "C" fn randomness(vfs: *mut Vfs, len: c_int, out: *mut c_char) -> c_int {
    let (below, base) = below(vfs);
    (below.randomness)(base, len, out)
}

extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    let (below, base) = below(vfs);
    (below.sleep)(base, microseconds)
}

extern "C" fn current_time(vfs: *mut Vfs, now: *mut f64) -> c_int {
    let (below, base) = below(vfs);
    (below.current_time)(base, now)
}

extern "C" fn get_last_error(_: *mut Vfs, _: c_int, _: *mut c_char) -> c_int {
    OK
}

extern "C" fn current_time_int64(vfs: *mut Vfs, now: *mut i64) -> c_int {
    let (below, base) = below(vfs);
    if below.version < 2 {
        return NOTFOUND.0;
    }
    (below.current_time_int64)(base, now)
}
