//! Names of one hash: a directory's index may lead to the leaf before the one that has the second of them.

use super::parse;
use crate::image::Kind;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_format::hash::{DxHash, HashVersion};
use ondol_testkit::op::Op;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Bytes of each of them: four fill a block of 1 KiB.
pub(super) const LEN: usize = 240;

/// So many names have a few pairs of one hash of 31 bits.
const TRIED: u64 = 200_000;

/// Pairs that are used.
const PAIRS: usize = 3;

/// Names as numbers, and their hashes.
pub(super) struct Names {
    pairs: Vec<[u64; 2]>,
    /// Of other hashes, in the order of these.
    others: Vec<(u32, u64)>,
    hash: DxHash,
}

fn path(n: u64) -> String {
    format!("/d/{n:0LEN$}")
}

impl Names {
    /// For the directories of such a volume.
    pub(super) fn of(image: Kind) -> &'static Self {
        static LEGACY: LazyLock<Names> = LazyLock::new(|| Names::new(Kind::hash_of(HashVersion::Legacy)));
        static HALF_MD4: LazyLock<Names> = LazyLock::new(|| Names::new(Kind::hash_of(HashVersion::HalfMd4)));
        if image.hash_version() == HashVersion::Legacy { &LEGACY } else { &HALF_MD4 }
    }

    fn new(hash: DxHash) -> Self {
        let major = |n: u64| hash.hash(format!("{n:0LEN$}").as_bytes()).major;
        let (mut pairs, mut known) = (Vec::new(), HashMap::new());
        for n in 0..TRIED {
            if let Some(other) = known.insert(major(n), n).filter(|_| pairs.len() < PAIRS) {
                pairs.push([other, n]);
            }
        }
        // Far apart: the legacy hash puts similar names side by side.
        let others = (1..=256).map(|n| n * (u64::MAX / 256)).map(|n| (major(n), n));
        let mut others: Vec<(u32, u64)> = others.filter(|(hash, _)| !known.contains_key(hash)).collect();
        others.sort_unstable();
        Self { pairs, others, hash }
    }

    /// Two names of one hash.
    pub(super) fn pair(&self) -> [String; 2] {
        self.pairs[0].map(path)
    }

    /// So many names that come before that pair in an index, and behind it.
    pub(super) fn around(&self, before: usize, behind: usize) -> Vec<String> {
        let pair = self.hash.hash(&path(self.pairs[0][0]).as_bytes()[3..]).major;
        let (lower, higher) = self.others.split_at(self.others.partition_point(|(hash, _)| *hash < pair));
        let names = lower.iter().rev().take(before).chain(higher.iter().take(behind));
        names.map(|(_, n)| path(*n)).collect()
    }

    /// Calls on all pairs and a few others in one directory, by seed.
    pub(super) fn calls(&self, seed: u64) -> Vec<Op> {
        let random = Fixed::new(Timestamp::default(), seed);
        let below = |n: usize| random.random_u32() as usize % n;
        let few = self.others.iter().step_by(32).map(|(_, n)| *n);
        let names: Vec<String> = self.pairs.iter().flatten().copied().chain(few).map(path).collect();
        let line = |_| {
            let (name, other) = (&names[below(names.len())], &names[below(names.len())]);
            match below(16) {
                0..8 => format!("link /t {name}\n"),
                8 => format!("create {name} 0600\n"),
                9..12 => format!("unlink {name}\n"),
                12 => format!("rename {name} {other}\n"),
                13 => format!("rename-exchange {name} {other}\n"),
                _ => "sync\n".to_owned(),
            }
        };
        parse(&("create /t 0644\nmkdir /d 0755\n".to_owned() + &(0..30).map(line).collect::<String>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hash_has_pairs_and_names_around_the_first() {
        for image in [Kind::Small, Kind::BlockMap] {
            let names = Names::of(image);
            let hash = |path: &str| names.hash.hash(&path.as_bytes()[3..]);
            assert_eq!(names.pairs.len(), PAIRS, "{image}");
            let [one, other] = names.pair();
            assert!(one != other && hash(&one).major == hash(&other).major);
            let around = names.around(7, 7);
            let below = around.iter().filter(|name| hash(name).major < hash(&one).major).count();
            assert_eq!((around.len(), below), (14, 7), "{image}");
            assert!(names.calls(1) == names.calls(1) && names.calls(1) != names.calls(2));
        }
    }
}
