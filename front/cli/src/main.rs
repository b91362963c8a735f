//! `ondol`: makes, mounts, checks and measures volumes. Under other names it is the helper of mount(8), umount(8), fsck(8) and
//! mkfs(8).
//!
//! Every command answers with exit codes of its model; `docs/commands.md` lists them. An error is one line on standard error:
//! what, where, and what to do.
#![forbid(unsafe_code)]

mod args;
mod background;
mod called;
mod check;
mod failure;
mod image;
mod info;
mod log;
mod manual;
mod mount;
mod options;
mod passed;
mod pool;
mod remount;
mod size;
mod umount;

use args::{Arguments, Command};
use called::Called;
use clap::Parser;
use clap::error::ErrorKind;
use failure::{FAILED, Failure, Outcome, USAGE};
use std::process::ExitCode;

/// A commit allocates and frees a block-sized image for every block it seals: the system's allocator takes a quarter of an
/// fsync's time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let called = Called::by(std::env::args_os().next().as_deref());
    let outcome = match called {
        Called::Ondol => parsed(called, |arguments: Arguments| run(arguments.command)),
        Called::Mount => parsed(called, |args: args::MountHelper| mount::helper(&args)),
        Called::Umount => parsed(called, |args: args::UmountHelper| umount::helper(&args)),
        Called::Fsck => parsed(called, |args: args::Fsck| check::helper(&args)),
        Called::Mkfs => parsed(called, |args: args::MkfsHelper| image::mkfs(&args.mkfs)),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{}: {}", called.name(), failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn parsed<A: Parser>(called: Called, run: impl FnOnce(A) -> Outcome) -> Outcome {
    match A::try_parse() {
        Ok(arguments) => run(arguments),
        Err(e) => usage(called, &e),
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Mkfs(args) => image::mkfs(&args),
        Command::Mount(args) => mount::mount(&args),
        Command::Umount(args) => umount::umount(&args),
        Command::Sync(args) => umount::sync(&args),
        Command::Check(args) => check::check(&args),
        Command::Recover(args) => image::recover(&args),
        Command::Info(args) => info::info(&args),
        Command::Bench(args) => ondol_bench::main(args).map_err(Failure::with(FAILED)),
        Command::Tune(args) => image::tune(&args),
        Command::Export(args) => not_built("export", args),
        Command::Pool(command) => pool::pool(&command),
        Command::Run(args) => not_built("run", args),
        Command::Crash(args) => ondol_laboratory::main(args).map_err(Failure::with(USAGE)),
        Command::Completions(args) => manual::completions(&args),
        Command::Manual(args) => manual::pages(&args),
    }
}

fn not_built(name: &str, _: args::Ignored) -> Outcome {
    Err(Failure::new(USAGE, format!("`ondol {name}` is not built yet")))
}

/// Help and version are no errors; a wrong command line has the usage code of the command's model.
fn usage(called: Called, e: &clap::Error) -> Outcome {
    let help = e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !e.use_stderr() {
        // Nothing is left to do where even this cannot be written.
        let _ = e.print();
        return Ok(if help { ExitCode::from(USAGE) } else { ExitCode::SUCCESS });
    }
    let text = e.to_string();
    let what = ["\n\nUsage:", "\n\nFor more information"]
        .iter()
        .fold(&*text, |text, end| text.split(end).next().unwrap_or(text));
    let what = what.trim_start_matches("error: ");
    let what: Vec<&str> = what.split_whitespace().collect();
    let command = if called == Called::Ondol { "ondol COMMAND" } else { called.name() };
    Err(Failure::new(usage_code(called), format!("{} (`{command} --help` says more)", what.join(" "))))
}

fn usage_code(called: Called) -> u8 {
    let command = std::env::args_os().nth(1).unwrap_or_default();
    match (called, command.to_str()) {
        (Called::Mount | Called::Umount, _) | (Called::Ondol, Some("mount" | "umount")) => failure::MOUNT_USAGE,
        (Called::Fsck, _) | (Called::Ondol, Some("check")) => failure::CHECK_USAGE,
        _ => USAGE,
    }
}
