//! A kernel with a page cache, and what the disk holds of it; and what a program asks of it.

use ondol_env::sync::Arc;
use ondol_power::PowerDomain;
use ondol_run_log::{Call, FileKind, Handle, Identity, Look, Place};
use std::cell::RefCell;

/// What a cut may find, from a mark on.
#[derive(Clone, Default)]
pub(crate) struct Moment {
    /// What the disk holds, by file.
    pub(crate) home: Vec<Vec<u8>>,
    /// How many of each file's states recovery may not fall behind.
    pub(crate) acked: Vec<usize>,
}

/// All files, the disk and the clock.
pub(crate) struct Kernel {
    pub(crate) power: Arc<PowerDomain>,
    pub(crate) cache: Vec<Vec<u8>>,
    pub(crate) ctime: Vec<u64>,
    pub(crate) mtime: Vec<u64>,
    pub(crate) cursor: Vec<u64>,
    pub(crate) now: Moment,
    pub(crate) moments: Vec<Moment>,
    /// What each file was after each change.
    pub(crate) states: Vec<Vec<Vec<u8>>>,
    pub(crate) syncs: usize,
    pub(crate) monotonic_ns: u64,
    /// How long a thread that loses its processor is away.
    pub(crate) away_ns: u64,
}

impl Kernel {
    pub(crate) fn new(power: Arc<PowerDomain>, files: usize) -> Self {
        let now = Moment { home: vec![Vec::new(); files], acked: vec![0; files] };
        Self {
            power,
            cache: vec![Vec::new(); files],
            ctime: vec![1; files],
            mtime: vec![1; files],
            cursor: vec![0; files],
            moments: vec![now.clone()],
            now,
            states: vec![vec![Vec::new()]; files],
            syncs: 0,
            monotonic_ns: 0,
            away_ns: 3_000_000,
        }
    }

    pub(crate) fn mark(&mut self) {
        self.power.mark(self.moments.len() as u64);
        self.moments.push(self.now.clone());
    }

    pub(crate) fn changed(&mut self, file: usize) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        self.ctime[file] = now.max(self.ctime[file] + 1);
        self.mtime[file] = self.ctime[file];
        let state = self.cache[file].clone();
        self.states[file].push(state);
    }

    pub(crate) fn write(&mut self, file: usize, at: usize, bytes: &[u8]) {
        self.store(file, at, bytes);
        self.changed(file);
    }

    fn store(&mut self, file: usize, at: usize, bytes: &[u8]) {
        let cache = &mut self.cache[file];
        cache.resize(cache.len().max(at + bytes.len()), 0);
        cache[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The thread loses its processor, and meanwhile somebody whom nobody sees writes, within the same tick of the kernel's clock: nothing tells it.
    fn away(&mut self, file: usize, at: usize, bytes: &[u8]) {
        self.store(file, at, bytes);
        let state = self.cache[file].clone();
        self.states[file].push(state);
        self.monotonic_ns += self.away_ns;
    }

    /// The kernel writes back on its own.
    pub(crate) fn write_back(&mut self, file: usize) {
        self.now.home[file] = self.cache[file].clone();
        self.mark();
    }

    pub(crate) fn acknowledged(&mut self, file: usize) {
        self.now.acked[file] = self.states[file].len() - 1;
        self.mark();
    }
}

/// One call of a program.
pub(crate) struct OneCall<'k> {
    pub(crate) kernel: &'k RefCell<Kernel>,
    pub(crate) file: usize,
    pub(crate) place: Place,
    pub(crate) bytes: &'k [u8],
    pub(crate) durable: bool,
    /// Where somebody else writes, in the middle of the call.
    pub(crate) away: Option<usize>,
}

impl OneCall<'_> {
    fn at(&self) -> usize {
        let k = self.kernel.borrow();
        match self.place {
            Place::At(at) => at as usize,
            Place::Append => k.cache[self.file].len(),
            Place::Cursor => k.cursor[self.file] as usize,
        }
    }

    fn cache(&self, at: usize) {
        let mut k = self.kernel.borrow_mut();
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
        let (k, n) = (self.kernel.borrow(), self.file);
        let (ctime, mtime, size) = (k.ctime[n], k.mtime[n], k.cache[n].len() as u64);
        Ok(Look { dev: 7, ino: n as u64 + 1, birth: 1, ctime, mtime, size, kind: FileKind::File, set_id: false })
    }

    fn now_ns(&self) -> u64 {
        self.kernel.borrow().monotonic_ns
    }

    fn settle(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), ()> {
        let mut k = self.kernel.borrow_mut();
        k.syncs += 1;
        k.write_back(self.file);
        Ok(())
    }

    fn refused(&self) {}

    fn refuses_sync(&self, (): &()) -> bool {
        false
    }

    fn refuses_write(&self, (): &()) -> bool {
        false
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

    fn write(&self) -> Result<usize, ()> {
        self.cache(self.at());
        if self.durable {
            self.kernel.borrow_mut().write_back(self.file);
        }
        Ok(self.bytes.len())
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
        Some(self.kernel.borrow().cursor[self.file])
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
