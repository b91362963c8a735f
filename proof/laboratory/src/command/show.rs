//! What is seen of a hunt: how far it is, and what it found.

use super::{Quarry, say};
use crate::explore::{Report, Violation, Watch};
use crate::hunt::Found;
use crate::log_judge;
use crate::signals::Signals;
use crate::{CrashArgs, data_word};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::{Durable, JournalEngine};
use ondol_env::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ondol_env::{Env, System};
use std::io::IsTerminal;
use std::time::Duration;

/// Says that a hunt is over when it is dropped: also by a panic, or the command would wait for whoever follows.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What a command has tried in all.
#[derive(Default)]
pub(super) struct Sum {
    hunts: u64,
    workloads: u64,
    pub(super) report: Report,
}

impl Sum {
    pub(super) fn add(&mut self, found: Found) {
        self.hunts += 1;
        self.workloads += found.workloads;
        self.report.add(found.report);
    }

    /// Prints what was tried, how, and what was never executed.
    pub(super) fn print(&self) {
        let Self { hunts, workloads, report } = self;
        let [runs, events] = log_judge::looked();
        say!(
            "\nin all: {hunts} hunts, {workloads} workloads, {} states at {} crash points; violations: {}",
            report.distinct,
            report.crash_points,
            report.violations.len()
        );
        say!(
            "  order: the logs of {runs} runs were held against their rules, at each of {events} events; \
             {} values that recovery reads before they are durable were varied",
            report.read
        );
        say!(
            "  after a crash: {} states in crashed recoveries, {} of volumes in use again, {} with a bit that has \
             changed",
            report.nested,
            report.used_states,
            report.flipped
        );
        say!("  others: e2fsck judged {} states, the kernel {}", report.second_opinions, report.by_kernel);
        match report.coverage.told() {
            Some(lines) => say!("  never executed, by file the lines at which a branch begins:{lines}"),
            None => say!("  never executed: this build does not know; `cargo xtask lab crash` makes one that does"),
        }
    }
}

/// The hunt on one engine, for who waits for it.
pub(super) struct Show<'a> {
    args: &'a CrashArgs,
    quarry: Quarry,
    seconds: Option<u64>,
    signals: &'a Signals,
    watch: Watch,
    started: u64,
    over: AtomicBool,
}

impl<'a> Show<'a> {
    pub(super) fn new(args: &'a CrashArgs, quarry: Quarry, seconds: Option<u64>, signals: &'a Signals) -> Self {
        let (watch, over) = (Watch::default(), AtomicBool::new(false));
        Self { args, quarry, seconds, signals, watch, started: System.monotonic_ns(), over }
    }

    /// Hunts, shows how far it is, and ends it when its time is over.
    pub(super) fn during<T>(&self, hunt: impl FnOnce(&Watch) -> T) -> T {
        std::thread::scope(|scope| {
            scope.spawn(|| self.follow());
            let _over = Over(&self.over);
            hunt(&self.watch)
        })
    }

    fn elapsed_ms(&self) -> u64 {
        (System.monotonic_ns() - self.started) / 1_000_000
    }

    fn follow(&self) {
        let Self { args, watch, .. } = self;
        let bar = match (args.states, self.seconds) {
            _ if !std::io::stderr().is_terminal() || args.json => ProgressBar::hidden(),
            (Some(states), _) => ProgressBar::new(states),
            (None, Some(seconds)) => ProgressBar::new(seconds * 1000),
            (None, None) => ProgressBar::new_spinner(),
        };
        let style = "{spinner} {elapsed_precise} [{bar:30}] {msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        while !self.over.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
            let elapsed = self.elapsed_ms();
            bar.set_position(if args.states.is_some() { watch.distinct.load(Relaxed) } else { elapsed });
            bar.set_message(self.how_far(elapsed));
            if self.signals.asked().load(Relaxed) {
                watch.stop.store(true, Relaxed);
                watch.hurry.store(true, Relaxed);
            }
            if self.seconds.is_some_and(|s| elapsed >= s * 1000) {
                watch.stop.store(true, Relaxed);
            }
        }
        bar.finish_and_clear();
    }

    fn how_far(&self, elapsed: u64) -> String {
        let watch = &self.watch;
        let recovered = watch.recovered.load(Relaxed);
        let mut text = format!(
            "{}: {}; {} workloads, {} states, {} a second",
            match &self.quarry {
                Quarry::Engine(engine) => engine.name(),
                Quarry::Store(_) => "object storage",
                Quarry::Pool(_) => "an NVM pool",
                Quarry::Tools((family, _)) => family.word(),
                Quarry::Part(part) => part.name(),
            },
            *watch.phase.lock(),
            watch.workloads.load(Relaxed),
            watch.distinct.load(Relaxed),
            recovered * 1000 / elapsed.max(1)
        );
        match watch.violations.load(Relaxed) {
            0 => {}
            n => text += &format!(", {n} violations"),
        }
        if watch.shrinking.load(Relaxed) > 0 {
            text += "; a violation is made small (^C leaves it as it is)";
        }
        text
    }

    /// Prints what was found.
    pub(super) fn report(&self, found: &Found) {
        let seconds = self.elapsed_ms() as f64 / 1000.0;
        match self.args.json {
            true => self.print_json(found, seconds),
            false => self.print(found, seconds),
        }
    }

    fn print_json(&self, found: &Found, seconds: f64) {
        let Found { report, modes, workloads, phases, first } = found;
        let args = self.args;
        let (engine, domain) = match &self.quarry {
            Quarry::Engine(engine) => (Some(*engine), None),
            Quarry::Store(_) => (Some(JournalEngine::Batch), None),
            Quarry::Pool(domain) => (None, Some(domain.to_string())),
            Quarry::Tools(_) | Quarry::Part(_) => (None, None),
        };
        let violations: Vec<String> = report.violations.iter().map(Violation::to_string).collect();
        let times: Vec<u64> = report.violations.iter().map(|violation| violation.times).collect();
        let modes: serde_json::Map<_, _> =
            modes.iter().map(|(data, distinct)| (data_word(*data).to_owned(), (*distinct).into())).collect();
        let phase = |share: &crate::hunt::Share| {
            let processor_seconds = share.spent as f64 / 1e9;
            serde_json::json!({
                "phase": share.name,
                "workloads": share.workloads,
                "recovered": share.recovered,
                "processor_seconds": processor_seconds,
            })
        };
        let first = first.as_ref().map(|first| {
            serde_json::json!({
                "phase": first.phase,
                "workload": first.workload,
                "workloads": first.workloads,
                "recovered": first.recovered,
                "processor_seconds": first.spent as f64 / 1e9,
            })
        });
        let json = serde_json::json!({
            "engine": engine.map(JournalEngine::name),
            "data": engine.map(|_| modes),
            "domain": domain,
            "store": args.store.map(Durable::name),
            "workload": args.workload.as_deref().unwrap_or(match &self.quarry {
                Quarry::Tools((family, _)) => family.word(),
                Quarry::Part(part) => part.name(),
                _ if args.calls.is_empty() => "all",
                _ => "calls",
            }),
            "plant": args.plant,
            "states": report.states,
            "distinct": found.distinct(),
            "recovered": report.distinct,
            "crashed_recoveries": report.nested,
            "judged": report.judged,
            "used": report.used,
            "used_states": report.used_states,
            "flipped": report.flipped,
            "read": report.read,
            "e2fsck": report.second_opinions,
            "kernel": report.by_kernel,
            "workloads": workloads,
            "phases": phases.iter().map(phase).collect::<Vec<_>>(),
            "crash_points": report.crash_points,
            "crash_points_exhausted": report.exhausted,
            "coverage": report.coverage.json(),
            "violations": report.violations.len(),
            "first": first,
            "found": violations,
            "times": times,
            "seed": args.seed,
            "seconds": seconds,
            "states_per_second": report.distinct as f64 / seconds.max(1e-9),
        });
        say!("{json}");
    }

    fn print(&self, found: &Found, seconds: f64) {
        let Found { report, modes, workloads, phases, .. } = found;
        let args = self.args;
        match &self.quarry {
            Quarry::Tools((family, _)) => say!("{}, seed {}: {workloads} volumes", family.word(), args.seed),
            Quarry::Pool(domain) => say!("an NVM pool in domain {domain}, seed {}", args.seed),
            Quarry::Part(part) => say!("{}, seed {}: {workloads} runs", part.what(), args.seed),
            Quarry::Engine(_) | Quarry::Store(_) => {
                let of = |(data, distinct): &(_, u64)| format!("data={} {distinct}", data_word(*data));
                let modes: Vec<String> = modes.iter().map(of).collect();
                let what = match &self.quarry {
                    Quarry::Store(durable) => format!("a volume in object storage, durable={}", durable.name()),
                    Quarry::Engine(engine) => format!("engine {}", engine.name()),
                    _ => String::new(),
                };
                say!("{what}, seed {}: {workloads} workloads", args.seed);
                say!("  distinct states: {}", modes.join(", "));
            }
        }
        let per_second = report.distinct as f64 / seconds.max(1e-9);
        say!("  states built {}; recovered {}", report.states, report.distinct);
        say!("  of these {} in recoveries that were crashed again, to depth {}", report.nested, args.depth);
        say!(
            "  crash points {}; of {} every combination of what may survive was built (if many, without torn writes), \
             of the others a sample",
            report.crash_points,
            report.exhausted
        );
        say!("  different recovered volumes, each checked, read and compared: {}", report.judged);
        say!("  recovered, used and crashed again: {}, in {} states", report.used, report.used_states);
        say!("  with a bit of the log that has changed: {}", report.flipped);
        say!("  replayed and judged by e2fsck too: {}; by the kernel: {}", report.second_opinions, report.by_kernel);
        for share in phases.iter().filter(|_| phases.len() > 1) {
            let (name, processor) = (share.name, share.spent as f64 / 1e9);
            say!(
                "  {name:14} {:6} workloads, {:8} states, {processor:6.1} s of processors",
                share.workloads,
                share.recovered
            );
        }
        say!("  {seconds:.1} seconds, {per_second:.0} states a second");
        say!("  violations: {}", report.violations.len());
        for violation in &report.violations {
            match violation.times {
                1 => say!("\n{violation}"),
                times => say!("\n{violation}\nthe like of it was seen {times} times"),
            }
        }
    }
}
