//! What a mount tells, as a page in Prometheus' text format.

use super::store;
use ondol::{Counter, CounterKind as Kind, CounterUnit as Unit, Counters};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use std::fmt::{Error, Result};
use std::path::Path;

/// Who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// A scraper of this mount.
    Scrape,
    /// node_exporter, which puts the files of several mounts, and metrics of its own, into one scrape.
    File,
}

/// Bounds of the latencies that are shown, in nanoseconds: from here on those that begin with 1, 2 and 5.
const LEAST_BOUND: u64 = 1000;

/// All metrics of a mount.
pub(super) fn render(stats: Value, point: &Path, reader: For) -> String {
    let point = point.display().to_string();
    let mut registry = match reader {
        For::Scrape => Registry::default(),
        For::File => Registry::with_labels([("mount_point".into(), point.clone().into())].into_iter()),
    };
    registry.register_collector(Box::new(Mount { stats, point, reader }));
    let mut text = String::with_capacity(32 << 10);
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

/// A mount that is told of.
#[derive(Debug)]
struct Mount {
    stats: Value,
    point: String,
    reader: For,
}

impl Collector for Mount {
    fn encode(&self, page: DescriptorEncoder<'_>) -> Result {
        let (mut page, stats) = (Page(page), &self.stats);
        page.volume(self)?;
        page.space(stats)?;
        page.requests(stats)?;
        page.latencies(&stats["latencies"])?;
        let block = number(stats, "block_size").unwrap_or(0);
        for row in Counters::table() {
            let Some(number) = stats.get("counters").and_then(|all| number(all, row.name)) else { continue };
            let metric = metric_of(row);
            match row.unit {
                Unit::Number | Unit::Bytes => page.single(row.kind, &metric, row.help, number)?,
                Unit::Nanoseconds => page.single(row.kind, &metric, row.help, in_seconds(number))?,
                Unit::Blocks => page.single(row.kind, &metric, row.help, number.saturating_mul(block))?,
            }
        }
        page.store(stats)?;
        if self.reader == For::Scrape { page.process() } else { Ok(()) }
    }
}

/// What a counter is called in Prometheus, whose units are seconds and bytes.
fn metric_of(row: &Counter) -> String {
    let (unit, suffix) = match row.unit {
        Unit::Number => ("", ""),
        Unit::Bytes => ("_bytes", "_bytes"),
        Unit::Blocks => ("_blocks", "_bytes"),
        Unit::Nanoseconds => ("_ns", "_seconds"),
    };
    let total = if row.kind == Kind::Counter { "_total" } else { "" };
    format!("ondol_{}{suffix}{total}", row.name.strip_suffix(unit).unwrap_or(row.name))
}

struct Page<'p>(DescriptorEncoder<'p>);

fn sample<V: EncodeCounterValue + EncodeGaugeValue>(mut to: MetricEncoder<'_>, kind: Kind, value: V) -> Result {
    match kind {
        Kind::Counter => to.encode_counter::<NoLabelSet, V, f64>(&value, None),
        Kind::Gauge => to.encode_gauge(&value),
    }
}

impl Page<'_> {
    fn family<'s>(
        &'s mut self,
        kind: Kind,
        metric: &'s str,
        help: &str,
    ) -> std::result::Result<MetricEncoder<'s>, Error> {
        match kind {
            Kind::Counter => {
                self.0.encode_descriptor(metric.trim_end_matches("_total"), help, None, MetricType::Counter)
            }
            Kind::Gauge => self.0.encode_descriptor(metric, help, None, MetricType::Gauge),
        }
    }

    fn single<V>(&mut self, kind: Kind, metric: &str, help: &str, value: V) -> Result
    where
        V: EncodeCounterValue + EncodeGaugeValue,
    {
        sample(self.family(kind, metric, help)?, kind, value)
    }

    fn gauge(&mut self, metric: &str, help: &str, value: u64) -> Result {
        self.single(Kind::Gauge, metric, help, value)
    }

    fn volume(&mut self, Mount { stats, point, reader }: &Mount) -> Result {
        let mount = stats.get("mount").unwrap_or(&Value::Null);
        let mut labels = Vec::from(["target", "uuid", "label", "version"].map(|name| (name, text(stats, name))));
        labels[0].0 = "image";
        labels.extend(["engine", "data", "fsync", "transport"].map(|name| (name, text(mount, name))));
        // All series of a file bear it.
        labels.extend((*reader == For::Scrape).then_some(("mount_point", point.as_str())));
        let help = "What is mounted, and how; the value is 1.";
        self.0.encode_descriptor("ondol_volume", help, None, MetricType::Info)?.encode_info(&labels)?;
        let since = number(stats, "now_ns").unwrap_or(0).saturating_sub(number(stats, "since_ns").unwrap_or(0));
        self.single(Kind::Gauge, "ondol_mounted_seconds", "For how long it is mounted.", in_seconds(since))?;
        let is = |name: &str| u64::from(mount.get(name).is_some_and(|v| !v.is_null() && *v != Value::Bool(false)));
        self.gauge("ondol_read_only", "Whether changes are refused.", is("read_only"))?;
        self.gauge("ondol_stopped", "Whether changes are refused because of an error.", is("stopped"))?;
        let help = "Whether nothing can be written to the image at present.";
        self.gauge("ondol_home_failing", help, is("not_home"))?;
        match number(mount, "memory_bound").filter(|_| *reader == For::Scrape) {
            Some(bound) => self.gauge("ondol_memory_limit_bytes", "What the server takes of memory at most.", bound),
            None => Ok(()),
        }
    }

    fn space(&mut self, stats: &Value) -> Result {
        let of = |name: &str| number(stats, name).unwrap_or(0);
        let bytes = |name: &str| of(name).saturating_mul(of("block_size"));
        self.gauge("ondol_size_bytes", "Bytes of the volume that files can have.", bytes("blocks"))?;
        self.gauge("ondol_free_bytes", "Free bytes.", bytes("free_blocks"))?;
        let help = "Free bytes for users without privilege.";
        self.gauge("ondol_available_bytes", help, bytes("available_blocks"))?;
        self.gauge("ondol_inodes", "Inodes.", of("inodes"))?;
        self.gauge("ondol_free_inodes", "Free inodes.", of("free_inodes"))?;
        let Some(pages) = stats.get("pages").filter(|pages| pages.is_object()) else { return Ok(()) };
        let help = "Pages of 4096 bytes of the pool, by what they are used for.";
        let mut family = self.family(Kind::Gauge, "ondol_pool_pages", help)?;
        for used in ["storage", "memory", "log", "held", "free"] {
            sample(family.encode_family(&[("use", used)])?, Kind::Gauge, number(pages, used).unwrap_or(0))?;
        }
        let help = "Pages of the pool's storage that are read in place.";
        self.gauge("ondol_pool_read_in_place_pages", help, number(pages, "read_in_place").unwrap_or(0))
    }

    fn store(&mut self, stats: &Value) -> Result {
        let told: Vec<_> = store::told(stats).collect();
        for family in told.chunk_by(|one, next| one.0.metric == next.0.metric) {
            let Some((first, _)) = family.first() else { continue };
            let mut page = self.family(first.kind, first.metric, first.help)?;
            for (field, value) in family {
                sample(page.encode_family(&Vec::from_iter(field.label))?, field.kind, *value)?;
            }
        }
        Ok(())
    }

    fn requests(&mut self, stats: &Value) -> Result {
        let help = "Requests of the kernel, by operation.";
        let mut family = self.family(Kind::Counter, "ondol_requests_total", help)?;
        for (operation, count) in object(&stats["requests"]) {
            let labels = [("operation", operation.as_str())];
            sample(family.encode_family(&labels)?, Kind::Counter, count.as_u64().unwrap_or(0))?;
        }
        let help = "Requests that were answered with an error, by operation and error.";
        let mut family = self.family(Kind::Counter, "ondol_request_errors_total", help)?;
        for (operation, errors) in object(&stats["errors"]) {
            for (error, count) in object(errors) {
                let labels = [("operation", operation.as_str()), ("error", error.as_str())];
                sample(family.encode_family(&labels)?, Kind::Counter, count.as_u64().unwrap_or(0))?;
            }
        }
        Ok(())
    }

    fn latencies(&mut self, latencies: &Value) -> Result {
        let (metric, kind) = ("ondol_request_duration_seconds", MetricType::Histogram);
        let help = "How long requests took to be served, without their way through the kernel.";
        let mut family = self.0.encode_descriptor(metric, help, None, kind)?;
        let bounds = numbers(&latencies["bounds_ns"]);
        for (operation, times) in object(&latencies["operations"]) {
            let counts = numbers(&times["counts"]);
            let (mut buckets, mut between) = (Vec::new(), 0);
            for (bound, count) in bounds.iter().zip(&counts) {
                between += count;
                let unit = 10_u64.pow(bound.checked_ilog10().unwrap_or(0));
                if *bound >= LEAST_BOUND && bound.is_multiple_of(unit) && matches!(bound / unit, 1 | 2 | 5) {
                    buckets.push((in_seconds(*bound), std::mem::take(&mut between)));
                }
            }
            let (sum, all) = (in_seconds(number(times, "sum_ns").unwrap_or(0)), counts.iter().sum());
            let labels = [("operation", operation.as_str())];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, all, &buckets, None)?;
        }
        Ok(())
    }

    /// What clients of Prometheus tell of their process, by its usual names.
    fn process(&mut self) -> Result {
        let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return Ok(()) };
        // Behind the command's name, which may hold anything.
        let fields: Vec<u64> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split(' ').map(|w| w.parse().unwrap_or(0)).collect();
        let field = |number: usize| fields.get(number - 2).copied().unwrap_or(0);
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let spent = in_seconds((field(14) + field(15)).saturating_mul(1_000_000_000 / ticks));
        let help = "Time that the server has spent on processors.";
        self.single(Kind::Counter, "process_cpu_seconds_total", help, spent)?;
        let resident = field(24).saturating_mul(rustix::param::page_size() as u64);
        self.gauge("process_resident_memory_bytes", "Memory that the server has.", resident)?;
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64);
        self.gauge("process_open_fds", "Descriptors that the server has open.", open)
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_u64)
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn in_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn stats() -> Value {
        let bounds: Vec<u64> = (0..8).flat_map(|d| [100, 150, 200, 300, 500, 700].map(|n| n * 10_u64.pow(d))).collect();
        let mut counts = vec![0; 49];
        (counts[0], counts[7], counts[48]) = (3, 2, 1);
        let mut counters = serde_json::to_value(ondol::Counters::default()).unwrap();
        counters["journal_used_blocks"] = 3.into();
        counters["stall_ns"] = 1_500_000.into();
        counters["fuse_requests"] = 7.into();
        json!({
            "version": "0", "since_ns": 5, "now_ns": 2_000_000_005_u64, "target": "a \
                \"b\"\\\nc", "uuid": "u", "label": "",
            "block_size": 4096, "blocks": 100, "free_blocks": 50, "available_blocks": 40, "inodes": 10,
                "free_inodes": 9,
            "mount": {"engine": "classic", "read_only": false, "stopped": null, "not_home": "a disk is \
                full", "memory_bound": 7},
            "counters": counters, "requests": {"write": 6, "read": 1}, "errors": {"write": {"ENOSPC": 2}},
            "pages": {"storage": 5, "memory": 0, "log": 1, "held": 0, "free": 4, "total": 10, "read_in_place": 2},
            "latencies": {"bounds_ns": bounds, "operations": {"write": {"sum_ns": 12_300, "counts": counts}}},
        })
    }

    fn line<'t>(text: &'t str, begins: &str) -> &'t str {
        text.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {text}"))
    }

    #[test]
    fn samples_have_the_units_and_labels_of_prometheus() {
        let text = render(stats(), Path::new("/mnt"), For::Scrape);
        assert_eq!(line(&text, "ondol_journal_used_bytes"), "ondol_journal_used_bytes 12288");
        assert_eq!(line(&text, "ondol_stall_seconds_total"), "ondol_stall_seconds_total 0.0015");
        assert_eq!(line(&text, "ondol_mounted_seconds"), "ondol_mounted_seconds 2.0");
        assert_eq!(
            line(&text, "ondol_request_errors_total{"),
            r#"ondol_request_errors_total{operation="write",error="ENOSPC"} 2"#
        );
        assert!(line(&text, "ondol_volume_info{").starts_with(r#"ondol_volume_info{image="a \"b\"\\\nc",uuid="u""#));
        assert!(text.contains("ondol_home_failing 1\n") && text.contains("ondol_stopped 0\n"));
        let times: Vec<&str> = text.lines().filter(|l| l.starts_with("ondol_request_duration_seconds")).collect();
        assert_eq!(times[0], r#"ondol_request_duration_seconds_bucket{operation="write",le="1e-06"} 3"#);
        assert_eq!(times[1], r#"ondol_request_duration_seconds_bucket{operation="write",le="2e-06"} 5"#);
        let end = &times[times.len() - 3..];
        assert_eq!(end[0], r#"ondol_request_duration_seconds_bucket{operation="write",le="+Inf"} 6"#);
        assert_eq!(end[1], r#"ondol_request_duration_seconds_sum{operation="write"} 0.0000123"#);
        assert_eq!(end[2], r#"ondol_request_duration_seconds_count{operation="write"} 6"#);
    }

    /// Files of several mounts come into one scrape, with metrics of others.
    #[test]
    fn all_series_of_a_file_bear_the_mount_point_and_none_is_of_a_process() {
        let text = render(stats(), Path::new("/m\"1"), For::File);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.starts_with("ondol_") && line.matches(r#"mount_point="/m\"1""#).count() == 1, "{line}");
        }
    }

    #[test]
    fn every_counter_has_a_metric_and_every_family_is_told_once() {
        let text = render(stats(), Path::new("/mnt"), For::Scrape);
        let families: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("# TYPE ")).collect();
        assert_eq!(families.len(), families.iter().collect::<BTreeSet<_>>().len());
        for row in Counters::table() {
            assert_eq!(text.matches(&format!("# HELP {} {}\n", metric_of(row), row.help)).count(), 1, "{row:?}");
        }
    }

    #[test]
    fn object_storage_has_metrics_where_there_is_some() {
        let none = render(stats(), Path::new("/mnt"), For::Scrape);
        assert!(
            !none.contains("ondol_store_") && !none.contains("ondol_lag") && !none.contains("ondol_lease"),
            "{none}"
        );
        let mut far = stats();
        far["bucket"] = json!({
            "requests": {"puts": 7, "gets": 3, "up": 900, "unanswered_seconds": 41}, "lease": {"length_seconds": 60,
                "age_seconds": 12}
        });
        let text = render(far, Path::new("/mnt"), For::Scrape);
        for said in [
            r#"ondol_store_requests_total{request="put"} 7"#,
            r#"ondol_store_requests_total{request="get"} 3"#,
            "ondol_store_sent_bytes_total 900",
            "ondol_store_unanswered_seconds 41",
            "ondol_lease_age_seconds 12",
        ] {
            assert!(text.lines().any(|line| line == said), "{said}: {text}");
        }
        // It has no log on this machine.
        assert!(!text.contains("ondol_lag"), "{text}");
        assert_eq!(text.matches("# TYPE ondol_store_requests_total counter").count(), 1);
    }

    /// What a volume tells of its home has a metric, field for field.
    #[test]
    fn all_metrics_of_object_storage_are_of_fields_that_are_told() {
        let requests = serde_json::to_value(ondol::RequestInfo::default()).unwrap();
        let known: BTreeSet<&str> =
            store::FIELDS.iter().filter_map(|field| field.pointer.strip_prefix("/bucket/requests/")).collect();
        let told: BTreeSet<&str> = requests.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told.difference(&known).collect::<Vec<_>>(), [&"seconds"]);
        assert!(known.is_subset(&told));
        for (of, value) in [
            ("lag", serde_json::to_value(ondol::LagInfo::default()).unwrap()),
            ("lease", serde_json::to_value(ondol::LeaseInfo::default()).unwrap()),
            ("disk_cache", serde_json::to_value(ondol::DiskCacheInfo::default()).unwrap()),
        ] {
            for field in store::FIELDS.iter().filter_map(|field| field.pointer.strip_prefix(&format!("/bucket/{of}/")))
            {
                assert!(value.get(field).is_some_and(Value::is_u64), "{of}: {field}");
            }
        }
        for field in store::FIELDS {
            assert_eq!(field.kind == Kind::Counter, field.metric.ends_with("_total"), "{}", field.metric);
        }
    }

    #[test]
    fn the_checker_of_prometheus_finds_nothing() {
        if ondol_skips::skips(ondol_skips::missing(&["promtool"])) {
            return;
        }
        for reader in [For::Scrape, For::File] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("text");
            std::fs::write(&path, render(stats(), Path::new("/mnt"), reader)).unwrap();
            let input = std::fs::File::open(&path).unwrap();
            let mut command = std::process::Command::new("promtool");
            let out = command.args(["check", "metrics"]).stdin(input).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
            assert!(out.status.success() && said.is_empty(), "{said}");
        }
    }
}
