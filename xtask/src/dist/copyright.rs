//! Whose work is in the program, and under which terms: ours, and the crates that are linked in.

use super::{Release, said};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is in a file of terms, and which crates bring it.
type Texts = BTreeMap<String, BTreeSet<String>>;

/// Whose the libc in the static program is. Its terms are those of the MIT licence, word for word.
const MUSL: &str = "Copyright (c) 2005-2020 Rich Felker, et al.";

/// The file `copyright`: our terms, the crates in the program with theirs, and the texts.
pub(super) fn text(release: &Release, crates: &[Package]) -> Result<String, String> {
    let mut list = String::new();
    let mut texts = Texts::new();
    for package in crates {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("see below");
        let authors = if package.authors.is_empty() { "its authors".into() } else { package.authors.join(", ") };
        list += &format!("  {name}: {licence}, by {authors}\n");
        let root = package.manifest_path.parent().ok_or_else(|| format!("{name} has no directory"))?;
        collect(root.as_std_path(), &name, &mut texts)?;
    }
    let own = |file: &str| {
        let path = release.root.join(file);
        std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let mit = own("LICENSE-MIT")?;
    let (_, terms) = mit.split_once("Permission is hereby granted").ok_or("LICENSE-MIT: it grants no permission")?;
    texts
        .entry(format!("{MUSL}\n\nPermission is hereby granted{}", terms.trim_end()))
        .or_default()
        .insert("musl".into());
    let mut all = format!(
        "Ondol is under the MIT licence or the Apache licence 2.0, at your option.\n\n{}\n\n{}\n\n\
         The program has code of Rust's standard library (MIT OR Apache-2.0, by the Rust Project's\n\
         contributors), of musl (MIT, by its authors) and of these crates:\n\n{list}",
        mit.trim_end(),
        own("LICENSE-APACHE")?.trim_end()
    );
    for (text, names) in texts {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        all += &format!("\n\n---- {names} ----\n\n{text}\n");
    }
    Ok(all)
}

/// The crates of others in what these packages of a workspace make, on this kind of machine.
pub(super) fn linked(manifest: &Path, packages: &[&str], feature: &str) -> Result<Vec<Package>, String> {
    let version = said(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let mut command = MetadataCommand::new();
    command.manifest_path(manifest).other_options(vec!["--filter-platform".into(), host.into()]);
    command.features(CargoOpt::SomeFeatures(vec![feature.to_owned()]));
    let metadata = command.exec().map_err(|e| e.to_string())?;
    let ours = |name: &str| metadata.workspace_packages().into_iter().find(|p| p.name.as_str() == name);
    let mut open: Vec<PackageId> = Vec::new();
    for name in packages {
        open.push(ours(name).ok_or_else(|| format!("there is no package `{name}`"))?.id.clone());
    }
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        // What runs in the compiler alone is not in the program.
        let is_macro = metadata[&id].targets.iter().any(cargo_metadata::Target::is_proc_macro);
        if !is_macro && found.insert(id.clone()) {
            open.extend(dependencies(&metadata, &id));
        }
    }
    let others = metadata.packages.iter().filter(|p| p.source.is_some() && found.contains(&p.id));
    let mut others: Vec<Package> = others.cloned().collect();
    others.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(others)
}

fn dependencies(metadata: &Metadata, id: &PackageId) -> Vec<PackageId> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let used = nodes.filter(|node| node.id == *id).flat_map(|node| &node.deps);
    let is_linked = |kinds: &[cargo_metadata::DepKindInfo]| kinds.iter().any(|k| k.kind == DependencyKind::Normal);
    used.filter(|dep| is_linked(&dep.dep_kinds)).map(|dep| dep.pkg.clone()).collect()
}

/// The files of terms at and below a crate's directory: C code that a crate brings has its own.
fn collect(dir: &Path, name: &str, texts: &mut Texts) -> Result<(), String> {
    let fail = |e| format!("{}: {e}", dir.display());
    let entries = std::fs::read_dir(dir).map_err(fail)?;
    let paths = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<PathBuf>, _>>().map_err(fail)?;
    for path in paths {
        let file = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_dir() {
            collect(&path, name, texts)?;
        } else if ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE"]
            .iter()
            .any(|k| file.starts_with(k))
        {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            texts.entry(text.trim().replace('\r', "")).or_default().insert(name.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_in_the_program_are_named_with_their_terms() {
        let root = crate::metadata().expect("metadata").workspace_root.into_std_path_buf();
        let linked = linked(&root.join("Cargo.toml"), &["ondol-cli"], "ondol-cli/object").expect("crates");
        let names: BTreeSet<&str> = linked.iter().map(|package| package.name.as_str()).collect();
        for name in ["libmimalloc-sys", "rustix", "clap", "tracing"] {
            assert!(names.contains(name), "{name} is in the program");
        }
        // A macro, a dependency of tests, and one of ours.
        for name in ["clap_derive", "loom", "proptest", "shuttle", "ondol-volume"] {
            assert!(!names.contains(name), "{name} is not code of others in the program");
        }
        let mimalloc = linked.iter().find(|package| package.name.as_str() == "libmimalloc-sys").expect("mimalloc");
        let mut texts = Texts::new();
        collect(mimalloc.manifest_path.parent().expect("directory").as_std_path(), "mimalloc", &mut texts)
            .expect("texts");
        assert!(texts.keys().any(|text| text.contains("Daan Leijen")), "the terms of the C code are missing");
    }
}
