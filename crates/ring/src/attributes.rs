//! The flags of a mount that is on no directory yet, for which there is no safe call.

#![allow(unsafe_code, reason = "a system call with a pointer to its parameters")]

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Gives a mount, open by its root, other attributes (mount_setattr(2)): the bits `clear` go, then the bits `set` come.
///
/// # Errors
/// The kernel's refusal.
pub fn set_mount_attributes(mount: BorrowedFd<'_>, set: u64, clear: u64) -> io::Result<()> {
    let attributes = Attributes { set, clear, propagation: 0, userns_fd: 0 };
    // SAFETY: both pointers are to values that live until the call returns, which only reads them, and the size is that
    // of the second.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            c_long::from(mount.as_raw_fd()),
            c"".as_ptr(),
            c_long::from(libc::AT_EMPTY_PATH),
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_mount_has_no_attributes() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert!(set_mount_attributes(file.as_fd(), 1, 0).is_err());
    }
}
