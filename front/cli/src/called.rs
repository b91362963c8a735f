//! By which name the program was called: `ondol`, or as a helper of mount(8), umount(8), fsck(8) or mkfs(8), or
//! in the place of fuse2fs.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What the program is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// Itself, with commands.
    Ondol,
    /// mount(8)'s helper.
    Mount,
    /// umount(8)'s helper.
    Umount,
    /// fsck(8)'s checker.
    Fsck,
    /// mkfs(8)'s builder.
    Mkfs,
    /// Who calls it takes it for fuse2fs.
    Fuse2fs,
}

impl Called {
    /// By the first word of the command line, with or without a path. Types are `ondol` and, as the kernel shows it,
    /// `fuse.ondol`.
    pub(crate) fn by(word: Option<&OsStr>) -> Self {
        let name = word.and_then(|w| Path::new(w).file_name()).and_then(OsStr::to_str).unwrap_or_default();
        if name == "fuse2fs" {
            return Self::Fuse2fs;
        }
        match name.split_once('.') {
            Some(("mount", "ondol" | "fuse.ondol")) => Self::Mount,
            Some(("umount", "ondol" | "fuse.ondol")) => Self::Umount,
            Some(("fsck", "ondol" | "fuse.ondol")) => Self::Fsck,
            Some(("mkfs", "ondol" | "fuse.ondol")) => Self::Mkfs,
            _ => Self::Ondol,
        }
    }

    /// What messages begin with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ondol => "ondol",
            Self::Mount => "mount.ondol",
            Self::Umount => "umount.ondol",
            Self::Fsck => "fsck.ondol",
            Self::Mkfs => "mkfs.ondol",
            Self::Fuse2fs => "fuse2fs",
        }
    }
}

/// The first word of the command line, for a process that starts itself anew.
pub(crate) fn first_word() -> OsString {
    std::env::args_os().next().unwrap_or_else(|| "ondol".into())
}

/// Where among the words of `ondol …` the command stands, or would: options that all commands have may come before it.
pub(crate) fn command_at<W: AsRef<OsStr>>(words: &[W]) -> usize {
    let mut at = 1;
    while let Some(word) = words.get(at).map(AsRef::as_ref) {
        match word.to_str() {
            Some("--log-level") => at += 2,
            Some(word) if word.starts_with('-') => at += 1,
            _ => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_behind_options() {
        for (line, at) in [
            ("ondol", 1),
            ("ondol info x", 1),
            ("ondol -vv info x", 2),
            ("ondol --log-level info check info", 3),
            ("ondol --log-level=info -v check", 3),
            ("ondol --log-level", 3),
        ] {
            assert_eq!(command_at(&line.split(' ').collect::<Vec<_>>()), at, "{line}");
        }
    }

    #[test]
    fn names_of_links() {
        let by = |word: &str| Called::by(Some(OsStr::new(word)));
        assert_eq!(by("/sbin/mount.fuse.ondol"), Called::Mount);
        assert_eq!(by("mount.ondol"), Called::Mount);
        assert_eq!(by("umount.fuse.ondol"), Called::Umount);
        assert_eq!(by("fsck.ondol"), Called::Fsck);
        assert_eq!(by("mkfs.ondol"), Called::Mkfs);
        assert_eq!(by("/opt/drop-in/fuse2fs"), Called::Fuse2fs);
        for word in ["ondol", "fuse2fs.old", "./target/debug/ondol", "mount", "mount.ondol2", "ondol.old", ""] {
            assert_eq!(by(word), Called::Ondol, "{word}");
        }
        assert_eq!(Called::by(None), Called::Ondol);
    }
}
