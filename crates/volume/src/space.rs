//! The free space: what grows it, what discards it, and what takes it for memory.

use crate::alloc::{Need, Wanted};
use crate::memory::{Aside, MemoryBlocks};
use crate::{Result, Volume, behalf};
use ondol_env::sync::atomic::Ordering::SeqCst;

/// Clusters of a run at most: longer ones are found in few groups.
const LONGEST: u64 = 2048;

/// `FreeSpace` makes the volume longer, discards what is free, and takes free blocks for memory.
#[derive(Clone, Copy)]
pub struct FreeSpace<'v> {
    pub(crate) vol: &'v Volume,
}

impl Volume {
    /// The part that works on the space of the volume.
    pub fn space(&self) -> FreeSpace<'_> {
        FreeSpace { vol: self }
    }
}

impl FreeSpace<'_> {
    /// Takes at least so many free blocks, whole clusters, for memory. Nothing of the image changes. Where there are
    /// not so many it waits for those whose freeing is not durable, and then has what was set aside given up, if that
    /// is enough; those that are reserved for the privileged stay, whoever asks.
    ///
    /// # Errors
    /// `NoSpace`; `ReadOnly`; corruption, or the store's failure.
    pub fn take_for_memory(self, blocks: u64) -> Result<MemoryBlocks> {
        self.vol.check_writable()?;
        let (sb, groups) = (&self.vol.shared.sb, &self.vol.shared.groups);
        let ratio = u64::from(sb.cluster_ratio());
        let clusters = blocks.div_ceil(ratio);
        self.vol.promise_to(clusters, Need::Ordinary)?;
        groups.in_memory.fetch_add(clusters, SeqCst);
        let mut taken = MemoryBlocks::none(self.vol.shared.clone(), clusters);
        let (mut left, end) = (clusters, sb.blocks_count());
        while left > 0 {
            // Far from where files are put first.
            let place = end / 2..end;
            let want = Wanted { clusters: left.min(LONGEST) as u32, stream: None };
            let run = groups.take_blocks(sb, &*self.vol.engine, place, want);
            let run = run.map_err(|e| self.vol.noted(e))?;
            left -= u64::from(run.len) / ratio;
            taken.add(run);
        }
        Ok(taken)
    }

    /// Blocks that are memory.
    pub fn memory_blocks(self) -> u64 {
        self.vol.shared.groups.in_memory.load(SeqCst) * u64::from(self.vol.shared.sb.cluster_ratio())
    }

    /// Keeps something that has so many blocks of [`MemoryBlocks`] as long as no file needs them: the oldest goes
    /// first, before a file is told that there is no space.
    pub fn set_aside<T: Send + 'static>(self, memory: T, blocks: u64) -> Aside<T> {
        self.vol.asides.add(memory, blocks / u64::from(self.vol.shared.sb.cluster_ratio()))
    }

    /// Gives up what was set aside first; false if there is nothing.
    pub(crate) fn give_up_aside(self) -> bool {
        self.vol.asides.give_up()
    }

    /// Blocks that are set aside.
    pub(crate) fn aside_blocks(self) -> u64 {
        self.vol.asides.clusters() * u64::from(self.vol.shared.sb.cluster_ratio())
    }

    /// Free blocks that whoever this thread works for may take.
    pub(crate) fn available(self) -> u64 {
        let statfs = self.vol.statfs();
        let privileged = || behalf::of_thread(&self.vol.shared.sb, Need::Ordinary) == Need::Privileged;
        let all = statfs.free > statfs.available && privileged();
        if all { statfs.free } else { statfs.available }
    }
}
