//! Words that nobody has to know: made of syllables, some used much more often than others.

use crate::rng::Rng;

const SYLLABLES: [&str; 48] = [
    "ba", "be", "bo", "ca", "co", "cu", "da", "de", "di", "do", "en", "er", "es", "fa", "fi", "ge", "ho", "in", "is",
    "ka", "la", "le", "li", "lo", "ma", "me", "mi", "mo", "na", "ne", "no", "on", "or", "pa", "pe", "ra", "re", "ri",
    "ro", "sa", "se", "si", "ta", "te", "ti", "to", "tra", "st",
];

/// A vocabulary.
pub(super) struct Words(Vec<String>);

impl Words {
    /// `count` words of `syllables` syllables or fewer; those at the beginning are shorter.
    pub(super) fn new(rng: &mut Rng, count: usize, syllables: u64) -> Self {
        let word = |n: usize| {
            let most = if n < count / 20 { 2 } else { syllables };
            let parts = 1 + rng.below(most);
            (0..parts)
                .map(|_| SYLLABLES.get(rng.below(SYLLABLES.len() as u64) as usize).copied().unwrap_or("a"))
                .collect()
        };
        Self((0..count).map(word).collect())
    }

    /// One of the first `of` words: the first ones come most often, as in any language.
    pub(super) fn pick(&self, rng: &mut Rng, of: usize) -> &str {
        let x = rng.unit();
        let n = (x * x * x * of as f64) as usize;
        self.0.get(n % self.0.len().max(1)).map_or("", String::as_str)
    }

    /// Any word, all alike.
    pub(super) fn any(&self, rng: &mut Rng) -> &str {
        self.0.get(rng.below(self.0.len() as u64) as usize).map_or("", String::as_str)
    }
}
