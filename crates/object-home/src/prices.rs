//! What a volume costs in a month, by a table of prices.
//!
//! A table is text: a key and its value in each line. Empty lines and lines that begin with `#` are left out.
//!
//! | key | value |
//! |---|---|
//! | `name` | how the table is called where its figures are shown, with its date |
//! | `currency` | what stands before an amount; `$` if it is missing |
//! | `storage` | a GB (10⁹ bytes) in a month |
//! | `writes` | 1000 puts, copies and lists |
//! | `reads` | 1000 reads |
//! | `out` | a GB that leaves the store |

use crate::{Requests, Usage};
use std::fmt;

/// The most bytes of a table.
const TABLE: usize = 64 << 10;

/// The most characters of a name.
const NAME: usize = 100;

/// The highest price.
const DEAR: f64 = 1e6;

/// Days and seconds of a month.
const DAYS: f64 = 30.0;
const MONTH: f64 = DAYS * 86_400.0;

/// Of a shorter time, nobody can tell what a month will be like.
const LEAST: u64 = 600;

/// Prices of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    name: String,
    currency: String,
    /// A GB in a month.
    storage: f64,
    /// 1000 requests that write or list.
    writes: f64,
    /// 1000 requests that read.
    reads: f64,
    /// A GB that is read by who is outside.
    out: f64,
}

/// What a month costs, about.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// How the table is called.
    pub table: String,
    /// What stands before an amount.
    pub currency: String,
    /// For what is stored now.
    pub storage: f64,
    /// For requests and for bytes that are read, if it goes on as it did. None: too little has been seen.
    pub requests: Option<(f64, f64)>,
}

/// What is wrong with a table of prices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// It is no text, or too long for one.
    #[error("a table of prices is a text of at most 64 KiB")]
    Text,
    /// A line has no key and value.
    #[error("line {line} of the prices is not a key and its value")]
    Line {
        /// The line.
        line: usize,
    },
    /// A key is not known.
    #[error(
        "line {line} of the prices: {key:?} is not known; there are name, currency, storage, writes, reads and out"
    )]
    Key {
        /// The line.
        line: usize,
        /// The key.
        key: String,
    },
    /// A key comes twice.
    #[error("line {line} of the prices: {key} comes twice")]
    Twice {
        /// The line.
        line: usize,
        /// The key.
        key: &'static str,
    },
    /// A value cannot be one.
    #[error("line {line} of the prices: {key} cannot be {value:?}: {why}")]
    Value {
        /// The line.
        line: usize,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A key is missing.
    #[error("the prices have no {key}")]
    Missing {
        /// The key.
        key: &'static str,
    },
}

const KEYS: [&str; 6] = ["name", "currency", "storage", "writes", "reads", "out"];

impl Prices {
    /// The list prices of one store, with their date.
    pub fn list() -> Self {
        Self {
            name: "S3 Standard, us-east-1, list prices of June 2026".to_owned(),
            currency: "$".to_owned(),
            storage: 0.023,
            writes: 0.005,
            reads: 0.0004,
            out: 0.09,
        }
    }

    /// Reads a table.
    ///
    /// # Errors
    /// It is none; the error says in which line.
    pub fn parse(table: &[u8]) -> Result<Self, PriceError> {
        let text = std::str::from_utf8(table).ok().filter(|text| text.len() <= TABLE).ok_or(PriceError::Text)?;
        let mut found: [Option<(usize, &str)>; KEYS.len()] = Default::default();
        for (n, text) in text.lines().enumerate() {
            let (line, text) = (n + 1, text.trim());
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (key, value) = text.split_once(char::is_whitespace).ok_or(PriceError::Line { line })?;
            let Some(at) = KEYS.iter().position(|known| *known == key) else {
                return Err(PriceError::Key { line, key: key.chars().take(NAME).collect() });
            };
            if found[at].replace((line, value.trim())).is_some() {
                return Err(PriceError::Twice { line, key: KEYS[at] });
            }
        }
        let text = |at: usize, most: usize| found[at].map(|found| text_of(KEYS[at], found, most)).transpose();
        let price = |at: usize| {
            let found = found[at].ok_or(PriceError::Missing { key: KEYS[at] })?;
            price_of(KEYS[at], found)
        };
        Ok(Self {
            name: text(0, NAME)?.ok_or(PriceError::Missing { key: KEYS[0] })?,
            currency: text(1, 8)?.unwrap_or_else(|| "$".to_owned()),
            storage: price(2)?,
            writes: price(3)?,
            reads: price(4)?,
            out: price(5)?,
        })
    }

    /// What a month costs, if the volume stays as large, and `requests` go on as they did.
    pub fn estimate(&self, usage: &Usage, requests: &Requests) -> Estimate {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let in_a_month = MONTH / requests.seconds.max(1) as f64;
        let asked = (requests.writes() as f64 * self.writes + requests.reads() as f64 * self.reads) / 1000.0;
        let out = gb(requests.down) * self.out;
        Estimate {
            table: self.name.clone(),
            currency: self.currency.clone(),
            storage: gb(usage.total().bytes) * self.storage,
            requests: (requests.seconds >= LEAST).then_some((asked * in_a_month, out * in_a_month)),
        }
    }
}

fn text_of(key: &'static str, (line, value): (usize, &str), most: usize) -> Result<String, PriceError> {
    let fault = |why| PriceError::Value { line, key, value: value.chars().take(most).collect(), why };
    if value.chars().any(char::is_control) {
        return Err(fault("it has control characters"));
    }
    if value.chars().count() > most {
        return Err(fault("it is too long"));
    }
    Ok(value.to_owned())
}

fn price_of(key: &'static str, (line, value): (usize, &str)) -> Result<f64, PriceError> {
    let fault = |why| PriceError::Value { line, key, value: value.chars().take(NAME).collect(), why };
    let price: f64 = value.parse().map_err(|_| fault("it is not a number"))?;
    if !price.is_finite() || !(0.0..=DEAR).contains(&price) {
        return Err(fault("a price is a number from 0 to 1000000"));
    }
    Ok(price)
}

impl fmt::Display for Estimate {
    /// One line. It begins with "about" and names the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, currency, storage, requests } = self;
        let Some((asked, out)) = requests else {
            return write!(f, "about {currency}{storage:.2} a month for what is stored, by the table \"{table}\"");
        };
        let total = storage + asked + out;
        write!(
            f,
            "about {currency}{total:.2} a month, by the table \"{table}\": {currency}{storage:.2} for what is stored, {currency}{asked:.2} for requests, {currency}{out:.2} for what is read from outside of the region"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Share;

    const TABLE: &str =
        "# ours\nname our store, 2026\ncurrency €\n\nstorage 0.01\nwrites 0.02\n  reads   0.003\nout\t0\n";

    fn usage(bytes: u64) -> Usage {
        Usage { data: Share { objects: 1, bytes }, ..Usage::default() }
    }

    #[test]
    fn a_month_is_reckoned_from_what_is_stored_and_asked() {
        let requests =
            Requests { seconds: 86_400, puts: 1000, gets: 10_000, down: 2_000_000_000, ..Requests::default() };
        let estimate = Prices::list().estimate(&usage(100_000_000_000), &requests);
        let (asked, out) = estimate.requests.unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(estimate.storage, 2.3) && near(asked, 30.0 * (0.005 + 0.004)) && near(out, 30.0 * 0.18));
        let said = estimate.to_string();
        assert!(
            said.starts_with("about $7.97 a month") && said.contains("us-east-1, list prices of June 2026"),
            "{said}"
        );
        let requests = Requests { seconds: 599, ..requests };
        let said = Prices::list().estimate(&usage(0), &requests).to_string();
        assert!(said.starts_with("about $0.00 a month for what is stored, by the table \"S3"), "{said}");
    }

    #[test]
    fn a_table_replaces_the_one_that_comes_along() {
        let prices = Prices::parse(TABLE.as_bytes()).unwrap();
        let requests = Requests { seconds: 2_592_000, copies: 500, lists: 500, heads: 1000, ..Requests::default() };
        let said = prices.estimate(&usage(1_000_000_000_000), &requests).to_string();
        assert!(said.starts_with("about €10.02 a month, by the table \"our store, 2026\""), "{said}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_table_or_an_error_of_one_line(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
            line in "(name|currency|storage|writes|reads|out)[ \t]\\PC{0,20}",
        ) {
            for table in [bytes, format!("{TABLE}{line}\n").into_bytes(), format!("{line}\n{TABLE}").into_bytes()] {
                if let Err(e) = Prices::parse(&table) {
                    assert!(!e.to_string().contains(|c: char| c.is_control()), "{e}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_table_says_in_which_line() {
        let said = |text: &str| Prices::parse(text.as_bytes()).unwrap_err().to_string();
        let with = |line: &str| said(&format!("{TABLE}{line}\n"));
        assert!(said("").contains("no name"));
        assert!(said("name x\nstorage 1\nwrites 1\nreads 1\n").contains("no out"));
        assert!(with("out 1").contains("line 9") && with("out 1").contains("twice"));
        assert!(with("put 1").contains("\"put\" is not known"));
        assert!(with("word").contains("line 9"));
        for price in ["-1", "NaN", "inf", "1e300", "1,5", "\u{1b}[31m"] {
            let e = said(&TABLE.replace("0.01", price));
            assert!(e.contains("line 5") && e.contains("storage") && !e.contains('\u{1b}'), "{e}");
        }
        let named = |name: &str| said(&TABLE.replace("our store, 2026", name));
        assert!(named("a\u{1b}[2Jb").contains("control") && named(&"x".repeat(101)).contains("too long"));
        assert_eq!(Prices::parse(&[0xff, 0xfe]), Err(PriceError::Text));
        assert_eq!(Prices::parse(&vec![b'\n'; (64 << 10) + 1]), Err(PriceError::Text));
    }
}
