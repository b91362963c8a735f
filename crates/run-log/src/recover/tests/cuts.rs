//! Recoveries of a file that were cut.

use super::rig::Lost;
use crate::client::wall_ns;
use crate::look::Times;
use crate::recover::elsewhere::Elsewhere;
use crate::recover::{FoundFile, Mounted, Outcome, bring};
use rustix::fs::Timespec;
use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const SECOND: u64 = 1_000_000_000;

fn set_mtime(dir: &Path, to: u64) {
    let file = File::options().write(true).open(dir.join("file")).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_nanos(to)).unwrap();
}

/// A file that the kernel has nothing of what was logged for: `old`, and to become `old: one two three`.
struct Cut<'d> {
    lost: Lost<'d>,
    found: FoundFile,
}

impl<'d> Cut<'d> {
    fn new(dir: &'d Path) -> Self {
        fs::write(dir.join("file"), "old").unwrap();
        // Long ago: what recovery writes is later than the horizon.
        set_mtime(dir, wall_ns() - 3_600 * SECOND);
        let lost = Lost::new(dir);
        let mut file = lost.trust("file");
        for bytes in [&b": "[..], b"one ", b"two ", b"three"] {
            file = lost.write(&file, bytes);
        }
        lost.client.persist().unwrap();
        let mut found = crate::found(&lost.client.log).unwrap().files.remove(0);
        assert_eq!(found.pieces().len(), 4);
        // As long ago: nobody can set a ctime.
        found.newest.ctime -= 3_600 * SECOND;
        found.newest.base_time -= 3_601 * SECOND;
        Self { lost, found }
    }

    /// A recovery that ends before the records are retired.
    fn recover(&self, clock: &dyn Fn() -> u64) -> Outcome {
        let (log, known) = (&self.lost.client.log, self.found.identity.as_ref().unwrap());
        let mut elsewhere = Elsewhere::new(&Mounted, [(known.fsid, known.ino)].into_iter());
        bring::bring(log, &mut elsewhere, &self.found, false, clock).unwrap()
    }

    fn begin(&self, at: u64) {
        let log = &self.lost.client.log;
        log.slot(self.found.slot).begin_recovery(self.found.incarnation, at).unwrap();
    }

    /// The disk has not got the end of it.
    fn lose(&self) {
        let file = File::options().write(true).open(self.lost.dir.join("file")).unwrap();
        file.write_all_at(b"\0\0\0", 10).unwrap();
    }

    fn is_whole(&self) -> bool {
        fs::read(self.lost.dir.join("file")).unwrap() == b"old: one two three"
    }
}

/// The first one failed for want of space ten minutes ago, the second is cut.
#[test]
fn recovery_of_a_file_may_be_cut_twice() {
    let dir = tempfile::tempdir().unwrap();
    let cut = Cut::new(dir.path());
    cut.begin(wall_ns() - 600 * SECOND);
    for _ in 0..2 {
        assert_eq!(cut.recover(&wall_ns), Outcome::Replayed(15));
        assert!(cut.is_whole());
        cut.lose();
    }
    // Somebody else writes ten minutes later, and it stays so.
    cut.begin(wall_ns() - 600 * SECOND);
    assert!(matches!(cut.recover(&wall_ns), Outcome::Beside(_)));
    assert!(!cut.is_whole());
}

/// A program sets its file's times after its last record, and the kernel has committed that: the file is its own still,
/// and keeps them; where the times are a record they are given again.
#[test]
fn a_file_whose_times_were_set_is_known() {
    for (logged, set) in
        [(None, 1_000_000_000), (Some(2_000_000_000), 1_000_000_000), (Some(5), wall_ns() / SECOND + 9_999)]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut cut = Cut::new(dir.path());
        cut.found.newest.ctime = wall_ns();
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 7 };
        cut.found.newest.times = logged.map(|s| Times { atime: time(s + 1), mtime: time(s) });
        set_mtime(dir.path(), set * SECOND + 7);
        assert_eq!(cut.recover(&wall_ns), Outcome::Replayed(15));
        // Before it is read.
        let meta = fs::metadata(dir.path().join("file")).unwrap();
        assert!(cut.is_whole());
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (logged.unwrap_or(set as i64), 7));
        assert!(logged.is_none_or(|s| meta.atime() == s + 1));
    }
}

/// Contents that somebody else has changed later are his, whatever time he has set.
#[test]
fn a_file_that_others_have_changed_since_is_theirs_whatever_its_mtime() {
    for from_now in [-9_000, 9_000] {
        let dir = tempfile::tempdir().unwrap();
        let cut = Cut::new(dir.path());
        set_mtime(dir.path(), wall_ns().saturating_add_signed(from_now * SECOND as i64));
        assert!(matches!(cut.recover(&wall_ns), Outcome::Beside(_)), "{from_now}");
    }
}

/// Two minutes go by while it writes.
#[test]
fn recovery_that_takes_long_may_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let cut = Cut::new(dir.path());
    let step = Cell::new(3_u64);
    let clock = || wall_ns() - 40 * SECOND * step.replace(step.get().saturating_sub(1));
    assert_eq!(cut.recover(&clock), Outcome::Replayed(15));
    assert_eq!(step.get(), 0);
    cut.lose();
    assert_eq!(cut.recover(&wall_ns), Outcome::Replayed(15));
    assert!(cut.is_whole());
}

/// The kernel's clock of times goes by ticks: the first write may seem to come before the word.
#[test]
fn a_write_of_recovery_within_the_tick_before_it_began_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let cut = Cut::new(dir.path());
    let began = wall_ns() + 600 * SECOND;
    cut.begin(began);
    set_mtime(dir.path(), began - SECOND / 100);
    assert_eq!(cut.recover(&wall_ns), Outcome::Replayed(15));
    assert!(cut.is_whole());
}
