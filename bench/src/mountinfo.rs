//! What is mounted where, from `/proc/self/mountinfo`.

use crate::BenchError;
use crate::error::Context;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// File system type, such as `ext4` or `fuse.ondol`.
    pub(crate) fs_type: String,
    /// What is mounted: a device, or a name that the file system chose.
    pub(crate) source: PathBuf,
    /// The file system's own options.
    pub(crate) options: String,
}

/// The mount that is mounted exactly at `point`: the topmost one, if there are several.
pub(crate) fn mounted_at(point: &Path) -> Result<Option<Mount>, BenchError> {
    Ok(read()?.into_iter().rev().find(|mount| mount.point == point))
}

/// The mount that `path` lies on.
pub(crate) fn mount_of(path: &Path) -> Result<Mount, BenchError> {
    let path = path.canonicalize().context(|| path.display().to_string())?;
    // Of several mounts on one point the last covers the others.
    let mount = read()?.into_iter().filter(|m| path.starts_with(&m.point)).max_by_key(|m| m.point.as_os_str().len());
    mount.ok_or_else(|| BenchError::Unfit(format!("{}: no mount holds it", path.display())))
}

fn read() -> Result<Vec<Mount>, BenchError> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").context(|| "/proc/self/mountinfo")?;
    Ok(text.lines().filter_map(parse).collect())
}

/// One line: `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/loop0 rw,data=journal` (proc(5)).
fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let point = left.split(' ').nth(4)?;
    let mut right = right.split(' ');
    let (fs_type, source, options) = (right.next()?, right.next()?, right.next().unwrap_or_default());
    Some(Mount {
        point: unescape(point),
        fs_type: fs_type.to_owned(),
        source: unescape(source),
        options: options.to_owned(),
    })
}

/// Blanks, tabs, newlines and backslashes come as `\ooo`.
fn unescape(text: &str) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((&first, rest)) = bytes.split_first() {
        let octal = rest.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = octal.filter(|_| first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.unwrap_or(first));
        bytes = if code.is_some() { rest.get(3..).unwrap_or_default() } else { rest };
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = r"36 35 7:0 / /mnt/with\040blank rw,noatime shared:1 master:2 - ext4 /dev/loop0 rw,data=journal";
        let mount = parse(line).expect("a mount");
        assert_eq!(mount.point, Path::new("/mnt/with blank"));
        assert_eq!((mount.fs_type.as_str(), mount.source.as_path()), ("ext4", Path::new("/dev/loop0")));
        assert_eq!(mount.options, "rw,data=journal");
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn a_path_lies_on_a_mount() {
        assert_eq!(mount_of(Path::new("/proc/self")).expect("a mount").fs_type, "proc");
        assert_eq!(mounted_at(Path::new("/proc")).expect("read").expect("a mount").fs_type, "proc");
        assert_eq!(mounted_at(Path::new("/proc/self")).expect("read"), None);
        assert!(mount_of(Path::new("/does/not/exist")).is_err());
    }
}
