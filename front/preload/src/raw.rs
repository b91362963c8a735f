//! System calls, as libc would make them: the answer is the call's, and errno is set.

use libc::{c_int, c_long, iovec};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Makes a system call with arguments that the program has given for the very same call.
macro_rules! system {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        // SAFETY: whatever the arguments point to, the program has handed it to the libc function of this name, whose
        // contract is the system call's.
        unsafe { ($crate::raw::syscall())($number $(, $argument)*) }
    };
}
pub(crate) use system;

type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;

static SYSCALL: Behind = Behind::new(&[c"syscall"]);

/// libc's syscall(2): the one here is for programs.
#[inline]
pub(crate) fn syscall() -> Syscall {
    match SYSCALL.address() {
        // SAFETY: a function that looks at fewer words than it is given.
        0 => unsafe { std::mem::transmute::<extern "C" fn() -> c_long, Syscall>(missing) },
        // SAFETY: libc's function of this name.
        at => unsafe { std::mem::transmute::<usize, Syscall>(at) },
    }
}

/// Every libc has it: whoever gets here has none.
extern "C" fn missing() -> c_long {
    fail(libc::ENOSYS).into()
}

/// The error of the last system call.
pub(crate) fn errno() -> c_int {
    // SAFETY: the address is this thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Answers a failure as libc does.
pub(crate) fn fail(error: c_int) -> c_int {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// A system call's answer as a result.
pub(crate) fn result(answer: c_long) -> Result<c_long, c_int> {
    if answer < 0 { Err(errno()) } else { Ok(answer) }
}

/// The descriptor's flags (`F_GETFL`); 0 if it has none.
pub(crate) fn flags(fd: c_int) -> c_int {
    system!(libc::SYS_fcntl, fd, libc::F_GETFL).max(0) as c_int
}

/// No signal is handled in this thread until it is dropped.
pub(crate) struct Quiet(u64);

impl Quiet {
    pub(crate) fn new() -> Self {
        let (all, mut before) = (u64::MAX, 0u64);
        let (set, old): (*const u64, *mut u64) = (&raw const all, &raw mut before);
        system!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, set, old, size_of::<u64>());
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let (error, none) = (errno(), std::ptr::null_mut::<u64>());
        system!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const self.0, none, size_of::<u64>());
        fail(error);
    }
}

/// The descriptor for calls of this thread during the one that it was handed in with.
pub(crate) fn borrow<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    // SAFETY: -1 is excluded. If the program closes it meanwhile in another thread, the kernel refuses, or it is
    // another file, which its identity tells.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The parts of a vectored write; none if their number makes no sense, as the kernel will say.
pub(crate) fn parts<'a>(parts: *const iovec, count: c_int) -> &'a [iovec] {
    match usize::try_from(count) {
        // SAFETY: the program hands `count` structures to a function that reads as many.
        Ok(count) if count <= libc::UIO_MAXIOV as usize && !parts.is_null() => unsafe {
            std::slice::from_raw_parts(parts, count)
        },
        _ => &[],
    }
}

/// Copies the first `len` bytes of what a program has written. Its other threads may change them meanwhile, so nothing
/// is made of the originals.
pub(crate) fn copy(parts: &[iovec], len: usize) -> Vec<u8> {
    let mut bytes = Vec::<u8>::with_capacity(len);
    for part in parts {
        let more = part.iov_len.min(len - bytes.len());
        if more > 0 {
            // SAFETY: the kernel has just read these bytes from there; the vector has room for `len`, and more than
            // `bytes.len() + more` are never taken.
            unsafe {
                std::ptr::copy_nonoverlapping(part.iov_base.cast::<u8>(), bytes.as_mut_ptr().add(bytes.len()), more);
                bytes.set_len(bytes.len() + more);
            }
        }
    }
    bytes
}

/// A function of libc's that has a namesake here.
pub(crate) struct Behind {
    /// Under which names: the first that is there.
    names: &'static [&'static CStr],
    at: AtomicUsize,
}

impl Behind {
    pub(crate) const fn new(names: &'static [&'static CStr]) -> Self {
        Self { names, at: AtomicUsize::new(0) }
    }

    /// Its address; 0 if there is none. Looked up when the library is loaded, since a signal handler or a child may
    /// call the namesake.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        match self.at.load(Relaxed) {
            0 => self.look_up(),
            at => at,
        }
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self) -> usize {
        // SAFETY: asks for a name behind this library.
        let find = |name: &&CStr| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.expose_provenance();
        let at = self.names.iter().map(find).find(|at| *at != 0).unwrap_or(0);
        self.at.store(at, Relaxed);
        at
    }
}
