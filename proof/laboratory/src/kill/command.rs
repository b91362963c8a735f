//! `ondol crash --kill`.

use super::{KillError, Report, Setting, run};
use crate::CrashArgs;
use crate::command::{LaboratoryError, ended, say};
use crate::data_word;
use crate::signals::Signals;
use indicatif::{ProgressBar, ProgressStyle};
use ondol::{DataMode, FormatOptions};
use ondol_env::{Env, System};
use ondol_testkit::image;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

/// The system did not do its part: there is no FUSE, or no room.
const LACKING: u8 = 2;

/// Threads of the load unless told otherwise.
const THREADS: usize = 4;

/// Runs `rounds` of them. The exit code is 0 only if nothing breaks the contract, and 2 where nothing can be mounted.
pub(crate) fn kill(args: &CrashArgs, rounds: u64) -> Result<ExitCode, LaboratoryError> {
    let setting = setting(args, rounds).map_err(LaboratoryError)?;
    if image::missing(&["e2fsck"]).is_some() {
        eprintln!("ondol crash: e2fsck is not here: images are judged by our own recovery and check alone");
    }
    let signals = Signals::catch(false)?;
    let hidden = args.json || !std::io::stderr().is_terminal();
    let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(rounds) };
    let style = ProgressStyle::with_template("{spinner} {elapsed_precise} [{bar:30}] {pos}/{len} kills");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let started = System.monotonic_ns();
    let done = run(&setting, signals.asked(), &mut |round| bar.set_position(round));
    bar.finish_and_clear();
    let seconds = (System.monotonic_ns() - started) as f64 / 1e9;
    match done {
        Ok(report) => {
            show(args, &setting, &report, seconds);
            let is_lacking = report.violations.is_empty() && !report.lacks.is_empty() && signals.code().is_none();
            Ok(if is_lacking { ExitCode::from(LACKING) } else { ended(report.violations.len(), &signals) })
        }
        Err(e @ KillError::NoFuse(_)) => {
            eprintln!("ondol: crash --kill: {e}");
            Ok(ExitCode::from(LACKING))
        }
        Err(e) => Err(LaboratoryError(format!("crash --kill: {e}"))),
    }
}

fn setting(args: &CrashArgs, rounds: u64) -> Result<Setting, String> {
    let plant = args.defect()?;
    if plant.is_some() && !ondol_faults::AVAILABLE {
        return Err(format!("--plant: {}", ondol_faults::Unavailable));
    }
    let memory = Path::new("/dev/shm");
    let usual = || if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    Ok(Setting {
        program: ondol_skips::ondol(),
        dir: args.dir.clone().unwrap_or_else(usual),
        format: FormatOptions::new().size(args.image_size).block_size(4096),
        data: args.data.unwrap_or(DataMode::Journal),
        engine: args.engine.unwrap_or_default(),
        rounds,
        threads: args.processors.unwrap_or(THREADS).max(1),
        seed: args.seed,
        plant,
    })
}

fn show(args: &CrashArgs, setting: &Setting, report: &Report, seconds: f64) {
    if args.json {
        let json = serde_json::json!({
            "engine": setting.engine.name(),
            "data": data_word(setting.data),
            "rounds": report.rounds,
            "kills": report.kills,
            "threads": setting.threads,
            "image_size": args.image_size,
            "calls": report.calls,
            "syncs": report.syncs,
            "synced_files": report.synced_files,
            "e2fsck": report.replayed_by_e2fsck,
            "lacks": report.lacks,
            "violations": report.violations.len(),
            "found": report.violations,
            "seed": setting.seed,
            "seconds": seconds,
        });
        say!("{json}");
        return;
    }
    let (data, threads, dir) = (data_word(setting.data), setting.threads, setting.dir.display());
    say!(
        "kill -9 of the mount: engine {}, data={data}, seed {}, {threads} threads, in {dir}",
        setting.engine.name(),
        setting.seed
    );
    say!(
        "  rounds {}; kills {}; calls {}; syncs that returned {}",
        report.rounds,
        report.kills,
        report.calls,
        report.syncs
    );
    say!("  synced files found with their bytes: {}", report.synced_files);
    say!("  replayed and judged by e2fsck too: {}", report.replayed_by_e2fsck);
    report.lacks.iter().for_each(|lack| say!("  {lack}"));
    say!("  {seconds:.1} seconds");
    say!("  violations: {}", report.violations.len());
    report.violations.iter().for_each(|violation| say!("\n{violation}"));
}
