//! `ondol bench run`: rounds in which the targets take turns.

use crate::args::{RunArgs, Settle};
use crate::contents::Contents;
use crate::error::Context;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, commit};
use crate::measure::{self, Limit, Sample};
use crate::nvm;
use crate::report::{DAMAGED, Report, Turns, targets, terminal};
use crate::target::{self, Setting, Target};
use crate::workload::{self, Definition, Params, Plan, Workload};
use crate::{BenchError, counters::Device};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::{BlockStats, Counts};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A workload with everything decided.
struct Job {
    definition: &'static Definition,
    workload: Box<dyn Workload>,
    plan: Plan,
    limit: Limit,
    /// What counts at the end.
    settle: Option<Settle>,
    /// For the JSON.
    params: Map<String, Value>,
}

/// Runs the workload on the targets and writes what came out, also of a run that was interrupted after its first round.
pub(crate) fn run(args: &RunArgs) -> Result<(), BenchError> {
    let report = report(args)?;
    write(args, &report)?;
    if report.partial { Err(BenchError::Interrupted) } else { Ok(()) }
}

/// Runs the workload on the targets. An interrupted run is reported as far as it went in whole rounds, if there was
/// one.
pub(crate) fn report(args: &RunArgs) -> Result<Report, BenchError> {
    let job = job(args)?;
    let names = nvm::all_modelled(&args.on, args.nvm_model)?;
    let on = names.iter().map(|text| text.parse()).collect::<Result<Vec<Target>, _>>()?;
    on.iter().try_for_each(target::require_made)?;
    check_places(args)?;
    let footprint = job.workload.footprint(&job.plan);
    let setting = Setting {
        program: ondol_skips::ondol(),
        dir: args.dir.clone(),
        image_size: footprint.image_size(),
        footprint: footprint.stored(),
    };
    let interrupt = Interrupt::catch()?;
    let turns = rounds(&job, &on, args.rounds, &setting, &interrupt)?;
    let done = turns.last().map_or(0, |turns| turns.samples.len() as u32);
    let Job { definition, plan, params, .. } = job;
    Ok(Report {
        workload: definition.name,
        params,
        contents: plan.contents.payload(),
        machine: Machine::here(),
        commit: commit(),
        rounds: done,
        partial: done < args.rounds,
        targets: targets(&names, &turns),
    })
}

/// What to do, from the command line.
fn job(args: &RunArgs) -> Result<Job, BenchError> {
    let definition = workload::find(&args.workload)?;
    let params = Params::new(definition, &args.params)?;
    let workload = (definition.build)(&params)?;
    let threads = args.threads.unwrap_or(definition.threads);
    let time = match args.seconds {
        Some(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() => Some(time),
            _ => return Err(BenchError::Usage(format!("--seconds {seconds}: not a positive time"))),
        },
        None => None,
    };
    let total = if time.is_some() { definition.most_ops } else { args.ops.unwrap_or(definition.ops) };
    let ops = total.div_ceil(u64::from(threads));
    let mut shown = params.to_json();
    shown.insert("threads".into(), json!(threads));
    if let Some(model) = args.nvm_model {
        shown.insert("nvm_model".into(), json!(model));
    }
    if let Some(settle) = args.settle {
        shown.insert("settle".into(), json!(if settle == Settle::Sync { "sync" } else { "close" }));
    }
    match args.seconds {
        Some(seconds) => shown.insert("seconds".into(), json!(seconds)),
        None => shown.insert("ops".into(), json!(total)),
    };
    let seed = params.number("seed");
    let contents = Arc::new(Contents::new(args.ratio, seed, workload.longest()));
    let plan = Plan { threads, ops, seed, contents };
    Ok(Job { definition, workload, plan, limit: Limit { ops, time }, settle: args.settle, params: shown })
}

/// Finds out before the work, not after it, that the result could not be written.
fn check_places(args: &RunArgs) -> Result<(), BenchError> {
    if !args.dir.is_dir() {
        return Err(BenchError::Usage(format!("--dir {}: not a directory", args.dir.display())));
    }
    if let Some(file) = args.json.as_deref().filter(|file| *file != Path::new("-")) {
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
        if file.is_dir() || dir.is_some_and(|dir| !dir.is_dir()) {
            return Err(BenchError::Usage(format!("--json {}: cannot be written there", file.display())));
        }
    }
    Ok(())
}

/// Every target's turns, in the order of the targets: of all rounds, or of those before a signal, if any.
fn rounds(
    job: &Job,
    on: &[Target],
    rounds: u32,
    setting: &Setting,
    interrupt: &Interrupt,
) -> Result<Vec<Turns>, BenchError> {
    let mut turns = vec![Turns::default(); on.len()];
    let progress = Progress::new(u64::from(rounds) * on.len() as u64);
    for round in 1..=rounds {
        match job.one_round(on, round, setting, interrupt, &progress) {
            Ok(round) => {
                for (turns, (guarantee, sample, device)) in turns.iter_mut().zip(round) {
                    turns.promised(guarantee);
                    turns.samples.push((sample, device));
                }
            }
            Err(BenchError::Interrupted) if round > 1 => break,
            Err(e) => return Err(e),
        }
    }
    Ok(turns)
}

type Turn = (String, Sample, Device);

impl Job {
    /// A turn of every target.
    fn one_round(
        &self,
        on: &[Target],
        round: u32,
        setting: &Setting,
        interrupt: &Interrupt,
        progress: &Progress,
    ) -> Result<Vec<Turn>, BenchError> {
        let turns = on.iter().map(|target| {
            interrupt.check()?;
            progress.0.set_message(format!("round {round}: {}", target.text));
            let outcome = turn(self, target, setting, interrupt);
            progress.0.inc(1);
            // What fails after a signal fails by its doing, and what does not fail is cut short.
            interrupt.check().and(outcome)
        });
        turns.collect()
    }
}

/// A bar on a terminal, gone when the work is over or has failed.
struct Progress(ProgressBar);

impl Progress {
    fn new(turns: u64) -> Self {
        let bar = ProgressBar::new(turns);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// One turn of one target: made, worked on, taken away.
fn turn(job: &Job, target: &Target, setting: &Setting, interrupt: &Interrupt) -> Result<Turn, BenchError> {
    let session = target::open(target, setting, interrupt)?;
    let on = |what: &str| format!("{} on {}{what}", job.definition.name, target.text);
    let prepared = job.workload.prepare(session.fs.as_ref(), &job.plan).context(|| on(": preparing"))?;
    session.fs.sync().context(|| on(" (preparing)"))?;
    let (before, written) = (session.counters()?, session.device_counts());
    let nvm = session.nvm_counts();
    session.set_slow(true);
    let mut sample = measure::run(prepared.as_ref(), job.plan.threads, job.limit, interrupt).context(|| on(""))?;
    drop(prepared);
    if job.settle == Some(Settle::Sync) {
        let begin = Instant::now();
        session.fs.sync().context(|| on(" (settling)"))?;
        sample.elapsed += begin.elapsed();
    }
    let mut device = session.counters()?.since(before);
    device.arm_bytes = session.device_counts().zip(written).and_then(|(now, before)| now.since(before).way);
    let mut guarantee = session.guarantee.clone();
    if job.settle != Some(Settle::Close) {
        session.set_slow(false);
    }
    let begin = Instant::now();
    let (ended, closed) = session.close();
    if job.settle == Some(Settle::Close) {
        sample.elapsed += begin.elapsed();
        // The last writes come after the last look at a volume's own counters.
        if let Some((now, before)) = closed.device_counts().zip(written) {
            let done = now.since(before);
            let known = device.device.unwrap_or_default();
            device.device = Some(BlockStats { written_bytes: done.bytes, flushes: done.flushes, ..known });
            device.arm_bytes = done.way;
        }
        if let Some((counts, before)) = closed.nvm_counts().zip(nvm) {
            device.nvm = Some(counts.since(&before));
        }
    }
    ended?;
    if let Some(damage) = closed.damage()? {
        eprintln!("ondol bench: {}: {damage}", target.text);
        guarantee = format!("{guarantee}; {DAMAGED}{damage}");
    }
    closed.remove()?;
    Ok((guarantee, sample, device))
}

fn write(args: &RunArgs, report: &Report) -> Result<(), BenchError> {
    let mut json = serde_json::to_string_pretty(report).map_err(io::Error::from).context(|| "JSON")?;
    json.push('\n');
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let shown = if to_stdout { json.clone() } else { terminal(report) };
    io::stdout().lock().write_all(shown.as_bytes()).context(|| "standard output")?;
    let file = args.json.as_deref().filter(|_| !to_stdout);
    file.map_or(Ok(()), |file| std::fs::write(file, &json).context(|| file.display().to_string()))
}
