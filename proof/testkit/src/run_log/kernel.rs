//! A kernel with a page cache, and what the disk holds of it; and what a program asks of it.

use super::Random;
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, System, thread_number};
use ondol_medium::{Domain, Nvm};
use ondol_power::{Layer, PowerDomain};
use ondol_run_log::{Call, FileKind, Files, Handle, Identity, Log, Look, Place, Sought, WriteCall, found, rigs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// What a cut may find, from a mark on.
#[derive(Clone, Default)]
pub struct Moment {
    /// What the disk holds, by file.
    pub home: Vec<Vec<u8>>,
    /// How many of each file's states recovery may not fall behind.
    pub acked: Vec<usize>,
    /// Bytes of each file that somebody was told are lost, and the state, if there is one, in which they were written
    /// again.
    pub lost: Vec<BTreeMap<usize, usize>>,
}

/// All files, the disk and the clock.
pub struct Kernel {
    /// Where events go.
    pub power: Arc<PowerDomain>,
    /// What programs see of each file.
    pub cache: Vec<Vec<u8>>,
    /// Its times.
    pub ctime: Vec<u64>,
    /// Its times.
    pub mtime: Vec<u64>,
    /// Where the cursor of each file is.
    pub cursor: Vec<u64>,
    /// What a cut finds now.
    pub now: Moment,
    /// What a cut finds from each mark on.
    pub moments: Vec<Moment>,
    /// What each file was after each change.
    pub states: Vec<Vec<Vec<u8>>>,
    /// The newest of these that a thread has made.
    pub mine: BTreeMap<u32, usize>,
    /// Syncs for real.
    pub syncs: usize,
    /// Bytes of each file that the disk has refused: their pages are clean, and not on it.
    refused: Vec<BTreeSet<usize>>,
    /// Files that could not be synced, and those of them of which nobody who asked for one has heard that.
    failed: BTreeSet<usize>,
    unheard: BTreeSet<usize>,
    /// Files that cannot be found by what is known of them.
    pub hidden: BTreeSet<usize>,
    /// By which chance records are old; none: all are.
    pub(super) ages: Option<Random>,
    /// The disk refuses the next sync.
    pub is_failing: bool,
    /// The clock.
    pub monotonic_ns: u64,
    /// How long a thread that loses its processor is away.
    pub away_ns: u64,
}

impl Kernel {
    /// With so many empty files.
    pub fn new(power: Arc<PowerDomain>, files: usize) -> Self {
        let now = Moment { home: vec![Vec::new(); files], acked: vec![0; files], lost: vec![BTreeMap::new(); files] };
        Self {
            power,
            cache: vec![Vec::new(); files],
            ctime: vec![1; files],
            mtime: vec![1; files],
            cursor: vec![0; files],
            moments: vec![now.clone()],
            now,
            states: vec![vec![Vec::new()]; files],
            mine: BTreeMap::new(),
            syncs: 0,
            refused: vec![BTreeSet::new(); files],
            failed: BTreeSet::new(),
            unheard: BTreeSet::new(),
            hidden: BTreeSet::new(),
            ages: None,
            is_failing: false,
            monotonic_ns: 0,
            away_ns: 3_000_000,
        }
    }

    /// What a cut finds changes from here on.
    pub fn mark(&mut self) {
        self.power.mark(self.moments.len() as u64);
        self.moments.push(self.now.clone());
    }

    /// The file has changed: its times tell, and it has one state more.
    pub fn changed(&mut self, file: usize) {
        let now = System.now();
        let now = now.sec as u64 * 1_000_000_000 + u64::from(now.nsec);
        self.ctime[file] = now.max(self.ctime[file] + 1);
        self.mtime[file] = self.ctime[file];
        let state = self.cache[file].clone();
        self.mine.insert(thread_number(), self.states[file].len());
        self.states[file].push(state);
    }

    /// Somebody writes.
    pub fn write(&mut self, file: usize, at: usize, bytes: &[u8]) {
        self.store(file, at, bytes);
        self.changed(file);
    }

    /// Somebody cuts or extends the file.
    pub fn cut(&mut self, file: usize, len: usize) {
        self.cache[file].resize(len, 0);
        self.is_new(file, len..usize::MAX);
        self.changed(file);
    }

    /// Somebody is about to: should that be killed, it may be done or not, until the file is synced as it is.
    pub fn begins_to_cut(&mut self, file: usize, len: usize) {
        let now = self.cache[file].clone();
        let mut cut = now.clone();
        cut.resize(len, 0);
        self.states[file].extend([cut, now]);
    }

    /// These bytes are to be written to the disk, whatever became of them before.
    fn is_new(&mut self, file: usize, bytes: Range<usize>) {
        self.refused[file].retain(|byte| !bytes.contains(byte));
        let lost = self.now.lost[file].range_mut(bytes);
        lost.for_each(|(_, again)| *again = self.states[file].len().min(*again));
    }

    fn store(&mut self, file: usize, at: usize, bytes: &[u8]) {
        let cache = &mut self.cache[file];
        cache.resize(cache.len().max(at + bytes.len()), 0);
        cache[at..at + bytes.len()].copy_from_slice(bytes);
        self.is_new(file, at..at + bytes.len());
    }

    /// The thread loses its processor, and meanwhile somebody whom nobody sees writes, within the same tick of the
    /// kernel's clock: nothing tells it.
    fn away(&mut self, file: usize, at: usize, bytes: &[u8]) {
        self.store(file, at, bytes);
        let state = self.cache[file].clone();
        self.states[file].push(state);
        self.monotonic_ns += self.away_ns;
    }

    /// The kernel writes back on its own.
    pub fn write_back(&mut self, file: usize) {
        let (mut now, home) = (self.cache[file].clone(), &self.now.home[file]);
        let len = now.len();
        for at in self.refused[file].range(..len) {
            now[*at] = home.get(*at).copied().unwrap_or(0);
        }
        self.now.home[file] = now;
        self.mark();
    }

    /// Somebody syncs: false if the disk refuses, which the kernel says once.
    fn sync(&mut self, file: usize) -> bool {
        self.syncs += 1;
        if std::mem::take(&mut self.is_failing) {
            self.refuse(file);
        } else {
            self.write_back(file);
        }
        !self.unheard.remove(&file)
    }

    /// Somebody syncs everything: false if the disk refuses, of which the kernel says no more.
    fn sync_all(&mut self) -> bool {
        self.syncs += 1;
        let files = 0..self.cache.len();
        if std::mem::take(&mut self.is_failing) {
            files.for_each(|file| self.refuse(file));
            return false;
        }
        files.for_each(|file| self.write_back(file));
        true
    }

    /// The disk refuses what of the file is not on it.
    fn refuse(&mut self, file: usize) {
        let (cache, home) = (&self.cache[file], &self.now.home[file]);
        let differs = |at: &usize| home.get(*at).copied().unwrap_or(0) != cache[*at];
        self.refused[file].extend((0..cache.len()).filter(differs));
        self.failed.insert(file);
        self.unheard.insert(file);
    }

    /// The disk has refused to sync the file.
    pub fn has_failed(&self, file: usize) -> bool {
        self.failed.contains(&file)
    }

    /// A program is told that the disk has refused its file: what nobody had promised by then may be lost. What was
    /// lost before, and written again since, nobody has promised either, though it be the same byte.
    pub fn tell(&mut self, file: usize) {
        let acked = self.now.acked[file];
        let (since, lost) = (&self.states[file][acked..], &mut self.now.lost[file]);
        let is_new = |at: usize| since.iter().any(|state| state.get(at) != since[0].get(at));
        let is_lost = |at| lost.get(&at).is_some_and(|again| acked < *again);
        let open: Vec<_> = self.refused[file].iter().copied().filter(|at| is_new(*at) || is_lost(*at)).collect();
        lost.extend(open.into_iter().map(|at| (at, usize::MAX)));
        self.mark();
    }

    /// Every byte is as after the last acknowledged state or a later one.
    ///
    /// # Errors
    /// One is not.
    pub fn judge(&self, mark: u64, layers: &[Layer], domain: Domain) -> Result<(), String> {
        let moment = &self.moments[mark as usize];
        let nvm = medium(&layers[0].to_bytes(), domain);
        let log = Log::join(nvm).map_err(|e| e.to_string())?;
        let files = recovered(&log, &moment.home);
        for (n, file) in files.iter().enumerate() {
            let later = &self.states[n][moment.acked[n]..];
            let is_lost = moment.lost[n].values().any(|again| moment.acked[n] < *again);
            if !is_lost && !later.iter().any(|state| state.len() == file.len()) {
                return Err(format!("file {n} has {} bytes after {}", file.len(), moment.acked[n]));
            }
            for (at, byte) in file.iter().enumerate() {
                let is_lost = moment.lost[n].get(&at).is_some_and(|again| moment.acked[n] < *again);
                if !is_lost && !later.iter().any(|state| state.get(at).unwrap_or(&0) == byte) {
                    return Err(format!("file {n}, byte {at}, after {}", moment.acked[n]));
                }
            }
        }
        // Again, after a cut of recovery: the same.
        for file in found(&log).map_err(|e| e.to_string())?.files {
            log.retire(&file).map_err(|e| e.to_string())?;
        }
        let left = found(&log).map_err(|e| e.to_string())?;
        if left.files.is_empty() { Ok(()) } else { Err("retired records are live".into()) }
    }

    /// A state of the file, or its newest, is promised.
    pub fn acknowledged(&mut self, file: usize, state: Option<usize>) {
        let state = state.unwrap_or(self.states[file].len() - 1);
        self.now.acked[file] = self.now.acked[file].max(state);
        self.mark();
    }
}

/// The medium that a state is of.
///
/// # Panics
/// It cannot be mapped.
pub fn medium(base: &[u8], domain: Domain) -> Nvm {
    Nvm::from_bytes(base).unwrap().with_domain(domain).unwrap()
}

/// A file in memory that holds this.
fn memory(bytes: &[u8]) -> io::Result<File> {
    let file: File = rustix::fs::memfd_create("home", rustix::fs::MemfdFlags::CLOEXEC)?.into();
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

/// What recovery makes of a state.
///
/// # Panics
/// The log cannot be read.
pub fn recovered(log: &Log, home: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut files = home.to_vec();
    for file in found(log).unwrap().files {
        let n = file.identity.as_ref().unwrap().handle.bytes[0] as usize;
        let memory = memory(&files[n]).unwrap();
        rigs::bring(&file, &memory).unwrap();
        files[n].resize(memory.metadata().unwrap().len() as usize, 0);
        memory.read_exact_at(&mut files[n], 0).unwrap();
    }
    files
}

/// The files of a kernel, for a drain.
pub struct Disk(pub Arc<Mutex<Kernel>>);

impl Files for Disk {
    type File = usize;
    const MANY: usize = 3;

    fn is_old(&mut self, _since: u64) -> bool {
        self.0.lock().ages.as_mut().is_none_or(|random| random.below(2) == 0)
    }

    fn find(&mut self, _dev: u64, identity: &Identity) -> Sought<usize> {
        let file = identity.handle.bytes[0].into();
        if self.0.lock().hidden.contains(&file) { Sought::Unknown } else { Sought::Here(file) }
    }

    fn is_on(&self, _file: &usize, _dev: u64) -> bool {
        true
    }

    fn sync(&self, file: &usize) -> io::Result<()> {
        let is_done = self.0.lock().sync(*file);
        is_done.then_some(()).ok_or_else(|| io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()))
    }

    fn sync_all(&mut self, _: u64, _: Option<&usize>, _: &[&Identity]) -> Option<rustix::io::Result<()>> {
        let is_done = self.0.lock().sync_all();
        Some(is_done.then_some(()).ok_or(rustix::io::Errno::IO))
    }
}

/// One call of a program.
pub struct OneCall<'k> {
    /// The kernel that is called.
    pub kernel: &'k Mutex<Kernel>,
    /// Of which file.
    pub file: usize,
    /// Where bytes are written.
    pub place: Place,
    /// Which.
    pub bytes: &'k [u8],
    /// Whether they are to be durable then.
    pub durable: bool,
    /// Where somebody else writes, in the middle of the call.
    pub away: Option<usize>,
}

impl OneCall<'_> {
    fn at(&self) -> usize {
        let k = self.kernel.lock();
        match self.place {
            Place::At(at) => at as usize,
            Place::Append => k.cache[self.file].len(),
            Place::Cursor => k.cursor[self.file] as usize,
        }
    }

    fn cache(&self, at: usize) {
        let mut k = self.kernel.lock();
        k.write(self.file, at, self.bytes);
        if self.place == Place::Cursor {
            k.cursor[self.file] += self.bytes.len() as u64;
        }
        // Nothing tells the size apart, either.
        if let Some(at) = self.away.filter(|at| *at < k.cache[self.file].len()) {
            k.away(self.file, at, &[self.bytes[0] ^ 0xFF]);
        }
    }
}

impl Call for OneCall<'_> {
    type Fail = ();

    fn look(&self) -> Result<Look, ()> {
        let (k, n) = (self.kernel.lock(), self.file);
        let (ctime, mtime, size) = (k.ctime[n], k.mtime[n], k.cache[n].len() as u64);
        Ok(Look { dev: 7, ino: n as u64 + 1, birth: 1, ctime, mtime, size, kind: FileKind::File, set_id: false })
    }

    fn now_ns(&self) -> u64 {
        self.kernel.lock().monotonic_ns
    }

    fn settle(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), ()> {
        self.kernel.lock().sync(self.file).then_some(()).ok_or(())
    }

    fn refused(&self) {}

    fn refuses_sync(&self, (): &()) -> bool {
        true
    }

    fn identity(&self) -> Option<Identity> {
        let handle = Handle { kind: 1, bytes: vec![self.file as u8; 8] };
        Some(Identity {
            fsid: 5,
            ino: self.file as u64 + 1,
            kind: FileKind::File,
            handle,
            path: format!("/f{}", self.file).into(),
        })
    }
}

impl WriteCall for OneCall<'_> {
    fn refuses_write(&self, (): &()) -> bool {
        true
    }

    fn write(&self) -> Result<usize, ()> {
        self.cache(self.at());
        let is_done = !self.durable || self.kernel.lock().sync(self.file);
        is_done.then_some(self.bytes.len()).ok_or(())
    }

    fn durable(&self) -> bool {
        self.durable
    }

    fn lazy(&self) -> bool {
        true
    }

    fn write_lazily(&self, start: u64) -> Result<usize, ()> {
        assert_eq!(start as usize, self.at());
        self.cache(start as usize);
        Ok(self.bytes.len())
    }

    fn place(&self) -> Option<Place> {
        Some(self.place)
    }

    fn cursor(&self) -> Option<u64> {
        Some(self.kernel.lock().cursor[self.file])
    }

    fn moved(&self, end: u64) -> bool {
        self.cursor() == Some(end)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self, len: usize, show: &mut dyn FnMut(&[&[u8]])) {
        let (first, second) = self.bytes[..len].split_at(len / 3);
        show(&[first, second]);
    }
}
