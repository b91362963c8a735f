//! The directory hashes of htrees: legacy, half MD4 and TEA, with signed or unsigned characters.

/// Which function hashes the names of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashVersion {
    /// The first, weak function.
    Legacy = 0,
    /// The shortened MD4: the default.
    HalfMd4 = 1,
    /// The Tiny Encryption Algorithm.
    Tea = 2,
}

impl HashVersion {
    /// From s_def_hash_version or a dx_root's hash_version; None for one this crate does not know.
    pub fn from_disk(byte: u8) -> Option<HashVersion> {
        match byte {
            0 => Some(HashVersion::Legacy),
            1 => Some(HashVersion::HalfMd4),
            2 => Some(HashVersion::Tea),
            _ => None,
        }
    }
}

/// The hash of a name. Its major half orders the tree; the low bit is always clear, for in the tree it marks a
/// continued collision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameHash {
    /// What index entries compare.
    pub major: u32,
    /// Tells names of the same major hash apart in directory positions; 0 with the legacy function.
    pub minor: u32,
}

/// A hash function ready for use: version, signedness and seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxHash {
    /// The function.
    pub version: HashVersion,
    /// Whether characters count as unsigned.
    pub unsigned: bool,
    /// s_hash_seed; all zero means MD4's own constants.
    pub seed: [u32; 4],
}

/// The major hash that means "end of directory" in positions; no name may have it.
const EOF: u32 = 0x7fff_ffff << 1;

impl DxHash {
    /// Hashes a name.
    pub fn hash(&self, name: &[u8]) -> NameHash {
        let seed = if self.seed == [0; 4] { [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476] } else { self.seed };
        let (major, minor) = match self.version {
            HashVersion::Legacy => (self.legacy(name), 0),
            HashVersion::HalfMd4 => {
                let state = name
                    .chunks(32)
                    .enumerate()
                    .fold(seed, |state, (i, _)| half_md4(state, &self.words::<8>(&name[i * 32..])));
                (state[1], state[2])
            }
            HashVersion::Tea => {
                let state = name
                    .chunks(16)
                    .enumerate()
                    .fold([seed[0], seed[1]], |state, (i, _)| tea(state, &self.words::<4>(&name[i * 16..])));
                (state[0], state[1])
            }
        };
        let major = major & !1;
        NameHash { major: if major == EOF { EOF - 2 } else { major }, minor }
    }

    /// A character as the 32-bit number that the C code computes with.
    fn char(&self, byte: u8) -> u32 {
        if self.unsigned { u32::from(byte) } else { byte as i8 as u32 }
    }

    fn legacy(&self, name: &[u8]) -> u32 {
        let (mut previous, mut hash) = (0x37ab_e8f9u32, 0x12a3_fe2du32);
        for &byte in name {
            let mut next = previous.wrapping_add(hash ^ self.char(byte).wrapping_mul(7_152_373));
            if next & 0x8000_0000 != 0 {
                next = next.wrapping_sub(0x7fff_ffff);
            }
            (previous, hash) = (hash, next);
        }
        hash << 1
    }

    /// The first N words of a name, characters packed big end first, short names padded with their length.
    fn words<const N: usize>(&self, name: &[u8]) -> [u32; N] {
        let length = name.len() as u32 & 0xff;
        let pad = length * 0x0101_0101;
        let mut words = [pad; N];
        for (word, chunk) in words.iter_mut().zip(name.chunks(4)) {
            for &byte in chunk {
                *word = (*word << 8).wrapping_add(self.char(byte));
            }
        }
        words
    }
}

/// One 32-byte step of MD4 cut to 24 operations.
fn half_md4(state: [u32; 4], input: &[u32; 8]) -> [u32; 4] {
    /// Which input word and which rotation each step of each round takes.
    const ROUNDS: [([usize; 8], [u32; 4], u32); 3] = [
        ([0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19], 0),
        ([1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13], 0x5a82_7999),
        ([3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15], 0x6ed9_eba1),
    ];
    let [mut a, mut b, mut c, mut d] = state;
    for (round, (order, turns, constant)) in ROUNDS.iter().enumerate() {
        for (step, &word) in order.iter().enumerate() {
            let mixed = match round {
                0 => d ^ (b & (c ^ d)),
                1 => (b & c).wrapping_add((b ^ c) & d),
                _ => b ^ c ^ d,
            };
            let sum = a.wrapping_add(mixed).wrapping_add(input[word]).wrapping_add(*constant);
            (a, b, c, d) = (d, sum.rotate_left(turns[step % 4]), b, c);
        }
    }
    [state[0].wrapping_add(a), state[1].wrapping_add(b), state[2].wrapping_add(c), state[3].wrapping_add(d)]
}

/// Sixteen rounds of TEA with the name as the key.
fn tea(state: [u32; 2], key: &[u32; 4]) -> [u32; 2] {
    let [mut left, mut right] = state;
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        left = left.wrapping_add(mix(right, key[0], key[1], sum));
        right = right.wrapping_add(mix(left, key[2], key[3], sum));
    }
    [state[0].wrapping_add(left), state[1].wrapping_add(right)]
}

fn mix(half: u32, low: u32, high: u32, sum: u32) -> u32 {
    (half << 4).wrapping_add(low) ^ half.wrapping_add(sum) ^ (half >> 5).wrapping_add(high)
}
