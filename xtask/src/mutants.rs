//! `cargo xtask mutants`: mistakes in the code that decides what a crash leaves, each hunted with the crash laboratory.
//!
//! `proof/mutants` draws them, weaves them into a [copy](crate::tree) and hunts them; this builds that copy.

use crate::tree::Tree;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// What of the copy hunts.
const LAB: [&str; 2] = ["-p", "ondol-lab"];

/// Weaves, builds and hunts; `words` go on to the program.
///
/// # Errors
/// Something cannot be built; the laboratory finds something without a mutant.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    crate::run(&mut crate::of_proof(&["build", "--quiet", "-p", "ondol-mutants"]))?;
    let metadata = crate::metadata()?;
    let target = metadata.target_directory.into_std_path_buf();
    let dir = target.join("proof/mutants");
    let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
    fs::create_dir_all(&dir).map_err(failed)?;
    let call = |what: &str| {
        let mut command = Command::new(target.join("debug/ondol-mutants"));
        command.arg(what).args(words).arg("--root").arg(&metadata.workspace_root).arg("--dir").arg(&dir);
        command
    };
    let tree = woven(&dir, &|| crate::run(&mut call("weave")))?;
    let mut build = tree.cargo(&[&["build", "--profile=fast", "--quiet"], &LAB[..]].concat())?;
    crate::run(build.env("CARGO_PROFILE_FAST_DEBUG_ASSERTIONS", "true"))?;
    // Other builds put theirs into the same place.
    fs::copy(target.join("fast/ondol-lab"), dir.join("ondol-lab")).map_err(failed)?;
    let mut hunt = call("hunt");
    tree.within(&mut hunt)?;
    crate::run(&mut hunt)
}

/// The copy with those mutants that compile: what the compiler complains of is woven no more.
fn woven(dir: &Path, weave: &dyn Fn() -> Result<(), String>) -> Result<Tree, String> {
    let messages = dir.join("messages");
    let _ = fs::remove_file(&messages);
    loop {
        weave()?;
        let tree = Tree::of_mutants(&dir.join("woven"))?;
        let to = File::create(&messages).map_err(|e| format!("{}: {e}", messages.display()))?;
        let words = [&["check", "--quiet", "--keep-going", "--message-format=json"], &LAB[..]].concat();
        let checked = tree.cargo(&words)?.stdout(to).status().map_err(|e| format!("cargo: {e}"))?;
        if checked.success() {
            let _ = fs::remove_file(&messages);
            return Ok(tree);
        }
    }
}
