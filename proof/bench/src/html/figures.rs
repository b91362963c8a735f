//! Which charts a result has.

use super::chart::{Bar, Colour, Heat, Line, Range, bars, heat, ranges, table};
use super::sheet::{Cell, Sheet};
use super::{legal, palette};
use crate::report::{Latency, TargetReport};
use crate::results::{COSTS, Cost, Middle, Part, Results, Row, Run, Table, What};
use crate::stats::{ratio, spread};
use crate::target::{FrontEnd, Target};
use maud::{Markup, html};
use ondol::counted;
use serde_json::Value;

/// What was measured together.
pub(super) struct Section {
    /// What it is a part of, if the result has chapters.
    pub(super) chapter: Option<String>,
    pub(super) title: String,
    /// What it was measured with.
    pub(super) facts: Vec<String>,
    /// What the paper says.
    pub(super) paper: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) figures: Vec<Figure>,
    /// Targets, and what each promises after a crash.
    pub(super) guarantees: Vec<(String, String)>,
}

/// A chart, and what it is drawn from.
pub(super) struct Figure {
    /// The name of its files without their endings.
    pub(super) file: String,
    pub(super) svg: Markup,
    pub(super) sheet: Sheet,
}

impl Figure {
    /// As a file of its own.
    pub(super) fn alone(&self) -> String {
        let svg = self.svg.0.replacen(
            '>',
            &format!("><style>{}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>", palette::alone()),
            1,
        );
        legal(&format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}\n"))
    }
}

/// One for each part, with an overview before those of a chapter, or before all, where there are several runs.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut at = 0;
    for parts in results.parts.chunk_by(|one, next| one.chapter == next.chapter) {
        if let Some(overview) = overview(parts) {
            sections.push(overview);
        }
        for Part { chapter, title, what } in parts {
            at += 1;
            let file = format!("{at:02}-{}", plain(title));
            let section = match what {
                What::Run(run) => of_run(title, run, &file),
                What::Table(table) => of_table(title, table, &file),
            };
            sections.push(Section { chapter: chapter.clone(), ..section });
        }
    }
    sections
}

/// Letters and digits, and `-` for what is between them.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-").chars().take(60).collect()
}

fn front_end(target: &str) -> Colour {
    let (class, words) = match target.parse::<Target>().map(|target| target.front_end()) {
        Ok(FrontEnd::InProcess) => ("in-process", "in process"),
        Ok(FrontEnd::Mount) => ("mount", "mount"),
        Ok(FrontEnd::Kernel) => ("kernel", "kernel"),
        Ok(FrontEnd::Floor) => ("floor", "floor, no peer"),
        Ok(FrontEnd::Other) => ("other", "other"),
        Err(_) => ("other", "unknown"),
    };
    Colour { class, words }
}

const PLAIN: Colour = Colour { class: "plain", words: "" };

/// The ratios of all runs, where there are two or more.
fn overview(parts: &[Part]) -> Option<Section> {
    let chapter = parts.first().and_then(|part| part.chapter.clone());
    let runs: Vec<(&str, &Run)> = parts
        .iter()
        .filter_map(|part| match &part.what {
            What::Run(run) => Some((part.title.as_str(), run.as_ref())),
            What::Table(_) => None,
        })
        .collect();
    if runs.len() < 2 {
        return None;
    }
    let mut columns: Vec<(String, Colour)> = Vec::new();
    for target in runs.iter().flat_map(|(_, run)| &run.targets) {
        let name = without_medium(&target.target);
        if columns.iter().all(|(known, _)| *known != name) {
            columns.push((name, front_end(&target.target)));
        }
    }
    let rows: Vec<Heat> = runs
        .iter()
        .map(|(title, run)| {
            let first = run.targets.first().map(|target| target.rates.as_slice()).unwrap_or_default();
            let find = |name: &String| run.targets.iter().find(|target| without_medium(&target.target) == *name);
            let one = |target: &TargetReport| ratio(first, &target.rates).median;
            Heat { name: (*title).to_owned(), ratios: columns.iter().map(|(name, _)| find(name).map(one)).collect() }
        })
        .collect();
    let head = std::iter::once("run".to_owned()).chain(columns.iter().map(|(name, _)| name.clone())).collect();
    let cells = |row: &Heat| {
        std::iter::once(Cell::from(row.name.as_str())).chain(row.ratios.iter().map(|&ratio| ratio.into())).collect()
    };
    let sheet = Sheet { head, rows: rows.iter().map(cells).collect() };
    let unit = "times the rate of A in the same round, median; blue: faster, orange: slower";
    let name = chapter.as_deref().map(|name| format!("-{}", plain(name))).unwrap_or_default();
    let file = format!("00-overview{name}");
    let figure = Figure { file, svg: heat("Ratio to the first target", unit, &columns, &rows), sheet };
    let title = chapter.as_deref().map_or_else(|| "Overview".to_owned(), |name| format!("{name}, overview"));
    Some(Section {
        chapter,
        title,
        facts: Vec::new(),
        paper: None,
        notes: Vec::new(),
        figures: vec![figure],
        guarantees: Vec::new(),
    })
}

/// A target's name but for what it lies on, which may differ from run to run.
fn without_medium(target: &str) -> String {
    target.split(',').filter(|word| !word.starts_with("on=")).collect::<Vec<_>>().join(",")
}

fn of_run(title: &str, run: &Run, file: &str) -> Section {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let params = run.params.iter().map(|(name, value)| format!("{name}={}", text(value)));
    let contents = format!("contents {}, LZ4 {:.2}", run.contents.class, run.contents.lz4_ratio);
    let mut facts = vec![counted(run.rounds.into(), "round"), contents];
    facts.extend(params);
    if run.partial {
        facts.insert(0, "PARTIAL: interrupted".into());
    }
    let figure = |what: &str, svg, sheet| Figure { file: format!("{file}-{what}"), svg, sheet };
    let mut figures = vec![figure("rate", rates(title, run), rate_sheet(run))];
    let operations =
        latency(title, "operations", run, |target| (target.latency_us.max > 0.0).then_some(target.latency_us));
    let fsyncs = latency(title, "fsyncs", run, |target| target.fsync_us);
    figures.extend(operations.map(|(svg, sheet)| figure("latency", svg, sheet)));
    figures.extend(fsyncs.map(|(svg, sheet)| figure("fsync", svg, sheet)));
    figures.extend(costs(title, run).map(|(svg, sheet)| figure("costs", svg, sheet)));
    let guarantees = run.targets.iter().map(|target| (target.target.clone(), target.guarantee.clone())).collect();
    Section { chapter: None, title: title.to_owned(), facts, paper: None, notes: Vec::new(), figures, guarantees }
}

fn first_rates(run: &Run) -> &[f64] {
    run.targets.first().map(|target| target.rates.as_slice()).unwrap_or_default()
}

fn rates(title: &str, run: &Run) -> Markup {
    let one = |(at, target): (usize, &TargetReport)| {
        let to_first = ratio(first_rates(run), &target.rates);
        let range = if target.rates.len() > 1 {
            format!(" ({:.2} .. {:.2})", to_first.low, to_first.high)
        } else {
            String::new()
        };
        let note = if at == 0 {
            "the others are compared with it".into()
        } else {
            format!("× {:.2}{range}", to_first.median)
        };
        Bar {
            name: target.target.clone(),
            colour: front_end(&target.target),
            spread: spread(&target.rates),
            rounds: target.rates.clone(),
            note,
        }
    };
    let all: Vec<Bar> = run.targets.iter().enumerate().map(one).collect();
    bars(
        &format!("{title}: operations a second"),
        "median, lowest to highest round, and the ratio in the same round; more is better",
        &all,
    )
}

fn rate_sheet(run: &Run) -> Sheet {
    let rounds = run.targets.iter().map(|target| target.rates.len()).max().unwrap_or(0);
    let names = ["target", "front end", "ops/s", "lowest", "highest", "ratio", "low", "high"].map(str::to_owned);
    let head = names.into_iter().chain((1..=rounds).map(|round| format!("round {round}"))).collect();
    let row = |target: &TargetReport| {
        let (rate, to_first) = (spread(&target.rates), ratio(first_rates(run), &target.rates));
        let numbers = [rate.median, rate.min, rate.max, to_first.median, to_first.low, to_first.high];
        let words = [Cell::from(target.target.as_str()), Cell::from(front_end(&target.target).words)];
        words.into_iter().chain(numbers.into_iter().chain(target.rates.iter().copied()).map(Cell::Number)).collect()
    };
    Sheet { head, rows: run.targets.iter().map(row).collect() }
}

/// The latencies of something, if some target has them.
fn latency(title: &str, of: &str, run: &Run, get: fn(&TargetReport) -> Option<Latency>) -> Option<(Markup, Sheet)> {
    let one = |target: &TargetReport| {
        get(target).map(|latency| Range { name: target.target.clone(), colour: front_end(&target.target), latency })
    };
    let all: Vec<Range> = run.targets.iter().filter_map(one).collect();
    let title = format!("{title}: latency of {of}");
    (!all.is_empty()).then(|| (ranges(&title, "µs", &all), latency_sheet(&all)))
}

fn latency_sheet(ranges: &[Range]) -> Sheet {
    let head = ["target", "front end", "p50 µs", "p99 µs", "p99.9 µs", "slowest µs"].map(str::to_owned).into();
    let row = |range: &Range| {
        let Latency { p50, p99, p999, max } = range.latency;
        let words = [Cell::from(range.name.as_str()), Cell::from(range.colour.words)];
        words.into_iter().chain([p50, p99, p999, max].map(Cell::Number)).collect()
    };
    Sheet { head, rows: ranges.iter().map(row).collect() }
}

/// Counters that some target has, and not only zeros.
fn costs(title: &str, run: &Run) -> Option<(Markup, Sheet)> {
    let is_counted =
        |cost: &&Cost| run.targets.iter().any(|target| (cost.of)(&target.counters).is_some_and(|value| value > 0.0));
    let shown: Vec<_> = COSTS.iter().filter(is_counted).collect();
    if shown.is_empty() {
        return None;
    }
    let columns: Vec<String> = shown.iter().map(|cost| cost.name.to_owned()).collect();
    let values = |target: &TargetReport| shown.iter().map(|cost| (cost.of)(&target.counters)).collect::<Vec<_>>();
    let line = |target: &TargetReport| Line {
        name: target.target.clone(),
        colour: front_end(&target.target),
        values: values(target).into_iter().map(|value| value.map(exactly)).collect(),
    };
    let lines: Vec<Line> = run.targets.iter().map(line).collect();
    let row = |target: &TargetReport| {
        let words = [Cell::from(target.target.as_str()), Cell::from(front_end(&target.target).words)];
        words.into_iter().chain(values(target).into_iter().map(Cell::from)).collect()
    };
    let head = ["target", "front end"].map(str::to_owned).into_iter().chain(columns.iter().cloned()).collect();
    let sheet = Sheet { head, rows: run.targets.iter().map(row).collect() };
    let unit = "over all rounds; each column has a scale of its own";
    Some((table(&format!("{title}: what it costs beside time"), unit, &columns, &lines), sheet))
}

fn exactly(value: f64) -> Middle {
    Middle { median: value, low: value, high: value }
}

fn of_table(title: &str, values: &Table, file: &str) -> Section {
    let line = |row: &Row| Line { name: row.name.clone(), colour: PLAIN, values: row.values.clone() };
    let lines: Vec<Line> = values.rows.iter().map(line).collect();
    let unit = format!("{}; each column has a scale of its own", values.unit);
    let names = values.columns.iter().flat_map(|name| [name.clone(), format!("{name}: low"), format!("{name}: high")]);
    let cells = |row: &Row| {
        let three =
            |value: &Option<Middle>| value.map_or([None; 3], |value| [value.median, value.low, value.high].map(Some));
        std::iter::once(Cell::from(row.name.as_str()))
            .chain(row.values.iter().flat_map(three).map(Cell::from))
            .collect()
    };
    let sheet = Sheet {
        head: std::iter::once(values.unit.clone()).chain(names).collect(),
        rows: values.rows.iter().map(cells).collect(),
    };
    Section {
        chapter: None,
        title: title.to_owned(),
        facts: Vec::new(),
        paper: values.paper.clone(),
        notes: values.notes.clone(),
        figures: vec![Figure { file: file.to_owned(), svg: table(title, &unit, &values.columns, &lines), sheet }],
        guarantees: Vec::new(),
    }
}

/// A list of guarantees, each below its target.
pub(super) fn guarantees(section: &Section) -> Markup {
    html! {
        @if !section.guarantees.is_empty() {
            details {
                summary { "What each target promises after a crash" }
                dl {
                    @for (target, guarantee) in &section.guarantees {
                        dt { (target) }
                        dd { (guarantee) }
                    }
                }
            }
        }
    }
}
