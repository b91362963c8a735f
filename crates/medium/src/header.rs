//! What all headers in a pool have in common, in all versions to come: the signature (byte 0), the version (8) and the
//! checksum (12).

use crc_fast::{CrcAlgorithm, Digest};

const CHECKSUM_AT: usize = 12;

/// Why a copy of a header is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// Something else is there.
    #[error("no signature")]
    NoSignature,
    /// A version to come.
    #[error("version {0}")]
    Version(u32),
    /// Features to come.
    #[error("unknown features {0:#x}")]
    Features(u32),
    /// The bytes are not those that were written.
    #[error("checksum {computed:#010x}, not {stored:#010x}")]
    Checksum {
        /// What the header says.
        stored: u32,
        /// What its bytes have.
        computed: u32,
    },
    /// The medium has lost some of it.
    #[error("the line at byte {0} is lost")]
    Lost(u64),
    /// The checksum is right and the contents are not.
    #[error("{0}")]
    Contents(&'static str),
    /// As above, of one area.
    #[error("area {index} (byte {start}, {len} bytes) {what}")]
    Area {
        /// Its place in the table.
        index: usize,
        /// First byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// What is wrong.
        what: &'static str,
    },
}

impl HeaderFault {
    /// A newer program made it.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Features(_))
    }
}

/// Puts the checksum into a header that is otherwise complete.
pub fn seal_header(header: &mut [u8]) {
    let sum = header_sum(header);
    if let Some(place) = header.get_mut(CHECKSUM_AT..CHECKSUM_AT + 4) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

/// Looks whether signature and checksum of a header are right.
///
/// # Errors
/// `NoSignature`, `Checksum`.
pub fn check_header(header: &[u8], signature: &[u8; 8]) -> Result<(), HeaderFault> {
    if !header.starts_with(signature) {
        return Err(HeaderFault::NoSignature);
    }
    let stored = header.get(CHECKSUM_AT..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes);
    let computed = header_sum(header);
    if stored == computed { Ok(()) } else { Err(HeaderFault::Checksum { stored, computed }) }
}

/// With its own field as zeros.
fn header_sum(header: &[u8]) -> u32 {
    let (before, rest) = header.split_at(CHECKSUM_AT.min(header.len()));
    crc32c(!0, &[before, &[0; 4], rest.get(4..).unwrap_or_default()])
}

/// crc32c of `parts` as if they were one, continued from `state`, as ext4 has it: without inversions.
pub fn crc32c(state: u32, parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(state));
    parts.iter().for_each(|part| digest.update(part));
    !(digest.finalize() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_was_sealed() {
        let mut header = [7; 64];
        header[..8].copy_from_slice(b"ONDOLXX\0");
        seal_header(&mut header);
        assert_eq!(check_header(&header, b"ONDOLXX\0"), Ok(()));
        assert_eq!(check_header(&header, b"ONDOLYY\0"), Err(HeaderFault::NoSignature));
        for bit in 64..512 {
            let mut bad = header;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(check_header(&bad, b"ONDOLXX\0"), Err(HeaderFault::Checksum { .. })), "bit {bit}");
        }
        for short in [0, 7, 11, 14] {
            check_header(&header[..short], b"ONDOLXX\0").unwrap_err();
        }
        assert_eq!(crc32c(!0, &[b"1234", b"56789"]), !0xE306_9283);
    }
}
