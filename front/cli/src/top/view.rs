//! A report as lines of text.

mod store;

use super::reading::{Reading, Report, Row};
use crate::size::human;
use clap::ValueEnum;
use ondol::printable;
use serde_json::Value;
use std::cmp::Ordering;
use std::time::Duration;

/// What operations are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Rate,
    P50,
    P99,
    Errors,
    Total,
    Name,
}

impl Sort {
    /// The one that the key `s` goes to.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Rate => Self::P50,
            Self::P50 => Self::P99,
            Self::P99 => Self::Errors,
            Self::Errors => Self::Total,
            Self::Total => Self::Name,
            Self::Name => Self::Rate,
        }
    }

    fn order(self, one: &Row, other: &Row) -> Ordering {
        let by = match self {
            Self::Rate => other.rate.total_cmp(&one.rate),
            Self::P50 => other.p50.cmp(&one.p50),
            Self::P99 => other.p99.cmp(&one.p99),
            Self::Errors => other.errors.total_cmp(&one.errors),
            Self::Total => Ordering::Equal,
            Self::Name => one.operation.cmp(&other.operation),
        };
        by.then(other.total.cmp(&one.total)).then_with(|| one.operation.cmp(&other.operation))
    }
}

/// One report, as it is shown.
pub(super) struct Frame {
    /// What it is about.
    pub(super) title: String,
    /// One line for each part.
    pub(super) parts: Vec<String>,
    pub(super) heads: String,
    pub(super) rows: Vec<String>,
}

impl Frame {
    pub(super) fn new(report: &Report, sort: Sort, interval: Duration) -> Self {
        let now = &report.now;
        let up = now.number("now_ns").saturating_sub(now.number("since_ns")) / 1_000_000_000;
        let title = format!(
            "every {} s: {} on {}, process {}, mounted for {}",
            interval.as_secs_f64(),
            now.text("target"),
            now.text("mount_point"),
            now.number("pid"),
            clock(up)
        );
        let parts = parts(report).into_iter().map(|(name, text)| format!("{name:11}{}", printable(text.as_bytes())));
        let mut sorted: Vec<&Row> = report.rows.iter().collect();
        sorted.sort_by(|one, other| sort.order(one, other));
        Self {
            title: printable(title.as_bytes()),
            parts: parts.collect(),
            heads: heads(sort),
            rows: sorted.into_iter().map(row).collect(),
        }
    }

    /// All of it.
    pub(super) fn text(&self) -> String {
        let lines = [&self.title].into_iter().chain(&self.parts);
        let mut text: Vec<&str> = lines.map(String::as_str).collect();
        text.extend(["", &self.heads]);
        text.extend(self.rows.iter().map(String::as_str));
        text.join("\n")
    }
}

fn heads(sort: Sort) -> String {
    let mark = |column: Sort, name: &str| if column == sort { format!("{name}*") } else { name.to_owned() };
    let columns = [
        (Sort::Rate, "per s"),
        (Sort::P50, "p50"),
        (Sort::P99, "p99"),
        (Sort::Errors, "errors/s"),
        (Sort::Total, "total"),
    ];
    let rest: String = columns.map(|(column, name)| format!("{:>12}", mark(column, name))).concat();
    format!("{:16}{rest}", mark(Sort::Name, "operation"))
}

fn row(row: &Row) -> String {
    let cells = [rate(row.rate), time(row.p50), time(row.p99), rate(row.errors), row.total.to_string()];
    let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
    format!("{:16}{cells}", printable(row.operation.as_bytes()))
}

/// A report, and how its numbers are written.
struct Parts<'r> {
    report: &'r Report,
    block: u64,
}

/// What there is to say beside the operations, each with its name.
fn parts(report: &Report) -> Vec<(&'static str, String)> {
    let parts = Parts { report, block: report.now.number("block_size") };
    let all = &report.all;
    let times = format!("p50 {}, p99 {}", time(all.p50), time(all.p99));
    let mut said = vec![
        ("durability", durability(&report.now)),
        ("requests", format!("{}/s, {times}; {} errors/s", rate(all.rate), rate(all.errors))),
        ("journal", parts.journal()),
        ("stalls", parts.stalls()),
        ("waiting", parts.waiting()),
        ("cache", parts.cache()),
        ("device", parts.device()),
    ];
    said.extend(parts.nvm().map(|nvm| ("NVM", nvm)));
    said.extend(store::lines(report));
    said.push(("space", parts.space()));
    said
}

impl Parts<'_> {
    fn per_s(&self, counter: &str) -> String {
        format!("{}/s", rate(self.report.rate(counter)))
    }

    fn bytes_per_s(&self, counter: &str) -> String {
        format!("{}/s", human(self.report.rate(counter).round() as u64))
    }

    fn count(&self, counter: &str) -> u64 {
        self.report.now.counter(counter)
    }

    /// Bytes of the blocks that are counted.
    fn blocks(&self, counter: &str) -> u64 {
        self.count(counter).saturating_mul(self.block)
    }

    fn journal(&self) -> String {
        let engine = self.report.now.mount("engine").as_str().unwrap_or_default();
        let (used, size) = (self.blocks("journal_used_blocks"), self.blocks("journal_ring_blocks"));
        let [commits, operations, blocks] = ["commits", "handles", "journal_blocks"].map(|name| self.per_s(name));
        let used = format!("{} of {} used{}", human(used), human(size), share(used, size));
        format!("{engine}, commits {commits}, operations {operations}, blocks {blocks}; {used}")
    }

    fn stalls(&self) -> String {
        let [commits, checkpoints] = ["foreground_commits", "foreground_checkpoints"];
        if [commits, checkpoints, "stall_ns"].iter().all(|name| self.report.rate(name) == 0.0) {
            return "none".into();
        }
        let waited = duration(self.report.rate("stall_ns").round() as u64);
        let (commits, checkpoints) = (self.per_s(commits), self.per_s(checkpoints));
        format!("commits by operations {commits}, checkpoints {checkpoints}; operations waited {waited} of each second")
    }

    fn waiting(&self) -> String {
        let bytes = |name: &str| human(self.count(name));
        let (commit, flush) = (bytes("uncommitted_bytes"), bytes("unflushed_bytes"));
        format!("{commit} for a commit, {flush} for a flush, {} to be written home", bytes("not_home_bytes"))
    }

    fn cache(&self) -> String {
        let (hits, misses) = (self.report.rate("cache_hits"), self.report.rate("cache_misses"));
        let found = match hits + misses > 0.0 {
            true => format!("{:.1} % hits", 100.0 * hits / (hits + misses)),
            false => "not asked".into(),
        };
        format!("{found}; {} of blocks, {} inodes", human(self.blocks("cache_blocks")), self.count("cached_inodes"))
    }

    fn device(&self) -> String {
        let [reads, writes, flushes] = ["device_reads", "device_writes", "device_flushes"].map(|name| self.per_s(name));
        let [read, written] = ["device_read_bytes", "device_written_bytes"].map(|name| self.bytes_per_s(name));
        format!("reads {reads}, {read}; writes {writes}, {written}; flushes {flushes}")
    }

    /// `None` where there is none.
    fn nvm(&self) -> Option<String> {
        if ["nvm_stored_bytes", "nvm_copied_bytes", "nvm_read_bytes"].iter().all(|name| self.count(name) == 0) {
            return None;
        }
        let (used, size) = (self.blocks("buffer_used_blocks"), self.blocks("buffer_blocks"));
        let buffer = match size {
            0 => String::new(),
            _ => format!("; {} of {} for file data used", human(used), human(size)),
        };
        let [stored, copied, read] =
            ["nvm_stored_bytes", "nvm_copied_bytes", "nvm_read_bytes"].map(|name| self.bytes_per_s(name));
        let [lines, fences] = ["nvm_lines", "nvm_fences"].map(|name| self.per_s(name));
        Some(format!("stored {stored}, copied {copied}, lines {lines}, fences {fences}, read {read}{buffer}"))
    }

    fn space(&self) -> String {
        let of = |name: &str| self.report.now.number(name);
        let (free, size) = (of("free_blocks").saturating_mul(self.block), of("blocks").saturating_mul(self.block));
        let (inodes, orphans) = (of("free_inodes"), ondol::counted(self.count("orphans"), "orphan"));
        format!("{} of {} free{}, {inodes} inodes free, {orphans}", human(free), human(size), share(free, size))
    }
}

/// How durable everything is, in one sentence.
pub(super) fn durability(now: &Reading) -> String {
    if let Some(why) = now.mount("stopped").as_str() {
        return format!("changes are refused ({why}), and what was not durable before may be lost");
    }
    if now.mount("read_only") == &Value::Bool(true) {
        return "nothing changes: it is mounted read-only".into();
    }
    let survives = now.mount("survives").as_str().unwrap_or_default();
    let covers = match now.mount("fsync").as_str() {
        Some("file") => "covers the operations up to its file's last",
        _ => "covers every operation before it",
    };
    let waits = ["uncommitted_bytes", "uncommitted_ns", "unflushed_bytes"].iter().any(|name| now.counter(name) > 0);
    let age = now.counter("uncommitted_ns");
    let state = match (waits, age) {
        // The kernel may hold changes that it has not told of: pages that are mapped, or that it writes back later.
        (false, _) => "everything that the server was given is durable now".to_owned(),
        (true, 0) => "something is not durable yet".to_owned(),
        (true, age) => format!("the oldest operation that is not durable has waited {}", duration(age)),
    };
    let home = now.mount("not_home").as_str().map(|why| format!(", and nothing can be written to the image ({why})"));
    format!("{survives}; an fsync {covers}; {state}{}", home.unwrap_or_default())
}

/// A time, where there is one.
fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

fn share(part: u64, whole: u64) -> String {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole));
    percent.map_or_else(String::new, |percent| format!(" ({percent} %)"))
}

/// A number of something in a second: small ones with a decimal.
fn rate(rate: f64) -> String {
    if rate == 0.0 || rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// A time in the largest unit of which there is one, with a decimal below ten.
fn duration(ns: u64) -> String {
    let (unit, name) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let number = ns as f64 / unit;
    if number < 10.0 { format!("{number:.1} {name}") } else { format!("{number:.0} {name}") }
}

/// Hours, minutes and seconds, behind days.
fn clock(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    let clock = format!("{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days} d {clock}") } else { clock }
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::reading;
    use super::*;

    fn report() -> Report {
        Report::between(&reading(10, 1000), &reading(12, 2000)).unwrap()
    }

    #[test]
    fn a_report_is_lines_that_a_terminal_does_not_obey() {
        let text = Frame::new(&report(), Sort::Rate, Duration::from_millis(500)).text();
        assert!(text.chars().all(|c| c == '\n' || ondol::is_printable(c)), "{text:?}");
        assert!(text.starts_with("every 0.5 s: /i^[mg on /mnt, process 2, mounted for 0:00:11\n"), "{text}");
        let line = |begins: &str| {
            text.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {text}"))
        };
        let expected = "a completed fsync survives a power cut; an fsync covers every operation before it; everything \
                        that the server was given is durable now";
        assert_eq!(line("durability"), format!("durability {expected}"));
        assert_eq!(line("requests"), "requests   550/s, p50 150 ns, p99 199 ns; 10.0 errors/s");
        assert!(line("stalls").contains("operations waited 250 ms of each second"), "{text}");
        assert!(line("space").contains("(25 %), 90 inodes free, 3 orphans"), "{text}");
        assert!(!text.contains("NVM") && !text.contains("store") && !text.contains("lease"), "{text}");
        let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("operation")).collect();
        assert_eq!(rows[0], "operation             per s*         p50         p99    errors/s       total");
        assert_eq!(rows[1], "write                    500      150 ns      199 ns        10.0        2000");
        assert_eq!(rows[2], "fsync                   50.0           -           -           0         200");
    }

    #[test]
    fn names_of_operations_are_not_obeyed() {
        let row = Row { operation: "\u{1b}]52;c;x\u{7}".into(), ..Row::default() };
        let text = super::row(&row);
        assert!(text.chars().all(ondol::is_printable), "{text:?}");
    }

    #[test]
    fn the_key_goes_through_all_columns() {
        let (mut sort, mut seen) = (Sort::Rate, Vec::new());
        loop {
            seen.push(sort);
            sort = sort.next();
            if sort == Sort::Rate {
                break;
            }
        }
        assert_eq!(seen.len(), Sort::value_variants().len());
        let by_name = Frame::new(&report(), Sort::Name, Duration::from_secs(1));
        assert!(by_name.rows[0].starts_with("fsync") && by_name.heads.starts_with("operation*"));
    }

    #[test]
    fn times_have_two_digits_or_three() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1500, "1.5 µs"),
            (25_000, "25 µs"),
            (9_960_000, "10.0 ms"),
            (12_000_000_000, "12 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(
            (clock(59), clock(3_661), clock(90_000)),
            ("0:00:59".into(), "1:01:01".into(), "1 d 1:00:00".into())
        );
    }
}
