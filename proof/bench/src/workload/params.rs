//! Parameters of workloads: declared with a default, set with `--param`, shown in the JSON.

use super::Definition;
use crate::BenchError;
use crate::units::parse_size;
use serde_json::{Map, Value, json};

/// A parameter that a workload declares.
pub(crate) struct ParamDef {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its value unless told otherwise, as it would be written.
    pub(crate) default: &'static str,
    /// What it is.
    pub(crate) about: &'static str,
    /// What it can be.
    pub(crate) values: Values,
}

impl ParamDef {
    /// A whole number.
    pub(crate) const fn number(
        name: &'static str,
        default: &'static str,
        about: &'static str,
        min: u64,
        max: u64,
    ) -> Self {
        Self { name, default, about, values: Values::Number { min, max } }
    }

    /// A positive number.
    pub(crate) const fn real(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self { name, default, about, values: Values::Real }
    }

    /// One of these words.
    pub(crate) const fn word(
        name: &'static str,
        default: &'static str,
        about: &'static str,
        words: &'static [&'static str],
    ) -> Self {
        Self { name, default, about, values: Values::Words(words) }
    }
}

/// What a parameter can be.
#[derive(Clone, Copy)]
pub(crate) enum Values {
    /// A whole number in this range, with or without a unit of size.
    Number {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A positive number.
    Real,
    /// One of these words.
    Words(&'static [&'static str]),
}

/// The parameter that every workload has.
pub(crate) const SEED: ParamDef = ParamDef::number("seed", "1", "what random choices are made from", 0, u64::MAX);

/// The parameters of one run.
#[derive(Clone, Debug)]
pub(crate) struct Params(Map<String, Value>);

impl Params {
    /// The declared parameters of `workload`, with those in `set` (`name=value`) changed.
    pub(crate) fn new(workload: &Definition, set: &[String]) -> Result<Self, BenchError> {
        let all = || workload.params.iter().chain([&SEED]);
        let mut values = Map::new();
        for param in all() {
            values.insert(param.name.to_owned(), read(param, param.default)?);
        }
        for text in set {
            let refuse = |why: String| BenchError::Usage(format!("--param {text}: {why}"));
            let (name, value) = text.split_once('=').ok_or_else(|| refuse("not NAME=VALUE".into()))?;
            if ["threads", "ops", "seconds", "rounds"].contains(&name) {
                return Err(refuse(format!("use --{name} {value}")));
            }
            let Some(param) = all().find(|param| param.name == name) else {
                let names: Vec<_> = all().map(|param| param.name).collect();
                return Err(refuse(format!("{} has no parameter {name}; it has {}", workload.name, names.join(", "))));
            };
            values.insert(name.to_owned(), read(param, value)?);
        }
        Ok(Self(values))
    }

    /// A declared number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// A declared real number.
    pub(crate) fn real(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or_default()
    }

    /// A declared word.
    pub(crate) fn word(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// For the JSON.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        self.0.clone()
    }
}

fn read(param: &ParamDef, text: &str) -> Result<Value, BenchError> {
    let refuse = |why: String| BenchError::Usage(format!("--param {}={text}: {why}", param.name));
    match param.values {
        Values::Number { min, max } => match parse_size(text) {
            Some(number) if (min..=max).contains(&number) => Ok(json!(number)),
            Some(_) => Err(refuse(format!("between {min} and {max}"))),
            None => Err(refuse("not a number or a size such as 4k".into())),
        },
        Values::Real => match text.parse::<f64>() {
            Ok(real) if real.is_finite() && real > 0.0 => Ok(json!(real)),
            _ => Err(refuse("not a positive number".into())),
        },
        Values::Words(words) if words.contains(&text) => Ok(json!(text)),
        Values::Words(words) => Err(refuse(words.join(" or "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[ParamDef] = &[
        ParamDef::number("size", "4k", "", 1, 1 << 20),
        ParamDef::real("gamma", "1.5", ""),
        ParamDef::word("sync", "fsync", "", &["fsync", "fdatasync"]),
    ];

    const WORKLOAD: Definition = Definition {
        name: "w",
        about: "",
        params: DECLARED,
        threads: 1,
        ops: 1,
        most_ops: 1,
        build: |_| Err(BenchError::Interrupted),
    };

    fn params(set: &[&str]) -> Result<Params, BenchError> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        Params::new(&WORKLOAD, &set)
    }

    #[test]
    fn defaults_and_changes() {
        let defaults = params(&[]).expect("defaults");
        assert_eq!((defaults.number("size"), defaults.real("gamma"), defaults.word("sync")), (4096, 1.5, "fsync"));
        let changed = params(&["size=16k", "sync=fdatasync", "seed=9", "gamma=2"]).expect("changes");
        assert_eq!((changed.number("size"), changed.real("gamma"), changed.word("sync")), (16384, 2.0, "fdatasync"));
        assert_eq!(Value::Object(changed.to_json()).get("seed"), Some(&json!(9)));
    }

    #[test]
    fn what_is_unknown_is_refused_by_name() {
        for (set, part) in [
            ("sice=4k", "has no parameter sice; it has size, gamma, sync, seed"),
            ("size", "not NAME=VALUE"),
            ("size=0", "between 1 and"),
            ("size=big", "size=big"),
            ("gamma=-1", "not a positive number"),
            ("sync=never", "fsync or fdatasync"),
            ("threads=4", "use --threads 4"),
        ] {
            let refusal = params(&[set]).expect_err(set).to_string();
            assert!(refusal.contains(part), "{set}: {refusal}");
        }
    }
}
