//! `ondol crash`.

use crate::CrashArgs;
use crate::explore::{CasePath, Limits, Violation, Watch};
use crate::hunt::{Budget, Found, hunt, hunt_pool, replay_pool};
use crate::plants::{self, Planted};
use crate::signals::Signals;
use crate::workload::{self, Others, Workload};
use crate::{Prey, data_word};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::{DataMode, JournalEngine};
use ondol_env::plant::Defect;
use ondol_env::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ondol_env::{Env, System};
use ondol_medium::{Domain, DomainError};
use ondol_power::Sampling;
use ondol_testkit::image;
use ondol_testkit::op::text;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::time::Duration;

/// As `println!`, but whoever reads may go away.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _gone = writeln!(std::io::stdout(), $($text)*);
    }};
}
pub(crate) use say;

/// Why nothing could be tried, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaboratoryError(pub(crate) String);

/// Something was found that breaks the contract.
pub(crate) const FOUND: u8 = 1;

/// Spent when nothing else ends a hunt.
const SECONDS: u64 = 60;

/// Runs `ondol crash`. The exit code is 0 only if nothing that was tried breaks the contract.
///
/// # Errors
/// Names that do not exist, workloads that cannot be read.
pub fn main(args: CrashArgs) -> Result<ExitCode, LaboratoryError> {
    if args.plant.as_deref() == Some("list") {
        Defect::ALL.iter().for_each(|defect| say!("{defect:30} {}", defect.what()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(rounds) = args.kill {
        return crate::kill::command::kill(&args, rounds);
    }
    let limits = Limits {
        depth: args.depth,
        recrash_every: if args.depth == 0 { 0 } else { Limits::default().recrash_every },
        second_opinion_every: args.fsck_every,
        sampling: Sampling { seed: args.seed, ..Sampling::default() },
        ..Limits::default()
    };
    let plant = args.defect().map_err(LaboratoryError)?;
    if plant.is_some() {
        drop(ondol_env::plant::set(plant).map_err(|e| LaboratoryError(format!("--plant: {e}")))?);
    }
    let shows = planted(args.engine).find(|p| Some(p.defect) == plant).map(|p| p.data);
    let data = args.data.or(shows).unwrap_or(DataMode::Journal);
    let prey = Prey { engine: args.engine, data, plant, seed: args.seed, limits };
    match &args.case {
        Some(case) => replay(&args, &prey, case),
        None => explore(&args, &prey),
    }
    .map_err(LaboratoryError)
}

/// What shows the defects of an engine.
fn planted(engine: JournalEngine) -> impl Iterator<Item = &'static Planted> {
    let all = [plants::CLASSIC, plants::COMPRESSED].into_iter().flatten();
    all.filter(move |planted| planted.engine == engine)
}

fn replay(args: &CrashArgs, prey: &Prey, case: &str) -> Result<ExitCode, String> {
    let path: CasePath = case.parse().map_err(|e| format!("--case: {e}"))?;
    let found = match pool_domain(args)? {
        Some(domain) => replay_pool(prey, domain, &path),
        None => {
            let needs = "--case needs --calls or --workload FILE: the run that it is a state of";
            prey.replay(&single(args)?.ok_or(needs)?, &path)
        }
    };
    match found.map_err(|e| format!("--case: {e}"))? {
        Some(violation) => {
            say!("{violation}");
            Ok(ExitCode::from(FOUND))
        }
        None => {
            say!("crash state {path}: recovered as the contract says");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The memory of `--workload pool`.
fn pool_domain(args: &CrashArgs) -> Result<Option<Domain>, String> {
    let is_pool = args.workload.as_deref() == Some("pool");
    is_pool.then(|| args.domain.parse().map_err(|e: DomainError| e.to_string())).transpose()
}

/// The one workload of `--calls` or of a file.
fn single(args: &CrashArgs) -> Result<Option<Workload>, String> {
    let (name, lines) = match (args.calls.first(), args.workload.as_deref()) {
        (Some(calls), _) => ("--calls".to_owned(), calls.clone()),
        (None, None | Some("exhaustive-1" | "exhaustive-2" | "random" | "threads")) => return Ok(None),
        (None, Some("-")) => {
            let mut lines = String::new();
            std::io::stdin().read_to_string(&mut lines).map_err(|e| format!("standard input: {e}"))?;
            ("standard input".to_owned(), lines)
        }
        (None, Some(file)) => {
            let words = "a workload is exhaustive-1, exhaustive-2, random, threads, pool, or a file";
            (file.to_owned(), std::fs::read_to_string(file).map_err(|e| format!("{file}: {e} ({words})"))?)
        }
    };
    let mut workload = workload::from_text(&name, &lines, args.image).map_err(|e| format!("{name}: {e}"))?;
    workload.before = text::parse(&args.before).map_err(|e| format!("--before: {e}"))?;
    workload.remount = args.remount;
    if args.calls.len() > 1 {
        let calls = args.calls[1..].iter().map(|calls| text::parse(calls).map_err(|e| format!("--calls: {e}")));
        let (schedule, background) = (args.schedule, args.background);
        workload.others = Some(Others { calls: calls.collect::<Result<_, _>>()?, schedule, background });
    }
    Ok(Some(workload))
}

fn workloads(args: &CrashArgs, prey: &Prey) -> Result<Box<dyn Iterator<Item = Workload> + Send>, String> {
    let shows = planted(prey.engine).find(|p| Some(p.defect) == prey.plant && p.data == prey.data);
    let random = workload::random(args.seed);
    Ok(match (single(args)?, args.workload.as_deref()) {
        (Some(workload), _) => Box::new(std::iter::once(workload)),
        (None, Some("exhaustive-1")) => Box::new(workload::exhaustive_1()),
        (None, Some("exhaustive-2")) => Box::new(workload::exhaustive_2()),
        (None, Some("threads")) => Box::new(workload::threads(args.seed)),
        (None, Some(_)) => Box::new(random),
        (None, None) => {
            let shows = shows.map(Planted::workload).transpose().map_err(|e| e.to_string())?;
            let endless = random.zip(workload::threads(args.seed)).flat_map(|(one, several)| [one, several]);
            Box::new(shows.into_iter().chain(workload::exhaustive_1()).chain(workload::exhaustive_2()).chain(endless))
        }
    })
}

fn explore(args: &CrashArgs, prey: &Prey) -> Result<ExitCode, String> {
    if args.fsck_every > 0 && image::missing(&["e2fsck"]).is_some() {
        eprintln!("ondol crash: e2fsck is not here: states are judged by our own check and the model alone");
    }
    let endless = matches!(args.workload.as_deref(), None | Some("random" | "threads")) && args.calls.is_empty();
    let seconds = args.seconds.or((endless && args.states.is_none()).then_some(SECONDS));
    let threads = args.processors.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let budget = Budget { states: args.states, threads };
    let watch = Watch::default();
    let signals = Signals::catch(true).map_err(|e| e.to_string())?;
    let started = System.monotonic_ns();
    let over = AtomicBool::new(false);
    let (found, elapsed) = std::thread::scope(|scope| {
        scope.spawn(|| show(&watch, &over, args, seconds, started, &signals));
        let found = match pool_domain(args) {
            Ok(Some(domain)) => hunt_pool(prey, domain, &watch),
            Ok(None) => workloads(args, prey).and_then(|workloads| hunt(prey, workloads, budget, &watch)),
            Err(what) => Err(what),
        };
        let elapsed = (System.monotonic_ns() - started) as f64 / 1e9;
        over.store(true, Relaxed);
        found.map(|found| (found, elapsed))
    })?;
    if signals.code().is_some() {
        eprintln!("ondol crash: interrupted; this was tried until then");
    }
    report(args, prey, &found, elapsed);
    Ok(ended(found.report.violations.len(), &signals))
}

/// 0 only if everything that was asked for was tried and nothing found.
pub(crate) fn ended(violations: usize, signals: &Signals) -> ExitCode {
    match signals.code() {
        _ if violations > 0 => ExitCode::from(FOUND),
        Some(code) => ExitCode::from(code),
        None => ExitCode::SUCCESS,
    }
}

/// Shows how far it is, and ends it when its time is over.
fn show(watch: &Watch, over: &AtomicBool, args: &CrashArgs, seconds: Option<u64>, started: u64, signals: &Signals) {
    let bar = match (args.states, seconds) {
        _ if !std::io::stderr().is_terminal() || args.json => ProgressBar::hidden(),
        (Some(states), _) => ProgressBar::new(states),
        (None, Some(seconds)) => ProgressBar::new(seconds * 1000),
        (None, None) => ProgressBar::new_spinner(),
    };
    let style = "{spinner} {elapsed_precise} [{bar:30}] {msg}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    while !over.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        let elapsed = (System.monotonic_ns() - started) / 1_000_000;
        let states = watch.distinct.load(Relaxed);
        bar.set_position(if args.states.is_some() { states } else { elapsed });
        bar.set_message(match watch.shrinking.load(Relaxed) {
            true => "a violation is found and made small (^C leaves it as it is)".into(),
            false => format!("{states} states, {} a second", states * 1000 / elapsed.max(1)),
        });
        if signals.asked().load(Relaxed) {
            watch.stop.store(true, Relaxed);
            watch.hurry.store(true, Relaxed);
        }
        if seconds.is_some_and(|s| elapsed >= s * 1000) {
            watch.stop.store(true, Relaxed);
        }
    }
    bar.finish_and_clear();
}

fn report(args: &CrashArgs, prey: &Prey, found: &Found, elapsed: f64) {
    let Found { report, distinct, workloads } = found;
    if args.json {
        let violations: Vec<String> = report.violations.iter().map(Violation::to_string).collect();
        let is_pool = args.workload.as_deref() == Some("pool");
        let json = serde_json::json!({
            "engine": (!is_pool).then_some(args.engine.name()),
            "data": (!is_pool).then(|| data_word(prey.data)),
            "domain": is_pool.then_some(&args.domain),
            "workload": args.workload.as_deref().unwrap_or(if !args.calls.is_empty() { "calls" } else { "all" }),
            "plant": args.plant,
            "states": report.states,
            "distinct": distinct,
            "recovered": report.distinct,
            "crashed_recoveries": report.nested,
            "judged": report.judged,
            "e2fsck": report.second_opinions,
            "workloads": workloads,
            "crash_points": report.crash_points,
            "crash_points_exhausted": report.exhausted,
            "reach": (!is_pool).then(|| report.reach.json(args.engine)),
            "violations": report.violations.len(),
            "found": violations,
            "seed": args.seed,
            "seconds": elapsed,
            "states_per_second": report.distinct as f64 / elapsed.max(1e-9),
        });
        say!("{json}");
        return;
    }
    match args.workload.as_deref() {
        Some("pool") => say!("an NVM pool in domain {}, seed {}", args.domain, args.seed),
        _ => {
            say!(
                "engine {}, data={}, seed {}: {workloads} workloads",
                args.engine.name(),
                data_word(prey.data),
                args.seed
            )
        }
    }
    say!(
        "  crash points {}; of {} every combination of what may survive was built (if many, without torn writes), of the others a sample",
        report.crash_points,
        report.exhausted
    );
    say!("  states {}; distinct {distinct}; recovered {}", report.states, report.distinct);
    say!("  of these {} in recoveries that were crashed again, to depth {}", report.nested, args.depth);
    say!("  different recovered volumes, each checked, read and compared: {}", report.judged);
    say!("  judged by e2fsck too: {}", report.second_opinions);
    say!("  {:.1} seconds, {:.0} states a second", elapsed, report.distinct as f64 / elapsed.max(1e-9));
    if args.workload.as_deref() != Some("pool") {
        say!("{}", report.reach.told(args.engine));
    }
    say!("  violations: {}", report.violations.len());
    report.violations.iter().for_each(|violation| say!("\n{violation}"));
}
