//! Workloads that come to the places which matter when power is lost near them, and those that regressions once needed.
//!
//! They are made so that single places are reached for certain; random workloads meet them by chance, and what meets
//! something new is varied. Each is explored in all data modes.

mod edges;
mod failing;
mod forms;
mod journal;
mod kept;
mod names;
mod promised;
mod reuse;
mod together;
mod trees;

use super::{Mount, Others, Schedules, Workload, parse};
use crate::image::Kind;
use ondol::JournalEngine;
use ondol_schedule::{Policy, Schedule};

/// A workload as text.
struct Scene {
    name: &'static str,
    image: Kind,
    mount: Mount,
    remount: bool,
    before: String,
    /// Of each thread.
    calls: Vec<String>,
    /// Background work is done at the same time, where there are several threads.
    background: bool,
}

/// One thread on a small volume.
fn scene(name: &'static str, before: impl Into<String>, calls: impl Into<String>) -> Scene {
    let (image, mount) = (Kind::Small, Mount::Tight);
    Scene { name, image, mount, remount: false, before: before.into(), calls: vec![calls.into()], background: true }
}

impl Scene {
    fn on(self, image: Kind) -> Self {
        Self { image, ..self }
    }

    fn mount(self, mount: Mount) -> Self {
        Self { mount, ..self }
    }

    fn remounted(self) -> Self {
        Self { remount: true, ..self }
    }

    /// With another thread.
    fn beside(mut self, calls: impl Into<String>) -> Self {
        self.calls.push(calls.into());
        self
    }

    /// Nothing is done but what the threads do.
    fn alone(self) -> Self {
        Self { background: false, ..self }
    }

    /// One workload; of several threads one for each schedule.
    fn workloads(self) -> Vec<Workload> {
        let Self { name, image, mount, remount, before, calls, background } = self;
        let before = parse(&before);
        let mut threads: Vec<_> = calls.iter().map(|calls| parse(calls)).collect();
        let first = threads.remove(0);
        let length: usize = calls.iter().map(|calls| calls.lines().count()).sum();
        let with = |number: Option<u64>| Workload {
            name: number.map_or_else(|| name.to_owned(), |n| format!("{name}, schedule {n}")),
            image,
            mount,
            before: before.clone(),
            remount,
            calls: first.clone(),
            others: number.map(|n| {
                let depth = if n % 4 == 0 { 3 } else { 12 };
                let changes = Policy::Priorities { depth, steps: STEPS * length as u32 };
                let policy = if n % 4 == 3 { Policy::Random } else { changes };
                Others {
                    calls: threads.clone(),
                    schedules: Schedules::One(Schedule::new(policy, n)),
                    background: background.then_some(6),
                    lead: 0,
                }
            }),
        };
        match threads.is_empty() {
            true => vec![with(None)],
            false => (0..SCHEDULES).map(|n| with(Some(n))).collect(),
        }
    }
}

/// Choices between threads that a call has, about.
const STEPS: u32 = 80;

/// Interleavings of each workload of several threads.
const SCHEDULES: u64 = 12;

/// All of them.
pub fn scenes() -> impl Iterator<Item = Workload> + Send {
    let all = [
        journal::scenes(),
        kept::scenes(),
        reuse::scenes(),
        trees::scenes(),
        names::scenes(),
        forms::scenes(),
        failing::scenes(),
        together::scenes(),
        promised::scenes(),
        edges::scenes(),
    ];
    all.into_iter().flatten().flat_map(Scene::workloads)
}

/// All of them for volumes in pools, whose blocks are pages: those of other volumes as they are, and as large in blocks
/// as they are there; and what such blocks take to be full.
fn scenes_in_pages() -> impl Iterator<Item = Workload> + Send {
    let own = [journal::in_pages(), trees::in_pages(), names::in_pages()].into_iter().flatten();
    let own = own.flat_map(Scene::workloads).map(|w| Workload { name: format!("{} in pages", w.name), ..w });
    scenes().chain(scenes().filter_map(Workload::in_pages)).chain(own)
}

/// The places of an engine: those of its volumes.
pub fn scenes_of(engine: JournalEngine) -> Box<dyn Iterator<Item = Workload> + Send> {
    match engine {
        JournalEngine::Swap | JournalEngine::Remap => Box::new(scenes_in_pages()),
        _ => Box::new(scenes()),
    }
}

/// The lines, one for each number.
fn lines(numbers: impl IntoIterator<Item = u64>, line: impl Fn(u64) -> String) -> String {
    numbers.into_iter().map(|n| line(n) + "\n").collect()
}

/// Transactions of about 66 blocks each in the log, in every data mode: the data of this file goes through it.
fn log(transactions: u64) -> String {
    let begin = "create /log 0600\nchattr /log j\n";
    begin.to_owned() + &lines(1..=transactions, |n| format!("write /log 0 60K #{n}\nsync"))
}
