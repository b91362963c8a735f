//! What of a volume is open, for whoever wants to close it.

use crate::words::counted;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Something of a volume that is open, and keeps the volume from being closed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Open {
    /// A file, or a view or map of it: the path by which it was opened. Clones of a file count once.
    File(Arc<Path>),
    /// The listing of a directory, or an entry of it: the path by which it was listed.
    Directory(Arc<Path>),
    /// Memory of the volume ([`crate::Volume::scratch`]).
    Memory,
}

impl Open {
    /// The path by which it was opened; none of memory.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Directory(path) => Some(path),
            Self::Memory => None,
        }
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Directory(path) => write!(f, "the directory {}", path.display()),
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// So many are named, of all that are open.
const NAMED: usize = 5;

/// All that is open, in words.
pub(crate) fn all(open: &[Open]) -> String {
    let named: Vec<String> = open.iter().take(NAMED).map(Open::to_string).collect();
    let more = open.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}: {}{more}", counted(open.len() as u64, "thing"), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_counted_and_the_first_ones_are_named() {
        let file = |n: usize| Open::File(Path::new(&format!("/{n}")).into());
        assert_eq!(all(&[Open::Memory]), "1 thing: memory");
        assert_eq!(all(&[file(1), Open::Directory(Path::new("/d").into())]), "2 things: the file /1, the directory /d");
        let many: Vec<Open> = (1..8).map(file).collect();
        assert!(all(&many).ends_with("the file /5 and 2 more"), "{}", all(&many));
    }
}
