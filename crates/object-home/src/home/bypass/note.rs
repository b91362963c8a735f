//! Key `b`, the note about what has bypassed the log. Numbers are little-endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | the database's number of a row that the manifest must have: it has all rows that were left out, then |
//! | 8 | 16 | UUID of the home whose log has the empty objects |
//! | 24 | 16 each | first and last number of empty objects that may still be there |
//! | the last 4 | | crc32c of the seed and everything before |

use crate::format::sum;

pub(in crate::home) const NOTE_KEY: &[u8] = b"b";

const HEAD: usize = 24;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::home) struct Note {
    pub(in crate::home) seq: u64,
    pub(in crate::home) uuid: [u8; 16],
    pub(in crate::home) empty: Vec<(u64, u64)>,
}

impl Note {
    pub(in crate::home) fn encode(&self, seed: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.empty.len() * 16 + 4);
        bytes.extend_from_slice(&self.seq.to_le_bytes());
        bytes.extend_from_slice(&self.uuid);
        for (first, last) in &self.empty {
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&last.to_le_bytes());
        }
        bytes.extend_from_slice(&sum(&[&seed.to_le_bytes(), &bytes]).to_le_bytes());
        bytes
    }

    /// Reads it, or says what is wrong with it.
    pub(in crate::home) fn decode(seed: u32, bytes: &[u8]) -> Result<Self, String> {
        let what = "the note about the database's log";
        let Some((body, seal)) = bytes.split_last_chunk::<4>() else {
            return Err(format!("{what} has {} bytes", bytes.len()));
        };
        if body.len() < HEAD || !(body.len() - HEAD).is_multiple_of(16) {
            return Err(format!("{what} has {} bytes", bytes.len()));
        }
        if *seal != sum(&[&seed.to_le_bytes(), body]).to_le_bytes() {
            return Err(format!("the checksum of {what} is wrong"));
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| body[at + n]));
        let mut empty: Vec<(u64, u64)> = vec![];
        for at in (HEAD..body.len()).step_by(16) {
            let (first, last) = (number(at), number(at + 8));
            if first > last || empty.last().is_some_and(|(_, before)| *before >= first) {
                return Err(format!("{what} has empty objects out of order: {first} to {last}"));
            }
            empty.push((first, last));
        }
        Ok(Self { seq: number(0), uuid: std::array::from_fn(|n| body[8 + n]), empty })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written_and_damage_is_found() {
        for empty in [vec![], vec![(1, 1)], vec![(1, 4), (6, 9)]] {
            let note = Note { seq: 7, uuid: [3; 16], empty };
            let bytes = note.encode(5);
            assert_eq!(Note::decode(5, &bytes), Ok(note));
            assert!(Note::decode(6, &bytes).unwrap_err().contains("checksum"));
            for bit in 0..bytes.len() * 8 {
                let mut broken = bytes.clone();
                broken[bit / 8] ^= 1 << (bit % 8);
                Note::decode(5, &broken).unwrap_err();
            }
            for len in 0..bytes.len() {
                Note::decode(5, &bytes[..len]).unwrap_err();
            }
        }
        for empty in [vec![(4, 1)], vec![(1, 4), (4, 9)], vec![(6, 9), (1, 4)]] {
            let bytes = Note { seq: 7, uuid: [3; 16], empty }.encode(5);
            assert!(Note::decode(5, &bytes).unwrap_err().contains("out of order"));
        }
    }
}
