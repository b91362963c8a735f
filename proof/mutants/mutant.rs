//! Which mutant this process is: what the code asks that is woven into the copy.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Nobody has asked yet.
const UNKNOWN: u32 = u32::MAX;

static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Whether this process is the mutant of this number, which is never 0.
#[inline]
pub fn is(number: u32) -> bool {
    let chosen = CHOSEN.load(Relaxed);
    number == if chosen == UNKNOWN { told() } else { chosen }
}

/// What the environment names.
#[cold]
fn told() -> u32 {
    let told = std::env::var("ONDOL_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    CHOSEN.store(told, Relaxed);
    told
}
