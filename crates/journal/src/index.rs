//! Where there may be contents of blocks that are not home: whoever reads many blocks asks once for their neighbourhood.

use ondol_env::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Neighbouring blocks that are counted together.
const NEIGHBOURS: u64 = 64;
const COUNTS: usize = 4096;

/// How many blocks of each neighbourhood somebody holds. Some neighbourhoods share a count: "none" is always true.
#[derive(Debug)]
pub(crate) struct Index(Box<[AtomicU32]>);

impl Default for Index {
    fn default() -> Self {
        Self((0..COUNTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Index {
    fn count(&self, block: u64) -> &AtomicU32 {
        let neighbourhood = block / NEIGHBOURS;
        // Far from each other, so that threads which work side by side seldom share a line of memory.
        &self.0[(neighbourhood.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % COUNTS]
    }

    /// Somebody holds the block. Whoever asks for it has a lock that the caller had before.
    pub(crate) fn add(&self, block: u64) {
        self.count(block).fetch_add(1, Relaxed);
    }

    /// What was held is home, or nobody wants it any more.
    pub(crate) fn remove(&self, block: u64) {
        self.count(block).fetch_sub(1, Release);
    }

    /// How many blocks from this one on are home, as far as one look tells.
    pub(crate) fn home_from(&self, block: u64) -> u64 {
        if self.count(block).load(Acquire) == 0 { NEIGHBOURS - block % NEIGHBOURS } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_never_called_home() {
        let index = Index::default();
        assert_eq!((index.home_from(0), index.home_from(NEIGHBOURS + 3)), (NEIGHBOURS, NEIGHBOURS - 3));
        for block in (0..1 << 20).step_by(37) {
            index.add(block);
            assert_eq!(index.home_from(block / NEIGHBOURS * NEIGHBOURS), 0, "{block}");
        }
        (0..1 << 20).step_by(37).for_each(|block| index.remove(block));
        assert!((0..1 << 20).step_by(61).all(|block| index.home_from(block) > 0));
    }
}
