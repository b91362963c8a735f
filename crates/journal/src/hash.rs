//! Hashing numbers of blocks and inodes.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes numbers of blocks or inodes: one multiplication, equal on every run.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }
}

/// Makes [`NumberHasher`]s.
pub type NumberHash = BuildHasherDefault<NumberHasher>;
