//! Requests that list directories.
//!
//! Entries are gathered first and looked at afterwards: an inode is never asked while its directory is locked.

use super::{Answer, Op, Ops};
use ondol::inodes::{Error, Inodes};
use ondol::{Attr, FileType, Ino};

/// Entries gathered before their inodes are looked at.
const CHUNK: usize = 128;

/// One entry of a directory.
pub(crate) struct Listed<'a> {
    pub(crate) ino: Ino,
    pub(crate) file_type: FileType,
    pub(crate) name: &'a [u8],
    /// Where a later request goes on after this entry.
    pub(crate) next: u64,
}

/// One entry with its inode's attributes, or why there are none: `.` and `..`, whose attributes nobody uses, and inodes
/// that cannot be read.
pub(crate) struct ListedPlus<'a> {
    pub(crate) entry: Listed<'a>,
    pub(crate) attr: Option<Attr>,
}

#[derive(Default)]
struct Gathered {
    names: Vec<u8>,
    entries: Vec<(Ino, Option<FileType>, std::ops::Range<usize>, u64)>,
}

impl Gathered {
    fn fill(&mut self, inodes: &Inodes, dir: Ino, cookie: u64) -> Result<(), Error> {
        self.names.clear();
        self.entries.clear();
        inodes.readdir(dir, cookie, &mut |e| {
            if self.entries.len() == CHUNK {
                return false;
            }
            let start = self.names.len();
            self.names.extend_from_slice(e.name);
            self.entries.push((e.ino, e.file_type, start..self.names.len(), e.next));
            true
        })
    }
}

impl Ops {
    /// Hands the entries from `cookie` on to `each` until it says `false` or they end.
    pub(crate) fn readdir(&self, dir: Ino, cookie: u64, each: &mut dyn FnMut(Listed<'_>) -> bool) -> Answer<()> {
        self.ask(Op::Readdir, |i| {
            walk(i, dir, cookie, &mut |ino, file_type, name, next| {
                let file_type = file_type.or_else(|| i.getattr(ino).ok().map(|a| a.file_type));
                each(Listed { ino, file_type: file_type.unwrap_or(FileType::Regular), name, next })
            })
        })
    }

    /// The same with the attributes of every entry, each of which counts as told: see [`Ops::forget`].
    pub(crate) fn readdirplus(
        &self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(ListedPlus<'_>) -> bool,
    ) -> Answer<()> {
        self.ask(Op::Readdirplus, |i| {
            walk(i, dir, cookie, &mut |ino, file_type, name, next| {
                let attr = match name {
                    b"." | b".." => None,
                    _ => match i.getattr(ino) {
                        Ok(attr) => Some(attr),
                        // Removed after it was gathered.
                        Err(Error::NotFound) => return true,
                        Err(e) => {
                            tracing::warn!("listing directory {dir}: inode {ino}: {e}");
                            None
                        }
                    },
                };
                let file_type = attr.map(|a| a.file_type).or(file_type).unwrap_or(FileType::Regular);
                let taken = each(ListedPlus { entry: Listed { ino, file_type, name, next }, attr });
                if taken && attr.is_some() {
                    i.looked_up(ino);
                }
                taken
            })
        })
    }
}

type Each<'a> = dyn FnMut(Ino, Option<FileType>, &[u8], u64) -> bool + 'a;

fn walk(inodes: &Inodes, dir: Ino, mut cookie: u64, each: &mut Each<'_>) -> Result<(), Error> {
    let mut gathered = Gathered::default();
    loop {
        gathered.fill(inodes, dir, cookie)?;
        for (ino, file_type, name, next) in &gathered.entries {
            let name = gathered.names.get(name.clone()).unwrap_or_default();
            if !each(*ino, *file_type, name, *next) {
                return Ok(());
            }
            cookie = *next;
        }
        if gathered.entries.len() < CHUNK {
            return Ok(());
        }
    }
}
