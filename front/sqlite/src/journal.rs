//! Rollback journals and super-journals. A transaction is made by the volume as one, so a crash needs no journal;
//! SQLite reads its own again where it rolls back. They are kept in memory, and nobody else ever finds one.
//!
//! A super-journal exists as long as an open journal that has not ended names it, whatever has become of it: a rollback
//! looks for the one that its journal names, and takes the commit as done if it is not there. SQLite deletes it after
//! the rollback of the first database, since it finds no journals of the others. It writes the names of all journals
//! into it before it changes any database; a name that is no open image's is refused there, since a database of another
//! VFS could not find it after a crash, and would be left with half a commit.

use crate::call::code;
use crate::codes::{IOERR_DELETE, IOERR_NOMEM, IOERR_SHORT_READ, REFUSED, Result};
use crate::database::{self, Pending};
use crate::ffi;
use crate::images::{self, Image};
use crate::name::Name;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A file in memory.
#[derive(Default)]
pub(crate) struct InMemory {
    bytes: Vec<u8>,
}

impl InMemory {
    /// # Errors
    /// `IOERR_SHORT_READ` where it ends before; zeros are in the rest then.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let n = buf.len().min(self.bytes.len() - from);
        buf[..n].copy_from_slice(&self.bytes[from..from + n]);
        buf[n..].fill(0);
        if n == buf.len() { Ok(()) } else { Err(IOERR_SHORT_READ) }
    }

    /// # Errors
    /// `IOERR_NOMEM`.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<()> {
        let from = usize::try_from(offset).map_err(|_| IOERR_NOMEM)?;
        let end = from.checked_add(data.len()).ok_or(IOERR_NOMEM)?;
        if let Some(more) = end.checked_sub(self.bytes.len()) {
            self.bytes.try_reserve(more).map_err(|_| IOERR_NOMEM)?;
            self.bytes.resize(end, 0);
        }
        self.bytes[from..end].copy_from_slice(data);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        self.bytes.truncate(size as usize);
        if size == 0 {
            // After a large transaction nothing is kept of it.
            self.bytes = Vec::new();
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Zeros that SQLite writes over a journal's beginning when its transaction has ended. Before, sizes are there, and
/// perhaps no magic bytes yet.
const ENDED: [u8; 28] = [0; 28];

/// What stands at a journal's end if it names a super-journal.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A rollback journal.
pub(crate) type Journal = Arc<Mutex<InMemory>>;

/// The rollback journals that are open.
static JOURNALS: Mutex<Vec<Weak<Mutex<InMemory>>>> = Mutex::new(Vec::new());

/// The super-journals that somebody still needs, by their whole names.
static SUPERS: Mutex<BTreeMap<String, Weak<Super>>> = Mutex::new(BTreeMap::new());

/// A new journal.
pub(crate) fn open() -> Journal {
    let journal = Journal::default();
    let mut journals = JOURNALS.lock();
    journals.retain(|journal| journal.strong_count() > 0);
    journals.push(Arc::downgrade(&journal));
    journal
}

/// Whether a transaction that can still be rolled back names this super-journal. SQLite rolls nothing back of which the
/// super-journal has gone, so it has not.
pub(crate) fn is_named(super_journal: &str) -> bool {
    let journals: Vec<Journal> = JOURNALS.lock().iter().filter_map(Weak::upgrade).collect();
    journals.iter().any(|journal| journal.lock().super_journal() == Some(super_journal.as_bytes()))
}

impl InMemory {
    /// The super-journal that a rollback journal names, unless its transaction has ended: `..., length, checksum,
    /// magic` at the end.
    fn super_journal(&self) -> Option<&[u8]> {
        let (rest, magic) = self.bytes.split_last_chunk::<8>()?;
        let (rest, _checksum) = rest.split_last_chunk::<4>()?;
        let (rest, len) = rest.split_last_chunk::<4>()?;
        let from = rest.len().checked_sub(u32::from_be_bytes(*len) as usize)?;
        (*magic == MAGIC && !self.bytes.starts_with(&ENDED)).then(|| &rest[from..])
    }
}

/// A commit of several databases, until its super-journal is deleted.
#[derive(Default)]
pub(crate) struct Super {
    pub(crate) file: Mutex<InMemory>,
    pub(crate) held: Mutex<Vec<Held>>,
}

/// What one database has pending in a commit of several.
pub(crate) struct Held {
    pub(crate) image: Weak<Image>,
    pub(crate) pending: Weak<Mutex<Pending>>,
}

/// A super-journal that somebody still needs.
pub(crate) fn super_journal(name: &str) -> Option<Arc<Super>> {
    SUPERS.lock().get(name).and_then(Weak::upgrade)
}

/// Makes a super-journal, unless it is there. It is there as long as somebody has it.
pub(crate) fn make_super(name: &str) -> Arc<Super> {
    let mut supers = SUPERS.lock();
    supers.retain(|_, journal| journal.strong_count() > 0);
    if let Some(journal) = supers.get(name).and_then(Weak::upgrade) {
        return journal;
    }
    let journal = Arc::<Super>::default();
    supers.insert(name.to_owned(), Arc::downgrade(&journal));
    journal
}

impl Super {
    /// Takes names of the journals that take part, each with a zero byte at its end.
    ///
    /// # Errors
    /// For one that is no open image's: its VFS could not find the super-journal after a crash, and would take the
    /// commit as done.
    pub(crate) fn write(&self, names: &[u8], offset: u64) -> Result<()> {
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let ours = str::from_utf8(name).ok().and_then(Name::whole).is_some_and(|name| images::is_open(&name.image));
            if !ours {
                let name = String::from_utf8_lossy(name);
                let said = format!("one commit of databases in images and of others, whose journal is {name}");
                ffi::log(REFUSED, &said);
                return Err(REFUSED);
            }
        }
        self.file.lock().write(names, offset)
    }

    /// Makes what all databases have pending: those of one image as one, and durable.
    ///
    /// # Errors
    /// As [`ondol::inodes::FileRanges::apply_batches`]. Nothing of that image has changed then, nor of those behind it.
    pub(crate) fn commit(&self) -> Result<()> {
        let held = std::mem::take(&mut *self.held.lock());
        let mut held: Vec<(Weak<Image>, Arc<Mutex<Pending>>)> =
            held.into_iter().filter_map(|held| Some((held.image, held.pending.upgrade()?))).collect();
        let mut done = Ok(());
        while let Some((image, _)) = held.first() {
            let image = image.clone();
            let (these, others): (Vec<_>, _) = held.into_iter().partition(|held| held.0.ptr_eq(&image));
            held = others;
            let mut pending: Vec<_> = these.iter().map(|(_, pending)| pending.lock()).collect();
            // Who has given up meanwhile takes no part.
            pending.retain(|pending| pending.is_held_by(self));
            match image.upgrade() {
                Some(image) if done.is_ok() => {
                    done = database::apply(&image, &mut pending, IOERR_DELETE)
                        .and_then(|()| image.volume().sync().map_err(|e| code(&e, IOERR_DELETE)));
                }
                _ => pending.iter_mut().for_each(|pending| pending.refuse()),
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_a_file() {
        let mut file = InMemory::default();
        file.write(&[1, 2, 3], 5).unwrap();
        assert_eq!(file.write(&[1], 1 << 62), Err(IOERR_NOMEM));
        let mut buf = [9; 10];
        assert_eq!(file.read(&mut buf, 0), Err(IOERR_SHORT_READ));
        assert_eq!((buf, file.len()), ([0, 0, 0, 0, 0, 1, 2, 3, 0, 0], 8));
        file.truncate(7);
        file.truncate(20);
        assert_eq!((file.read(&mut buf[..2], 5), file.len()), (Ok(()), 7));
        assert_eq!(file.read(&mut buf, 1 << 40), Err(IOERR_SHORT_READ));
        file.truncate(0);
        assert_eq!(file.len(), 0);
    }

    #[test]
    fn a_super_journal_is_there_until_no_transaction_names_it() {
        let (journal, other) = (open(), open());
        journal.lock().write(&[2, 0], 22).unwrap();
        journal.lock().write(b"disk//a-mj", 40).unwrap();
        assert!(!is_named("disk//a-mj"));
        journal.lock().write(&[0, 0, 0, 10, 1, 2, 3, 4], 50).unwrap();
        journal.lock().write(&MAGIC, 58).unwrap();
        other.lock().write(&MAGIC, 58).unwrap();
        assert!(is_named("disk//a-mj") && !is_named("disk//a-m") && !is_named("isk//a-mj"));
        // SQLite ends a transaction by zeros at its journal's beginning, or by closing it.
        journal.lock().write(&ENDED, 0).unwrap();
        assert!(!is_named("disk//a-mj"));
        journal.lock().write(&[2, 0], 22).unwrap();
        assert!(is_named("disk//a-mj"));
        drop(journal);
        assert!(!is_named("disk//a-mj"));

        let made = make_super("disk//a-mj");
        assert!(super_journal("disk//a-mj").is_some_and(|found| Arc::ptr_eq(&found, &made)));
        assert_eq!(made.write(b"/no/image//a-journal\0", 0), Err(REFUSED));
        assert_eq!(made.write(b"/a-journal\0", 0), Err(REFUSED));
        drop(made);
        assert!(super_journal("disk//a-mj").is_none());
    }
}
