//! What is used of SQLite's C interface. Its structures only ever grow at their ends, and its table of functions too.

use crate::codes::Code;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Opaque: a connection.
#[repr(C)]
pub struct Sqlite3 {
    _private: [u8; 0],
}

/// `sqlite3_api_routines`: functions of whichever SQLite has loaded the extension, by their places.
#[repr(C)]
pub struct ApiRoutines {
    places: [*const c_void; PLACES],
}

/// Places up to the last one that is used.
const PLACES: usize = place::URI_PARAMETER + 1;

/// Places of functions in `sqlite3_api_routines`.
pub(crate) mod place {
    pub(crate) const LIBVERSION_NUMBER: usize = 67;
    pub(crate) const MPRINTF: usize = 69;
    pub(crate) const VFS_FIND: usize = 141;
    pub(crate) const VFS_REGISTER: usize = 142;
    pub(crate) const LOG: usize = 167;
    pub(crate) const URI_BOOLEAN: usize = 187;
    pub(crate) const URI_PARAMETER: usize = 189;
}

/// `sqlite3_file`, as this VFS has it: SQLite gives it room and knows the methods alone.
#[repr(C)]
pub(crate) struct FileSlot {
    pub(crate) methods: *const IoMethods,
    pub(crate) file: *mut crate::methods::Opened,
    /// Of the SQLite whose file it is.
    pub(crate) api: Api,
}

/// `sqlite3_io_methods` of version 2.
#[repr(C)]
pub(crate) struct IoMethods {
    pub(crate) version: c_int,
    pub(crate) close: extern "C" fn(*mut FileSlot) -> c_int,
    pub(crate) read: extern "C" fn(*mut FileSlot, *mut c_void, c_int, i64) -> c_int,
    pub(crate) write: extern "C" fn(*mut FileSlot, *const c_void, c_int, i64) -> c_int,
    pub(crate) truncate: extern "C" fn(*mut FileSlot, i64) -> c_int,
    pub(crate) sync: extern "C" fn(*mut FileSlot, c_int) -> c_int,
    pub(crate) file_size: extern "C" fn(*mut FileSlot, *mut i64) -> c_int,
    pub(crate) lock: extern "C" fn(*mut FileSlot, c_int) -> c_int,
    pub(crate) unlock: extern "C" fn(*mut FileSlot, c_int) -> c_int,
    pub(crate) check_reserved_lock: extern "C" fn(*mut FileSlot, *mut c_int) -> c_int,
    pub(crate) file_control: extern "C" fn(*mut FileSlot, c_int, *mut c_void) -> c_int,
    pub(crate) sector_size: extern "C" fn(*mut FileSlot) -> c_int,
    pub(crate) device_characteristics: extern "C" fn(*mut FileSlot) -> c_int,
    pub(crate) shm_map: extern "C" fn(*mut FileSlot, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    pub(crate) shm_lock: extern "C" fn(*mut FileSlot, c_int, c_int, c_int) -> c_int,
    pub(crate) shm_barrier: extern "C" fn(*mut FileSlot),
    pub(crate) shm_unmap: extern "C" fn(*mut FileSlot, c_int) -> c_int,
}

/// `sqlite3_vfs` of version 2. `file` is a [`FileSlot`] only where this VFS opens it.
#[repr(C)]
pub(crate) struct Vfs {
    pub(crate) version: c_int,
    pub(crate) file_size: c_int,
    pub(crate) most_pathname: c_int,
    pub(crate) next: *mut Vfs,
    pub(crate) name: *const c_char,
    pub(crate) app_data: *mut c_void,
    pub(crate) open: extern "C" fn(*mut Vfs, *const c_char, *mut FileSlot, c_int, *mut c_int) -> c_int,
    pub(crate) delete: extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub(crate) access: extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub(crate) full_pathname: extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub(crate) dl_open: extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void,
    pub(crate) dl_error: extern "C" fn(*mut Vfs, c_int, *mut c_char),
    pub(crate) dl_sym: extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> *mut c_void,
    pub(crate) dl_close: extern "C" fn(*mut Vfs, *mut c_void),
    pub(crate) randomness: extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(crate) sleep: extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(crate) current_time: extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub(crate) get_last_error: extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(crate) current_time_int64: extern "C" fn(*mut Vfs, *mut i64) -> c_int,
}

/// The functions of one SQLite. A program may have two, each with memory of its own.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Api(*const ApiRoutines);

/// Whose log is written to: the one that has loaded the extension last.
static LOGS: AtomicPtr<ApiRoutines> = AtomicPtr::new(std::ptr::null_mut());

/// The function at a place of the table, as the type that it has there.
macro_rules! api {
    ($api:expr, $place:expr, $type:ty) => {
        // SAFETY: the function at this place has this type in every version of SQLite.
        $api.function($place).map(|found| unsafe { std::mem::transmute::<*const c_void, $type>(found) })
    };
}

impl Api {
    /// # Safety
    /// The table that SQLite hands to an extension, or NULL.
    pub(crate) unsafe fn new(api: *const ApiRoutines) -> Self {
        LOGS.store(api.cast_mut(), Ordering::Release);
        Self(api)
    }

    /// One of the functions; `None` in tests, where no SQLite has loaded anything.
    fn function(self, place: usize) -> Option<*const c_void> {
        // SAFETY: not NULL means that it is SQLite's table; it is static, and `PLACES` long in every version that is
        // taken.
        let found = unsafe { self.0.as_ref() }?.places[place];
        (!found.is_null()).then_some(found)
    }

    /// SQLite's version: 3040001 is 3.40.1.
    pub(crate) fn version(self) -> c_int {
        type Function = unsafe extern "C" fn() -> c_int;
        // SAFETY: it takes nothing and changes nothing.
        api!(self, place::LIBVERSION_NUMBER, Function).map_or(0, |version| unsafe { version() })
    }

    /// The VFS of a name, or the default one.
    pub(crate) fn find_vfs(self, name: *const c_char) -> *mut Vfs {
        type Function = unsafe extern "C" fn(*const c_char) -> *mut Vfs;
        // SAFETY: the name is NULL or ends with a zero byte.
        api!(self, place::VFS_FIND, Function).map_or(std::ptr::null_mut(), |find| unsafe { find(name) })
    }

    /// Makes a VFS known, which must stay where it is.
    pub(crate) fn register_vfs(self, vfs: *mut Vfs, as_default: bool) -> c_int {
        type Function = unsafe extern "C" fn(*mut Vfs, c_int) -> c_int;
        // SAFETY: the caller has leaked it.
        api!(self, place::VFS_REGISTER, Function)
            .map_or(crate::codes::ERROR, |register| unsafe { register(vfs, as_default.into()) })
    }

    /// A string that SQLite frees.
    pub(crate) fn owned_string(self, text: &std::ffi::CStr) -> *mut c_char {
        type Function = unsafe extern "C" fn(*const c_char, ...) -> *mut c_char;
        // SAFETY: the format takes one string, which ends with a zero byte.
        api!(self, place::MPRINTF, Function)
            .map_or(std::ptr::null_mut(), |print| unsafe { print(c"%s".as_ptr(), text.as_ptr()) })
    }

    /// What the URI says of a parameter; NULL if nothing.
    ///
    /// # Safety
    /// `name` is the name of a database as SQLite gives it to a VFS: its parameters lie behind it.
    pub(crate) unsafe fn uri_parameter(self, name: *const c_char, parameter: &std::ffi::CStr) -> *const c_char {
        type Function = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
        // SAFETY: the caller's name, and a string that ends with a zero byte.
        api!(self, place::URI_PARAMETER, Function)
            .map_or(std::ptr::null(), |get| unsafe { get(name, parameter.as_ptr()) })
    }

    /// Whether the URI says yes to a parameter.
    ///
    /// # Safety
    /// As [`Api::uri_parameter`].
    pub(crate) unsafe fn uri_boolean(self, name: *const c_char, parameter: &std::ffi::CStr) -> bool {
        type Function = unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int;
        // SAFETY: the caller's name, and a string that ends with a zero byte.
        api!(self, place::URI_BOOLEAN, Function).is_some_and(|get| unsafe { get(name, parameter.as_ptr(), 0) } != 0)
    }
}

/// Says something in SQLite's log, if the program has one.
pub(crate) fn log(code: Code, what: &str) {
    type Function = unsafe extern "C" fn(c_int, *const c_char, ...);
    let Ok(what) = CString::new(what.replace('\0', "?")) else { return };
    if let Some(log) = api!(Api(LOGS.load(Ordering::Acquire)), place::LOG, Function) {
        // SAFETY: the format takes one string, which ends with a zero byte.
        unsafe { log(code.0, c"%s".as_ptr(), what.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn two_sqlites_keep_their_functions() {
        extern "C" fn one() -> c_int {
            1
        }
        extern "C" fn other() -> c_int {
            2
        }
        let of = |version: extern "C" fn() -> c_int| {
            let mut places = [std::ptr::null(); PLACES];
            places[place::LIBVERSION_NUMBER] = version as *const c_void;
            // SAFETY: a table that stays, with functions of their types.
            unsafe { Api::new(Box::leak(Box::new(ApiRoutines { places }))) }
        };
        let (one, other) = (of(one), of(other));
        assert_eq!((one.version(), other.version()), (1, 2));
    }

    /// What SQLite's own header says.
    #[test]
    fn places_and_structures_are_as_in_the_header() {
        if ondol_skips::skips(ondol_skips::missing(&["cc"])) {
            return;
        }
        if !std::path::Path::new("/usr/include/sqlite3ext.h").exists() {
            return ondol_skips::skip("SQLite's header is missing (libsqlite3-dev)");
        }
        let places = [
            ("libversion_number", place::LIBVERSION_NUMBER),
            ("mprintf", place::MPRINTF),
            ("vfs_find", place::VFS_FIND),
            ("vfs_register", place::VFS_REGISTER),
            ("log", place::LOG),
            ("uri_boolean", place::URI_BOOLEAN),
            ("uri_parameter", place::URI_PARAMETER),
        ];
        let mut code = String::from("#define SQLITE_CORE 1\n#include <stddef.h>\n#include <sqlite3ext.h>\n");
        let mut same = |of: &str, field: &str, place: usize| {
            code += &format!("_Static_assert(offsetof({of}, {field}) == {place}, \"{field}\");\n");
        };
        for (name, place) in places {
            same("sqlite3_api_routines", name, place * size_of::<usize>());
        }
        same("sqlite3_io_methods", "xShmUnmap", std::mem::offset_of!(IoMethods, shm_unmap));
        same("sqlite3_io_methods", "xFetch", size_of::<IoMethods>());
        same("sqlite3_vfs", "pAppData", std::mem::offset_of!(Vfs, app_data));
        same("sqlite3_vfs", "xGetLastError", std::mem::offset_of!(Vfs, get_last_error));
        same("sqlite3_vfs", "xSetSystemCall", size_of::<Vfs>());
        let mut cc = Command::new("cc");
        cc.args(["-x", "c", "-fsyntax-only", "-"]).stdin(Stdio::piped());
        let mut child = cc.spawn().expect("cc");
        child.stdin.take().expect("its input").write_all(code.as_bytes()).expect("to write to it");
        assert!(child.wait().expect("its end").success(), "{code}");
    }
}
