//! Dependencies point down only: compares `cargo metadata` with the table in ARCHITECTURE.md.
//!
//! A row of the table is `| crate | level | may use | … |`, the third column a list of crates or `-` or `any`.

use std::collections::BTreeMap;

/// Fails when a crate uses one of ours that its row does not name, or has no row, and when one of the product uses one
/// of `proof/`, also for tests.
pub(crate) fn check() -> Result<(), String> {
    let (product, proof) = (crate::metadata()?, crate::metadata_of_proof()?);
    let text = std::fs::read_to_string(product.workspace_root.join("ARCHITECTURE.md")).map_err(|e| e.to_string())?;
    let table = parse(&text);
    let mut faults = Vec::new();
    for package in product.workspace_packages() {
        let below =
            package.dependencies.iter().filter_map(|dependency| Some((&dependency.name, dependency.path.as_ref()?)));
        let of_proof = below.filter(|(_, path)| path.starts_with(&proof.workspace_root)).map(|(name, _)| name);
        faults.extend(of_proof.map(|used| format!("`{}` uses `{used}`, which is in proof/", package.name)));
    }
    for package in product.workspace_packages().into_iter().chain(proof.workspace_packages()) {
        let name = short(package.name.as_ref());
        let Some(allowed) = table.get(name) else {
            faults.push(format!("`{name}` has no row in the layer table of ARCHITECTURE.md"));
            continue;
        };
        for dependency in &package.dependencies {
            let ours = dependency.path.is_some() && dependency.kind != cargo_metadata::DependencyKind::Development;
            let used = short(&dependency.name);
            if ours && !allowed.iter().any(|a| a == used || a == "any") {
                faults.push(format!("`{name}` uses `{used}`, which its row does not allow"));
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n  ")) }
}

fn short(name: &str) -> &str {
    name.strip_prefix("ondol-").unwrap_or(name)
}

fn parse(text: &str) -> BTreeMap<String, Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|c| c.trim().replace('`', "")).collect()
    };
    let rows = text.lines().filter(|l| l.trim_start().starts_with("| `")).map(cells).filter(|c| c.len() >= 3);
    rows.map(|c| {
        let allowed = c[2].split(',').map(|a| a.trim().to_owned()).filter(|a| a != "-").collect();
        (c[0].clone(), allowed)
    })
    .collect()
}
