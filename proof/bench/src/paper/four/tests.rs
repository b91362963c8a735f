//! The figures can be drawn, and their tables say what was measured.

use super::figure::{Figure, Row};
use crate::args::PaperArgs;
use crate::report::cells;
use crate::series::{Book, Part};
use crate::stats::{Spread, spread};
use serde_json::Value as Json;

#[test]
fn every_figure_is_drawn() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (file, mut out) = (dir.path().join("paper4.json"), Vec::new());
    let args = PaperArgs {
        number: 4,
        quick: true,
        ablate: false,
        figure: None,
        rounds: Some(1),
        nvm_model: None,
        ratio: 2.5,
        dir: dir.path().to_owned(),
        json: None,
    };
    super::run(&args, &mut Book::new("paper 4".into(), Some(&file), &mut out)).expect("measured");
    let json: Json = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(json["partial"], false);
    let figures = json["figures"].as_array().expect("figures");
    assert_eq!(figures.len(), 8);
    for figure in figures {
        let rows = figure["rows"].as_array().expect("rows");
        let measured = rows.iter().flat_map(|row| row["values"].as_array()).flatten().filter(|value| !value.is_null());
        assert!(rows.len() >= 3 && measured.clone().count() >= rows.len(), "{figure}");
        assert!(measured.clone().all(|value| value["median"].as_f64() >= Some(0.0)), "{figure}");
    }
    // A fault for each page that lies apart, and no more where they lie side by side: what is counted is no matter of
    // speed.
    let faults = |row: usize| figures[3]["rows"][row]["values"][3]["median"].as_f64().expect("a count");
    assert!(faults(0) >= 1024.0 && faults(4) <= faults(0), "{text}");
    assert!(text.contains("== figure 8: "), "{text}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).expect("a directory").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn what_is_not_there_is_said() {
    let mut args = PaperArgs {
        number: 4,
        quick: true,
        ablate: false,
        figure: Some(9),
        rounds: None,
        nvm_model: None,
        ratio: 2.5,
        dir: "/dev/shm".into(),
        json: None,
    };
    assert!(crate::paper::run(&args).is_err_and(|e| e.is_usage()));
    (args.figure, args.dir) = (Some(1), "/nowhere".into());
    assert!(crate::paper::run(&args).is_err_and(|e| e.to_string().contains("/nowhere")));
}

#[test]
fn a_table_has_three_digits() {
    let row = Row { name: "one".into(), values: vec![Some(spread(&[3.0, 1234.5, 0.012_34])), None] };
    let figure = Figure {
        number: 1,
        title: "a title",
        unit: "ns",
        paper: "nothing",
        columns: vec!["a".into(), "b".into()],
        rows: vec![row, Row { name: "two".into(), values: vec![Some(Spread::exactly(12.3456))] }],
        notes: vec!["a note".into()],
    };
    let text = cells(&figure.terminal());
    assert!(text.contains("one | 3 | -") && text.contains("two | 12.3") && text.contains("a note"), "{text}");
    assert!(text.contains("the paper: nothing") && !figure.is_partial());
}
