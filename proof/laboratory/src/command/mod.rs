//! `ondol crash`.

mod show;
mod store;

use crate::CrashArgs;
use crate::explore::{CasePath, Limits};
use crate::faults::Faults;
use crate::hunt::{Budget, Members, Part, Phase, hunt, hunt_part, hunt_pool, hunt_tools, replay_pool, replay_tools};
use crate::image::Kind;
use crate::signals::Signals;
use crate::tools::Family;
use crate::workload::{self, Others, Schedules, Workload};
use crate::{Prey, Replayed};
use ondol::{DataMode, Durable, JournalEngine};
use ondol_faults::Defect;
use ondol_medium::{Domain, DomainError};
use ondol_power::Sampling;
use ondol_testkit::image;
use ondol_testkit::op::text;
use show::{Show, Sum};
use std::io::Read;
use std::process::ExitCode;

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

/// Spent on each engine when nothing else ends a hunt.
const SECONDS: u64 = 60;

/// Runs `ondol crash`. The exit code is 0 only if nothing that was tried breaks the contract.
///
/// # Errors
/// Names that do not exist, workloads that cannot be read.
pub fn main(args: CrashArgs) -> Result<ExitCode, LaboratoryError> {
    if args.plant.as_deref() == Some("list") {
        Defect::ALL.iter().for_each(|defect| say!("{:28} {:10} {}", defect.name(), defect.subject(), defect.what()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(rounds) = args.kill {
        return crate::kill::command::kill(&args, rounds);
    }
    let limits = Limits {
        depth: args.depth,
        recrash_every: if args.depth == 0 { 0 } else { Limits::default().recrash_every },
        second_opinion_every: args.fsck_every,
        kernel_every: 10 * args.fsck_every,
        sampling: Sampling { seed: args.seed, ..Sampling::default() },
        ..Limits::default()
    };
    let plant = args.defect().map_err(LaboratoryError)?;
    if plant.is_some() {
        drop(ondol_faults::set(plant).map_err(|e| LaboratoryError(format!("--plant: {e}")))?);
    }
    let turns = if is_one_run(&args) { Domain::Adr } else { Domain::Auto };
    let domain = domain(&args).map_err(LaboratoryError)?.unwrap_or(turns);
    let prey = |engine, data| {
        let fault = args.fault.map(Faults::One);
        Prey { engine, data, plant, seed: args.seed, limits, fault, domain, store: None }
    };
    match &args.case {
        Some(case) => {
            let (engine, data) = (args.engine.unwrap_or_default(), args.data.unwrap_or(DataMode::Journal));
            replay(&args, &prey(engine, data), case)
        }
        None => explore(&args, &prey),
    }
    .map_err(LaboratoryError)
}

fn replay(args: &CrashArgs, prey: &Prey, case: &str) -> Result<ExitCode, String> {
    let path: CasePath = case.parse().map_err(|e| format!("--case: {e}"))?;
    part(args)?;
    let found = match (pool_domains(args)?, tools(args)?) {
        (Some(domains), _) => replay_pool(prey, domains[0], &path),
        (None, Some((family, names))) => match &names[..] {
            [name] => replay_tools(prey, family, name, &path),
            _ => return Err(format!("--case needs what it is a state of: --workload {}:NAME", family.word())),
        },
        (None, None) => {
            let needs = "--case needs --calls or --workload FILE: the run that it is a state of";
            prey.replay(&single(args)?.ok_or(needs)?, &path)
        }
    };
    let (violation, was_here) = match found.map_err(|e| format!("--case: {e}"))? {
        Replayed::Seen(violation) => (violation, true),
        Replayed::Elsewhere(violation) => (violation, false),
        Replayed::Gone => {
            say!(
                "crash state {path}: not found any more; no other state of these calls that was tried breaks the \
                 contract"
            );
            return Ok(ExitCode::SUCCESS);
        }
    };
    if !was_here {
        say!("crash state {path}: not found any more, but another one of these calls:");
    }
    say!("{violation}");
    Ok(ExitCode::from(FOUND))
}

/// The memory of `--workload pool`: that which is said, or each.
fn pool_domains(args: &CrashArgs) -> Result<Option<Vec<Domain>>, String> {
    if args.workload.as_deref() != Some("pool") {
        return Ok(None);
    }
    require_heard(args, "pool")?;
    Ok(Some(domain(args)?.map_or(DOMAINS.to_vec(), |one| vec![one])))
}

/// What is no volume, of `--workload run` and its like.
fn part(args: &CrashArgs) -> Result<Option<Part>, String> {
    let part = Part::ALL.into_iter().find(|part| args.workload.as_deref() == Some(part.name()));
    part.map_or(Ok(()), |part| require_heard(args, part.name()))?;
    Ok(part)
}

/// Refuses what would be said in vain: a pool's life, and what tools do, are what they are. One processor tries them.
fn require_heard(args: &CrashArgs, workload: &str) -> Result<(), String> {
    let is_part = Part::ALL.into_iter().any(|part| part.name() == workload);
    let is_of_tools = Family::ALL.into_iter().any(|family| family.word() == workload);
    let said = [
        ("--engine", args.engine.is_some()),
        ("--data", args.data.is_some()),
        ("--image", args.image.is_some()),
        ("--mount", args.mount.is_some()),
        ("--case", args.case.is_some() && is_part),
        ("--processors", args.processors.is_some() && !is_part),
        ("--processor-seconds", args.processor_seconds.is_some() && !is_part && !is_of_tools),
        ("--fault", args.fault.is_some()),
        ("--schedule", args.schedule.is_some()),
        ("--background", args.background.is_some()),
        ("--lead", args.lead != 0),
        ("--before", !args.before.is_empty()),
        ("--remount", args.remount),
    ];
    match said.into_iter().find(|(_, is_said)| *is_said) {
        Some((option, _)) => Err(format!("{option} says nothing to --workload {workload}: leave it out")),
        None => Ok(()),
    }
}

/// Some of a family.
type Tools = (Family, Vec<String>);

/// Those of `--workload resize` and `--workload tools`, and one of `--workload tools:NAME`.
fn tools(args: &CrashArgs) -> Result<Option<Tools>, String> {
    let Some((word, name)) =
        args.workload.as_deref().map(|text| text.split_once(':').map_or((text, None), |(w, n)| (w, Some(n))))
    else {
        return Ok(None);
    };
    let Some(family) = Family::ALL.into_iter().find(|family| family.word() == word) else { return Ok(None) };
    require_heard(args, word)?;
    let names = family.names();
    let found: Vec<String> = names.iter().filter(|one| name.is_none_or(|name| name == *one)).cloned().collect();
    if found.is_empty() {
        return Err(format!("no such {word}: {} (one of {})", name.unwrap_or_default(), names.join(", ")));
    }
    Ok(Some((family, found)))
}

/// The memory of pools, if it is said.
fn domain(args: &CrashArgs) -> Result<Option<Domain>, String> {
    args.domain.as_ref().map(|name| name.parse()).transpose().map_err(|e: DomainError| e.to_string())
}

/// Whether one workload is asked for, of which a violation is told as it was given.
fn is_one_run(args: &CrashArgs) -> bool {
    let is_hunt =
        matches!(args.workload.as_deref(), None | Some("exhaustive-1" | "exhaustive-2" | "random" | "threads"));
    args.case.is_some() || !args.calls.is_empty() || !is_hunt
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
            let words = "a workload is exhaustive-1, exhaustive-2, random, threads, pool, resize, tools, run, \
                         buffer, log, table, or a file";
            (file.to_owned(), std::fs::read_to_string(file).map_err(|e| format!("{file}: {e} ({words})"))?)
        }
    };
    let mut workload =
        workload::from_text(&name, &lines, args.image.unwrap_or(Kind::Small)).map_err(|e| format!("{name}: {e}"))?;
    workload.before = text::parse(&args.before).map_err(|e| format!("--before: {e}"))?;
    (workload.remount, workload.mount) = (args.remount, args.mount.unwrap_or_default());
    if args.calls.len() > 1 {
        let calls = args.calls[1..].iter().map(|calls| text::parse(calls).map_err(|e| format!("--calls: {e}")));
        let many = Schedules::Search { seed: args.seed, count: SCHEDULES };
        let schedules = args.schedule.map_or(many, Schedules::One);
        let calls = calls.collect::<Result<_, _>>()?;
        workload.others = Some(Others { calls, schedules, background: args.background, lead: args.lead });
    }
    Ok(Some(workload))
}

/// What is hunted through on one engine, in each of so many data modes.
fn phases(args: &CrashArgs, engine: JournalEngine, modes: usize) -> Result<Vec<Phase<'static>>, String> {
    let seed = args.seed;
    if let Some(workload) = single(args)? {
        return Ok(vec![Phase::in_modes("calls", modes, move || Box::new(std::iter::once(workload.clone())))]);
    }
    let phases = match args.workload.as_deref() {
        Some("exhaustive-1") => {
            vec![Phase::in_modes("single calls", modes, || Box::new(workload::exhaustive_1()))]
        }
        Some("exhaustive-2") => vec![Phase::in_modes("pairs", modes, || Box::new(workload::exhaustive_2()))],
        Some("threads") => vec![Phase::endless("threads", 1, move |_| Box::new(workload::threads(seed)))],
        Some(_) => vec![Phase::endless("random", 1, move |_| Box::new(workload::random(seed)))],
        None if args.store.is_some() => Phase::in_store(seed),
        None => Phase::all(engine, seed),
    };
    let is_one = args.store.is_some();
    let phases = phases.into_iter().map(|phase| if is_one { phase.of_one_thread() } else { phase });
    Ok(phases.map(|phase| phase.on(args.image, args.mount)).collect())
}

/// What is hunted after each other.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Quarry {
    Engine(JournalEngine),
    Store(Durable),
    Pool(Domain),
    Tools(Tools),
    Part(Part),
}

/// Unless it is said otherwise all there is: the life of a pool and some states of what each tool does take a few
/// seconds.
fn quarries(args: &CrashArgs) -> Result<Vec<Quarry>, String> {
    let engines = |engines: &[JournalEngine]| engines.iter().copied().map(Quarry::Engine).collect();
    let is_of_volumes = args.workload.is_some() || !args.calls.is_empty() || args.data.is_some();
    if let Some(durable) = store::wanted(args)? {
        return Ok(vec![Quarry::Store(durable)]);
    }
    if let Some(tools) = tools(args)? {
        return Ok(vec![Quarry::Tools(tools)]);
    }
    if let Some(part) = part(args)? {
        return Ok(vec![Quarry::Part(part)]);
    }
    Ok(match (pool_domains(args)?, args.engine) {
        (Some(domains), _) => domains.into_iter().map(Quarry::Pool).collect(),
        (None, Some(engine)) => engines(&[engine]),
        (None, None) if is_of_volumes || args.image.is_some() || args.mount.is_some() => engines(&JournalEngine::ALL),
        (None, None) => {
            let volumes: Vec<Quarry> = engines(&JournalEngine::ALL);
            let is_here = image::missing(&["mke2fs"]).is_none();
            if !is_here {
                eprintln!(
                    "ondol crash: mke2fs is not here, which makes the volumes of `--workload resize` and `tools`: \
                     neither is tried"
                );
            }
            let tools =
                Family::ALL.into_iter().filter(|_| is_here).map(|family| Quarry::Tools((family, family.names())));
            let parts = Part::ALL.map(Quarry::Part);
            let pools = DOMAINS.map(Quarry::Pool);
            pools.into_iter().chain(tools).chain(parts).chain(volumes).collect()
        }
    })
}

/// Persistence domains that differ in what a crash leaves, or in what is done for it.
const DOMAINS: [Domain; 3] = [Domain::Adr, Domain::Eadr, Domain::Msync];

/// States of what each tool does, about, where nobody asks for a single one.
const OF_A_TOOL: u64 = 200;

/// Interleavings of several `--calls`.
const SCHEDULES: u32 = 300;

/// Data modes of a hunt; mounts default to the first.
const MODES: [DataMode; 3] = [DataMode::Ordered, DataMode::Journal, DataMode::Writeback];

fn explore(args: &CrashArgs, prey: &dyn Fn(JournalEngine, DataMode) -> Prey) -> Result<ExitCode, String> {
    if args.fsck_every > 0 && image::missing(&["e2fsck"]).is_some() {
        eprintln!("ondol crash: e2fsck is not here: states are judged by our own check and the model alone");
    }
    let signals = Signals::catch(true).map_err(|e| e.to_string())?;
    let modes = args.data.map_or(MODES.to_vec(), |data| vec![data]);
    let is_part = part(args)?.is_some();
    let endless =
        (is_part || matches!(args.workload.as_deref(), None | Some("random" | "threads"))) && args.calls.is_empty();
    let is_bound = args.states.is_some() || args.processor_seconds.is_some();
    let seconds = args.seconds.or((endless && !is_bound).then_some(SECONDS));
    let threads = args.processors.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let default = if args.plant.is_some() { 1 } else { DIFFERENT };
    let violations = args.violations.and_then(|most| usize::try_from(most).ok()).unwrap_or(default);
    let (processor_seconds, shrinks) = (args.processor_seconds, !args.as_found);
    let budget = Budget { states: args.states, threads, processor_seconds, violations, shrinks };
    let mut sum = Sum::default();
    for quarry in quarries(args)? {
        let show = Show::new(args, quarry.clone(), seconds, &signals);
        let found = show.during(|watch| match &quarry {
            Quarry::Pool(domain) => hunt_pool(&prey(JournalEngine::default(), modes[0]), *domain, watch),
            Quarry::Tools((family, names)) => {
                let mut prey = prey(JournalEngine::default(), modes[0]);
                prey.limits.about = (names.len() > 1).then_some(OF_A_TOOL);
                // Unless it is asked for, each has its turn once.
                let is_endless = args.workload.is_some() && (is_bound || args.seconds.is_some());
                hunt_tools(&prey, Members { family: *family, names }, budget, is_endless, watch)
            }
            Quarry::Part(part) => hunt_part(&prey(JournalEngine::default(), modes[0]), *part, budget, watch),
            Quarry::Store(durable) => {
                let engine = JournalEngine::Batch;
                let preys: Vec<Prey> =
                    modes.iter().map(|data| Prey { store: Some(*durable), ..prey(engine, *data) }).collect();
                // With other calls the database does something else: what is left out may not have been needed.
                hunt(&preys, phases(args, engine, modes.len())?, Budget { shrinks: false, ..budget }, watch)
            }
            Quarry::Engine(engine) => {
                let preys: Vec<Prey> = modes.iter().map(|data| prey(*engine, *data)).collect();
                hunt(&preys, phases(args, *engine, modes.len())?, budget, watch)
            }
        })?;
        show.report(&found);
        sum.add(found);
        let stops = signals.code().is_some() || (args.plant.is_some() && !sum.report.violations.is_empty());
        if stops {
            break;
        }
    }
    if signals.code().is_some() {
        eprintln!("ondol crash: interrupted; this was tried until then");
    }
    if !args.json {
        sum.print();
    }
    Ok(ended(sum.report.violations.len(), &signals))
}

/// After so many different violations there is enough to do.
const DIFFERENT: usize = 8;

/// 0 only if everything that was asked for was tried and nothing found.
pub(crate) fn ended(violations: usize, signals: &Signals) -> ExitCode {
    match signals.code() {
        _ if violations > 0 => ExitCode::from(FOUND),
        Some(code) => ExitCode::from(code),
        None => ExitCode::SUCCESS,
    }
}
