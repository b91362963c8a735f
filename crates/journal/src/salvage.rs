//! What can be had of a damaged log: the longest beginning of it that is sound.

use crate::jbd2::Recovered;
use crate::{JournalError, Result};

/// What a damaged log was made to give back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// What was replayed.
    pub recovered: Recovered,
    /// What could not be.
    pub given_up: Option<GivenUp>,
}

/// Transactions that are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Number of the first.
    pub first: u64,
    /// Number of the last that is known to have been there.
    pub last: u64,
    /// What is wrong with the first.
    pub why: String,
}

/// Called when what is sound is home, before the log is emptied that could tell of a loss: the volume must say so
/// itself from then on, durably.
pub type Lose<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Asks `sound` about beginnings of a log by the number of their transactions, `most` at most, and returns what it made
/// of the longest that is, and why a longer one is not. That a longer one is sound when a shorter one is not is
/// possible, and not looked for.
///
/// # Errors
/// Not even the empty beginning is sound.
pub(crate) fn longest<T>(most: u64, sound: impl Fn(u64) -> Result<T>) -> Result<(T, Option<JournalError>)> {
    let mut why = match sound(most) {
        Ok(all) => return Ok((all, None)),
        Err(e) => e,
    };
    let (mut good, mut bad, mut best) = (0, most, sound(0)?);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match sound(middle) {
            Ok(made) => (good, best) = (middle, made),
            Err(e) => (bad, why) = (middle, e),
        }
    }
    Ok((best, Some(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_is_found_with_what_ends_it() {
        for most in [1, 2, 7, 1000] {
            for sound in 0..=most.min(20) {
                let asked = |n: u64| match n <= sound {
                    true => Ok(n),
                    false => Err(JournalError::Unsupported(format!("{}", sound + 1))),
                };
                let (found, why) = longest(most, asked).unwrap();
                assert_eq!(found, sound);
                assert_eq!(
                    why.map(|e| e.to_string().contains(&format!("{}", sound + 1))),
                    (sound < most).then_some(true)
                );
            }
        }
    }
}
