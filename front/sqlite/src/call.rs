//! How a call of SQLite's ends: a number, and words in its log.

use crate::codes::{Code, IOERR, OK, Result};
use crate::ffi;
use ondol::Error;
use ondol::inodes::Error as InodeError;
use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does what a call is for. Whatever happens in it, it returns to C.
pub(crate) fn call(work: impl FnOnce() -> Result<()>) -> c_int {
    // What a panic leaves half done is a transaction that is not applied, and SQLite rolls it back.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => OK,
        Ok(Err(Code(code))) => code,
        Err(panic) => {
            ffi::log(IOERR, &format!("a defect of the ondol VFS: {}", said(&*panic)));
            IOERR.0
        }
    }
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

/// What SQLite has a number of its own for is that; everything else is `otherwise`. Why is said in SQLite's log.
pub(crate) fn code(e: &Error, otherwise: Code) -> Code {
    const EROFS: i32 = 30;
    const ENOMEM: i32 = 12;
    let code = match e.errno() {
        _ if is_too_much(e) => crate::codes::FULL,
        EROFS => crate::codes::READONLY,
        ENOMEM => crate::codes::IOERR_NOMEM,
        _ => otherwise,
    };
    ffi::log(code, &e.to_string());
    code
}

/// Whether it says that there is no room for it.
pub(crate) fn is_too_much(e: &Error) -> bool {
    const ENOSPC: i32 = 28;
    const E2BIG: i32 = 7;
    [ENOSPC, E2BIG].contains(&e.errno())
}

/// Whether it says that there is no such file.
pub(crate) fn is_missing(e: &Error) -> bool {
    matches!(e, Error::Path { source: InodeError::NotFound | InodeError::NotDirectory(_), .. })
}
