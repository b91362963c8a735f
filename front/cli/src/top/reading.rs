//! What a mount has done up to a moment, and what it did between two.

use crate::failure::{FAILED, Failure};
use crate::metrics::told;
use ondol::{CounterKind as Kind, Counters};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a server tells.
#[derive(Debug)]
pub(super) struct Reading(Value);

impl Reading {
    /// Reads an answer.
    ///
    /// # Errors
    /// What it says instead.
    pub(super) fn parse(line: &str) -> Result<Self, Failure> {
        let mut answer: Value = serde_json::from_str(line).map_err(Failure::with(FAILED))?;
        if let Some(why) = answer.get("failed").and_then(Value::as_str) {
            return Err(Failure::new(FAILED, why));
        }
        match answer.get_mut("stats").map(Value::take) {
            Some(stats) if stats.is_object() => Ok(Self(stats)),
            _ => Err(Failure::new(FAILED, "the server tells nothing of what it does")),
        }
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// A counter by its name in the table.
    pub(super) fn counter(&self, name: &str) -> u64 {
        debug_assert!(Counters::table().any(|row| row.name == name), "there is no counter {name}");
        self.0["counters"].get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number of its home in object storage, by its place there. `None`: it has none, or that says nothing of it.
    pub(super) fn store(&self, pointer: &str) -> Option<u64> {
        self.0.pointer("/bucket")?.pointer(pointer)?.as_u64()
    }

    /// A field of how it is mounted.
    pub(super) fn mount(&self, name: &str) -> &Value {
        &self.0["mount"][name]
    }

    fn of_operations(&self, name: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.0[name].as_object().into_iter().flatten()
    }

    /// Answers that an attribute is not there are none: the kernel asks for one before it writes.
    fn errors(&self, operation: &str) -> u64 {
        let errors = self.0["errors"].get(operation).and_then(Value::as_object);
        errors
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "ENODATA")
            .filter_map(|(_, n)| n.as_u64())
            .fold(0, u64::saturating_add)
    }

    fn times(&self, operation: &str) -> Vec<u64> {
        numbers(&self.0["latencies"]["operations"][operation]["counts"])
    }
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// One kind of request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) operation: String,
    /// In a second.
    pub(super) rate: f64,
    pub(super) errors: f64,
    /// Nanoseconds; `None` where none was timed.
    pub(super) p50: Option<u64>,
    pub(super) p99: Option<u64>,
    /// Since the mount.
    pub(super) total: u64,
}

/// What happened between two readings.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) seconds: f64,
    pub(super) now: Reading,
    /// Of each counter how much it grew in a second.
    rates: BTreeMap<&'static str, f64>,
    /// The same of what is counted of object storage, by its place.
    store_rates: BTreeMap<&'static str, f64>,
    pub(super) rows: Vec<Row>,
    /// All requests together.
    pub(super) all: Row,
}

impl Report {
    /// `None` where the two are not of one mount, or of one moment.
    pub(super) fn between(before: &Reading, now: &Reading) -> Option<Self> {
        let same = |name: &str| before.number(name) == now.number(name);
        let ns = now.number("now_ns").checked_sub(before.number("now_ns")).filter(|ns| *ns > 0)?;
        if !same("since_ns") || !same("pid") {
            return None;
        }
        let seconds = ns as f64 / 1e9;
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let growing = Counters::table().filter(|row| row.kind == Kind::Counter);
        let rates = growing.map(|row| (row.name, rate(before.counter(row.name), now.counter(row.name)))).collect();
        let growing = told(&now.0).filter(|(field, _)| field.kind == Kind::Counter);
        let before_that = |pointer: &str| before.0.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let store_rates =
            growing.map(|(field, total)| (field.pointer, rate(before_that(field.pointer), total))).collect();
        let bounds = numbers(&now.0["latencies"]["bounds_ns"]);
        let mut all = (Row { operation: "all".into(), ..Row::default() }, vec![0; bounds.len() + 1]);
        let mut rows = Vec::new();
        for (operation, total) in now.of_operations("requests") {
            let (total, had) =
                (total.as_u64().unwrap_or(0), before.0["requests"][operation.as_str()].as_u64().unwrap_or(0));
            let earlier = before.times(operation);
            let times: Vec<u64> = now
                .times(operation)
                .iter()
                .enumerate()
                .map(|(n, count)| count.saturating_sub(earlier.get(n).copied().unwrap_or(0)))
                .collect();
            let row = Row {
                operation: operation.clone(),
                rate: rate(had, total),
                errors: rate(before.errors(operation), now.errors(operation)),
                p50: quantile(&bounds, &times, 50),
                p99: quantile(&bounds, &times, 99),
                total,
            };
            all.0.rate += row.rate;
            all.0.errors += row.errors;
            all.0.total = all.0.total.saturating_add(total);
            all.1.iter_mut().zip(&times).for_each(|(sum, n)| *sum = n.saturating_add(*sum));
            rows.push(row);
        }
        (all.0.p50, all.0.p99) = (quantile(&bounds, &all.1, 50), quantile(&bounds, &all.1, 99));
        Some(Self { seconds, now: Reading(now.0.clone()), rates, store_rates, rows, all: all.0 })
    }

    /// How much a counter grew in a second.
    pub(super) fn rate(&self, counter: &str) -> f64 {
        debug_assert!(self.rates.contains_key(counter), "{counter} does not grow");
        self.rates.get(counter).copied().unwrap_or(0.0)
    }

    /// How much what is counted of object storage grew in a second, by its place below its home there.
    pub(super) fn store_rate(&self, pointer: &str) -> f64 {
        self.store_rates.get(format!("/bucket{pointer}").as_str()).copied().unwrap_or(0.0)
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "per_second": row.rate, "errors_per_second": row.errors, "p50_ns": row.p50, "p99_ns": row.p99,
                    "total": row.total
            })
        };
        let operations: Map<String, Value> = self.rows.iter().map(|one| (one.operation.clone(), row(one))).collect();
        let gauges = Counters::table().filter(|row| row.kind == Kind::Gauge);
        let now: Map<String, Value> = gauges.map(|row| (row.name.into(), self.now.counter(row.name).into())).collect();
        let space = ["block_size", "blocks", "free_blocks", "available_blocks", "inodes", "free_inodes"];
        let space: Map<String, Value> =
            space.into_iter().map(|name| (name.into(), self.now.number(name).into())).collect();
        let mut report = json!({
            "target": self.now.text("target"),
            "mount_point": self.now.text("mount_point"),
            "pid": self.now.number("pid"),
            "seconds": self.seconds,
            "mount": self.now.0["mount"],
            "durability": super::view::durability(&self.now),
            "requests": row(&self.all),
            "operations": operations,
            "per_second": self.rates,
            "now": now,
            "space": space,
        });
        if let (Some(home), Some(fields)) = (self.now.0.get("bucket"), report.as_object_mut()) {
            let short = |pointer: &&'static str| pointer.trim_start_matches("/bucket/").replace('/', "_");
            let rates = self.store_rates.iter().map(|(pointer, rate)| (short(pointer), (*rate).into()));
            fields.insert("bucket".into(), home.clone());
            fields.insert("store_per_second".into(), Value::Object(rates.collect()));
        }
        report
    }
}

/// The time within which so many of a hundred were served, as far as the classes tell; `None` where there are none. The
/// numbers are those of a server that may be anybody's.
fn quantile(bounds: &[u64], counts: &[u64], percent: u64) -> Option<u64> {
    if !bounds.is_sorted() {
        return None;
    }
    let count = |count: u64| u128::from(count);
    let all: u128 = counts.iter().map(|n| count(*n)).sum();
    let wanted = (all * count(percent)).div_ceil(100);
    let mut seen = 0;
    for (class, n) in counts.iter().map(|n| count(*n)).enumerate().filter(|(_, n)| *n > 0) {
        if seen + n >= wanted {
            let least = class.checked_sub(1).and_then(|before| bounds.get(before)).copied().unwrap_or(0);
            // Nothing bounds the last class.
            let most = bounds.get(class).copied().unwrap_or(least);
            let part = count(most - least).saturating_mul(wanted - seen) / n;
            return Some(least.saturating_add(u64::try_from(part).unwrap_or(u64::MAX)));
        }
        seen += n;
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A reading at so many seconds, with so many requests.
    pub(in crate::top) fn reading(seconds: u64, requests: u64) -> Reading {
        let stats = json!({
            "since_ns": 1, "pid": 2, "now_ns": seconds * 1_000_000_000, "target": "/i\u{1b}mg", "mount_point": "/mnt",
                "block_size": 4096,
            "blocks": 1000, "free_blocks": 250, "inodes": 100, "free_inodes": 90,
            "requests": {"write": requests, "fsync": requests / 10}, "errors": {"write": {"ENOSPC": requests / 100,
                "EIO": requests / 100}},
            "counters": {"commits": requests / 10, "orphans": 3, "stall_ns": seconds * 250_000_000},
            "mount": {"engine": "classic", "data": "ordered", "fsync": "prefix", "options": "commit=5",
                "read_only": false,
                "stopped": null, "not_home": null, "survives": "a completed fsync survives a power cut"},
            "latencies": {"bounds_ns": [100, 200, 400], "operations": {"write": {"sum_ns": 1, "counts": [0, requests,
                0, 0]}}},
        });
        Reading::parse(&json!({ "stats": stats }).to_string()).unwrap()
    }

    #[test]
    fn rates_are_differences_by_the_servers_clock() {
        let report = Report::between(&reading(10, 1000), &reading(12, 2000)).unwrap();
        assert!((report.seconds - 2.0).abs() < 1e-9);
        let write = report.rows.iter().find(|row| row.operation == "write").unwrap();
        assert_eq!((write.rate, write.errors, write.total), (500.0, 10.0, 2000));
        assert_eq!((write.p50, write.p99), (Some(150), Some(199)));
        let fsync = report.rows.iter().find(|row| row.operation == "fsync").unwrap();
        assert_eq!((fsync.rate, fsync.p99), (50.0, None));
        assert_eq!((report.all.rate, report.all.p50), (550.0, Some(150)));
        assert_eq!((report.rate("commits"), report.rate("stall_ns")), (50.0, 250_000_000.0));
        let json = report.json();
        assert_eq!(json["operations"]["write"]["per_second"], 500.0);
        assert_eq!((&json["now"]["orphans"], &json["per_second"]["commits"]), (&json!(3), &json!(50.0)));
        assert!(json["now"].get("commits").is_none() && json["per_second"].get("orphans").is_none());
    }

    /// The same of a volume in object storage, with so many puts.
    pub(in crate::top) fn far_reading(seconds: u64, puts: u64, unanswered: u64, is_local: bool) -> Reading {
        let mut far = reading(seconds, puts);
        far.0["bucket"] = json!({
            "requests": {"puts": puts, "gets": 4, "up": puts * 1024, "down": 0, "repeated": 2, "failed": 1,
                "throttled": 0,
                "unanswered_seconds": unanswered},
            "lease": {"length_seconds": 60, "age_seconds": 7},
        });
        if is_local {
            far.0["bucket"]["lag"] =
                json!({"bytes": 4096, "transactions": 2, "seconds": 3, "most_bytes": 1 << 20, "most_seconds": 30});
        }
        far
    }

    #[test]
    fn what_is_asked_of_object_storage_has_rates_too() {
        let report = Report::between(&far_reading(10, 1000, 0, false), &far_reading(12, 1600, 0, false)).unwrap();
        assert_eq!((report.store_rate("/requests/puts"), report.store_rate("/requests/gets")), (300.0, 0.0));
        let json = report.json();
        assert_eq!(
            (&json["bucket"]["requests"]["puts"], &json["store_per_second"]["requests_up"]),
            (&json!(1600), &json!(307_200.0))
        );
        let near = Report::between(&reading(10, 1000), &reading(12, 2000)).unwrap().json();
        assert!(near.get("bucket").is_none() && near.get("store_per_second").is_none());
    }

    #[test]
    fn two_mounts_have_no_difference() {
        let mut other = reading(12, 5);
        other.0["since_ns"] = 7.into();
        assert!(Report::between(&reading(10, 1000), &other).is_none());
        assert!(Report::between(&reading(10, 1000), &reading(10, 1000)).is_none());
        assert!(Reading::parse(r#"{"failed": "gone"}"#).is_err_and(|e| e.message == "gone"));
        assert!(Reading::parse("{}").is_err() && Reading::parse("x").is_err());
    }

    #[test]
    fn a_quantile_lies_in_the_class_that_it_falls_into() {
        let bounds = [100, 200, 400];
        assert_eq!(quantile(&bounds, &[0, 0, 0, 0], 50), None);
        assert_eq!(quantile(&bounds, &[10, 0, 0, 0], 50), Some(50));
        assert_eq!(quantile(&bounds, &[98, 1, 1, 0], 99), Some(200));
        assert_eq!(quantile(&bounds, &[1, 0, 0, 1], 99), Some(400));
        assert_eq!(quantile(&bounds, &[0, 1], 1), Some(200));
        // Numbers of a server that is not ours.
        assert_eq!(quantile(&[200, 100], &[1, 1, 1], 99), None);
        assert_eq!(quantile(&[0, u64::MAX], &[u64::MAX; 3], 50), Some(1 << 63));
    }
}
