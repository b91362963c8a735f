//! A home in memory, whose operations can be made to fail, and, recorded, be cut off.
//!
//! Recorded, each file is a block medium of a power domain and the names are another one: what is synced of one file
//! says nothing of the others. A medium begins with a unit that has the length, and the bytes follow. A file that is
//! made anew has a medium of its own, so that it never begins with what an older file had.

use ondol_env::sync::atomic::{AtomicBool, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use ondol_power::{Event, PowerDomain, UNIT};
use ondol_write_buffer::{Home, HomeFile, Identity};
use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// What is to fail: asked before each operation with its name (`open`, `read`, `write`, `set_len`, `sync`, `remove`,
/// `sync_names`) and its file.
pub(crate) type Fault = Box<dyn Fn(&'static str, Option<&Identity>) -> Option<io::Error> + Send + Sync>;

/// Files in memory.
pub(crate) struct MemoryHome {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    files: Mutex<BTreeMap<Identity, Arc<MemoryFile>>>,
    fault: Mutex<Option<Fault>>,
    recording: Option<Recording>,
}

struct Recording {
    power: Arc<PowerDomain>,
    first: u32,
    names: Vec<Identity>,
    /// For each name, which of its media the next file gets.
    next: Mutex<Vec<usize>>,
}

struct MemoryFile {
    identity: Identity,
    shared: Arc<Shared>,
    bytes: Mutex<Vec<u8>>,
    /// Where it is recorded.
    medium: Option<u32>,
    named: AtomicBool,
}

/// Bytes that a file can have: what asks for more comes out of damaged bytes.
const MOST_BYTES: u64 = 1 << 26;

/// Files of one name that a recorded home can make, one after the other.
const LIVES: usize = 6;

impl Default for MemoryHome {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.all().into_iter().map(|(name, bytes)| (name, bytes.len()))).finish()
    }
}

impl MemoryHome {
    /// No files.
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Media that a recorded home of these names has, as they are before the first file: the names', then those of the
    /// files. A file can have `capacity` bytes.
    pub(crate) fn media(names: &[Identity], capacity: usize) -> Vec<Vec<u8>> {
        let mut media = vec![vec![0; names.len() * UNIT]];
        media.extend((0..names.len() * LIVES).map(|_| vec![0; UNIT + capacity]));
        media
    }

    /// The home that `media` hold, recorded as media `first` and on of `power`.
    ///
    /// # Panics
    /// The media are not those of [`MemoryHome::media`].
    pub(crate) fn recorded(media: &[Vec<u8>], names: &[Identity], power: Arc<PowerDomain>, first: u32) -> Self {
        let is_new = |medium: &Vec<u8>| medium.iter().all(|b| *b == 0);
        let (mut files, mut next) = (Vec::new(), Vec::new());
        for (i, name) in names.iter().enumerate() {
            let unit = &media[0][i * UNIT..];
            let (is_there, life) = (unit[0] == 1, usize::from(unit[1]));
            let lives = &media[1 + i * LIVES..][..LIVES];
            if is_there {
                let (head, bytes) = lives[life].split_at(UNIT);
                let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
                files.push((name.clone(), bytes[..len].to_vec(), first + (1 + i * LIVES + life) as u32));
            }
            let used = lives.iter().rposition(|medium| !is_new(medium)).map_or(0, |at| at + 1);
            next.push(used.max(if is_there { life + 1 } else { 0 }));
        }
        let recording = Recording { power, first, names: names.to_vec(), next: Mutex::new(next) };
        let home = Self { shared: Arc::new(Shared { recording: Some(recording), ..Shared::default() }) };
        for (identity, bytes, medium) in files {
            let (shared, bytes, named) = (home.shared.clone(), Mutex::new(bytes), AtomicBool::new(true));
            let file = MemoryFile { identity: identity.clone(), shared, bytes, medium: Some(medium), named };
            home.shared.files.lock().insert(identity, Arc::new(file));
        }
        home
    }

    /// From now on this is asked before each operation.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        *self.shared.fault.lock() = fault;
    }

    /// The contents of a file.
    pub(crate) fn contents(&self, identity: &Identity) -> Option<Vec<u8>> {
        let file = self.shared.files.lock().get(identity).cloned();
        file.map(|file| file.bytes.lock().clone())
    }

    /// All files with their contents.
    pub(crate) fn all(&self) -> BTreeMap<Identity, Vec<u8>> {
        let files: Vec<_> = self.shared.files.lock().values().cloned().collect();
        files.iter().map(|file| (file.identity.clone(), file.bytes.lock().clone())).collect()
    }
}

impl Shared {
    fn check(&self, what: &'static str, identity: Option<&Identity>) -> io::Result<()> {
        match &*self.fault.lock() {
            Some(fault) => fault(what, identity).map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    fn write(&self, medium: u32, offset: usize, bytes: &[u8]) {
        if let Some(recording) = &self.recording {
            recording.power.push(Event::Write { medium, offset: offset as u64, bytes: bytes.into() });
        }
    }

    fn flush(&self, medium: u32) {
        if let Some(recording) = &self.recording {
            recording.power.push(Event::Flush { medium });
        }
    }

    /// Records that a name is there with a new file, or gone. Returns the file's medium.
    fn record_name(&self, identity: &Identity, is_there: bool) -> Option<u32> {
        let recording = self.recording.as_ref()?;
        let at = recording.names.iter().position(|name| name == identity).expect("a name of this home");
        let mut next = recording.next.lock();
        let life = next[at];
        assert!(!is_there || life < LIVES, "{identity} has had all its lives");
        next[at] += usize::from(is_there);
        self.write(recording.first, at * UNIT, &[u8::from(is_there), life as u8]);
        Some(recording.first + (1 + at * LIVES + life) as u32)
    }
}

impl Home for MemoryHome {
    fn open(&self, identity: &Identity, make: bool) -> io::Result<Option<Arc<dyn HomeFile>>> {
        self.shared.check("open", Some(identity))?;
        let mut files = self.shared.files.lock();
        if let Some(file) = files.get(identity) {
            return Ok(Some(file.clone()));
        }
        if !make {
            return Ok(None);
        }
        let medium = self.shared.record_name(identity, true);
        let (bytes, shared, named) = (Mutex::default(), self.shared.clone(), AtomicBool::new(false));
        let file = Arc::new(MemoryFile { identity: identity.clone(), shared, bytes, medium, named });
        files.insert(identity.clone(), file.clone());
        Ok(Some(file))
    }

    fn remove(&self, identity: &Identity) -> io::Result<()> {
        self.shared.check("remove", Some(identity))?;
        if self.shared.files.lock().remove(identity).is_some() {
            self.shared.record_name(identity, false);
        }
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.shared.check("sync_names", None)?;
        if let Some(recording) = &self.shared.recording {
            self.shared.flush(recording.first);
        }
        Ok(())
    }
}

impl MemoryFile {
    fn check(&self, what: &'static str) -> io::Result<()> {
        self.shared.check(what, Some(&self.identity))
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        if let Some(medium) = self.medium {
            self.shared.write(medium, offset, bytes);
        }
    }

    /// What lies behind the end is zeros when the file grows, and when it is cut, even if a crash kept a length and
    /// lost the zeros.
    fn zeros(&self, from: usize, to: usize) {
        if from < to && self.medium.is_some() {
            self.write(UNIT + from, &vec![0; to - from]);
        }
    }

    fn write_len(&self, len: usize) {
        self.write(0, &(len as u32).to_le_bytes());
    }
}

impl HomeFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.check("read")?;
        let bytes = self.bytes.lock();
        let there = bytes.get(offset as usize..).unwrap_or_default();
        let len = there.len().min(buf.len());
        buf[..len].copy_from_slice(&there[..len]);
        buf[len..].fill(0);
        Ok(())
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> io::Result<()> {
        self.check("write")?;
        fits(offset.saturating_add(new.len() as u64))?;
        let mut bytes = self.bytes.lock();
        let (start, end) = (offset as usize, offset as usize + new.len());
        self.zeros(bytes.len(), start);
        self.write(UNIT + start, new);
        if end > bytes.len() {
            bytes.resize(end, 0);
            self.write_len(end);
        }
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check("set_len")?;
        fits(len)?;
        let mut bytes = self.bytes.lock();
        let (old, new) = (bytes.len(), len as usize);
        self.zeros(new, old);
        self.zeros(old, new);
        bytes.resize(new, 0);
        self.write_len(new);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if let Err(e) = self.check("sync") {
            // Contents that were on their way may be lost for good; of the length, as of all its own, a file system
            // knows that it is not written.
            if let Some((recording, medium)) = self.shared.recording.as_ref().zip(self.medium) {
                recording.power.push(Event::FlushFailed { medium });
                self.write_len(self.bytes.lock().len());
            }
            return Err(e);
        }
        if let Some((recording, medium)) = self.shared.recording.as_ref().zip(self.medium) {
            self.shared.flush(medium);
            if !self.named.swap(true, SeqCst) {
                self.shared.flush(recording.first);
            }
        }
        Ok(())
    }
}

fn fits(end: u64) -> io::Result<()> {
    if end <= MOST_BYTES { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}
