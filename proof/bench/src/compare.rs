//! `ondol bench compare`: two results beside each other.
//!
//! Each figure that has rounds stands with its median and what they lie between, of both files, and the ratio of the
//! medians. Where those ranges touch, nothing has changed that these rounds could show. Ratios to the first target of
//! a run compare across machines, rates do not.

use crate::BenchError;
use crate::args::CompareArgs;
use crate::error::Context;
use crate::report::aligned;
use crate::stats::Spread;
use crate::units::short;
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

/// A figure: what is around it, and its rounds.
type Figure = (String, Spread);

/// Reads both files and prints their figures beside each other.
pub(crate) fn run(args: &CompareArgs) -> Result<(), BenchError> {
    let text = compare(&read(&args.old)?, &read(&args.new)?);
    io::stdout().lock().write_all(text.as_bytes()).context(|| "standard output")
}

fn read(path: &Path) -> Result<Vec<Figure>, BenchError> {
    let text = std::fs::read(path).context(|| format!("cannot read {}", path.display()))?;
    let refusal = |why: String| {
        let place = path.display();
        BenchError::Unfit(format!("{place}: {why}; name a JSON file that `ondol bench` has written with --json"))
    };
    let json: Value = serde_json::from_slice(&text).map_err(|e| refusal(format!("no JSON: {e}")))?;
    let mut figures = Vec::new();
    find(&json, "", &mut figures);
    if figures.is_empty() { Err(refusal("no figure in it".into())) } else { Ok(figures) }
}

/// Collects what has a median, each named by the names around it.
fn find(value: &Value, around: &str, figures: &mut Vec<Figure>) {
    if let Ok(spread) = Spread::deserialize(value) {
        figures.push((around.to_owned(), spread));
        return;
    }
    let within = |name: &str| if around.is_empty() { name.to_owned() } else { format!("{around}: {name}") };
    let Value::Object(own) = value else { return };
    for (key, value) in own {
        let columns = own.get("columns").and_then(Value::as_array);
        match value {
            Value::Array(items) if key == "rows" => {
                items.iter().for_each(|row| find_row(row, &within(&name(row)), columns, figures));
            }
            Value::Array(items) => items.iter().for_each(|item| find(item, &within(&name(item)), figures)),
            _ if key == "result" => find(value, around, figures),
            _ => find(value, &within(key), figures),
        }
    }
}

/// The values of a table's row, each named by its column.
fn find_row(row: &Value, around: &str, columns: Option<&Vec<Value>>, figures: &mut Vec<Figure>) {
    let values = row.get("values").and_then(Value::as_array).into_iter().flatten();
    for (value, column) in values.zip(columns.into_iter().flatten()) {
        find(value, &format!("{around}: {}", column.as_str().unwrap_or_default()), figures);
    }
}

/// What something is called in a file.
fn name(of: &Value) -> String {
    let words = ["target", "name", "title", "workload", "device"];
    let words = words.iter().filter_map(|word| of.get(word).and_then(Value::as_str));
    words.collect::<Vec<_>>().join(", ")
}

fn compare(old: &[Figure], new: &[Figure]) -> String {
    let shown = |of: &Spread| format!("{} ({} .. {})", short(of.median), short(of.low), short(of.high));
    let find = |figures: &[Figure], name: &str| figures.iter().find(|(known, _)| known == name).map(|(_, of)| *of);
    let only_new = new.iter().filter(|(name, _)| find(old, name).is_none());
    let names = old.iter().chain(only_new).map(|(name, _)| name);
    let row = |name: &String| {
        let (before, after) = (find(old, name), find(new, name));
        let both = before.zip(after).filter(|(before, _)| before.median > 0.0);
        let ratio = both.map(|(before, after)| format!("{:.2}", after.median / before.median));
        let cell = |of: Option<Spread>| of.as_ref().map_or_else(|| "-".to_owned(), shown);
        [name.clone(), cell(before), cell(after), ratio.unwrap_or_else(|| "-".to_owned())]
    };
    let mut out = String::new();
    aligned(
        &mut out,
        &["figure", "old (low .. high)", "new (low .. high)", "new / old"],
        &names.map(row).collect::<Vec<_>>(),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::cells;
    use serde_json::json;

    fn figures(json: &Value) -> Vec<Figure> {
        let mut figures = Vec::new();
        find(json, "", &mut figures);
        figures
    }

    #[test]
    fn runs_stand_beside_each_other_with_their_ratio() {
        let spread = |median: f64| json!({"median": median, "low": median - 1.0, "high": median + 2.0});
        let target = |name: &str, rate: f64| json!({"target": name, "ops_per_s": spread(rate), "ratio": spread(2.0)});
        let run = |targets: Vec<Value>| json!({"workload": "varmail", "commit": "a", "targets": targets});
        let old =
            json!({"panels": [{"workload": "varmail", "device": "ssd", "result": run(vec![target("lib:a", 4.0)])}]});
        let new = json!({"panels": [
            {"workload": "varmail", "device": "ssd", "result": run(vec![target("lib:a", 6.0), target("tmpfs", 9.0)])}
        ]});
        let text = cells(&compare(&figures(&old), &figures(&new)));
        for row in [
            "varmail, ssd: lib:a: ops_per_s | 4 (3 .. 6) | 6 (5 .. 8) | 1.50",
            "varmail, ssd: lib:a: ratio | 2 (1 .. 4) | 2 (1 .. 4) | 1.00",
            "varmail, ssd: tmpfs: ops_per_s | - | 9 (8 .. 11) | -",
        ] {
            assert!(text.contains(row), "{row} is not in: {text}");
        }
    }

    #[test]
    fn tables_are_named_by_row_and_column() {
        let value = json!({"median": 2.0, "low": 2.0, "high": 2.0});
        let rows = json!([{"name": "tmpfs", "values": [null, value]}]);
        let figures = figures(&json!({"figures": [{"title": "faults", "columns": ["a", "b"], "rows": rows}]}));
        assert_eq!(figures, [("faults: tmpfs: b".to_owned(), Spread { median: 2.0, low: 2.0, high: 2.0 })]);
    }
}
