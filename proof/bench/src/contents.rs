//! What is written: bytes that compress by a stated ratio, the same on every machine.
//!
//! Contents are cells, each some random bytes and then one of them repeated, in such proportion that LZ4 makes of them
//! what was asked for. Real files are about: source text 2.5 (samba of the Silesia corpus 2.8), pages of a database 2.2
//! (osdb 1.9), programs 1.9 (mozilla 1.9), mail 1.7 (dickens 1.6). Such cells compress faster than text, whose matches
//! are shorter. Filebench itself writes zeros: it clears a thread's memory when the thread begins and never fills it
//! (`flowop_start`, version 1.5).

use crate::rng::Rng;
use crate::units::MIB;
use lz4_flex::block::{compress_into, get_maximum_output_size};
use serde::Serialize;

/// What source text has.
pub(crate) const TEXT: &str = "2.5";
/// What cannot be more: of a cell only what LZ4 says of it is left.
const MOST: f64 = 16.0;

/// Bytes that writes are taken from, unless one is longer.
const POOL: u64 = 8 * MIB;
/// Bytes that are compressed at once for the ratio.
const UNIT: usize = 64 << 10;
/// Where writes begin in the pool: where pages of a database do.
const ALIGN: u64 = 4096;
/// Bytes of a cell.
const CELL: usize = 128;
/// What LZ4 takes for a cell beside its random bytes: two lengths in a byte, a distance, the rest of the longer length.
const OVERHEAD: f64 = 4.0;
/// From so many random bytes on their length takes a byte more.
const LONG: f64 = 15.0;

/// Reads a ratio: bytes for each byte that LZ4 makes of them.
///
/// # Errors
/// It is none, or LZ4 cannot reach it with such cells.
pub(crate) fn ratio_of(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (1.0..=MOST).contains(ratio));
    ratio.ok_or_else(|| format!("between 1, which does not compress, and {MOST}"))
}

/// Every write takes another piece, so that what a transaction holds repeats as little as it does in real files.
#[derive(Debug)]
pub(crate) struct Contents {
    asked: f64,
    pool: Vec<u8>,
}

/// What a report says of contents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Payload {
    /// What was asked for.
    pub(crate) ratio: f64,
    /// Bytes for each byte that LZ4 makes of them, 64 KiB at a time.
    pub(crate) lz4_ratio: f64,
}

impl Contents {
    /// Contents of `ratio` under `seed`, for writes of up to `longest` bytes.
    pub(crate) fn new(ratio: f64, seed: u64, longest: u64) -> Self {
        let len = usize::try_from(POOL.max(longest.saturating_add(ALIGN))).unwrap_or(usize::MAX);
        let mut pool = vec![0; len];
        Rng::new(seed, 0).fill(&mut pool);
        // Bytes that do not compress are no cells.
        let packed = CELL as f64 / ratio - OVERHEAD;
        let random = match packed {
            _ if ratio <= 1.0 => CELL as f64,
            _ if packed > LONG => packed - 1.0,
            _ => packed,
        };
        let mut due = 0.0;
        for cell in pool.chunks_mut(CELL) {
            // What is cut off here is made up for in the next cells.
            due += random;
            let kept = (due as usize).clamp(1, cell.len());
            due -= kept as f64;
            let (fresh, again) = cell.split_at_mut(kept);
            again.fill(fresh.last().copied().unwrap_or(0));
        }
        Self { asked: ratio, pool }
    }

    /// Some `len` bytes.
    pub(crate) fn piece(&self, rng: &mut Rng, len: u64) -> &[u8] {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.pool.len());
        let places = (self.pool.len() - len) as u64 / ALIGN + 1;
        let at = (rng.below(places) * ALIGN) as usize;
        self.pool.get(at..at + len).unwrap_or_default()
    }

    /// For the report.
    pub(crate) fn payload(&self) -> Payload {
        Payload { ratio: self.asked, lz4_ratio: (lz4(&self.pool) * 100.0).round() / 100.0 }
    }
}

/// Bytes for each byte that LZ4 makes of `bytes`; what does not get smaller would be stored.
fn lz4(bytes: &[u8]) -> f64 {
    let mut out = vec![0; get_maximum_output_size(UNIT)];
    let packed = |unit: &[u8]| compress_into(unit, &mut out).unwrap_or(unit.len()).min(unit.len());
    let packed: usize = bytes.chunks(UNIT).map(packed).sum();
    bytes.len() as f64 / packed.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_compress_as_they_are_asked_to() {
        assert_eq!(Contents::new(1.0, 1, 0).payload().lz4_ratio, 1.0);
        for ratio in [1.3, 1.7, 1.9, 2.5, 4.0, 8.0, MOST] {
            let measured = Contents::new(ratio, 1, 0).payload().lz4_ratio;
            assert!((measured / ratio - 1.0).abs() < 0.1, "{ratio}: {measured}");
        }
        assert_eq!(ratio_of(TEXT), Ok(2.5));
        for text in ["0.5", "17", "text", "nan"] {
            assert!(ratio_of(text).is_err_and(|why| why.contains("between 1")), "{text}");
        }
    }

    #[test]
    fn a_seed_repeats() {
        for ratio in [1.0, 2.5] {
            let contents = |seed| Contents::new(ratio, seed, 0).pool;
            assert_eq!(contents(1), contents(1));
            assert!(contents(1) != contents(2), "{ratio}");
        }
    }

    #[test]
    fn pieces_are_as_long_as_asked_for_and_differ() {
        let contents = Contents::new(1.0, 1, 9 * MIB);
        let mut rng = Rng::new(1, 1);
        assert_eq!(contents.piece(&mut rng, 9 * MIB).len() as u64, 9 * MIB);
        assert_eq!(contents.piece(&mut rng, 0), b"");
        let pieces: Vec<_> = (0..16).map(|_| contents.piece(&mut rng, 4096)).collect();
        assert!(pieces.iter().enumerate().all(|(n, piece)| !pieces[..n].contains(piece)));
    }
}
