//! A copy of the source as one workspace, with the faults of `proof/faults` in it and instrumented for coverage: what
//! the tests of `proof/` are built from. The source itself has neither.
//!
//! Only what differs is written, so that cargo builds only what changed. Others' crates are compiled once for the
//! source and its copy: both build into one folder, and only crates of the workspace go through the [wrapper](wrap).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::{Table, Value};

/// Where the copy is, below the folder for build results.
const PLACE: &str = "proof/tree";

/// Where the one is that has mutants in it, and no faults.
const OF_MUTANTS: &str = "proof/tree-of-mutants";

/// What the compiler is told for crates that are observed: they call `proof/coverage` at each edge of the control flow,
/// and have a table of where these are.
const INSTRUMENTED: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-trace-pc-guard",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];

/// The crates that are observed: those that decide what is stored where, and what is recovered.
const OBSERVED: [&str; 6] = ["format", "journal", "nvm-log", "object-home", "page-table", "volume"];

/// A copy that is as the source is now.
pub(crate) struct Tree {
    root: PathBuf,
    target: PathBuf,
}

impl Tree {
    /// Makes it, or brings it up to date.
    pub(crate) fn new() -> Result<Self, String> {
        Self::at(PLACE, |tree, source| {
            let mut own = tree.faulty(source)?;
            own.push(("crates/env/src/fault.rs".into(), text_of(source, "proof/faults/fault.rs")?.into_bytes()));
            Ok((own, "pub mod fault;\n"))
        })
    }

    /// One with the files of a folder, into which mutants are woven, in place of the source's.
    pub(crate) fn of_mutants(woven: &Path) -> Result<Self, String> {
        Self::at(OF_MUTANTS, |_, source| {
            let mut own = Vec::new();
            collect(woven, Path::new(""), &mut |file| own.push(file))?;
            let read = |file: PathBuf| Ok((file.clone(), text_of(woven, &file.to_string_lossy())?.into_bytes()));
            let mut own = own.into_iter().map(read).collect::<Result<Vec<_>, String>>()?;
            own.push(("crates/env/src/mutant.rs".into(), text_of(source, "proof/mutants/mutant.rs")?.into_bytes()));
            // Of the crates with mutants, this alone has not the one below it that they ask.
            let manifest = "crates/format/Cargo.toml";
            let text = text_of(source, manifest)?;
            let text = text.replacen("[dependencies]\n", "[dependencies]\nondol-env.workspace = true\n", 1);
            own.push((manifest.into(), text.into_bytes()));
            Ok((own, "pub mod mutant;\n"))
        })
    }

    /// The copy at a place, with files that only it has, and modules for its ground crate.
    fn at(
        place: &str,
        own: impl FnOnce(&Self, &Path) -> Result<(Vec<(PathBuf, Vec<u8>)>, &'static str), String>,
    ) -> Result<Self, String> {
        let metadata = crate::metadata()?;
        let source = metadata.workspace_root.into_std_path_buf();
        let target = metadata.target_directory.into_std_path_buf();
        let tree = Self { root: target.join(place), target };
        let mut files: BTreeMap<PathBuf, Option<Vec<u8>>> = BTreeMap::new();
        collect(&source, Path::new(""), &mut |file| drop(files.insert(file, None)))?;
        let in_proof = ["proof/Cargo.toml", "proof/Cargo.lock"].map(PathBuf::from);
        in_proof.iter().for_each(|file| drop(files.remove(file)));
        let read = |name: &str| text_of(&source, name)?.parse::<Table>().map_err(|e| format!("{name}: {e}"));
        let manifest = merged(read("Cargo.toml")?, read("proof/Cargo.toml")?)?;
        let lock = locked(read("Cargo.lock")?, read("proof/Cargo.lock")?)?;
        files.insert("Cargo.toml".into(), Some(manifest.to_string().into_bytes()));
        files.insert("Cargo.lock".into(), Some(lock.to_string().into_bytes()));
        let (own, modules) = own(&tree, &source)?;
        files.extend(own.into_iter().map(|(file, bytes)| (file, Some(bytes))));
        // Every crate of the product has this one below it.
        let ground = "crates/env/src/lib.rs";
        let more = ["\npub use ondol_coverage as coverage;\n", modules].concat();
        files.insert(ground.into(), Some((text_of(&source, ground)? + &more).into_bytes()));
        let into = [
            ("crates/env/Cargo.toml", "[dependencies]\n", "ondol-coverage.workspace = true\n"),
            ("crates/power/src/event.rs", "events.push(event);\n", "        ondol_env::coverage::event();\n"),
        ];
        for (file, after, line) in into {
            let text = text_of(&source, file)?;
            let (before, rest) = text.split_once(after).ok_or_else(|| format!("{file} has no `{}`", after.trim()))?;
            files.insert(file.into(), Some([before, after, line, rest].concat().into_bytes()));
        }
        tree.fill(&source, &files)?;
        Ok(tree)
    }

    /// The source's files that patches change, changed.
    fn faulty(&self, source: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
        let scratch = self.target.join("proof/patched");
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
        let mut changed = BTreeSet::new();
        for patch in patches(source)? {
            let text = fs::read_to_string(&patch).map_err(|e| format!("{}: {e}", patch.display()))?;
            for file in text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(PathBuf::from) {
                if changed.insert(file.clone()) && source.join(&file).exists() {
                    copy(&source.join(&file), &scratch.join(&file))?;
                }
            }
            // Not as a part of the repository around it.
            let mut apply = Command::new("git");
            apply.current_dir(&scratch).env("GIT_CEILING_DIRECTORIES", &self.target).args(["apply", "-C1"]).arg(&patch);
            crate::run(&mut apply).map_err(|why| format!("{} does not apply any more: {why}", patch.display()))?;
        }
        let read = |file: PathBuf| {
            let bytes = fs::read(scratch.join(&file)).map_err(|e| format!("{}: {e}", file.display()))?;
            Ok((file, bytes))
        };
        changed.into_iter().map(read).collect()
    }

    /// Writes what differs, and removes what the source has no longer.
    fn fill(&self, source: &Path, files: &BTreeMap<PathBuf, Option<Vec<u8>>>) -> Result<(), String> {
        for (file, bytes) in files {
            let (from, to) = (source.join(file), self.root.join(file));
            let is = fs::read(&to).ok();
            match bytes {
                Some(bytes) if is.as_ref() == Some(bytes) => {}
                None if is.is_some() && is == fs::read(&from).ok() => {}
                Some(bytes) => {
                    to.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| format!("{}: {e}", to.display()))?;
                    fs::write(&to, bytes).map_err(|e| format!("{}: {e}", to.display()))?;
                }
                None => copy(&from, &to)?,
            }
        }
        let mut gone = Vec::new();
        collect(&self.root, Path::new(""), &mut |file| {
            if !files.contains_key(&file) {
                gone.push(file);
            }
        })?;
        gone.iter()
            .try_for_each(|file| fs::remove_file(self.root.join(file)).map_err(|e| format!("{}: {e}", file.display())))
    }

    /// A command of cargo for the copy.
    pub(crate) fn cargo(&self, words: &[&str]) -> Result<Command, String> {
        let mut command = Command::new(env!("CARGO"));
        self.within(command.args(words))?;
        Ok(command)
    }

    /// A program that calls cargo for the copy.
    pub(crate) fn within(&self, command: &mut Command) -> Result<(), String> {
        let mut wrapper = std::env::current_exe().map_err(|e| e.to_string())?;
        if self.root.ends_with(OF_MUTANTS) {
            // Cargo tells crates of one name in two workspaces apart by the name of their wrapper alone.
            let other = self.target.join("proof/wrapper-of-mutants");
            let _ = fs::remove_file(&other);
            symlink(&wrapper, &other).map_err(|e| format!("{}: {e}", other.display()))?;
            wrapper = other;
        }
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command.env("RUSTC_WORKSPACE_WRAPPER", wrapper);
        Ok(())
    }
}

/// Whether this process was started in the compiler's place, which is its first argument.
pub(crate) fn is_wrapper() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| Path::new(&word).file_name().is_some_and(|name| name == "rustc"))
}

/// Becomes the compiler: for [some crates](OBSERVED) with instrumentation.
pub(crate) fn wrap() -> String {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let Some((compiler, words)) = words.split_first() else { return "no compiler is named".into() };
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let is_library = words.windows(2).any(|pair| pair[0] == "--crate-type" && pair[1] == "lib");
    let is_in = |place: &str, name: &str| package.ends_with(&format!("{place}/crates/{name}"));
    let is_observed = OBSERVED.iter().any(|name| is_in(PLACE, name) || is_in(OF_MUTANTS, name));
    let mut command = Command::new(compiler);
    command.args(words);
    if is_library && is_observed {
        command.args(INSTRUMENTED);
    }
    if package.contains(OF_MUTANTS) {
        // What is certain to overflow is a mutant like any other.
        command.arg("--cap-lints=allow");
    }
    command.exec().to_string()
}

fn patches(source: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(source.join("proof/faults")) else { return Ok(found) };
    for entry in entries {
        found.push(entry.map_err(|e| e.to_string())?.path());
    }
    found.retain(|path| path.extension().is_some_and(|e| e == "patch"));
    found.sort();
    Ok(found)
}

fn text_of(source: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(source.join(file)).map_err(|e| format!("{file}: {e}"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    to.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| format!("{}: {e}", to.display()))?;
    fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", from.display()))
}

/// Calls `note` with each file of the source, by its name there.
fn collect(root: &Path, below: &Path, note: &mut impl FnMut(PathBuf)) -> Result<(), String> {
    let dir = root.join(below);
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let name = entry.map_err(|e| e.to_string())?.file_name();
        let (is_hidden, below) = (name.as_encoded_bytes().starts_with(b"."), below.join(&name));
        if crate::sizes::is_built(&root.join(&below)) || is_hidden && name != ".cargo" {
            continue;
        }
        if root.join(&below).is_dir() { collect(root, &below, note)? } else { note(below) }
    }
    Ok(())
}

fn table<'a>(of: &'a mut Table, name: &str) -> Result<&'a mut Table, String> {
    let entry = of.entry(name).or_insert_with(|| Value::Table(Table::new()));
    entry.as_table_mut().ok_or_else(|| format!("`{name}` is no table"))
}

/// One manifest for the product's workspace and that of `proof/`.
fn merged(mut product: Table, mut proof: Table) -> Result<Table, String> {
    let of_proof = std::mem::take(table(&mut proof, "workspace")?);
    let workspace = table(&mut product, "workspace")?;
    workspace.remove("default-members");
    workspace.insert("exclude".into(), Value::Array(vec!["proof/fuzz".into()]));
    let names = of_proof.get("members").and_then(Value::as_array).ok_or("proof/Cargo.toml has members")?;
    let members = workspace.get_mut("members").and_then(Value::as_array_mut).ok_or("Cargo.toml has members")?;
    members.extend(names.iter().filter_map(Value::as_str).map(|name| format!("proof/{name}").into()));
    let theirs = of_proof.get("dependencies").and_then(Value::as_table).ok_or("proof/Cargo.toml has dependencies")?;
    let ours = table(workspace, "dependencies")?;
    for (name, dependency) in theirs {
        let moved = moved(dependency.clone());
        match ours.get_mut(name) {
            Some(ours) => with_features(ours, &moved),
            None => drop(ours.insert(name.clone(), moved)),
        }
    }
    let profile = table(table(&mut proof, "profile")?, "dev")?.clone();
    let into = table(table(table(&mut product, "profile")?, "dev")?, "package")?;
    into.extend(profile.get("package").and_then(Value::as_table).cloned().unwrap_or_default());
    Ok(product)
}

/// A dependency of `proof/` as the folder above names it.
fn moved(mut dependency: Value) -> Value {
    if let Some(Value::String(path)) = dependency.get_mut("path") {
        *path = path.strip_prefix("../").map_or_else(|| format!("proof/{path}"), str::to_owned);
    }
    dependency
}

/// Adds the features that another place asks for.
fn with_features(ours: &mut Value, theirs: &Value) {
    let Some(more) = theirs.get("features").and_then(Value::as_array) else { return };
    if let Value::String(version) = ours {
        *ours = Value::Table(Table::from_iter([("version".to_owned(), Value::String(std::mem::take(version)))]));
    }
    let Some(ours) = ours.as_table_mut() else { return };
    let features = ours.entry("features").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(features) = features.as_array_mut() {
        more.iter()
            .filter(|feature| !features.contains(feature))
            .cloned()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|f| features.push(f));
    }
}

/// The packages of both lock files.
fn locked(mut product: Table, proof: Table) -> Result<Table, String> {
    let theirs = proof.get("package").and_then(Value::as_array).cloned().unwrap_or_default();
    let ours = product.get_mut("package").and_then(Value::as_array_mut).ok_or("Cargo.lock has packages")?;
    let key = |package: &Value| [package.get("name").cloned(), package.get("version").cloned()];
    let known: Vec<_> = ours.iter().map(key).collect();
    ours.extend(theirs.into_iter().filter(|package| !known.contains(&key(package))));
    Ok(product)
}
