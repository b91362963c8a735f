//! Checksums of runs, made of those of their blocks: a block that went home early need not be in memory when its run is
//! named.

use ondol_format::csum::crc32c;

/// crc32c is linear: what it makes of a block after something else is what it makes of the block alone, and of that
/// something followed by zeros.
pub(super) struct Sums {
    /// What runs begin with.
    seed: u32,
    /// What each bit of a checksum becomes by a block of zeros.
    bits: [u32; 32],
    block_size: usize,
}

impl Sums {
    pub(super) fn new(seed: u32, block_size: usize) -> Self {
        let zeros = vec![0; block_size];
        Self { seed, bits: std::array::from_fn(|bit| crc32c(1 << bit, &zeros)), block_size }
    }

    pub(super) fn block_size(&self) -> usize {
        self.block_size
    }

    /// Of one block.
    pub(super) fn of(image: &[u8]) -> u32 {
        crc32c(0, image)
    }

    /// Of a run of a block with this sum.
    pub(super) fn first(&self, sum: u32) -> u32 {
        self.and(self.seed, sum)
    }

    /// Of the run with this checksum and the block behind it.
    pub(super) fn and(&self, run: u32, sum: u32) -> u32 {
        let set = (0..32).filter(|bit| (run >> bit) & 1 == 1);
        set.fold(sum, |all, bit| all ^ self.bits[bit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_checksum_of_its_bytes() {
        for block_size in [1024, 4096] {
            let bytes: Vec<u8> = (0..5 * block_size as u64).map(|i| ((i * i * 2_654_435_761) >> 7) as u8).collect();
            let sums = Sums::new(0x1234_5678, block_size);
            let mut blocks = bytes.chunks(block_size).map(Sums::of);
            let first = sums.first(blocks.next().unwrap());
            assert_eq!(first, crc32c(0x1234_5678, &bytes[..block_size]));
            assert_eq!(blocks.fold(first, |run, sum| sums.and(run, sum)), crc32c(0x1234_5678, &bytes));
        }
    }
}
