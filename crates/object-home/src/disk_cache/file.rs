//! The cache's file while it is open. Nothing is ever flushed: what a power cut leaves is judged by checksums, slot by slot.

use super::format::{ENTRY, FILE_HEAD, FileHead, LEAST, MAGIC, PART, SLOT, Slot};
use super::index::{Index, Key};
use super::{Disk, DiskUse};
use bytes::Bytes;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ondol_env::{Env, System};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// So many entries of the directory are read at once.
const ENTRIES: u32 = 1 << 16;

/// A part of an object, and what its store says of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) bytes: Bytes,
    /// Bytes of the object.
    pub(super) size: u64,
    /// When it was last modified, in seconds since 1970.
    pub(super) modified: i64,
}

/// The slots. Locks: the index is innermost, and never held while the file is read or written.
#[derive(Debug)]
pub(super) struct Slots {
    file: File,
    head: FileHead,
    index: Mutex<Index>,
    /// Another process may have the file.
    has_ended: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
    stored: AtomicU64,
    damaged: AtomicU64,
    failed: AtomicU64,
}

impl Slots {
    /// Opens the file, and makes it if it is not there or of another size. None: another process has it.
    ///
    /// # Errors
    /// It is something else, or cannot be opened or made.
    pub(super) fn open(disk: &Disk) -> Result<Option<Self>> {
        let slots = FileHead::fitting(disk.bytes);
        if slots < LEAST {
            return Err(Error::other("a cache has at least 2 MiB"));
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(flags.bits() as i32).open(&disk.file)?;
        if !file.metadata()?.is_file() {
            return Err(Error::other("it is not a regular file"));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let wanted = FileHead { slots: slots as u32, id: System.random_uuid() };
        let head = match found(&file)? {
            Some(head) if head.slots == wanted.slots && file.metadata()?.len() == head.len() => head,
            _ => made(&file, wanted)?,
        };
        let index = Mutex::new(read_directory(&file, &head)?);
        Ok(Some(Self {
            file,
            head,
            index,
            has_ended: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }))
    }

    pub(super) fn counts(&self) -> DiskUse {
        let of = |count: &AtomicU64| count.load(Relaxed);
        DiskUse {
            room: self.head.slots.into(),
            parts: self.index.lock().len(),
            hits: of(&self.hits),
            misses: of(&self.misses),
            stored: of(&self.stored),
            damaged: of(&self.damaged),
            failed: of(&self.failed),
        }
    }

    /// Gives the file back. What is still being written is judged by its checksum, like anything.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Relaxed);
        if let Err(e) = flock(&self.file, FlockOperation::Unlock) {
            tracing::debug!("the cache stays locked: {e}");
        }
    }

    /// A part of the object `name`, if it is here and right.
    pub(super) fn get(&self, name: &str, part: u64) -> Option<Known> {
        let found = self.found(name, part);
        if found.is_some() { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
        found
    }

    fn found(&self, name: &str, part: u64) -> Option<Known> {
        let key = self.key(name, part)?;
        let slot = self.index.lock().find(key)?;
        let mut bytes = vec![0; SLOT];
        let found = match read_up_to(&self.file, &mut bytes, self.at(slot)) {
            Ok(len) => self.head.slot_of(slot, &bytes[..len]),
            Err(e) => {
                tracing::debug!("the cache cannot be read: {e}");
                self.failed.fetch_add(1, Relaxed);
                None
            }
        };
        let Some(Slot { size, modified, bytes, .. }) =
            found.filter(|slot| slot.name == name && u64::from(slot.part) == part)
        else {
            self.damaged.fetch_add(1, Relaxed);
            self.index.lock().forget(key, slot);
            return None;
        };
        Some(Known { bytes: Bytes::copy_from_slice(bytes), size, modified })
    }

    /// Whoever read this part found it wrong.
    pub(super) fn forget(&self, name: &str, part: u64) {
        self.misses.fetch_add(1, Relaxed);
        let Some(key) = self.key(name, part) else { return };
        let mut index = self.index.lock();
        if let Some(slot) = index.find(key) {
            index.forget(key, slot);
            self.damaged.fetch_add(1, Relaxed);
        }
    }

    /// Keeps a part. What fails is lost, and nothing else is.
    pub(super) fn put(&self, name: &str, part: u64, known: &Known) {
        let Some(key) = self.key(name, part) else { return };
        let Some(slot) = ({
            let mut index = self.index.lock();
            if index.holds(key) { None } else { index.take() }
        }) else {
            return;
        };
        let Known { bytes, size, modified } = known;
        let stored = self.head.slot(slot, &Slot { name, part: key.1, size: *size, modified: *modified, bytes });
        let entry = self.head.entry(slot, key.0, key.1);
        let entry_at = FILE_HEAD + u64::from(slot) * ENTRY as u64;
        let written =
            self.file.write_all_at(&stored, self.at(slot)).and_then(|()| self.file.write_all_at(&entry, entry_at));
        match written {
            Ok(()) => {
                self.stored.fetch_add(1, Relaxed);
                self.index.lock().give(slot, Some(key));
            }
            Err(e) => {
                tracing::debug!("the cache cannot be written: {e}");
                self.failed.fetch_add(1, Relaxed);
                self.index.lock().give(slot, None);
            }
        }
    }

    /// None: nothing is known of it, nor will be.
    fn key(&self, name: &str, part: u64) -> Option<Key> {
        if self.has_ended.load(Relaxed) {
            return None;
        }
        Some((self.head.hash(name), part.try_into().ok()?))
    }

    fn at(&self, slot: u32) -> u64 {
        self.head.slots_at() + u64::from(slot) * SLOT as u64
    }
}

/// The head of a file. None: it is empty, or of another version. What is no cache is an error, so that no file of somebody's is overwritten.
fn found(file: &File) -> Result<Option<FileHead>> {
    let mut bytes = vec![0; FILE_HEAD as usize];
    let len = read_up_to(file, &mut bytes, 0)?;
    if len == 0 {
        return Ok(None);
    }
    if !bytes.starts_with(MAGIC) {
        return Err(Error::other("it holds something else: it is left as it is"));
    }
    Ok(FileHead::decode(&bytes[..len]))
}

/// A cache that holds nothing.
fn made(file: &File, head: FileHead) -> Result<FileHead> {
    file.set_len(0)?;
    file.write_all_at(&head.encode(), 0)?;
    file.set_len(head.len())?;
    Ok(head)
}

fn read_directory(file: &File, head: &FileHead) -> Result<Index> {
    let mut index = Index::new(head.slots);
    let mut bytes = vec![0; ENTRIES as usize * ENTRY];
    let mut slot = 0;
    while slot < head.slots {
        let many = ENTRIES.min(head.slots - slot);
        let bytes = &mut bytes[..many as usize * ENTRY];
        let len = read_up_to(file, bytes, FILE_HEAD + u64::from(slot) * ENTRY as u64)?;
        for (n, entry) in bytes[..len].chunks_exact(ENTRY).enumerate() {
            let slot = slot + n as u32;
            if let Some(key) = head.entry_of(slot, entry) {
                index.give(slot, Some(key));
            }
        }
        slot += many;
    }
    Ok(index)
}

/// Reads as much as there is.
fn read_up_to(file: &File, bytes: &mut [u8], at: u64) -> Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

const _: () = assert!(PART.is_power_of_two());
