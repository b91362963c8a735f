//! How far something is that takes long: for whoever waits.

use crate::media::Media;
use ondol_block::{BlockStats, BlockStore, Caps, PageLender, Pin, Result as BlockResult};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::{AtomicU64, Ordering};
use ondol_volume::{Pass, Progress as CheckProgress, ResizeStep};
use std::io::IoSlice;

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is done, in a few words.
    pub what: &'static str,
    /// So much of it,
    pub done: u64,
    /// of so much; 0 where nobody knows.
    pub total: u64,
    /// Whether these are bytes.
    pub bytes: bool,
}

impl From<CheckProgress> for Progress {
    fn from(of: CheckProgress) -> Self {
        let what = match of.pass {
            Pass::Groups => "groups",
            Pass::Inodes => "inodes, by group",
            Pass::Directories => "directories",
            Pass::Bitmaps => "bitmaps, by group",
            Pass::Done => "done",
        };
        Self { what, done: of.done, total: of.total, bytes: false }
    }
}

impl From<ResizeStep> for Progress {
    fn from(of: ResizeStep) -> Self {
        let (what, done, total) = match of {
            ResizeStep::Check(progress) => return progress.into(),
            ResizeStep::Files { done, total } => ("files moved", done, total),
            ResizeStep::Inodes { done, total } => ("inodes renumbered", done, total),
            ResizeStep::Blocks { before, now, target } => {
                let what = if target > before { "blocks added" } else { "blocks cut off" };
                (what, now.abs_diff(before), target.abs_diff(before))
            }
        };
        Self { what, done, total, bytes: false }
    }
}

/// Who is told, from any thread.
pub type Told = Arc<dyn Fn(Progress) + Send + Sync>;

impl Media {
    /// The same, where somebody is told of what is written.
    pub(crate) fn watched(mut self, told: Told) -> Self {
        self.store = Arc::new(Watched { below: self.store, written: AtomicU64::new(0), told });
        self
    }
}

/// A store of which every write is told.
struct Watched {
    below: Arc<dyn BlockStore>,
    written: AtomicU64,
    told: Told,
}

impl Watched {
    fn tell(&self, bytes: u64) {
        let done = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.told)(Progress { what: "written", done, total: 0, bytes: true });
    }
}

impl BlockStore for Watched {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn size(&self) -> u64 {
        self.below.size()
    }

    fn caps(&self) -> Caps {
        self.below.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> BlockResult<()> {
        self.below.read(offset, buf)
    }

    fn pin(&self, offset: u64, len: u64, bounded: bool) -> BlockResult<Option<Pin>> {
        self.below.pin(offset, len, bounded)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> BlockResult<()> {
        self.below.write_vectored(offset, bufs)?;
        self.tell(bufs.iter().map(|buf| buf.len() as u64).sum());
        Ok(())
    }

    fn write_in_place(&self, places: &[(u64, &[u8])]) -> BlockResult<()> {
        self.below.write_in_place(places)?;
        self.tell(places.iter().map(|(_, bytes)| bytes.len() as u64).sum());
        Ok(())
    }

    fn flush(&self) -> BlockResult<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> BlockResult<bool> {
        self.below.discard(offset, len)
    }

    fn exchange(&self, pairs: &[(u64, u64)], offset: u64, bytes: &[u8]) -> BlockResult<()> {
        self.below.exchange(pairs, offset, bytes)
    }

    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> BlockResult<u64> {
        let number = self.below.submit(writes, discards)?;
        self.tell(writes.iter().map(|(_, bytes)| bytes.len() as u64).sum());
        Ok(number)
    }

    fn settle(&self, number: u64) -> BlockResult<()> {
        self.below.settle(number)
    }

    fn lender(&self) -> Option<&dyn PageLender> {
        self.below.lender()
    }

    fn stats(&self) -> BlockStats {
        self.below.stats()
    }
}
