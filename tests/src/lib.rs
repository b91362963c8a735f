//! What the whole-stack tests share: parameters from the environment, and reasons to skip.
#![forbid(unsafe_code)]

use ondol_testkit::image::KernelMount;

/// A number from the environment, for longer hunts: `ONDOL_CASES=2000 cargo test …`.
pub fn parameter(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Says why a test does nothing here, if so: `if skip("name", reason) { return; }`.
pub fn skip(test: &str, reason: Option<&str>) -> bool {
    if let Some(reason) = reason {
        eprintln!("{test}: skipped: {reason}");
    }
    reason.is_some()
}

/// Why kernel mounts are not possible here.
pub fn no_kernel_mount() -> Option<&'static str> {
    KernelMount::unavailable()
}
