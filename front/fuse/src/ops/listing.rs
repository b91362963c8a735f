//! Requests that list directories.
//!
//! Entries are gathered first and looked at afterwards: an inode is never asked while its directory is locked. A name
//! is listed whatever is found behind it; whoever asks for the file then learns what is wrong. One whose inode has gone
//! meanwhile was there when the listing began.

use super::names::Names;
use super::{Answer, Op};
use ondol::inodes::{Error, Inodes};
use ondol::{Attr, FileType, Ino};

/// Entries gathered before their inodes are looked at.
const CHUNK: usize = 128;

/// One entry of a directory.
pub(crate) struct Listed<'a> {
    pub(crate) ino: Ino,
    /// `None` where nobody knows: it is not in the entry, and the inode cannot be read.
    pub(crate) file_type: Option<FileType>,
    pub(crate) name: &'a [u8],
    /// Where a later request goes on after this entry.
    pub(crate) next: u64,
}

/// One entry with its inode's attributes. `.` and `..`, whose attributes nobody uses, and inodes that cannot be read
/// have none.
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
        inodes.names().readdir(dir, cookie, &mut |e| {
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

impl Names<'_> {
    /// Hands the entries from `cookie` on to `each` until it says `false` or they end.
    pub(crate) fn readdir(self, dir: Ino, cookie: u64, each: &mut dyn FnMut(Listed<'_>) -> bool) -> Answer<()> {
        self.0.ask(Op::Readdir, |i| {
            walk(i, dir, cookie, &mut |ino, file_type, name, next| {
                let file_type = file_type.or_else(|| attr_of(i, dir, ino).map(|a| a.file_type));
                each(Listed { ino, file_type, name, next })
            })
        })
    }

    /// The same with the attributes of every entry, each of which counts as told: see `Ops::forget`.
    pub(crate) fn readdirplus(self, dir: Ino, cookie: u64, each: &mut dyn FnMut(ListedPlus<'_>) -> bool) -> Answer<()> {
        self.0.ask(Op::Readdirplus, |i| {
            walk(i, dir, cookie, &mut |ino, file_type, name, next| {
                let attr = if matches!(name, b"." | b"..") { None } else { attr_of(i, dir, ino) };
                let file_type = attr.map(|a| a.file_type).or(file_type);
                let taken = each(ListedPlus { entry: Listed { ino, file_type, name, next }, attr });
                if taken && attr.is_some() {
                    i.inode_ops().looked_up(ino);
                }
                taken
            })
        })
    }
}

/// The attributes of an entry's inode, if it can be read and a name may lead to it.
fn attr_of(inodes: &Inodes, dir: Ino, ino: Ino) -> Option<Attr> {
    let attr = inodes.by_number(ino);
    attr.inspect_err(|e| tracing::debug!("directory {dir} is listed without what inode {ino} is: {e}")).ok()
}

type Each<'a> = dyn FnMut(Ino, Option<FileType>, &[u8], u64) -> bool + 'a;

/// Tells of the entries from `cookie` on. Those before a damaged part are told of; who asks for what follows them gets
/// the error.
fn walk(inodes: &Inodes, dir: Ino, mut cookie: u64, each: &mut Each<'_>) -> Result<(), Error> {
    let mut gathered = Gathered::default();
    let mut told = false;
    loop {
        let filled = gathered.fill(inodes, dir, cookie);
        for (ino, file_type, name, next) in &gathered.entries {
            let name = gathered.names.get(name.clone()).unwrap_or_default();
            if !each(*ino, *file_type, name, *next) {
                return Ok(());
            }
            cookie = *next;
            told = true;
        }
        match filled {
            Err(_) if told => return Ok(()),
            Err(e) => return Err(e),
            Ok(()) if gathered.entries.len() < CHUNK => return Ok(()),
            Ok(()) => {}
        }
    }
}
