//! `ondol bench` and `ondol crash` are commands of `ondol-lab`, a program of its own, which they start.

use crate::failure::{FAILED, Failure, Outcome};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const LAB: &str = "ondol-lab";

/// Becomes `ondol-lab` with this command: the one beside this program, else the one in `PATH`. It works with this
/// program, unless the variable `ONDOL` names another one.
pub(crate) fn start(command: &str, words: &[OsString]) -> Outcome {
    let here = std::env::current_exe().ok();
    let beside = here.as_ref().map(|here| here.with_file_name(LAB)).filter(|path| path.is_file());
    let mut lab = Command::new(beside.unwrap_or_else(|| PathBuf::from(LAB)));
    if let Some(here) = here.filter(|_| std::env::var_os("ONDOL").is_none()) {
        lab.env("ONDOL", here);
    }
    let error = lab.arg(command).args(words).exec();
    let what = match error.kind() {
        ErrorKind::NotFound => format!(
            "`ondol {command}` is a command of {LAB}, which is not installed: its package is {LAB}, and in the source \
             `cargo build --release --manifest-path proof/Cargo.toml -p {LAB}` builds it"
        ),
        _ => format!("cannot start {LAB}: {error}"),
    };
    Err(Failure::new(FAILED, what))
}
