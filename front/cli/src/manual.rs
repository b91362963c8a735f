//! `ondol completions` and `ondol manual`: what shells and man(1) are to know of the program, made from its
//! definitions.

mod sections;

#[cfg(test)]
pub(crate) use sections::all as all_sections;

use crate::args::{self, Arguments};
use crate::failure::{FAILED, Failure, Outcome};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the completions for a shell.
pub(crate) fn completions(args: &args::Completions) -> Outcome {
    let mut script = Vec::new();
    let mut command = Arguments::command();
    if !ondol::HAS_BUCKETS {
        command = without_hidden(command);
    }
    clap_complete::generate(args.shell, &mut command, "ondol", &mut script);
    std::io::stdout().write_all(&script).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}

/// The program without the commands that this build has not: shells would offer hidden ones, too.
fn without_hidden(ondol: Command) -> Command {
    let about = ondol.get_about().cloned().unwrap_or_default();
    let commands = ondol.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let arguments = ondol.get_arguments().cloned().collect::<Vec<_>>();
    Command::new("ondol").version(env!("CARGO_PKG_VERSION")).about(about).args(arguments).subcommands(commands)
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
    [commands, helpers].iter().try_for_each(|dir| complete(dir)).map_err(fail)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds what the definitions do not say to the pages in a directory: examples, and where to read on.
fn complete(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(found) = path.file_stem().and_then(|name| sections::of(name.to_str()?)) else { continue };
        let mut page = Roff::new();
        page.control("SH", ["EXAMPLES"]);
        for (call, what) in found.examples {
            page.control("TP", []).text([bold(call)]).text([roman(what)]);
        }
        page.control("SH", ["SEE", "ALSO"]).text([roman(found.see_also.join(", "))]);
        std::fs::OpenOptions::new().append(true).open(&path)?.write_all(page.render().as_bytes())?;
    }
    Ok(())
}

fn helper_page(command: Command, dir: &Path) -> std::io::Result<()> {
    let path = dir.join(format!("{}.8", command.get_name()));
    let mut page = Vec::new();
    Man::new(command).section("8").render(&mut page)?;
    std::fs::write(path, page)
}

#[cfg(test)]
mod tests {
    use super::sections::{self, Sections};
    use super::*;
    use std::collections::BTreeSet;

    /// The names of all pages that are made.
    fn pages_of(command: &Command, name: &str, all: &mut BTreeSet<String>) {
        all.insert(name.to_owned());
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            pages_of(below, &format!("{name}-{}", below.get_name()), all);
        }
    }

    #[test]
    fn each_page_has_its_sections_and_leads_to_pages_that_are_there() {
        let mut all = BTreeSet::new();
        pages_of(&Arguments::command(), "ondol", &mut all);
        all.extend(["mount.ondol", "umount.ondol", "fsck.ondol", "mkfs.ondol"].map(String::from));
        // Another package's.
        let known: BTreeSet<String> = all.iter().cloned().chain(["ondol-lab".to_owned()]).collect();
        let is_built = |page: &Sections| {
            let of_buckets = ["ondol-snapshot", "ondol-clone", "ondol-delete"];
            ondol::HAS_BUCKETS || !of_buckets.iter().any(|name| page.page.starts_with(name))
        };
        let described: BTreeSet<String> = sections::all().filter(is_built).map(|page| page.page.to_owned()).collect();
        assert_eq!(described, all);
        for page in sections::all().filter(is_built) {
            assert!(!page.examples.is_empty() && !page.see_also.is_empty(), "{}", page.page);
            for other in page.see_also.iter().filter(|other| other.contains("ondol")) {
                let (name, section) = other.split_once('(').unwrap();
                assert!(known.contains(name) && name != page.page, "{}: {other}", page.page);
                assert_eq!(section, if name.contains('.') { "8)" } else { "1)" }, "{}: {other}", page.page);
            }
        }
    }
}
