//! The VFS: what SQLite asks about files that are not open yet, and how it comes to know of it.

use crate::call::{call, code, is_missing};
use crate::codes::{
    ACCESS_EXISTS, CANTOPEN, CANTOPEN_ISDIR, CANTOPEN_SYMLINK, ERROR, IOERR_ACCESS, IOERR_DELETE, IOERR_DELETE_NOENT,
    NOTFOUND, OK, OK_LOAD_PERMANENTLY, Result, open,
};
use crate::database::Database;
use crate::ffi::{self, Api, ApiRoutines, FileSlot, Sqlite3, Vfs};
use crate::images::Used;
use crate::journal::{self, Super};
use crate::methods::{METHODS, Opened, Plain, put};
use crate::name::Name;
use ondol::{File, FileType, OpenOptions};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

/// Its name.
pub(crate) const NAME: &CStr = c"ondol";

/// The first SQLite that says when a checkpoint begins and ends.
const OLDEST: c_int = 3_035_000;

/// Longest name of a file, with the image: SQLite reads names of super-journals into room that is as small as its
/// smallest page.
const MOST_PATHNAME: c_int = 512;

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
    // SAFETY: SQLite's table.
    let api = unsafe { Api::new(api) };
    if api.version() < OLDEST {
        put(message, api.owned_string(c"the ondol VFS needs SQLite 3.35 or newer"));
        return ERROR;
    }
    if !api.find_vfs(NAME.as_ptr()).is_null() {
        return OK_LOAD_PERMANENTLY;
    }
    let base = api.find_vfs(std::ptr::null());
    // SAFETY: SQLite's default VFS, which stays registered.
    let Some(below) = (unsafe { base.as_ref() }) else { return ERROR };
    let room = c_int::try_from(size_of::<FileSlot>()).unwrap_or(c_int::MAX);
    let vfs = Vfs {
        version: 2,
        file_size: room.max(below.file_size),
        most_pathname: MOST_PATHNAME,
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        app_data: Box::into_raw(Box::new(Own { below: base, api })).cast(),
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
    match api.register_vfs(Box::into_raw(Box::new(vfs)), as_default) {
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

/// What the VFS keeps for itself: for each SQLite of a program there is one.
struct Own {
    /// The VFS for files without a name, and for everything that is none of a volume's.
    below: *mut Vfs,
    api: Api,
}

fn own<'a>(vfs: *mut Vfs) -> &'a Own {
    // SAFETY: SQLite hands over the VFS that was registered above; it is there as long as the program is.
    unsafe { &*(*vfs).app_data.cast::<Own>() }
}

fn below<'a>(vfs: *mut Vfs) -> (&'a Vfs, *mut Vfs) {
    let base = own(vfs).below;
    // SAFETY: SQLite's default VFS, which stays registered.
    (unsafe { &*base }, base)
}

/// A name that SQLite hands over.
fn text<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: SQLite's names end with a zero byte, and are there for the call.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    name.to_str().ok()
}

extern "C" fn open(vfs: *mut Vfs, name: *const c_char, slot: *mut FileSlot, flags: c_int, out: *mut c_int) -> c_int {
    let reads_super = flags & open::SUPER_JOURNAL != 0 && flags & open::CREATE == 0;
    if name.is_null() || (reads_super && is_elsewhere(name)) {
        let (below, base) = below(vfs);
        let opened = (below.open)(base, name, slot, flags, out);
        if opened == OK || !reads_super {
            return opened;
        }
    }
    // SAFETY: SQLite's room for `file_size` bytes.
    unsafe { (&raw mut (*slot).methods).write(std::ptr::null()) };
    call(|| {
        let text = text(name).ok_or(CANTOPEN)?;
        if reads_super {
            put(out, flags);
            return open_super(text, flags).map(|file| fill(vfs, slot, file));
        }
        let named = Name::whole(text).ok_or(CANTOPEN)?;
        let makes = flags & open::CREATE != 0;
        let mut given = flags;
        let file = if flags & open::MAIN_DB != 0 {
            // SAFETY: the name of a database, as SQLite gives it to a VFS.
            let lockless = unsafe { own(vfs).api.uri_boolean(name, c"nolock") };
            let (file, image, read_only) = open_database(&named, flags)?;
            if read_only {
                given = given & !(open::READWRITE | open::CREATE) | open::READONLY;
            }
            Opened::Database(Database::new(file, image, read_only, lockless))
        } else if flags & open::MAIN_JOURNAL != 0 && makes {
            Opened::Journal(journal::open())
        } else if flags & open::SUPER_JOURNAL != 0 && makes {
            Opened::Super(journal::make_super(text))
        } else {
            let image = Used::of(&named).map_err(|e| code(&e, CANTOPEN))?;
            Opened::Plain(Plain { file: open_file(&image, &named, flags)?, _image: image })
        };
        fill(vfs, slot, file);
        put(out, given);
        Ok(())
    })
}

/// Gives SQLite an open file.
fn fill(vfs: *mut Vfs, slot: *mut FileSlot, file: Opened) {
    put(slot, FileSlot { methods: &raw const METHODS, file: Box::into_raw(Box::new(file)), api: own(vfs).api });
}

/// What SQLite looks into after a rollback of several databases: a super-journal, or a journal that is named in it. One
/// that is not there any more names nothing.
fn open_super(text: &str, flags: c_int) -> Result<Opened> {
    let (Some(named), None) = (Name::whole(text), journal::super_journal(text)) else {
        return Ok(Opened::Super(journal::super_journal(text).unwrap_or_default()));
    };
    let image = Used::of(&named).map_err(|e| code(&e, CANTOPEN))?;
    match image.volume().metadata(&named.path) {
        Err(e) if is_missing(&e) => Ok(Opened::Super(Arc::<Super>::default())),
        _ => Ok(Opened::Plain(Plain { file: open_file(&image, &named, flags)?, _image: image })),
    }
}

/// Whether a name is none of a file in an image. Those of super-journals may be, if the main database of a connection
/// is another VFS's.
fn is_elsewhere(name: *const c_char) -> bool {
    text(name).is_some_and(|text| Name::whole(text).is_none())
}

/// Opens a database; whether it can only be read.
fn open_database(name: &Name, flags: c_int) -> Result<(File, Used, bool)> {
    let image = Used::of(name).map_err(|e| code(&e, CANTOPEN))?;
    if image.volume().metadata(&name.path).is_ok_and(|meta| meta.file_type() == FileType::Directory) {
        return Err(CANTOPEN_ISDIR);
    }
    refuse_links(&image, &name.path)?;
    let read_only = flags & open::READWRITE == 0 || image.volume().is_read_only();
    let flags = if read_only { open::READONLY } else { flags };
    Ok((open_file(&image, name, flags)?, image, read_only))
}

/// Refuses a path through a symbolic link: SQLite makes the names of journals of a database's name, and two names of
/// one database would have two logs.
fn refuse_links(image: &Used, path: &str) -> Result<()> {
    for there in Path::new(path).ancestors().filter(|there| !there.as_os_str().is_empty()) {
        let meta = image.volume().symlink_metadata(there);
        if meta.is_ok_and(|meta| meta.file_type() == FileType::Symlink) {
            let said = format!("{} is a symbolic link: a database is opened by its own name", there.display());
            ffi::log(CANTOPEN_SYMLINK, &said);
            return Err(CANTOPEN_SYMLINK);
        }
    }
    Ok(())
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

extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, durable: c_int) -> c_int {
    if is_elsewhere(name) {
        let (below, base) = below(vfs);
        return match (below.delete)(base, name, durable) {
            // The database that named it first has deleted it: see `open_super`.
            gone if gone == IOERR_DELETE_NOENT.0 && durable == 0 => OK,
            done => done,
        };
    }
    call(|| {
        let text = text(name).ok_or(IOERR_DELETE)?;
        match (journal::super_journal(text), durable) {
            // The commit of several databases.
            (Some(journal), 1..) => return journal.commit(),
            // A rollback: it goes with the last database that needs it.
            (Some(_), _) => return Ok(()),
            (None, _) => {}
        }
        let name = Name::whole(text).ok_or(IOERR_DELETE)?;
        let image = Used::of(&name).map_err(|e| code(&e, IOERR_DELETE))?;
        match image.volume().remove_file(&name.path) {
            // A journal that was in memory alone, or a super-journal that nobody needs any more.
            Err(e) if is_missing(&e) && (name.path.ends_with("-journal") || name.path.contains("-mj")) => return Ok(()),
            Err(e) if is_missing(&e) => return Err(IOERR_DELETE_NOENT),
            removed => removed.map_err(|e| code(&e, IOERR_DELETE))?,
        }
        match durable {
            0 => Ok(()),
            _ => image.volume().sync().map_err(|e| code(&e, IOERR_DELETE)),
        }
    })
}

extern "C" fn access(vfs: *mut Vfs, name: *const c_char, what: c_int, found: *mut c_int) -> c_int {
    let is_needed = text(name).filter(|text| !text.ends_with("-journal") && !text.ends_with("-wal"));
    if is_needed.is_some_and(|text| journal::is_named(text) || journal::super_journal(text).is_some()) {
        put(found, 1);
        return OK;
    }
    if is_elsewhere(name) {
        let (below, base) = below(vfs);
        return (below.access)(base, name, what, found);
    }
    call(|| {
        let text = text(name).ok_or(IOERR_ACCESS)?;
        let name = Name::whole(text).ok_or(IOERR_ACCESS)?;
        let image = Used::of(&name).map_err(|e| code(&e, IOERR_ACCESS))?;
        let exists = match image.volume().metadata(&name.path) {
            // SQLite takes an empty file for none, as it does elsewhere.
            Ok(meta) if what == ACCESS_EXISTS => meta.file_type() != FileType::Regular || meta.len() > 0,
            Ok(_) => !image.volume().is_read_only(),
            Err(e) if is_missing(&e) => false,
            Err(e) => return Err(code(&e, IOERR_ACCESS)),
        };
        put(found, c_int::from(exists));
        Ok(())
    })
}

extern "C" fn full_pathname(vfs: *mut Vfs, name: *const c_char, room: c_int, out: *mut c_char) -> c_int {
    call(|| {
        // SAFETY: SQLite asks for the full name of a database alone, by the name that its URI gave, with the parameters
        // behind it.
        let image = text(unsafe { own(vfs).api.uri_parameter(name, c"image") });
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
