//! `/proc/self/mountinfo`: which volumes are mounted where.

use rustix::fs::{AtFlags, StatxFlags};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kernel's number of the mount.
    pub id: u64,
    /// The number of the mount that it lies on.
    pub parent: u64,
    /// Device number as `major:minor`.
    pub device: String,
    /// Which directory of its file system is mounted: `/`, but for a bind mount.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of this mount of the file system: `ro`, `nosuid` and so on.
    pub flags: String,
    /// Type, with subtype.
    pub fs_type: String,
    /// What is mounted: a device, or the image of a volume of ours.
    pub source: PathBuf,
    /// Options of the file system itself: its flags, and those of FUSE.
    pub options: String,
}

impl Entry {
    /// Some process serves it, and may never answer.
    pub fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type == "fuseblk" || self.fs_type.starts_with("fuse.")
    }

    /// The device number as stat(2) has it.
    pub fn device_number(&self) -> Option<u64> {
        let (major, minor) = self.device.split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    }

    /// Whether an option of the mount or of its file system is this word.
    pub fn has(&self, word: &str) -> bool {
        self.flags.split(',').chain(self.options.split(',')).any(|option| option == word)
    }
}

/// The number of the mount that a file was reached by, which is [`Entry::id`]. The server of a file system is not
/// asked.
///
/// # Errors
/// As statx(2).
pub fn mount_of(file: impl AsFd) -> rustix::io::Result<u64> {
    // AT_STATX_DONT_SYNC, which rustix does not name with musl.
    let flags = AtFlags::EMPTY_PATH | AtFlags::from_bits_retain(0x4000);
    Ok(rustix::fs::statx(file, c"", flags, StatxFlags::MNT_ID)?.stx_mnt_id)
}

/// All mounts of this process's namespace; of mounts on one directory the last is on top.
///
/// # Errors
/// `/proc` cannot be read.
pub fn read() -> io::Result<Vec<Entry>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// As [`read`], of the namespace of another process, below its root.
///
/// # Errors
/// It is not to be seen.
pub fn read_of(pid: u32) -> io::Result<Vec<Entry>> {
    Ok(parse(&std::fs::read(format!("/proc/{pid}/mountinfo"))?))
}

/// The mount that `dir` lies on: of the longest mount point above it, the last.
pub fn covering<'a>(table: &'a [Entry], dir: &Path) -> Option<&'a Entry> {
    let depth = |e: &Entry| e.point.components().count();
    table.iter().filter(|e| dir.starts_with(&e.point)).max_by_key(|e| depth(e))
}

/// The topmost mount on `dir` itself.
pub fn on<'a>(table: &'a [Entry], dir: &Path) -> Option<&'a Entry> {
    table.iter().rfind(|e| e.point == dir)
}

fn parse(text: &[u8]) -> Vec<Entry> {
    text.split(|&b| b == b'\n').filter_map(entry).collect()
}

/// `36 35 98:0 /root /mnt/point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn entry(line: &[u8]) -> Option<Entry> {
    let mut words = line.split(|&b| b == b' ');
    let id = text(words.next()?).parse().ok()?;
    let parent = text(words.next()?).parse().ok()?;
    let device = text(words.next()?);
    let [root, point] = [words.next()?, words.next()?].map(|path| PathBuf::from(unescape(path)));
    let flags = text(words.next()?);
    words.find(|w| *w == b"-")?;
    let fs_type = text(words.next()?);
    let source = PathBuf::from(unescape(words.next()?));
    let options = text(words.next().unwrap_or_default());
    Some(Entry { id, parent, device, root, point, flags, fs_type, source, options })
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// Turns `\040` and the like back into the byte.
fn unescape(word: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| byte == b'\\').and_then(octal);
        match octal {
            Some(value) => {
                out.push(value);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out)
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::ffi::OsStr::from_bytes(digits).to_str()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        40 22 0:35 / /mnt/a\\040b rw,nosuid shared:3 - fuse.ondol /img/my\\054x\\134.img rw,user_id=0\n\
        41 22 0:36 / /mnt/a\\040b rw - fuse.ondol /img/second.img rw\n";

    #[test]
    fn fields_and_escapes() {
        let table = parse(TABLE);
        assert_eq!(table.len(), 3);
        assert_eq!(table[1].point, Path::new("/mnt/a b"));
        assert_eq!(table[1].source, Path::new("/img/my,x\\.img"));
        assert_eq!((table[1].id, table[1].device.as_str()), (40, "0:35"));
        assert_eq!((table[1].parent, table[1].root.as_path(), &*table[1].fs_type), (22, Path::new("/"), "fuse.ondol"));
        assert_eq!((&*table[1].flags, &*table[1].options), ("rw,nosuid", "rw,user_id=0"));
        assert!(table[1].has("nosuid") && table[1].has("user_id=0") && !table[1].has("user_id"));
        assert!(table[1].is_fuse() && !table[0].is_fuse());
        assert_eq!(table[0].device_number(), Some(rustix::fs::makedev(254, 0)));
    }

    #[test]
    fn the_last_mount_on_a_directory_covers() {
        let table = parse(TABLE);
        assert_eq!(covering(&table, Path::new("/mnt/a b/c")).map(|e| e.id), Some(41));
        assert_eq!(covering(&table, Path::new("/mnt/abc")).map(|e| e.id), Some(22));
        assert_eq!(on(&table, Path::new("/mnt/a b")).map(|e| e.id), Some(41));
        assert_eq!(on(&table, Path::new("/mnt")), None);
    }
}
