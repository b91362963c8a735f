//! What is written: classes of contents that compress as real files of their kind do, the same bytes on every machine.
//!
//! Nothing is fetched: each class is generated. What LZ4 makes of it stands in every report. Ratios, beside files of
//! the Silesia corpus: text 2.5 (samba 2.8), mail 1.7 (dickens 1.6), db 2.2 (osdb 1.9), elf 1.9 (mozilla 1.9). `zero`
//! (245) is there because Filebench writes zeros: it clears a thread's memory when the thread begins and never fills
//! it (`flowop_start`, version 1.5).

mod db;
mod elf;
mod mail;
mod text;
mod words;

use crate::rng::Rng;
use crate::units::MIB;
use lz4_flex::block::{compress_into, get_maximum_output_size};
use serde::{Deserialize, Serialize};

/// A kind of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Class {
    /// Source text.
    Text,
    /// Mail: headers, prose, some attachments.
    Mail,
    /// Pages of a database of 4 KiB, two thirds full.
    Db,
    /// Programs: code, symbols, strings.
    Elf,
    /// What does not compress.
    Random,
    /// Zeros: what Filebench itself writes.
    Zero,
}

/// Bytes that writes are taken from, unless one is longer.
const POOL: u64 = 8 * MIB;
/// Bytes that are compressed at once for the ratio.
const UNIT: usize = 64 << 10;
/// Where writes begin in the pool: where pages of a database do.
const ALIGN: u64 = 4096;

/// Contents of one class. Every write takes another piece of them, so that what a transaction holds repeats as little as it
/// does in real files.
#[derive(Debug)]
pub(crate) struct Contents {
    class: Class,
    pool: Vec<u8>,
}

/// What a report says of contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Payload {
    /// The class.
    pub(crate) class: String,
    /// Bytes for each byte that LZ4 makes of them, 64 KiB at a time.
    pub(crate) lz4_ratio: f64,
}

impl Contents {
    /// Contents under `seed`, for writes of up to `longest` bytes.
    pub(crate) fn new(class: Class, seed: u64, longest: u64) -> Self {
        let len = usize::try_from(POOL.max(longest.saturating_add(ALIGN))).unwrap_or(usize::MAX);
        let mut rng = Rng::new(seed, 0);
        let mut pool = Vec::with_capacity(len + UNIT);
        match class {
            Class::Text => text::fill(&mut pool, len, &mut rng),
            Class::Mail => mail::fill(&mut pool, len, &mut rng),
            Class::Db => db::fill(&mut pool, len, &mut rng),
            Class::Elf => elf::fill(&mut pool, len, &mut rng),
            Class::Random => {
                pool.resize(len, 0);
                rng.fill(&mut pool);
            }
            Class::Zero => {}
        }
        pool.resize(len, 0);
        Self { class, pool }
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
        let class =
            clap::ValueEnum::to_possible_value(&self.class).map_or_else(String::new, |v| v.get_name().to_owned());
        Payload { class, lz4_ratio: (ratio(&self.pool) * 100.0).round() / 100.0 }
    }
}

/// Bytes for each byte that LZ4 makes of `bytes`; what does not get smaller would be stored.
fn ratio(bytes: &[u8]) -> f64 {
    let mut out = vec![0; get_maximum_output_size(UNIT)];
    let packed = |unit: &[u8]| compress_into(unit, &mut out).unwrap_or(unit.len()).min(unit.len());
    let packed: usize = bytes.chunks(UNIT).map(packed).sum();
    bytes.len() as f64 / packed.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn classes_compress_as_their_kind_does() {
        // Beside them what LZ4 makes of files of the Silesia corpus: samba 2.8, osdb 1.9, mozilla 1.9, dickens 1.6.
        for (class, low, high) in [
            (Class::Text, 2.3, 3.3),
            (Class::Mail, 1.4, 2.0),
            (Class::Db, 1.7, 2.6),
            (Class::Elf, 1.5, 2.3),
            (Class::Random, 1.0, 1.0),
            (Class::Zero, 200.0, 256.0),
        ] {
            let ratio = Contents::new(class, 1, 0).payload().lz4_ratio;
            assert!((low..=high).contains(&ratio), "{class:?}: {ratio}");
        }
    }

    #[test]
    fn a_seed_repeats() {
        for class in Class::value_variants() {
            let contents = |seed| Contents::new(*class, seed, 0).pool;
            assert_eq!(contents(1), contents(1));
            assert!(*class == Class::Zero || contents(1) != contents(2), "{class:?}");
        }
    }

    #[test]
    fn pieces_are_as_long_as_asked_for_and_differ() {
        let contents = Contents::new(Class::Random, 1, 9 * MIB);
        let mut rng = Rng::new(1, 1);
        assert_eq!(contents.piece(&mut rng, 9 * MIB).len() as u64, 9 * MIB);
        assert_eq!(contents.piece(&mut rng, 0), b"");
        let pieces: Vec<_> = (0..16).map(|_| contents.piece(&mut rng, 4096)).collect();
        assert!(pieces.iter().enumerate().all(|(n, piece)| !pieces[..n].contains(piece)));
    }
}
