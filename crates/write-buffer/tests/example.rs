//! The example: a log that is killed keeps what it has acknowledged.

#[path = "../examples/wal.rs"]
mod wal;

use ondol_env::sync::thread;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use wal::{Wal, run};

/// Where the child that is killed has its log: the pool, then the directory.
const CHILD: &str = "WAL_OF_CHILD";

fn line(n: usize) -> String {
    format!("record {n} {}", "x".repeat(n * 37 % 5000))
}

fn records(pool: &Path, dir: &Path) -> Vec<String> {
    let (wal, records) = Wal::open(pool, dir).expect("the log");
    wal.close().expect("a close");
    records.into_iter().map(|record| String::from_utf8(record).expect("text")).collect()
}

/// Appends lines from number `first` on in a child, and kills it once `count` are acknowledged. Returns how many were
/// by then.
fn killed(pool: &Path, dir: &Path, first: usize, count: usize) -> usize {
    let place = format!("{}\n{}", pool.display(), dir.display());
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "a_killed_log_keeps_what_it_acknowledged", "--nocapture"])
        .env(CHILD, place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut input = child.stdin.take().expect("its input");
    // It ends when the child is killed.
    let feeder = thread::spawn(move || (first..).take_while(|n| writeln!(input, "{}", line(*n)).is_ok()).count());
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut acknowledged = 0;
    for number in output.lines().map_while(Result::ok).filter_map(|line| line.parse::<usize>().ok()) {
        acknowledged = number;
        if number == first + count {
            child.kill().expect("a kill");
        }
    }
    assert!(!child.wait().expect("its end").success());
    assert!(feeder.join().expect("the feeder") >= count);
    acknowledged
}

#[test]
fn a_killed_log_keeps_what_it_acknowledged() {
    if let Ok(place) = std::env::var(CHILD) {
        let (pool, dir) = place.split_once('\n').expect("two paths");
        return run(&[pool, dir, "append"], std::io::stdin().lock(), std::io::stdout()).expect("a killed program");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (pool, home) = (dir.path().join("wal.pool"), dir.path().join("home"));
    std::fs::create_dir(&home).expect("a directory");
    let mut found = 0;
    for count in [1, 100, 300] {
        let acknowledged = killed(&pool, &home, found, count);
        let records = records(&pool, &home);
        assert!(records.len() >= acknowledged && acknowledged >= found + count, "{} of {acknowledged}", records.len());
        let wrong = (0..).zip(&records).find(|(n, record)| **record != line(*n));
        assert!(wrong.is_none(), "{wrong:?}");
        found = records.len();
    }
}

#[test]
fn a_record_that_is_not_whole_is_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let (pool, home) = (dir.path().join("wal.pool"), dir.path());
    let words = |what| [pool.to_str().expect("a path"), home.to_str().expect("a path"), what];
    let mut said = Vec::new();
    run(&words("append"), &b"one\ntwo\nthree\n"[..], &mut said).expect("three records");
    assert_eq!(said, b"1\n2\n3\n");
    let log = home.join("wal");
    let mut bytes = std::fs::read(&log).expect("the log, closed");
    assert_eq!(bytes.len(), 3 * 8 + 11);
    bytes[8 + 3 + 8] ^= 1;
    std::fs::write(&log, bytes).expect("damage");
    let mut said = Vec::new();
    run(&words("list"), &b""[..], &mut said).expect("a list");
    assert_eq!(said, b"one\n");
    let mut said = Vec::new();
    run(&words("append"), &b"four\n"[..], &mut said).expect("a record");
    assert_eq!((said, records(&pool, home)), (b"2\n".to_vec(), vec!["one".into(), "four".into()]));
    assert!(run(&words("forget"), &b""[..], Vec::new()).is_err_and(|e| e.to_string().contains("forget")));
}
