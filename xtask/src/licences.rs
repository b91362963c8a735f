//! Every dependency that is built on Linux must be usable under permissive terms, those of optional features, too.

/// Licences that a dependency may be taken under.
const PERMISSIVE: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unicode-3.0",
    "Unlicense",
    "MIT-0",
];

/// Fails when a dependency has no licence expression, or one that cannot be met with permissive licences alone.
pub(crate) fn check() -> Result<(), String> {
    let (product, proof) = (crate::metadata_of_all(None)?, crate::metadata_of_all(Some(crate::proof()))?);
    let mut faults = Vec::new();
    for package in product.packages.iter().chain(&proof.packages) {
        // Old manifests separate alternatives by a slash.
        let text = package.license.as_deref().unwrap_or_default().replace('/', " OR ");
        let met = spdx::Expression::parse(&text).map(|expression| expression.evaluate(permissive));
        match met {
            Ok(true) => {}
            Ok(false) => faults.push(format!("{} {}: {text}", package.name, package.version)),
            Err(e) => {
                faults.push(format!("{} {}: no licence that can be read: {}", package.name, package.version, e.reason))
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n  ")) }
}

fn permissive(requirement: &spdx::LicenseReq) -> bool {
    requirement.license.id().is_some_and(|id| PERMISSIVE.contains(&id.name))
}
