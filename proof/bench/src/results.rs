//! Results read back from the JSON that a bench has written: what is drawn, and what is compared.

use crate::contents::Payload;
use crate::counters::Counters;
use crate::machine::Machine;
use crate::report::TargetReport;
use crate::stats::{Ratio, Spread};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a file holds.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// Something is missing: the run has ended early.
    pub(crate) partial: bool,
    /// Fewer operations than usual.
    pub(crate) quick: bool,
    /// Where it ran, if the file says so.
    pub(crate) machine: Option<Machine>,
    /// What ran, if the file says so.
    pub(crate) commit: Option<String>,
    /// In the order of the file.
    pub(crate) parts: Vec<Part>,
}

/// A run or a table, named by what is around it.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// What it is a chapter of: one of `bench all`.
    pub(crate) chapter: Option<String>,
    /// With the chapter's name before it.
    pub(crate) title: String,
    pub(crate) what: What,
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Targets beside each other.
    Run(Box<Run>),
    /// Values in rows and columns.
    Table(Table),
}

/// A result as `bench run` writes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Run {
    /// The workload's parameters.
    pub(crate) params: Map<String, Value>,
    /// What was written.
    pub(crate) contents: Payload,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What ran.
    pub(crate) commit: String,
    /// How often every target had its turn.
    pub(crate) rounds: u32,
    /// There were to be more rounds.
    pub(crate) partial: bool,
    /// The first one is what the others are compared with.
    pub(crate) targets: Vec<TargetReport>,
}

/// A figure that is no run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Table {
    /// What the values are.
    pub(crate) unit: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// What the paper says.
    pub(crate) paper: Option<String>,
    /// What follows from it.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// A line of a table.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// One for each column, as far as there are.
    pub(crate) values: Vec<Option<Middle>>,
}

/// The middle and the ends of some rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl From<Spread> for Middle {
    fn from(Spread { median, min, max }: Spread) -> Self {
        Self { median, low: min, high: max }
    }
}

impl From<Ratio> for Middle {
    fn from(Ratio { median, low, high }: Ratio) -> Self {
        Self { median, low, high }
    }
}

/// A counter of a run in proportion to what was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// What is counted, and for each what.
    pub(crate) name: &'static str,
    /// How busy the machine is has no part in it.
    pub(crate) is_steady: bool,
    /// The value; `None`: not told, or nothing was asked for.
    pub(crate) of: fn(&Counters) -> Option<f64>,
}

const fn steady(name: &'static str, of: fn(&Counters) -> Option<f64>) -> Cost {
    Cost { name, is_steady: true, of }
}

const fn unsteady(name: &'static str, of: fn(&Counters) -> Option<f64>) -> Cost {
    Cost { name, is_steady: false, of }
}

/// What an operation costs beside time.
pub(crate) const COSTS: [Cost; 12] = [
    steady("device flushes / fsync", |c| each(c.device.device_flushes, c.fsyncs)),
    steady("device bytes / user byte", |c| each(c.device.device_bytes, c.user_bytes)),
    steady("NVM bytes / user byte", |c| each(c.device.nvm_reached(), c.user_bytes)),
    steady("NVM fences / op", |c| each(c.device.nvm_fences, c.ops)),
    steady("FUSE requests / op", |c| each(c.device.fuse_requests, c.ops)),
    steady("store puts / fsync", |c| each(c.device.store.map(|store| store.puts), c.fsyncs)),
    steady("bytes up / user byte", |c| each(c.device.store.map(|store| store.up), c.user_bytes)),
    // Some are made as time goes by, whatever is done.
    unsteady("store requests / op", |c| each(c.device.store.map(|store| store.requests()), c.ops)),
    unsteady("bytes down / op", |c| each(c.device.store.map(|store| store.down), c.ops)),
    steady("client calls / op", |c| each(Some(c.client.calls), c.ops)),
    unsteady("client waits / op", |c| each(Some(c.client.switches.voluntary), c.ops)),
    unsteady("server waits / op", |c| each(c.device.server.map(|server| server.switches.voluntary), c.ops)),
];

fn each(count: Option<u64>, of: u64) -> Option<f64> {
    count.filter(|_| of > 0).map(|count| count as f64 / of as f64)
}

impl Results {
    /// From what a file holds.
    pub(crate) fn of(json: &Value) -> Self {
        let mut parts = Vec::new();
        find(json, &Map::new(), None, &mut parts);
        let truth = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or(false);
        let first = parts.iter().find_map(|part| match &part.what {
            What::Run(run) => Some(run),
            What::Table(_) => None,
        });
        let machine = json.get("machine").and_then(|machine| Machine::deserialize(machine).ok());
        let commit = json.get("commit").and_then(Value::as_str).map(str::to_owned);
        Self {
            partial: truth("partial"),
            quick: truth("quick"),
            machine: machine.or_else(|| first.map(|run| run.machine.clone())),
            commit: commit.or_else(|| first.map(|run| run.commit.clone())),
            parts,
        }
    }
}

/// Collects what reads as a run or a table. `around` is the object that `value` lies in, `chapter` the nearest name of one.
fn find(value: &Value, around: &Map<String, Value>, chapter: Option<&str>, parts: &mut Vec<Part>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| find(value, around, chapter, parts)),
        Value::Object(own) => {
            let chapter = own.get("chapter").and_then(Value::as_str).or(chapter);
            let run = own.get("targets").and_then(|_| Run::deserialize(value).ok()).map(|run| What::Run(Box::new(run)));
            let table = || own.get("columns").and_then(|_| Table::deserialize(value).ok()).map(What::Table);
            match run.or_else(table) {
                Some(what) => {
                    let title = in_chapter(chapter, title(own, around));
                    parts.push(Part { chapter: chapter.map(str::to_owned), title, what });
                }
                None => own.values().for_each(|value| find(value, own, chapter, parts)),
            }
        }
        _ => {}
    }
}

/// `paper 3, figures 1, 4: varmail, ssd`, so that every part has a title of its own.
fn in_chapter(chapter: Option<&str>, title: String) -> String {
    let Some(chapter) = chapter else { return title };
    let mut letters = title.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    format!("{chapter}, {}{}", first.into_iter().collect::<String>(), letters.as_str())
}

/// Figure, name and device, as far as they are known: `Figures 1, 4: varmail, ssd`.
fn title(own: &Map<String, Value>, around: &Map<String, Value>) -> String {
    let several = around.get("figures").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = own.get("number").map(std::slice::from_ref).unwrap_or_default();
    let numbers = [several, one].concat();
    let numbers: Vec<String> = numbers.iter().filter_map(Value::as_u64).map(|number| number.to_string()).collect();
    let figures = match numbers.as_slice() {
        [] => None,
        [number] => Some(format!("Figure {number}")),
        _ => Some(format!("Figures {}", numbers.join(", "))),
    };
    let text = |map: &Map<String, Value>, name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = text(around, "row").or_else(|| text(around, "workload")).or_else(|| text(own, "title"));
    let name = name.or_else(|| text(own, "workload"));
    let words: Vec<String> = name.into_iter().chain(text(around, "device")).collect();
    let words = (!words.is_empty()).then(|| words.join(", "));
    figures.into_iter().chain(words).collect::<Vec<_>>().join(": ")
}
