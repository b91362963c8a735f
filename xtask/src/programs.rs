//! `cargo xtask programs`: builds the program that is tried, and hands over to the one that tries it.

use std::process::ExitCode;

/// Runs programs of others on mounts by an optimised `ondol`, or by the one that `ONDOL` names.
pub(crate) fn run(words: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = words.collect();
    let mut tries = crate::of_proof(&["run", "--quiet", "-p", "ondol-tests", "--bin", "programs", "--"]);
    tries.args(&words);
    if std::env::var_os("ONDOL").is_none() {
        match optimised(words.iter().any(|word| word == "bucket")) {
            Ok(path) => _ = tries.env("ONDOL", path),
            Err(why) => {
                eprintln!("xtask: programs: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    match tries.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(e) => {
            eprintln!("xtask: programs: {e}");
            ExitCode::FAILURE
        }
    }
}

fn optimised(buckets: bool) -> Result<std::path::PathBuf, String> {
    crate::release(if buckets { &["--features", "object"] } else { &[] })
}
