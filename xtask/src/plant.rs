//! Planted defects are in test builds only: the cargo feature `plant` is turned on by dev-dependencies, by name on the command
//! line, and by nothing else.

use cargo_metadata::DependencyKind;

const FEATURE: &str = "plant";

/// Fails when an ordinary dependency turns the feature on, or another feature does that is on by default.
pub(crate) fn check() -> Result<(), String> {
    let (product, proof) = (crate::metadata()?, crate::metadata_of_proof()?);
    let mut faults = Vec::new();
    for package in product.workspace_packages().into_iter().chain(proof.workspace_packages()) {
        for dependency in &package.dependencies {
            let asks = dependency.features.iter().any(|feature| feature == FEATURE);
            if asks && dependency.kind != DependencyKind::Development {
                faults.push(format!("`{}` has the planted defects of `{}`", package.name, dependency.name));
            }
        }
        for (name, parts) in &package.features {
            let asks = parts.iter().any(|part| part.rsplit('/').next() == Some(FEATURE));
            if asks && name != FEATURE {
                faults.push(format!("feature `{name}` of `{}` turns planted defects on", package.name));
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n  ")) }
}
