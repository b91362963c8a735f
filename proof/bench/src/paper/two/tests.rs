//! The table can be drawn, says what the paper says, and keeps what was measured.

use super::{LINES, Line, Measured, Through, WAYS, draw, run_words, words};
use crate::BenchError;
use crate::args::PaperArgs;
use crate::report::cells;
use crate::series::Book;
use std::path::Path;

fn args(quick: bool) -> PaperArgs {
    let dir = "/var/tmp".into();
    PaperArgs {
        number: 2,
        quick,
        ablate: false,
        figure: None,
        rounds: None,
        nvm_model: None,
        ratio: 2.5,
        dir,
        json: None,
    }
}

/// Of two rounds.
fn measured(line: &Line) -> Measured {
    Measured::of(line, &[vec![8.0, 6.0], vec![2.0, 2.0], vec![3.0, 5.0], vec![4.0, 4.0], vec![12.0, 8.0]])
}

const ROW: &str = "1 thread | 7.00 (6.00 .. 8.00) | 2.00 | 4.00 (3.00 .. 5.00) | 4.00 | 10.00 (8.00 .. 12.00) | 3.50 \
                   (3.00 .. 4.00) | 2.00 (1.50 .. 2.50) | 1.75 (1.50 .. 2.00) | 2.50 (2.00 .. 3.00) | 730.7 | 72.0 | \
                   81.2 | 10.1 | 1.1";

#[test]
fn what_was_measured_is_kept_beside_the_papers() {
    let drawn = |whole: usize, last: fn() -> BenchError| {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, mut out) = (dir.path().join("paper2.json"), Vec::new());
        let mut book = Book::new("paper 2".into(), Some(&file), &mut out);
        let mut done = 0;
        let result = draw(&args(true), &mut book, |line| {
            done += 1;
            if done > whole { Err(last()) } else { Ok(measured(line)) }
        });
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
        (result, json, cells(&String::from_utf8(out).expect("text")))
    };
    let (result, json, text) = drawn(6, || BenchError::Interrupted);
    assert!(result.is_ok() && text.contains(ROW) && !text.contains("PARTIAL"), "{text}");
    assert!(text.contains("160M with a buffer of 16M"), "{text}");
    assert_eq!((&json["partial"], &json["table"]["rows"][5]["paper"]["sync_16k"]), (&false.into(), &87.8.into()));
    let rows = json["table"]["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["1 thread", "2 threads", "4 threads", "8 threads", "16 threads", "32 threads"]);
    let seconds = [(7.0, 6.0, 8.0), (2.0, 2.0, 2.0), (4.0, 3.0, 5.0), (4.0, 4.0, 4.0), (10.0, 8.0, 12.0)];
    let ratios = [(3.5, 3.0, 4.0), (2.0, 1.5, 2.5), (1.75, 1.5, 2.0), (2.5, 2.0, 3.0)];
    let first = [&seconds[..], &ratios].concat().into_iter();
    let first = first.map(|(median, low, high)| serde_json::json!({"median": median, "low": low, "high": high}));
    let first: Vec<_> = first.collect();
    assert_eq!((&json["table"]["columns"].as_array().map(Vec::len), &rows[0]["values"]), (&Some(9), &first.into()));
    for (last, interrupted) in
        [(|| BenchError::Interrupted) as fn() -> BenchError, || BenchError::Unfit("a full disk".into())]
            .into_iter()
            .zip([true, false])
    {
        let (result, json, text) = drawn(2, last);
        assert_eq!(matches!(result, Err(BenchError::Interrupted)), interrupted);
        assert!(result.is_err() && text.contains("PARTIAL") && text.contains(ROW), "{text}");
        assert_eq!((&json["partial"], json["table"]["rows"].as_array().map(Vec::len)), (&true.into(), Some(2)));
    }
}

#[test]
fn programs_write_ten_times_the_buffer() {
    let (dir, pool) = (Path::new("/var/tmp/d"), Path::new("/dev/shm/p/buffer.pool"));
    let write = "bench write --dir /var/tmp/d --threads 4 --bytes 167772160 --unit";
    let through = " --pool /dev/shm/p/buffer.pool --size 16777216";
    for (way, (unit, through)) in
        WAYS.into_iter().zip([(16384, ""), (16384, through), (1024, through), (16384, ""), (1024, "")])
    {
        assert_eq!(words(way, 4, 16 << 20, dir, pool).join(" "), format!("{write} {unit}{through}"));
    }
    assert_eq!(WAYS.map(|way| way.through == Through::Run), [false, false, false, true, true]);
    let run = "run --quiet --buffer /dev/shm/p/buffer.pool --size 16777216 --dir /var/tmp/d";
    assert_eq!(run_words(16 << 20, dir, pool).join(" "), run);
    // All threads have whole writes.
    assert!(LINES.iter().all(|line| (160 << 20) % (u64::from(line.threads) * (16 << 10)) == 0));
}

#[test]
fn what_is_not_there_is_said() {
    let run = |args: &PaperArgs| super::run(args, &mut Book::new("paper 2".into(), None, &mut Vec::new()));
    let other = PaperArgs { figure: Some(2), ..args(true) };
    assert!(run(&other).is_err_and(|e| e.is_usage() && e.to_string().contains("table 1")));
    let nowhere = PaperArgs { dir: "/nowhere".into(), ..args(true) };
    assert!(run(&nowhere).is_err_and(|e| e.is_usage() && e.to_string().contains("/nowhere")));
}
