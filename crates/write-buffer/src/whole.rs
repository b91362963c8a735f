//! What belongs to a whole file and to none of its shards: its length, here and at home, and what is not a write.
//!
//! Its lock is a leaf, held while lists in memory change; compaction alone holds it over a fence.

use crate::phase::Phase;
use crate::tree::Gone;

/// A *length* or *removed* that is not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) sequence: u64,
    pub(crate) block: u32,
}

/// The state of a file beside its tree.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Of the length.
    pub(crate) length: Phase,
    /// What the synced word says.
    pub(crate) synced: u64,
    /// Length of the file.
    pub(crate) size: u64,
    /// Length of the file at home, as far as it is known to be the file's.
    pub(crate) home_len: u64,
    /// Home is to be cut to this length before anything else is written there.
    pub(crate) cut: Option<u64>,
    /// Not synced.
    pub(crate) controls: Vec<Control>,
}

impl Whole {
    pub(crate) fn new(home_len: u64) -> Self {
        Self { length: Phase::default(), synced: 0, size: home_len, home_len, cut: None, controls: Vec::new() }
    }

    /// How much of home is the file's: bytes behind are zeros.
    pub(crate) fn home_end(&self) -> u64 {
        self.home_len.min(self.cut.unwrap_or(u64::MAX)).min(self.size)
    }

    /// The file has `len` bytes from now on.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.size {
            self.cut = Some(self.cut.unwrap_or(u64::MAX).min(len));
        }
        self.size = len;
    }

    /// Everything up to `point` is durable at home. Lets go of what only lasts until then.
    pub(crate) fn set_synced(&mut self, point: u64, gone: &mut Vec<Gone>) {
        self.synced = point;
        self.length.synced(point);
        self.controls.retain(|control| {
            let kept = control.sequence > point;
            if !kept {
                gone.push(Gone { block: control.block, bytes: 1 });
            }
            kept
        });
    }

    /// Nothing of it is needed from NVM any more.
    pub(crate) fn is_clean(&self) -> bool {
        self.controls.is_empty() && self.length.is_clean() && self.length.is_idle()
    }
}
