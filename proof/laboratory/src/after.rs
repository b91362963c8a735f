//! What is done with a volume once it has been recovered: some damage shows only then.
//!
//! A crashed state is opened, which recovers it, and is written to, with the model in step: what is free is taken, what
//! is there is freed and its place used again, the log goes on from where recovery has left it. That is a run like any
//! other, and is crashed again.

use crate::run::{Run, Setup, record};
use ondol::Options;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_power::Layer;
use ondol_testkit::op::{Op, text};

/// Calls that mostly succeed whatever is there: on names of their own, and on those that workloads use.
const CALLS: &[&str] = &[
    "create /after 0644 ; write /after 0 3000 #901",
    "write /after 1000 9000 #902",
    "append /after 700 #903",
    "truncate /after 500",
    "fsync /after",
    "mkdir /used 0755 ; create /used/x 0600",
    "mkdir /used 0755 ; rmdir /used",
    "symlink /used/l abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij",
    "setxattr /after user.a 300 #904",
    "setxattr /a user.a 400 #905",
    "unlink /a ; sync ; create /a 0644 ; write /a 0 12000 #906",
    "unlink /b ; sync ; write /after 0 9000 #907",
    "unlink /hole ; sync ; write /after 0 8192 #908",
    "unlink /d/c ; rmdir /d/x",
    "rmdir /d ; sync ; write /after 3000 9000 #909",
    "write /a 0 4096 #910",
    "write /b 100 3000 #911",
    "truncate /a 0 ; write /a 0 2000 #912",
    "fallocate /after 20000 9000 ; write /after 22000 1000 #913",
    "punch /a 0 4096",
    "rename /after /a",
    "rename /a /b",
    "link /a /used/y",
    "chmod /a 0640",
    "sync",
    "sync",
    "idle 6",
    "fsync /a",
];

/// Groups of calls that are done before the first sync, and after it.
const GROUPS: usize = 3;

/// The calls of a seed; the last makes all durable.
fn calls(seed: u64) -> Vec<Op> {
    let random = Fixed::new(Timestamp::default(), seed);
    let one = || CALLS[random.random_u32() as usize % CALLS.len()];
    let some = |_| one();
    let lines =
        [CALLS[0]].into_iter().chain((0..GROUPS).map(some)).chain(["fsync /after"]).chain((0..GROUPS).map(some));
    let lines: Vec<&str> = lines.chain(["sync"]).collect();
    // A test reads all of them.
    text::parse(&lines.join("\n")).unwrap_or_else(|e| panic!("{e}"))
}

/// Recovers a crashed state, and records what is done with it then.
///
/// # Errors
/// The volume cannot be used: it fails, or does not do what the model does.
pub(crate) fn record_after(crashed: &[Layer], options: &Options, seed: u64) -> Result<Run, String> {
    let setup = Setup { disks: crashed.to_vec(), options: options.clone(), ops: Vec::new(), remount: false, seed };
    let calls = calls(seed);
    let mut run = record(&setup, &calls).map_err(|e| format!("used after recovery: {e}"))?;
    run.description.text = format!("recovered, and then these calls:\n{}", text::print(&calls));
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_calls_can_be_read_and_equal_seeds_give_equal_ones() {
        CALLS.iter().for_each(|lines| drop(text::parse(lines).expect(lines)));
        assert_eq!(calls(7), calls(7));
        assert_ne!(calls(7), calls(8));
    }
}
