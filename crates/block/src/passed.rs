//! Descriptors that a process was started with, named `/dev/fd/N` or `/proc/self/fd/N`.
//!
//! Opening such a path opens the file anew on Linux: it needs `/proc`, access to the file, and gives another lock. What
//! is meant is the open file itself, as it was passed.

use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The number of the descriptor that `path` names, if it names one.
pub fn number(path: &Path) -> Option<i32> {
    let text = path.to_str()?;
    let digits = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|above| text.strip_prefix(above))?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A second descriptor for the open file of this process's descriptor `number`.
///
/// # Errors
/// There is no such descriptor, or the system is older than Linux 5.6.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    let this = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    Ok(rustix::process::pidfd_getfd(&this, number, PidfdGetfdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn only_descriptors_are_taken_for_descriptors() {
        assert_eq!(number(Path::new("/dev/fd/3")), Some(3));
        assert_eq!(number(Path::new("/proc/self/fd/12")), Some(12));
        for path in ["/dev/fd/", "/dev/fd/-1", "/dev/fd/+1", "/dev/fd/3/x", "fd/3", "/dev/fd/99999999999"] {
            assert_eq!(number(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_duplicate_is_the_same_open_file() {
        let mut file = tempfile::tempfile().unwrap();
        let mut second = std::fs::File::from(duplicate(file.as_raw_fd()).unwrap());
        file.write_all(b"four").unwrap();
        assert_eq!(second.stream_position().unwrap(), 4);
        assert!(duplicate(1 << 20).is_err());
    }
}
