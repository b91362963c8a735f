//! File handles: name_to_handle_at(2) and open_by_handle_at(2), which no safe library has.
#![expect(unsafe_code, reason = "two system calls")]

use crate::format::MAX_HANDLE;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// A file's handle: inode and generation, as its file system encodes them. It outlives names and restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// The file system's encoding.
    pub kind: i32,
    /// The handle.
    pub bytes: Vec<u8>,
}

/// `struct file_handle` with room for the largest handle.
#[repr(C)]
struct Raw {
    len: u32,
    kind: i32,
    bytes: [u8; MAX_HANDLE],
}

impl Handle {
    /// The handle of an open file.
    ///
    /// # Errors
    /// The file system has none.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Self::at(fd, c"")
    }

    /// The handle of what a name in the directory `dir` leads to, itself and not what it points to; with an empty name
    /// of what `dir` is open for.
    ///
    /// # Errors
    /// There is nothing of that name, or the file system has no handles.
    pub fn at(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<Self> {
        let mut raw = Raw { len: MAX_HANDLE as u32, kind: 0, bytes: [0; MAX_HANDLE] };
        let mut mount: libc::c_int = 0;
        let flags = if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
        // SAFETY: the kernel writes at most `len` bytes of handle behind the two numbers, which `raw` has room for, and
        // a number to `mount`; the path is a string.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                dir.as_raw_fd(),
                name.as_ptr(),
                &raw mut raw,
                &raw mut mount,
                flags,
            )
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        let bytes = raw.bytes.get(..raw.len as usize).unwrap_or_default().to_vec();
        Ok(Self { kind: raw.kind, bytes })
    }

    /// Opens the file, for its name only, on the file system that `mount` lies on. Only root may.
    ///
    /// # Errors
    /// `ESTALE` when the file is gone; the system's.
    pub fn open(&self, mount: BorrowedFd<'_>) -> io::Result<File> {
        let mut raw = Raw { len: self.bytes.len() as u32, kind: self.kind, bytes: [0; MAX_HANDLE] };
        let room = raw.bytes.get_mut(..self.bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
        room.copy_from_slice(&self.bytes);
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: the kernel reads `len` bytes of handle behind the two numbers, which `raw` has.
        let fd = unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw const raw, flags) };
        match libc::c_int::try_from(fd) {
            // SAFETY: a descriptor that the kernel has just made is nobody else's.
            Ok(fd) if fd >= 0 => Ok(unsafe { File::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_handle_is_the_files_whatever_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        let file = File::create(&one).unwrap();
        let handle = Handle::of(file.as_fd()).unwrap();
        std::fs::rename(&one, &two).unwrap();
        assert_eq!(Handle::of(File::open(&two).unwrap().as_fd()).unwrap(), handle);
        assert_ne!(Handle::of(File::create(&one).unwrap().as_fd()).unwrap(), handle);
        assert!(!handle.bytes.is_empty());
    }
}
