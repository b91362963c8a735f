//! Processes that hold flock(2) locks, and what is known of a process. Nothing here opens what it looks at.

use std::fs::Metadata;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A lock on a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The process that took it; 0 where it is in another process namespace.
    pub pid: u32,
    /// Nobody else can have one.
    pub exclusive: bool,
}

/// The locks of flock(2) on the inode `ino` of the file system with device number `dev`, both as stat(2) has them.
pub fn of(dev: u64, ino: u64) -> Vec<Lock> {
    parse(&table().unwrap_or_default(), dev, ino)
}

/// The kernel's list. While others lock and unlock, what is read of it in parts may leave out some of it, so it is read
/// at once as far as the kernel gives it.
fn table() -> std::io::Result<String> {
    let mut text = String::with_capacity(1 << 16);
    std::fs::File::open("/proc/locks")?.read_to_string(&mut text)?;
    Ok(text)
}

/// `1: FLOCK  ADVISORY  WRITE 25510 00:1b:103 0 EOF`; `->` after the number is one who waits.
fn parse(text: &str, dev: u64, ino: u64) -> Vec<Lock> {
    let inode = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let lock = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, mode, pid, place, ..] = words[..] else { return None };
        (place == inode).then(|| Lock { pid: pid.parse().unwrap_or(0), exclusive: mode == "WRITE" })
    };
    text.lines().filter_map(lock).collect()
}

/// The lock of flock(2) that process `pid` has by its descriptor `fd`.
pub fn by_descriptor(pid: u32, fd: u32) -> Option<Lock> {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    let line = info.lines().filter_map(|l| l.strip_prefix("lock:")).find(|l| l.contains(" FLOCK "))?;
    Some(Lock { pid, exclusive: line.split_whitespace().any(|word| word == "WRITE") })
}

/// The directory of the files that root's processes lock beside images.
pub const ROOTS: &str = "/run/ondol";

/// The file in it that stands for the file of which `meta` is known.
pub fn roots_file(meta: &Metadata) -> PathBuf {
    Path::new(ROOTS).join(format!("{:x}-{:x}", meta.dev(), meta.ino()))
}

/// A process's command as ps(1) shows it; a name that it chose itself, made fit to be printed.
pub fn command(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').escape_debug().to_string())
}

/// A path made fit to be printed in one line.
pub fn shown(path: &Path) -> String {
    ondol_format::printable(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_an_inode_are_found() {
        let text = "1: FLOCK  ADVISORY  WRITE 25510 00:1b:103 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 7 00:1b:103 0 EOF\n\
            2: POSIX  ADVISORY  READ 9 00:1b:103 0 EOF\n3: FLOCK  ADVISORY  READ 11 fe:100:10051588 0 EOF\n";
        let locks = |major, minor, ino| parse(text, rustix::fs::makedev(major, minor), ino);
        assert_eq!(locks(0, 0x1b, 103), [Lock { pid: 25510, exclusive: true }]);
        assert_eq!(locks(0xfe, 0x100, 10_051_588), [Lock { pid: 11, exclusive: false }]);
        assert_eq!(locks(0, 0x1b, 10), []);
    }

    #[test]
    fn a_lock_of_this_process_is_seen() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        let (meta, pid) = (file.metadata().unwrap(), std::process::id());
        let fd = file.as_raw_fd().cast_unsigned();
        assert!(of(meta.dev(), meta.ino()).is_empty() && by_descriptor(pid, fd).is_none());
        file.lock().unwrap();
        let held = Lock { pid, exclusive: true };
        assert_eq!(by_descriptor(pid, fd), Some(held));
        // The device that /proc/locks names is not stat's on file systems that make up numbers.
        assert!(of(meta.dev(), meta.ino()).iter().all(|lock| *lock == held));
        assert!(command(pid).is_some_and(|name| !name.is_empty()));
        assert_eq!(shown(Path::new("/a\x1b[1m\nb")), "/a^[[1m^Jb");
    }
}
