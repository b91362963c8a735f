//! Dependencies point down only: compares `cargo metadata` with the table in ARCHITECTURE.md.
//!
//! A row of the table is `| crate | level | may use | … |`, the third column a list of crates or `-` or `any`.

use std::collections::BTreeMap;

/// Fails when a crate uses one of ours that its row does not name, or has no row.
pub(crate) fn check() -> Result<(), String> {
    let metadata = crate::metadata()?;
    let text = std::fs::read_to_string(metadata.workspace_root.join("ARCHITECTURE.md")).map_err(|e| e.to_string())?;
    let table = parse(&text);
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
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
