//! `ondol bench list`: what can be run, and on what.

use crate::BenchError;
use crate::error::Context;
use crate::nvm::{PRESETS, Preset};
use crate::target::{KINDS, OPTIONS};
use crate::workload::ALL;
use std::io::{self, Write};

/// Prints workloads and targets.
pub(crate) fn print() -> Result<(), BenchError> {
    write(&mut io::stdout().lock()).context(|| "standard output")
}

fn write(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Workloads (every one has the parameter seed=1)\n")?;
    for workload in ALL {
        writeln!(out, "  {}\n      {}", workload.name, workload.about)?;
        writeln!(out, "      --threads {} --ops {}", workload.threads, workload.ops)?;
        for param in workload.params {
            writeln!(out, "      --param {:<20}  {}", format!("{}={}", param.name, param.default), param.about)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "Targets\n")?;
    for (form, about, example) in KINDS {
        writeln!(out, "  {form}\n      {about}\n      --on {example}")?;
    }
    writeln!(out, "\nOptions of targets (others are mount options)\n")?;
    for (option, about) in OPTIONS {
        writeln!(out, "  {option:<14}  {about}")?;
    }
    writeln!(out, "\nModels of NVM (--nvm-model; on top of the memory that stands for NVM)\n")?;
    for Preset { name, about, model, source, assumed } in PRESETS {
        writeln!(out, "  {name}\n      {about}: {model}\n      source: {source}\n      assumed: {assumed}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    #[test]
    fn everything_is_listed() {
        let mut out = Vec::new();
        write(&mut out).expect("list");
        let text = String::from_utf8(out).expect("text");
        for word in [
            "create-fsync",
            "overwrite",
            "append",
            "varmail",
            "fileserver",
            "webproxy",
            "postmark",
            "untar",
            "tokubench",
            "size=4k",
            "kernel:",
            "on=ram|disk",
            "on=ssd|hdd",
            "s3://BUCKET/PREFIX",
            "null[,OPTIONS]",
            "passthrough[:DIR]",
            "xpoint",
            "arXiv 1903.05714",
        ] {
            assert!(text.contains(word), "{word} is not listed");
        }
    }

    #[test]
    fn the_examples_are_valid() {
        for (_, _, example) in KINDS {
            example.parse::<Target>().expect(example);
        }
    }
}
