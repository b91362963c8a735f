//! What survived of one write or line.

use std::fmt;

/// What survived of one [`crate::Item`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Nothing.
    None,
    /// All of it.
    All,
    /// Of a write: these of its units, in order.
    Units(Vec<bool>),
    /// Of a line, or of batches: the first so many stores, or batches.
    Stores(u32),
    /// Of a line: for each word, the line's first so many stores.
    Words([u32; 8]),
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::All => f.write_str("+"),
            Self::Units(units) => {
                let bits: String = units.iter().map(|kept| if *kept { '1' } else { '0' }).collect();
                write!(f, "[{bits}]")
            }
            Self::Stores(n) => write!(f, "({n})"),
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(u32::to_string).collect();
                write!(f, "({})", words.join(","))
            }
        }
    }
}

impl Keep {
    /// Reads one from the left of `text`; returns the rest.
    pub(crate) fn parse(text: &str) -> Option<(Self, &str)> {
        let (first, rest) = text.split_at_checked(1)?;
        match first {
            "-" => Some((Self::None, rest)),
            "+" => Some((Self::All, rest)),
            "[" => {
                let (bits, rest) = rest.split_once(']')?;
                let bit = |c| if c == '0' || c == '1' { Some(c == '1') } else { None };
                Some((Self::Units(bits.chars().map(bit).collect::<Option<_>>()?), rest))
            }
            "(" => {
                let (numbers, rest) = rest.split_once(')')?;
                let numbers: Vec<u32> = numbers.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
                match (numbers.as_slice(), <[u32; 8]>::try_from(numbers.as_slice())) {
                    ([n], _) => Some((Self::Stores(*n), rest)),
                    (_, Ok(words)) => Some((Self::Words(words), rest)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
