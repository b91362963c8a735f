//! Names that were acknowledged are found after any cut, and recovery may be cut: `model`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

mod model;

/// `ONDOL_RUN_SEEDS` for longer hunts.
#[test]
fn names_that_were_acknowledged_are_found_after_any_cut() {
    let seeds = std::env::var("ONDOL_RUN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let (mut states, mut fast) = (0, 0);
    for seed in 0..seeds {
        let shown = model::cuts(seed, 200, 20);
        assert_eq!(shown.wrong, None, "seed {seed}");
        (states, fast) = (states + shown.states, fast + shown.fast);
    }
    println!("{states} states, {fast} fast syncs and changes");
    assert!(fast as u64 > seeds * 20, "only {fast} ended in the log");
}
