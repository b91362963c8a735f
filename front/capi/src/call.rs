//! How a call of C ends: a number, and words for whoever asks.

use ondol::Error;
use ondol::buffer::BufferError;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Why the last call of the thread that failed did so.
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
pub(crate) struct Failure {
    errno: c_int,
    what: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(errno: c_int, what: impl Into<String>) -> Self {
        Self { errno, what: what.into() }
    }

    /// An argument that makes no sense.
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, what)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self::new(e.errno(), e.to_string())
    }
}

impl From<BufferError> for Failure {
    fn from(e: BufferError) -> Self {
        Error::from(e).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        let ours = e.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let errno = ours.map(Error::errno).or_else(|| e.raw_os_error());
        let other = if e.kind() == std::io::ErrorKind::InvalidInput { libc::EINVAL } else { libc::EIO };
        Self::new(errno.unwrap_or(other), e.to_string())
    }
}

/// The object behind a pointer, which C must not leave out.
pub(crate) fn needed<T>(object: Option<T>, name: &str) -> Result<T> {
    object.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

/// Does what a call is for. Whatever happens in it, it returns to C.
pub(crate) fn counting(work: impl FnOnce() -> Result<u64>) -> i64 {
    // What the work has left half done by a panic is said to be unusable.
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(count)) => return i64::try_from(count).unwrap_or(i64::MAX),
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(libc::ENOTRECOVERABLE, format!("a defect of libondol: {}", said(&*panic))),
    };
    let words = CString::new(failure.what.replace('\0', "?")).unwrap_or_default();
    // A thread that is ending has no place for it any more.
    let _ = MESSAGE.try_with(|message| message.replace(words));
    // Error numbers are small and positive.
    -i64::from(failure.errno.max(1))
}

/// As [`counting`], where there is nothing to count.
pub(crate) fn call(work: impl FnOnce() -> Result<()>) -> c_int {
    counting(|| work().map(|()| 0)) as c_int
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

/// Why the last call of this thread that failed did so: one line without an end of line. It is valid until the next
/// call of this thread that fails; empty if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_error() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: what `ondol_error` returns ends with a zero byte, and no call that fails comes between.
        let text = unsafe { CStr::from_ptr(ondol_error()) };
        text.to_str().expect("text").to_owned()
    }

    #[test]
    fn a_panic_ends_at_the_border_and_is_said() {
        assert_eq!(message(), "");
        let number = 7;
        assert_eq!(call(|| panic!("no {number}")), -libc::ENOTRECOVERABLE);
        assert_eq!(message(), "a defect of libondol: no 7");
        assert_eq!(call(|| Ok(())), 0);
        assert_eq!(message(), "a defect of libondol: no 7", "a success leaves it");
    }

    #[test]
    fn each_thread_has_its_own_message() {
        assert_eq!(call(|| Err(Failure::invalid("one\0two"))), -libc::EINVAL);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(message(), ""));
        });
        assert_eq!(message(), "one?two");
    }

    #[test]
    fn errors_of_the_library_keep_their_numbers_through_io() {
        let failed = |e: std::io::Error| Failure::from(e).errno;
        assert_eq!(failed(Error::Recording.into()), libc::EDEADLK);
        assert_eq!(failed(std::io::Error::from_raw_os_error(libc::ENOSPC)), libc::ENOSPC);
        assert_eq!(failed(std::io::ErrorKind::InvalidInput.into()), libc::EINVAL);
    }
}
