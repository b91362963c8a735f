//! Lines about object storage: whether it answers, what it is asked, how far it is behind, who has the volume.

use super::super::reading::Report;
use super::{rate, share};
use crate::size::human;

/// A store that is slow answers within so many seconds.
const PATIENCE: u64 = 5;

/// None of a volume that is in no object storage.
pub(super) fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let lines = [("store", asked(report)), ("bucket", behind(report)), ("lease", lease(report))];
    lines.into_iter().filter_map(|(name, line)| Some((name, line?))).collect()
}

fn asked(report: &Report) -> Option<String> {
    let now = |name: &str| report.now.store(&format!("/requests/{name}"));
    let silent = now("unanswered_seconds")?;
    let state = match silent {
        0..PATIENCE => "answers".to_owned(),
        silent => format!("has answered nothing for {silent} s"),
    };
    let per_s = |name: &str| report.store_rate(&format!("/requests/{name}"));
    let others: f64 = ["heads", "lists", "deletes", "copies", "uploads"].into_iter().map(per_s).sum();
    let bytes = |name: &str| format!("{}/s", human(per_s(name).round() as u64));
    let since = |name: &str| now(name).unwrap_or(0);
    Some(format!(
        "{state}; puts {}/s, gets {}/s, others {}/s; up {}, down {}; {} repeated, {} failed, {} throttled since the \
         mount",
        rate(per_s("puts")),
        rate(per_s("gets")),
        rate(others),
        bytes("up"),
        bytes("down"),
        since("repeated"),
        since("failed"),
        since("throttled")
    ))
}

/// With a log on this machine.
fn behind(report: &Report) -> Option<String> {
    let lag = |name: &str| report.now.store(&format!("/lag/{name}"));
    let (bytes, most) = (lag("bytes")?, lag("most_bytes")?);
    let (seconds, patience) = (lag("seconds")?, lag("most_seconds")?);
    let part = share(bytes, most);
    let transactions = ondol::counted(lag("transactions")?, "transaction");
    Some(format!(
        "{} of {}{part} behind the log on this machine: {transactions}, the oldest {seconds} s old of {patience} s",
        human(bytes),
        human(most)
    ))
}

fn lease(report: &Report) -> Option<String> {
    let of = |name: &str| report.now.store(&format!("/lease/{name}"));
    let (age, length) = (of("age_seconds")?, of("length_seconds")?);
    Some(format!("renewed {age} s ago; others keep away for {length} s"))
}

#[cfg(test)]
mod tests {
    use super::super::super::reading::tests::far_reading;
    use super::*;

    fn said(unanswered: u64, is_local: bool) -> Vec<(&'static str, String)> {
        let [before, now] = [(10, 1000), (12, 1600)].map(|(s, puts)| far_reading(s, puts, unanswered, is_local));
        lines(&Report::between(&before, &now).unwrap())
    }

    #[test]
    fn object_storage_is_told_of() {
        let expected = "answers; puts 300/s, gets 0/s, others 0/s; up 300 KiB/s, down 0 bytes/s; 2 repeated, 1 \
                        failed, 0 throttled since the mount";
        let lease = "renewed 7 s ago; others keep away for 60 s";
        assert_eq!(said(4, false), [("store", expected.to_owned()), ("lease", lease.to_owned())]);
    }

    #[test]
    fn a_store_that_is_away_and_a_log_are_told_of() {
        let said = said(45, true);
        assert!(said[0].1.starts_with("has answered nothing for 45 s; "), "{said:?}");
        let lag = "4 KiB of 1 MiB (0 %) behind the log on this machine: 2 transactions, the oldest 3 s old of 30 s";
        assert_eq!(said[1], ("bucket", lag.to_owned()));
    }
}
