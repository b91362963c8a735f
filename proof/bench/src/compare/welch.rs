//! Whether rounds of one run differ from rounds of another by more than they differ among themselves.

/// The quantile 0.995 of Student's t for 1, 2, … degrees of freedom: 99 % lie between it and its negative. More degrees than there are here take the last,
/// which makes intervals a little too wide.
const T: [f64; 20] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861, 2.845,
];

/// By which factor something has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Factor {
    /// The geometric mean of the rounds before.
    pub(super) old: f64,
    /// The same of those after.
    pub(super) new: f64,
    /// The interval that holds the factor in 99 of 100 cases.
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Factor {
    /// No change is not in the interval.
    pub(super) fn is_significant(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// Mean and variance of the mean, and the degrees of freedom.
struct Mean {
    mean: f64,
    variance: f64,
    freedom: f64,
}

impl Mean {
    /// Of logarithms. `None` for fewer than two rounds, and for rounds that have none.
    fn of(rounds: &[f64]) -> Option<Self> {
        if rounds.len() < 2 || rounds.iter().any(|round| !(round.is_finite() && *round > 0.0)) {
            return None;
        }
        let count = rounds.len() as f64;
        let mean = rounds.iter().map(|round| round.ln()).sum::<f64>() / count;
        let squares = rounds.iter().map(|round| (round.ln() - mean).powi(2)).sum::<f64>();
        Some(Self { mean, variance: squares / (count - 1.0) / count, freedom: count - 1.0 })
    }
}

/// Welch's interval of the change from the rounds of `old` to those of `new`, which are above 0; `None` if there are fewer than two of either.
pub(super) fn factor(old: &[f64], new: &[f64]) -> Option<Factor> {
    let (old, new) = (Mean::of(old)?, Mean::of(new)?);
    let variance = old.variance + new.variance;
    let (middle, mut wide) = (new.mean - old.mean, 0.0);
    if variance > 0.0 {
        // Welch and Satterthwaite.
        let parts = old.variance.powi(2) / old.freedom + new.variance.powi(2) / new.freedom;
        let freedom = (variance.powi(2) / parts).floor().clamp(1.0, T.len() as f64);
        wide = T.get(freedom as usize - 1).copied().unwrap_or(f64::INFINITY) * variance.sqrt();
    }
    Some(Factor { old: old.mean.exp(), new: new.mean.exp(), low: (middle - wide).exp(), high: (middle + wide).exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_welchs() {
        // Logarithms 0, 1, 2 and 3, 4, 5: means 1 and 4, each with a variance of 1/3, four degrees of freedom.
        let [old, new] = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]].map(|logs: [f64; 3]| logs.map(f64::exp));
        let factor = factor(&old, &new).expect("three rounds each");
        let wide = 4.604 * (2.0_f64 / 3.0).sqrt();
        assert!(
            (factor.low.ln() - (3.0 - wide)).abs() < 1e-9 && (factor.high.ln() - (3.0 + wide)).abs() < 1e-9,
            "{factor:?}"
        );
        assert!((factor.old - 1.0_f64.exp()).abs() < 1e-9 && (factor.new - 4.0_f64.exp()).abs() < 1e-9);
        assert!(!factor.is_significant());
    }

    #[test]
    fn the_spread_decides() {
        let old = [100.0, 102.0, 98.0, 101.0, 99.0];
        let faster = factor(&old, &[120.0, 122.0, 118.0, 121.0, 119.0]).expect("rounds");
        assert!(faster.is_significant() && faster.low > 1.15 && faster.high < 1.25, "{faster:?}");
        let slower = factor(&[120.0, 122.0, 118.0], &old).expect("rounds");
        assert!(slower.is_significant() && slower.high < 1.0, "{slower:?}");
        let noisy = factor(&old, &[150.0, 90.0, 160.0, 95.0, 120.0]).expect("rounds");
        assert!(!noisy.is_significant(), "{noisy:?}");
        assert!(!factor(&old, &old).expect("rounds").is_significant());
    }

    #[test]
    fn one_round_has_no_spread() {
        for (old, new) in [(&[1.0][..], &[2.0, 3.0][..]), (&[1.0, 2.0], &[5.0]), (&[1.0, 0.0], &[1.0, 2.0]), (&[], &[])]
        {
            assert_eq!(factor(old, new), None);
        }
        // What does not differ from round to round has changed if it has changed at all.
        assert!(factor(&[2.0, 2.0], &[2.5, 2.5]).expect("rounds").is_significant());
        assert!(!factor(&[2.0, 2.0], &[2.0, 2.0]).expect("rounds").is_significant());
    }
}
