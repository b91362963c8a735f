//! How a buffer works, as its owner says.

use crate::area::Shape;
use crate::recover::OnDamage;

/// How a buffer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The shape of a buffer that has to be made. One that is there keeps its own.
    pub shape: Shape,
    /// Dirty queues, each with a flusher; at least 1.
    pub flushers: usize,
    /// Blocks in a dirty queue that make a flush worth it.
    pub low_watermark: usize,
    /// Milliseconds after which something is flushed, and synced, all the same.
    pub age_ms: u64,
    /// What recovery does about damage.
    pub on_damage: OnDamage,
}

impl Default for Options {
    fn default() -> Self {
        let shape = Shape::default();
        Self { shape, flushers: 4, low_watermark: 16, age_ms: 5000, on_damage: OnDamage::Refuse }
    }
}
