//! Free blocks as memory (papers/4, §2.1): taken out of the free space for as long as somebody wants, in memory alone.
//! No block of the image says so, so after a crash they are free.
//!
//! Who may have what, and who yields: `docs/design/direct.md`.

use crate::alloc::{Groups, Need};
use crate::shared::Shared;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_env::sync::{Arc, Mutex};
use ondol_journal::Extent;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Weak;

/// Free blocks that no file is given as long as this is there.
#[derive(Debug)]
pub struct MemoryBlocks {
    shared: Arc<Shared>,
    runs: Vec<Extent>,
    /// Promised, of which `runs` has some.
    clusters: u64,
}

/// Something that is given up when files need the space that it takes.
trait Yields: Send + Sync {
    /// Whether it was there.
    fn give_up(&self) -> bool;
}

impl<T: Send> Yields for Mutex<Option<T>> {
    fn give_up(&self) -> bool {
        // Dropped behind the lock.
        let given_up = self.lock().take();
        given_up.is_some()
    }
}

/// What was set aside, in the order in which that was done.
#[derive(Default)]
pub(crate) struct Asides {
    /// Each with how many clusters it has.
    queue: Mutex<VecDeque<(Weak<dyn Yields>, u64)>>,
}

impl Asides {
    /// Keeps something that has so many clusters.
    pub(crate) fn add<T: Send + 'static>(&self, memory: T, clusters: u64) -> Aside<T> {
        let slot = Arc::new(Mutex::new(Some(memory)));
        let yields: Weak<dyn Yields> = Arc::downgrade(&slot) as _;
        let mut queue = self.queue.lock();
        queue.retain(|(aside, _)| aside.strong_count() > 0);
        queue.push_back((yields, clusters));
        Aside { slot }
    }

    /// Gives up what was set aside first; false if there is nothing.
    pub(crate) fn give_up(&self) -> bool {
        loop {
            let Some((oldest, _)) = self.queue.lock().pop_front() else { return false };
            if oldest.upgrade().is_some_and(|aside| aside.give_up()) {
                return true;
            }
        }
    }

    /// Promises clusters that are had by giving up what was set aside, and gives nothing up if that is not enough.
    pub(crate) fn promise(&self, groups: &Groups, clusters: u64, need: Need) -> bool {
        while !groups.promise(clusters, need) {
            if groups.lacks(clusters, need) > self.clusters() || !self.give_up() {
                return false;
            }
        }
        true
    }

    /// How many clusters are set aside.
    pub(crate) fn clusters(&self) -> u64 {
        let queue = self.queue.lock();
        queue.iter().filter(|(aside, _)| aside.strong_count() > 0).map(|(_, clusters)| clusters).sum()
    }
}

/// Something set aside: there until files need the space that it takes.
pub struct Aside<T> {
    slot: Arc<Mutex<Option<T>>>,
}

impl<T> Aside<T> {
    /// Takes it back; `None` if it was given up.
    pub fn take_up(self) -> Option<T> {
        self.slot.lock().take()
    }

    /// Whether it is there now.
    pub fn is_there(&self) -> bool {
        self.slot.lock().is_some()
    }
}

impl MemoryBlocks {
    /// None yet of so many clusters, which are promised.
    pub(crate) fn none(shared: Arc<Shared>, clusters: u64) -> Self {
        Self { shared, runs: Vec::new(), clusters }
    }

    /// Takes in a run that was free.
    pub(crate) fn add(&mut self, run: Extent) {
        self.runs.push(run);
    }

    /// Their numbers.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.runs.iter().map(|run| run.start..run.start + u64::from(run.len))
    }

    /// How many there are.
    pub fn blocks(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.len)).sum()
    }

    /// Takes the clusters out that have one of these blocks, to be given back on their own.
    #[must_use]
    pub fn split_off(&mut self, mut blocks: Vec<u64>) -> Self {
        blocks.sort_unstable();
        let ratio = u64::from(self.shared.sb.cluster_ratio());
        let (mut kept, mut out) = (Vec::new(), Vec::new());
        for run in self.runs.drain(..) {
            for start in (run.start..run.start + u64::from(run.len)).step_by(ratio as usize) {
                let at = blocks.partition_point(|block| *block < start);
                let is_out = blocks.get(at).is_some_and(|block| *block < start + ratio);
                push(if is_out { &mut out } else { &mut kept }, start, ratio as u32);
            }
        }
        let clusters = out.iter().map(|run| u64::from(run.len) / ratio).sum();
        self.runs = kept;
        self.clusters -= clusters;
        Self { shared: self.shared.clone(), runs: out, clusters }
    }

    /// Takes in what others have.
    pub fn join(&mut self, mut other: Self) {
        self.runs.append(&mut other.runs);
        self.clusters += std::mem::take(&mut other.clusters);
    }
}

/// Adds blocks behind the last run, to which they may belong.
fn push(runs: &mut Vec<Extent>, start: u64, len: u32) {
    match runs.last_mut() {
        Some(last) if last.start + u64::from(last.len) == start => last.len += len,
        _ => runs.push(Extent { start, len }),
    }
}

impl Drop for MemoryBlocks {
    fn drop(&mut self) {
        let groups = &self.shared.groups;
        self.runs.iter().for_each(|run| groups.return_blocks(&self.shared.sb, *run));
        groups.in_memory.fetch_sub(self.clusters, SeqCst);
        groups.give_back(self.clusters);
    }
}
