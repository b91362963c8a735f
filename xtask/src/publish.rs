//! What is published is the library and what it depends on, and all of it can be: nothing is built here.

use cargo_metadata::{DependencyKind, Metadata, Package};
use std::collections::BTreeSet;
use std::process::Command;

/// The package that programs depend on.
const LIBRARY: &str = "ondol";

/// What every published package has in its archive.
const FILES: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];

/// Fails when a package is published that should not be, the other way round, or when one lacks what the registry and
/// its readers need.
pub(crate) fn check() -> Result<(), String> {
    let metadata = crate::metadata()?;
    let faults = faults(&metadata, &list)?;
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n  ")) }
}

fn faults(metadata: &Metadata, list: &dyn Fn(&str) -> Result<String, String>) -> Result<Vec<String>, String> {
    let needed = needed(metadata);
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
        let is_published = package.publish.is_none();
        match (needed.contains(name), is_published) {
            (true, false) => faults.push(format!("`{name}` is not published, and `{LIBRARY}` depends on it")),
            (false, true) => faults.push(format!("`{name}` is published, and `{LIBRARY}` does not depend on it")),
            (false, false) => {}
            (true, true) => {
                faults.extend(lacks(metadata, package));
                let archive = list(name)?;
                let missing = FILES.iter().filter(|file| !archive.lines().any(|line| line == **file));
                faults.extend(missing.map(|file| format!("`{name}` has no {file} in its archive")));
            }
        }
    }
    Ok(faults)
}

/// The library and those of the workspace that it depends on, by name.
fn needed(metadata: &Metadata) -> BTreeSet<&str> {
    let (mut needed, mut open) = (BTreeSet::new(), vec![LIBRARY]);
    while let Some(name) = open.pop() {
        if needed.insert(name) {
            let packages = metadata.workspace_packages().into_iter().filter(|package| package.name.as_str() == name);
            let dependencies = packages.flat_map(|package| &package.dependencies);
            let ours = dependencies.filter(|d| d.path.is_some() && d.kind != DependencyKind::Development);
            open.extend(ours.map(|dependency| dependency.name.as_str()));
        }
    }
    needed
}

/// What is missing in a manifest, and dependencies that the registry could not resolve.
fn lacks(metadata: &Metadata, package: &Package) -> Vec<String> {
    let name = &package.name;
    let fields = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("authors", !package.authors.is_empty()),
        ("rust-version", package.rust_version.is_some()),
        ("readme", package.readme.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ];
    let fields = fields.iter().filter(|(_, is_there)| !is_there);
    let mut faults: Vec<String> =
        fields.map(|(field, _)| format!("`{name}` has no `{field}` in its manifest")).collect();
    for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
        let other = metadata.workspace_packages().into_iter().find(|other| other.name.as_str() == dependency.name);
        let Some(other) = other else { continue };
        let has_version = dependency.req != cargo_metadata::semver::VersionReq::STAR;
        let used = &dependency.name;
        match (other.publish.is_none(), has_version) {
            (true, false) => faults.push(format!("`{name}` depends on `{used}` without a version")),
            (true, true) if !dependency.req.matches(&other.version) => {
                faults
                    .push(format!("`{name}` depends on `{used}` {}, which is {} here", dependency.req, other.version));
            }
            (false, true) => faults.push(format!("`{name}` depends on a version of `{used}`, which is not published")),
            _ => {}
        }
    }
    faults
}

/// The files of a package's archive, a line each.
fn list(package: &str) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(["package", "--list", "--allow-dirty", "--quiet", "--package", package]).output();
    let output = output.map_err(|e| format!("cargo package: {e}"))?;
    if !output.status.success() {
        return Err(format!("{package} cannot be packed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("cargo package: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        crate::metadata().expect("metadata")
    }

    /// The workspace as it is, but for one package.
    fn changed(name: &str, change: impl FnOnce(&mut Package)) -> Vec<String> {
        let mut metadata = metadata();
        change(metadata.packages.iter_mut().find(|p| p.name.as_str() == name).expect("package"));
        faults(&metadata, &|_| Ok(FILES.join("\n"))).expect("faults")
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(changed("ondol", |_| ()), Vec::<String>::new());
        let hidden = changed("ondol-journal", |package| package.publish = Some(Vec::new()));
        assert!(hidden.iter().any(|f| f.contains("`ondol-journal` is not published")), "{hidden:?}");
        let shown = changed("ondol-skips", |package| package.publish = None);
        assert!(shown.iter().any(|f| f.contains("`ondol-skips` is published")), "{shown:?}");
        let unread = changed("ondol-env", |package| package.readme = None);
        assert_eq!(unread, ["`ondol-env` has no `readme` in its manifest"]);
        let old = changed("ondol-format", |package| package.version = cargo_metadata::semver::Version::new(9, 0, 0));
        assert!(old.iter().any(|f| f == "`ondol` depends on `ondol-format` ^0.1.0, which is 9.0.0 here"), "{old:?}");
        let bare = changed("ondol", |package| {
            package.dependencies.iter_mut().for_each(|d| d.req = cargo_metadata::semver::VersionReq::STAR);
        });
        assert!(bare.iter().any(|f| f == "`ondol` depends on `ondol-volume` without a version"), "{bare:?}");
    }

    #[test]
    fn an_archive_without_licence_is_named() {
        let without = |_: &str| Ok("README.md\nsrc/lib.rs\nLICENSE-MIT".to_owned());
        let faults = faults(&metadata(), &without).expect("faults");
        assert!(faults.contains(&"`ondol` has no LICENSE-APACHE in its archive".to_owned()), "{faults:?}");
    }
}
