//! The changes that a handle stages for one block, and how they are applied.

use crate::Ranges;

/// One staged change. Byte contents lie in the write set's arena.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// `len` bytes at `offset`, found at `at` in the arena.
    Bytes { offset: u32, at: u32, len: u32 },
    /// Bits `first..first + count` become one.
    Set { first: u32, count: u32 },
    /// Bits `first..first + count` become zero.
    Clear { first: u32, count: u32 },
    /// A little-endian number of `width` bytes at `offset` grows by `delta`.
    Add { offset: u32, width: u8, delta: i32 },
}

impl Change {
    /// Applies the change to `block` and notes the bytes it touched.
    pub(crate) fn apply(&self, arena: &[u8], block: &mut [u8], dirty: &mut Ranges) {
        match *self {
            Self::Bytes { offset, at, len } => {
                let (o, a, n) = (offset as usize, at as usize, len as usize);
                block[o..o + n].copy_from_slice(&arena[a..a + n]);
                dirty.add(offset..offset + len);
            }
            Self::Set { first, count } => mask(block, first, count, true, dirty),
            Self::Clear { first, count } => mask(block, first, count, false, dirty),
            Self::Add { offset, width, delta } => {
                let (o, w) = (offset as usize, usize::from(width));
                let mut le = [0; 4];
                le[..w].copy_from_slice(&block[o..o + w]);
                let sum = u32::from_le_bytes(le).wrapping_add_signed(delta);
                block[o..o + w].copy_from_slice(&sum.to_le_bytes()[..w]);
                dirty.add(offset..offset + u32::from(width));
            }
        }
    }
}

fn mask(block: &mut [u8], first: u32, count: u32, value: bool, dirty: &mut Ranges) {
    let end = first + count;
    let mut bit = first;
    while bit < end {
        let byte = (bit / 8) as usize;
        if bit.is_multiple_of(8) && end - bit >= 8 {
            block[byte] = if value { 0xFF } else { 0 };
            bit += 8;
        } else {
            let m = 1 << (bit % 8);
            block[byte] = if value { block[byte] | m } else { block[byte] & !m };
            bit += 1;
        }
    }
    dirty.add(first / 8..end.div_ceil(8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_sums_touch_only_their_bits() {
        let mut block = [0u8; 16];
        let mut dirty = Ranges::default();
        Change::Set { first: 3, count: 18 }.apply(&[], &mut block, &mut dirty);
        assert_eq!(block[..4], [0xF8, 0xFF, 0x1F, 0]);
        Change::Clear { first: 4, count: 1 }.apply(&[], &mut block, &mut dirty);
        assert_eq!(block[0], 0xE8);
        block[8] = 0xFF;
        Change::Add { offset: 8, width: 2, delta: 1 }.apply(&[], &mut block, &mut dirty);
        assert_eq!(block[8..11], [0, 1, 0]);
        assert_eq!(dirty.iter().collect::<Vec<_>>(), vec![0..3, 8..10]);
    }
}
