//! `ondol completions` and `ondol manual`: what shells and man(1) are to know of the program, made from its definitions.

use crate::args::{self, Arguments};
use crate::failure::{FAILED, Failure, Outcome};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the completions for a shell.
pub(crate) fn completions(args: &args::Completions) -> Outcome {
    let mut script = Vec::new();
    let mut command = Arguments::command().mut_subcommand("bench", offered);
    clap_complete::generate(args.shell, &mut command, "ondol", &mut script);
    std::io::stdout().write_all(&script).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}

/// `ondol bench` without the commands that it starts itself: shells would offer hidden ones, too.
fn offered(bench: Command) -> Command {
    let about = bench.get_about().cloned().unwrap_or_default();
    let commands = bench.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("bench").about(about).args(bench.get_arguments().cloned()).subcommands(commands)
}

/// Writes the manual's pages below a directory: `man1/ondol.1` and one for each command, and `man8` for the helpers.
pub(crate) fn pages(args: &args::Manual) -> Outcome {
    let fail = |e| Failure::new(FAILED, format!("cannot write into {}: {e}", args.dir.display()));
    let [commands, helpers] = ["man1", "man8"].map(|section| args.dir.join(section));
    std::fs::create_dir_all(&commands).and_then(|()| std::fs::create_dir_all(&helpers)).map_err(fail)?;
    clap_mangen::generate_to(Arguments::command(), &commands).map_err(fail)?;
    for command in [
        args::MountHelper::command(),
        args::UmountHelper::command(),
        args::Fsck::command(),
        args::MkfsHelper::command(),
    ] {
        helper_page(command, &helpers).map_err(fail)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn helper_page(command: Command, dir: &Path) -> std::io::Result<()> {
    let path = dir.join(format!("{}.8", command.get_name()));
    let mut page = Vec::new();
    Man::new(command).section("8").render(&mut page)?;
    std::fs::write(path, page)
}
