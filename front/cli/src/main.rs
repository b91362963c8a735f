//! `ondol`: makes, mounts and checks volumes. Under other names it is the helper of mount(8), umount(8), fsck(8) and
//! mkfs(8), or stands in for fuse2fs.
//!
//! Every command answers with exit codes of its model; `docs/commands.md` lists them. An error is one line on standard
//! error: what, where, and what to do.
#![forbid(unsafe_code)]

mod advice;
mod args;
mod background;
mod bounded;
mod called;
mod check;
#[cfg(test)]
mod documented;
mod exchange;
mod failure;
#[path = "../../preload/src/fits.rs"]
mod fits;
mod further;
mod fuse2fs;
mod image;
mod info;
mod lab;
mod log;
mod manual;
mod metrics;
mod mount;
mod options;
mod passed;
mod pool;
mod progress;
mod remount;
mod resize;
mod run;
mod say;
mod size;
mod snapshot;
mod tools;
mod top;
mod umount;

use args::{Arguments, Command};
use called::Called;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use failure::{FAILED, Failure, MOUNT_USAGE, Outcome, USAGE};
use signal_hook::consts::SIGXFSZ;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// A commit allocates and frees a block-sized image for every block it seals: the system's allocator takes a quarter of
/// an fsync's time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Where it has started itself anew, the kernel would call it `exe`. Nothing depends on the name's being taken.
    let _ = rustix::thread::set_name(c"ondol");
    let called = Called::by(std::env::args_os().next().as_deref());
    // A write beyond the caller's `ulimit -f` ends a process that does not listen. Here it fails with EFBIG, as any
    // write may.
    if let Err(e) = signal_hook::flag::register(SIGXFSZ, Arc::default()) {
        eprintln!("{}: a write beyond `ulimit -f` would end this process: {e}", called.name());
    }
    let outcome = match called {
        Called::Ondol => parsed(called, |arguments: Arguments| run(arguments)),
        Called::Mount => parsed(called, |args: args::MountHelper| mount::helper(&args)),
        Called::Umount => parsed(called, |args: args::UmountHelper| umount::helper(&args)),
        Called::Fsck => parsed(called, |args: args::Fsck| check::helper(&args)),
        Called::Mkfs => parsed(called, |args: args::MkfsHelper| image::mkfs(&args.mkfs)),
        Called::Fuse2fs => parsed(called, |args: fuse2fs::Fuse2fs| fuse2fs::fuse2fs(&args)),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            log::failure(called.name(), &failure.message);
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

fn run(Arguments { mut verbosity, command }: Arguments) -> Outcome {
    // With it `cp` says what is copied, as cp(1) does, and no more is logged.
    if matches!(command, Command::Cp(_)) {
        verbosity.verbose = 0;
    }
    let asked = verbosity.asked();
    // A mount logs when it serves.
    if !matches!(command, Command::Mount(_)) {
        log::to_caller(asked.clone());
    }
    match command {
        Command::Mkfs(args) => image::mkfs(&args),
        Command::Mount(args) => mount::mount(&args, asked),
        Command::Umount(args) => umount::umount(&args),
        Command::Sync(args) => umount::sync(&args),
        Command::Exchange(args) => exchange::exchange(&args),
        Command::Check(args) => check::check(&args),
        Command::Recover(args) => image::recover(&args),
        Command::Info(args) => bounded::bounded(|| info::info(&args)),
        Command::Top(args) => top::top(&args),
        Command::Ls(args) => tools::ls(&args),
        Command::Cat(args) => tools::cat(&args),
        Command::Cp(args) => tools::cp(&args),
        Command::Bench(args) => lab::start("bench", &args.words),
        Command::Tune(args) => image::tune(&args),
        Command::Resize(args) => resize::resize(&args),
        Command::Snapshot(command) => snapshot::snapshot(&command),
        Command::Clone(args) => snapshot::clone(&args),
        Command::Delete(args) => snapshot::delete(&args),
        Command::Export(args) => image::export(&args),
        Command::Import(args) => image::import(&args),
        Command::Pool(command) => pool::pool(&command),
        Command::Crash(args) => lab::start("crash", &args.words),
        Command::Run(args) => run::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Manual(args) => manual::pages(&args),
    }
}

/// Help and version are no errors; a wrong command line has the usage code of the command's model.
fn usage(called: Called, e: &clap::Error) -> Outcome {
    let help = e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !e.use_stderr() {
        // Nothing is left to do where even this cannot be written.
        let _ = e.print();
        return Ok(if help { ExitCode::from(USAGE) } else { ExitCode::SUCCESS });
    }
    if called == Called::Ondol && by_mount_8() {
        let what =
            "mount(8) has not found its helpers: link `/sbin/mount.ondol` and `/sbin/mount.fuse.ondol` to this program";
        return Err(Failure::new(MOUNT_USAGE, what));
    }
    let said = format!("{} (`{} --help` says more)", on_one_line(&e.to_string()), command_of(called));
    Err(Failure::new(usage_code(called), said))
}

/// Whether the words are those of mount.fuse(8), which calls what the type is named after: `ondol IMAGE DIR -o
/// OPTIONS`.
fn by_mount_8() -> bool {
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let is_path = |at: usize| words.get(at).is_some_and(|word| Path::new(word).is_absolute());
    is_path(1) && is_path(2) && words.get(3).is_some_and(|word| word == "-o")
}

/// The command that was called, as far as there is one.
fn command_of(called: Called) -> String {
    let (mut name, mut command) = (called.name().to_owned(), Arguments::command());
    if called == Called::Ondol {
        let words: Vec<String> = std::env::args().collect();
        for word in words.iter().skip(called::command_at(&words)) {
            let Some(below) = command.find_subcommand(word).cloned() else { break };
            name = format!("{name} {word}");
            command = below;
        }
    }
    name
}

/// What Rust says of numbers, and what is to be said.
const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "it must be a whole number"),
    ("cannot parse integer from empty string", "it must be a whole number"),
    ("number too large to fit in target type", "the number is too large"),
];

/// What clap says over several paragraphs: the error, then tips; usage and where to find more are left out.
fn on_one_line(text: &str) -> String {
    let text = NUMBERS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
    let paragraphs = text.trim_start_matches("error: ").split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let said =
        paragraphs.filter(|p| !p.is_empty() && !p.starts_with("Usage:") && !p.starts_with("For more information"));
    said.collect::<Vec<_>>().join("; ")
}

fn usage_code(called: Called) -> u8 {
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let command = words.get(called::command_at(&words)).cloned().unwrap_or_default();
    match (called, command.to_str()) {
        (Called::Mount | Called::Umount, _) | (Called::Ondol, Some("mount" | "umount")) => failure::MOUNT_USAGE,
        (Called::Fuse2fs, _) => fuse2fs::USAGE,
        (Called::Fsck, _) | (Called::Ondol, Some("check")) => failure::CHECK_USAGE,
        // As the programs have it whose names they bear.
        (Called::Ondol, Some("cat" | "cp")) => FAILED,
        _ => USAGE,
    }
}
