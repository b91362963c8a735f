//! Medians, spreads and ratios over rounds.

use serde::{Deserialize, Serialize};

/// The middle and the ends of some figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) low: f64,
    /// The largest.
    pub(crate) high: f64,
}

impl Spread {
    /// What was counted, and does not differ.
    pub(crate) fn exactly(value: f64) -> Self {
        Self { median: value, low: value, high: value }
    }
}

/// The spread of `figures`; zeros when there are none.
pub(crate) fn spread(figures: &[f64]) -> Spread {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |i: usize| sorted.get(i).copied().unwrap_or_default();
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 { at(middle) } else { (at(middle.saturating_sub(1)) + at(middle)) / 2.0 };
    Spread { median, low: at(0), high: at(sorted.len().saturating_sub(1)) }
}

/// The ratio of `rates` to the first target's rates **of the same round**, so that a slow minute of the machine, which
/// both live through, cancels out. Above 1: faster.
pub(crate) fn ratio(first: &[f64], rates: &[f64]) -> Spread {
    let per_round: Vec<f64> =
        first.iter().zip(rates).map(|(first, rate)| if *first > 0.0 { rate / first } else { 0.0 }).collect();
    spread(&per_round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, low: 1.0, high: 4.0 });
        assert_eq!(spread(&[5.0]), Spread { median: 5.0, low: 5.0, high: 5.0 });
        assert_eq!(spread(&[]), Spread { median: 0.0, low: 0.0, high: 0.0 });
    }

    #[test]
    fn ratios_pair_the_rounds() {
        // The machine is three times slower in the second round; the ratio does not see it.
        let first = [300.0, 100.0, 300.0];
        let other = [600.0, 200.0, 750.0];
        assert_eq!(ratio(&first, &other), Spread { median: 2.0, low: 2.0, high: 2.5 });
        assert_eq!(ratio(&first, &first), Spread { median: 1.0, low: 1.0, high: 1.0 });
    }

    #[test]
    fn a_first_target_without_a_rate_gives_no_infinity() {
        assert_eq!(ratio(&[0.0], &[10.0]), Spread { median: 0.0, low: 0.0, high: 0.0 });
    }
}
