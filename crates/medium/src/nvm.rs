//! A mapped NVM: reading, atomic words, and what every store comes through.

use crate::detect::Device;
use crate::map::Map;
use crate::mapped::Mapped;
use crate::model::Pace;
use crate::open::{Access, NvmOptions, resolve};
use crate::pinnable::{Pinnable, Storing};
use crate::poison::Poison;
use crate::record::Recorder;
use crate::stats::{LINE, Stats};
use crate::{
    Domain, Fenced, Frozen, Instructions, MediumKind, NvmError, NvmStats, PAGE, Result, Stored, memory, persist,
};
use ondol_env::sync::Arc;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
// These words lie on a medium: no scheduler can put its own in their place. Recorded loads and stores take a lock,
// which it sees.
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// NVM, mapped. Reads and stores of several threads may meet: a word (8 aligned bytes) is then the old or the new one,
/// more than a word some of each. Words are little-endian.
#[derive(Debug)]
pub struct Nvm {
    pub(crate) mapped: Mapped,
    kind: MediumKind,
    domain: Domain,
    /// The domain was asked for, not found out.
    pub(crate) domain_is_chosen: bool,
    pace: Pace,
    stats: Stats,
    recorder: Option<Recorder>,
    read_only: bool,
    /// An `msync` failed.
    stopped: AtomicBool,
    /// Holds the lock, and is what windows show.
    file: Option<File>,
    owner: Option<u32>,
    /// What else is kept for this process alone.
    claim: Option<File>,
    /// Somebody else may store to it.
    shared: bool,
    pub(crate) pinnable: Option<Pinnable>,
}

impl Nvm {
    pub(crate) fn new(name: String, map: Map, kind: MediumKind, domain: Domain) -> Self {
        Self {
            mapped: Mapped::new(name, map),
            kind,
            domain,
            domain_is_chosen: false,
            pace: Pace::default(),
            stats: Stats::default(),
            recorder: None,
            read_only: false,
            stopped: AtomicBool::new(false),
            file: None,
            owner: None,
            claim: None,
            shared: false,
            pinnable: None,
        }
    }

    /// Keeps this file open, and locked if it is, as long as the NVM lives.
    #[must_use]
    pub fn with_claim(mut self, claim: Option<File>) -> Self {
        self.claim = claim;
        self
    }

    pub(crate) fn held(mut self, file: File, owner: Option<u32>, options: &NvmOptions) -> Self {
        let access = options.access;
        self.owner = owner;
        // The mapping keeps the open description, and so its lock.
        self.file = Some(file).filter(|_| access != Access::Joint);
        // Readers have their lock beside those that store jointly.
        self.shared = access != Access::Write;
        self.read_only = access == Access::Read;
        self.domain_is_chosen = options.domain != Domain::Auto;
        self.pace = Pace::new(options.model);
        self
    }

    /// Memory of this process, zeros, at least `len` bytes: for tests and simulators. It is a file without a name, so
    /// that [`crate::Windows`] show it as they show any medium.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn volatile(len: u64) -> Result<Self> {
        let name = String::from("memory");
        let pages = len.max(1).checked_next_multiple_of(PAGE).and_then(|len| usize::try_from(len).ok());
        match pages.ok_or(rustix::io::Errno::NOMEM).and_then(Map::memory) {
            Ok((file, map)) => {
                let mut nvm = Self::new(name, map, MediumKind::Memory, Domain::Volatile);
                nvm.file = Some(file);
                Ok(nvm)
            }
            Err(e) => Err(NvmError::Open { what: "map", name, source: e.into() }),
        }
    }

    /// Memory of this process that holds `bytes`, then zeros to the end of the page: a state to recover, say.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let nvm = Self::volatile(bytes.len() as u64)?;
        // Into the file, whose pages need no fault each then.
        let written = nvm.file().map_or(Ok(()), |file| file.write_all_at(bytes, 0));
        written.map_err(|source| NvmError::Open { what: "fill", name: nvm.mapped.name.clone(), source })?;
        Ok(nvm)
    }

    /// Memory of this process that holds what `frozen` does, as [`Nvm::from_bytes`], and costs what is stored in it and
    /// read of it. No windows show it.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn thawed(frozen: &Frozen) -> Result<Self> {
        Ok(Self::new(String::from("memory"), frozen.map()?, MediumKind::Memory, Domain::Volatile))
    }

    /// Treats the medium as one of another persistence domain.
    ///
    /// # Errors
    /// `Domain` when the medium cannot have it.
    pub fn with_domain(mut self, domain: Domain) -> Result<Self> {
        if domain != Domain::Auto {
            self.domain = resolve(&self.mapped.name, self.kind, domain, &Device::default())?;
            self.domain_is_chosen = true;
        }
        Ok(self)
    }

    /// From now on every store, write-back and fence is an event of `domain`, as `medium`. What was stored before is
    /// the base of the recording.
    ///
    /// Where caches survive ([`Domain::caches_survive`]) there are no write-backs, and stores are durable in their
    /// order: `ondol_power::Kind::PersistentCaches` is the medium to explore then, `Kind::Nvm` otherwise.
    #[must_use]
    pub fn record(mut self, domain: Arc<ondol_power::PowerDomain>, medium: u32) -> Self {
        self.recorder = Some(Recorder::new(domain, medium));
        self
    }

    /// The mapping has this address: a call on it is the medium's own.
    pub fn covers(&self, address: usize) -> bool {
        let words = self.mapped.words().as_ptr_range();
        (words.start.addr()..words.end.addr()).contains(&address)
    }

    /// Lets go of the medium while others may be at it in this process: from now on it is memory of this process
    /// alone, of zeros, and so is what they store. The lock of whoever stored jointly goes with the mapping.
    ///
    /// # Errors
    /// The system has no memory; the medium may be mapped still.
    pub fn leave(&self) -> Result<()> {
        self.mapped.map.leave().map_err(|e| NvmError::Open {
            what: "let go of",
            name: self.mapped.name.clone(),
            source: e.into(),
        })
    }

    /// The medium, as the user named it.
    pub fn name(&self) -> &str {
        &self.mapped.name
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.mapped.map.len() as u64
    }

    /// What it is made of.
    pub fn kind(&self) -> MediumKind {
        self.kind
    }

    /// The persistence domain; never [`Domain::Auto`].
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Stores are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The number of the user whose it is; none if [`crate::NvmOptions::whose`] has not asked.
    pub fn owner(&self) -> Option<u32> {
        self.owner
    }

    /// One sentence for the user: which crashes this medium survives.
    pub fn describe(&self) -> &'static str {
        self.kind.survives(self.domain)
    }

    /// What it has lost: told by the kernel's list of a DAX device when it was opened, or by [`Poison::add_line`]. (The
    /// list of a device below a file system is not translated to files.)
    pub fn poison(&self) -> &Poison {
        &self.mapped.poison
    }

    /// What was done since it was opened.
    pub fn stats(&self) -> NvmStats {
        self.stats.snapshot()
    }

    /// Begins a batch of stores that become durable together.
    pub fn stored(&self) -> Stored<'_> {
        Stored::new(self)
    }

    /// The proof for what other threads have fenced, as the caller says: each of them has set a word of DRAM after its
    /// fence (with `Release`), which this thread has read (with `Acquire`). A fence is over when it returns, so what is
    /// stored after such a read comes after it for everybody.
    pub fn fenced_by_others(&self) -> Fenced<'_> {
        Fenced::by_others(self)
    }

    /// Reads `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// `OutOfRange`, `Poisoned`.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let bytes = self.mapped.check("read", offset, buf.len() as u64)?;
        self.mapped.require_whole(bytes)?;
        self.loaded(offset, buf.len() as u64, || memory::read(self.mapped.words(), offset as usize, buf));
        self.was_read(buf.len() as u64);
        Ok(())
    }

    /// The word at `offset`. What was published before it was (by [`crate::Fenced::publish`]) is seen by whoever sees
    /// the word.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`, `Poisoned`.
    pub fn load_u64(&self, offset: u64) -> Result<u64> {
        let word = self.mapped.word("read", offset)?;
        let word = self.loaded(offset, 8, || word.load(Acquire));
        self.was_read(8);
        Ok(u64::from_le(word))
    }

    /// Everything it holds: for tests and simulators.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.mapped.map.len()];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The open file or device, which can be mapped a second time; none where it is opened jointly.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Counts a read of `len` bytes, and takes the time that it takes.
    pub(crate) fn was_read(&self, len: u64) {
        self.stats.read(len);
        self.pace.read(len);
    }

    /// Stores through the caches.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let _storing = self.may_store(offset, bytes.len() as u64)?;
        self.put_there(offset, bytes);
        Ok(())
    }

    /// Stores zeros to whole pages that the caller has for himself. What they had lost is whole again.
    pub(crate) fn clear(&self, pages: Range<u64>) {
        const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
        self.mapped.poison.heal(&pages);
        pages.step_by(PAGE as usize).for_each(|offset| self.put_there(offset, &ZEROS));
    }

    fn put_there(&self, offset: u64, bytes: &[u8]) {
        let store = || memory::store(self.mapped.words(), offset as usize, bytes);
        match &self.recorder {
            Some(recorder) => recorder.store(|| (store(), Some((offset, bytes.into())))),
            None => store(),
        }
        self.stats.stored(bytes.len() as u64);
    }

    /// Copies whole lines, beginning at a line, past the caches.
    pub(crate) fn put_lines(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let _storing = self.may_store(offset, bytes.len() as u64)?;
        let start = offset as usize / 8;
        let words = self.mapped.words().get(start..start + bytes.len() / 8).unwrap_or_default();
        let copy = || persist::copy_lines(words, bytes);
        match &self.recorder {
            Some(recorder) => recorder.copy(offset, bytes, copy),
            None => copy(),
        }
        // Where `msync` writes them, their lines are counted then.
        match self.domain {
            Domain::Msync => self.stats.stored(bytes.len() as u64),
            _ => self.stats.copied(bytes.len() as u64),
        }
        Ok(())
    }

    /// Loads, in the order of the recorded stores.
    pub(crate) fn loaded<T>(&self, offset: u64, len: u64, load: impl FnOnce() -> T) -> T {
        match &self.recorder {
            Some(recorder) => recorder.load(offset, len, load),
            None => load(),
        }
    }

    /// Changes the word at `offset` in one step by `change`, which returns its answer and whether the word is new.
    pub(crate) fn change_word<T>(&self, offset: u64, change: impl FnOnce(&AtomicU64) -> (T, Option<u64>)) -> Result<T> {
        let _storing = self.may_store(offset, 8)?;
        let word = self.mapped.word("store", offset)?;
        let changed = || {
            let (answer, new) = change(word);
            if new.is_some() {
                self.stats.stored(8);
            }
            (answer, new)
        };
        let event = |new: u64| (offset, Arc::from(new.to_le_bytes()));
        let answer = match &self.recorder {
            Some(recorder) => recorder.store(|| {
                let (answer, new) = changed();
                (answer, new.map(event))
            }),
            None => changed().0,
        };
        Ok(answer)
    }

    /// Begins to write back the lines that hold `bytes`.
    pub(crate) fn write_back(&self, lines: &Range<u64>) {
        if let Some(recorder) = &self.recorder {
            recorder.write_back(lines.start * LINE, (lines.end - lines.start) * LINE);
        }
        self.stats.written_back(lines.end - lines.start);
        if self.domain != Domain::Msync {
            let words = lines.start as usize * 8..(lines.end as usize * 8).min(self.mapped.words().len());
            Instructions::detect().write_back(self.mapped.words().get(words).unwrap_or_default());
        }
    }

    /// Completes this thread's write-backs, `bytes` of them; for [`Domain::Msync`] writes the pages of `lines`, too.
    pub(crate) fn complete(&self, lines: &[Range<u64>], bytes: u64) -> Result<()> {
        if self.stopped.load(Relaxed) {
            return Err(NvmError::Stopped { name: self.mapped.name.clone() });
        }
        // Before `msync`, too: copies past the caches must be in the pages that it writes.
        persist::fence();
        if self.domain == Domain::Msync {
            for range in lines {
                self.write_back(range);
                let bytes = (range.start * LINE) as usize..(range.end * LINE) as usize;
                self.mapped.map.msync(bytes).map_err(|e| {
                    self.stopped.store(true, Relaxed);
                    NvmError::Msync { name: self.mapped.name.clone(), source: e.into() }
                })?;
            }
        }
        self.stats.fence();
        if let Some(recorder) = &self.recorder {
            recorder.fence();
        }
        self.pace.write(bytes);
        Ok(())
    }

    /// The store is over when what is returned is dropped.
    fn may_store(&self, offset: u64, len: u64) -> Result<Option<Storing<'_>>> {
        let bytes = self.mapped.check("store", offset, len)?;
        if self.read_only {
            return Err(NvmError::ReadOnly { name: self.mapped.name.clone() });
        }
        let entered = self.pinnable.as_ref().map(|pages| pages.store(&bytes)).transpose();
        let storing =
            entered.map_err(|page| NvmError::Pinned { name: self.mapped.name.clone(), offset: page * PAGE })?;
        self.mapped.heal(&bytes)?;
        Ok(storing)
    }

    /// Pages in these bytes can be pinned from now on, and no others, if nobody else stores to the medium.
    pub(crate) fn make_pinnable(&mut self, bytes: Option<Range<u64>>) {
        self.pinnable = bytes.filter(|_| !self.shared).map(|bytes| Pinnable::new(&bytes));
    }
}

impl Drop for Nvm {
    /// Unmapping and closing alone would leave the lock to children that have not called exec yet. Who stores jointly
    /// has it as long as something is mapped.
    fn drop(&mut self) {
        for file in self.claim.iter().chain(&self.file) {
            // If this fails, closing does it.
            let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::Unlock);
        }
    }
}

/// Stores `new` if the word is `old`; answers what it was otherwise.
pub(crate) fn exchange(word: &AtomicU64, old: u64, new: u64) -> (std::result::Result<(), u64>, Option<u64>) {
    match word.compare_exchange(old.to_le(), new.to_le(), AcqRel, Acquire) {
        Ok(_) => (Ok(()), Some(new)),
        Err(found) => (Err(u64::from_le(found)), None),
    }
}
