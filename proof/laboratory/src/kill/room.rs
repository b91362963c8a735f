//! Lack of room, which is no violation: of the volume under load, and of the directory in which images are copied.

use ondol_testkit::image::ToolError;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Why something was not judged to be right.
#[derive(Debug)]
pub(super) enum Wrong {
    /// It is wrong.
    Violation(String),
    /// There was no room to look.
    NoRoom(String),
}

impl Wrong {
    /// A file of our own, as `of` names it, could not be read or written.
    pub(super) fn of_io(of: &Path, e: &io::Error) -> Self {
        Self::of(e.raw_os_error(), format!("{}: {e}", of.display()))
    }

    /// A tool of others could not be run.
    pub(super) fn of_tool(e: &ToolError) -> Self {
        let code = match e {
            ToolError::Scratch(e) => e.raw_os_error(),
            _ => None,
        };
        Self::of(code, e.to_string())
    }

    /// An image could not be exported into `dir`. Recovery may find no room in a pool, too, which is wrong: it is the
    /// directory that must be full.
    pub(super) fn of_export(e: &ondol::Error, dir: &Path) -> Self {
        let what = format!("its export: {e}");
        match is_full(&io::Error::from_raw_os_error(e.errno()), dir) {
            true => Self::NoRoom(what),
            false => Self::Violation(what),
        }
    }

    fn of(code: Option<i32>, what: String) -> Self {
        match is_lacking(code) {
            true => Self::NoRoom(what),
            false => Self::Violation(what),
        }
    }
}

fn is_lacking(code: Option<i32>) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| code == Some(errno.raw_os_error()))
}

/// So little is left of a volume that a load may find it full: a 16th of it, or this.
const LITTLE: u64 = 1 << 20;

/// Whether a call on the volume that is mounted on `dir` failed because the volume is full: it says so, and hardly
/// anything is free.
pub(super) fn is_full(e: &io::Error, dir: &Path) -> bool {
    let little =
        |stats: rustix::fs::StatVfs| stats.f_bavail * stats.f_frsize < LITTLE.max(stats.f_blocks * stats.f_frsize / 16);
    // Of a server that was killed meanwhile nobody can ask.
    is_lacking(e.raw_os_error()) && rustix::fs::statvfs(dir).map_or(true, little)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_room_is_told_from_what_is_wrong() {
        let full = io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error());
        let broken = io::Error::from_raw_os_error(Errno::IO.raw_os_error());
        let path = Path::new("/");
        assert!(matches!(Wrong::of_io(path, &full), Wrong::NoRoom(_)));
        assert!(matches!(Wrong::of_io(path, &broken), Wrong::Violation(_)));
        assert!(matches!(Wrong::of_tool(&ToolError::Scratch(full)), Wrong::NoRoom(_)));
        let roomy = io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error());
        let scratch = tempfile::tempdir().unwrap();
        let stats = rustix::fs::statvfs(scratch.path()).unwrap();
        let has_room = stats.f_bavail * stats.f_frsize > LITTLE.max(stats.f_blocks * stats.f_frsize / 16);
        assert_eq!(is_full(&roomy, scratch.path()), !has_room, "what says that it is full and has room is wrong");
        assert!(!is_full(&broken, scratch.path()));
    }
}
