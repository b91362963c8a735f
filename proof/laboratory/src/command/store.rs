//! `ondol crash --store`: volumes in object storage.

use crate::CrashArgs;
use ondol::{Durable, JournalEngine};

/// What `--store` says, if it fits the rest.
///
/// # Errors
/// Something is said in vain, or this build has no object storage.
pub(super) fn wanted(args: &CrashArgs) -> Result<Option<Durable>, String> {
    let Some(durable) = args.store else { return Ok(None) };
    if args.engine.is_some_and(|engine| engine != JournalEngine::Batch) {
        return Err("a volume in object storage has engine batch: leave --engine out".into());
    }
    // The database's threads run as they like.
    let said = [
        ("--fault", args.fault.is_some()),
        ("--schedule", args.schedule.is_some()),
        ("--background", args.background.is_some()),
        ("--lead", args.lead != 0),
        ("--domain", args.domain.is_some()),
        ("a second --calls", args.calls.len() > 1),
    ];
    if let Some((option, _)) = said.into_iter().find(|(_, is_said)| *is_said) {
        return Err(format!("{option} says nothing to --store: leave it out"));
    }
    let workload = args.workload.as_deref().unwrap_or_default();
    if matches!(workload.split(':').next(), Some("threads" | "pool" | "resize" | "tools")) {
        return Err(format!("--workload {workload} says nothing to --store: leave one of them out"));
    }
    if !cfg!(feature = "object") {
        return Err("this build opens no volumes in object storage: it was built without the feature `object`".into());
    }
    Ok(Some(durable))
}
