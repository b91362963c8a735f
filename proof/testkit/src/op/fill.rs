//! What writes write: bytes that tell, wherever they turn up, which write they are from and where they belong.

use std::fmt;

/// Bytes of the block that jbd2 must escape in its log.
const JBD2_MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];
/// An odd factor, so that multiplying is a bijection of 64-bit words: each word decodes to its origin.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// The contents of one write. Every aligned 8-byte word of it holds the fill's number and the word's place in the file,
/// mixed; so a stale or foreign block is recognised, and no block equals another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fill {
    /// The fill's number; 0 is all zeros.
    pub id: u32,
    /// Each 512-byte unit begins with jbd2's magic number.
    pub magic: bool,
}

impl Fill {
    /// All zeros.
    pub const ZEROS: Self = Self { id: 0, magic: false };

    /// The fill with this number.
    pub fn unique(id: u32) -> Self {
        Self { id, magic: false }
    }

    /// The byte that belongs at `offset` of the file.
    pub fn byte(self, offset: u64) -> u8 {
        self.word(offset / 8)[(offset % 8) as usize]
    }

    fn word(self, index: u64) -> [u8; 8] {
        if self.id == 0 {
            return [0; 8];
        }
        let mut word = ((u64::from(self.id) << 32) | (index & 0xFFFF_FFFF)).wrapping_mul(MIX).to_le_bytes();
        if self.magic && index.is_multiple_of(64) {
            word[..4].copy_from_slice(&JBD2_MAGIC);
        }
        word
    }

    /// Fills `buf` with what belongs at `offset` of the file.
    pub fn copy_to(self, offset: u64, buf: &mut [u8]) {
        let mut at = 0;
        while at < buf.len() {
            let offset = offset + at as u64;
            let from = (offset % 8) as usize;
            let n = (8 - from).min(buf.len() - at);
            buf[at..at + n].copy_from_slice(&self.word(offset / 8)[from..from + n]);
            at += n;
        }
    }

    /// The same as a new buffer.
    pub fn bytes(self, offset: u64, len: u64) -> Vec<u8> {
        let mut buf = vec![0; len as usize];
        self.copy_to(offset, &mut buf);
        buf
    }

    /// Says what an aligned 8-byte word is: zeros, or word `n` of some fill, or something else.
    pub fn describe(word: &[u8; 8]) -> String {
        // The inverse of MIX modulo 2^64, by Newton's iteration.
        let inverse = (0..6).fold(MIX, |x, _| x.wrapping_mul(2u64.wrapping_sub(MIX.wrapping_mul(x))));
        let plain = u64::from_le_bytes(*word).wrapping_mul(inverse);
        match (u64::from_le_bytes(*word), plain >> 32) {
            (0, _) => "zeros".into(),
            (_, id) if id < 1 << 20 => format!("#{id} of offset {}", (plain & 0xFFFF_FFFF) * 8),
            _ => format!("{word:02x?}"),
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id, self.magic) {
            (0, _) => f.write_str("zeros"),
            (id, false) => write!(f, "#{id}"),
            (id, true) => write!(f, "jbd2#{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_tells_where_it_belongs() {
        let bytes = Fill::unique(7).bytes(4096, 64);
        assert_eq!(Fill::describe(bytes[8..16].try_into().unwrap()), "#7 of offset 4104");
        assert_eq!(Fill::describe(&[0; 8]), "zeros");
        assert_eq!(bytes[3], Fill::unique(7).byte(4099));
    }

    #[test]
    fn unaligned_pieces_fit_together() {
        let fill = Fill { id: 3, magic: true };
        let whole = fill.bytes(509, 600);
        assert_eq!(whole[..100], fill.bytes(509, 100)[..]);
        assert_eq!(whole[100..], fill.bytes(609, 500)[..]);
        assert_eq!(whole[3..7], JBD2_MAGIC);
    }
}
