//! `ondol`: makes, mounts, checks and measures volumes.
//!
//! Every command answers with exit codes of its model: mount(8), fsck(8), mke2fs(8). An error is one line on standard error:
//! what, where, and what to do.
#![forbid(unsafe_code)]

mod args;
mod background;
mod failure;
mod image;
mod info;
mod log;
mod mount;
mod pool;
mod size;

use args::{Arguments, Command};
use clap::Parser;
use clap::error::ErrorKind;
use failure::{FAILED, Failure, Outcome, USAGE};
use std::process::ExitCode;

/// A commit allocates and frees a block-sized image for every block it seals: the system's allocator takes a quarter of an
/// fsync's time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => return usage(&e),
    };
    match run(arguments.command) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("ondol: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Mkfs(args) => image::mkfs(&args),
        Command::Mount(args) => mount::mount(&args),
        Command::Umount(args) => mount::umount(&args),
        Command::Sync(args) => mount::sync(&args),
        Command::Check(args) => image::check(&args),
        Command::Recover(args) => image::recover(&args),
        Command::Info(args) => info::info(&args),
        Command::Bench(args) => ondol_bench::main(args).map_err(Failure::with(FAILED)),
        Command::Tune(args) => not_built("tune", args),
        Command::Export(args) => not_built("export", args),
        Command::Pool(command) => pool::pool(&command),
        Command::Run(args) => not_built("run", args),
        Command::Crash(args) => ondol_laboratory::main(args).map_err(Failure::with(FAILED)),
    }
}

fn not_built(name: &str, _: args::Ignored) -> Outcome {
    Err(Failure::new(USAGE, format!("`ondol {name}` is not built yet")))
}

/// Help and version are no errors; a wrong command line has the usage code of the command's model.
fn usage(e: &clap::Error) -> ExitCode {
    let help = e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !e.use_stderr() {
        // Nothing is left to do where even this cannot be written.
        let _ = e.print();
        return if help { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
    }
    let text = e.to_string();
    let what = ["\n\nUsage:", "\n\nFor more information"]
        .iter()
        .fold(&*text, |text, end| text.split(end).next().unwrap_or(text));
    let what = what.trim_start_matches("error: ");
    let what: Vec<&str> = what.split_whitespace().collect();
    eprintln!("ondol: {} (`ondol COMMAND --help` says more)", what.join(" "));
    let check = std::env::args_os().nth(1).is_some_and(|command| command == "check");
    ExitCode::from(if check { failure::CHECK_USAGE } else { USAGE })
}
