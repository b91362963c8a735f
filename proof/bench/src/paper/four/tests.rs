//! The figures can be drawn, and their tables say what was measured.

use super::figure::{Figure, Row, Value};
use crate::args::PaperArgs;
use crate::contents::Class;
use crate::series::Part;
use serde_json::Value as Json;

#[test]
fn every_figure_is_drawn() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let report = Some(dir.path().to_owned());
    let args = PaperArgs {
        number: 4,
        quick: true,
        ablate: false,
        figure: None,
        rounds: Some(1),
        nvm_model: None,
        class: Class::Text,
        dir: dir.path().to_owned(),
        json: None,
        report,
    };
    crate::paper::run(&args).expect("drawn");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("a file");
    let (json, text): (Json, _) = (serde_json::from_str(&read("paper4.json")).expect("JSON"), read("paper4.md"));
    assert_eq!(json["partial"], false);
    let figures = json["figures"].as_array().expect("figures");
    assert_eq!(figures.len(), 8);
    for figure in figures {
        let rows = figure["rows"].as_array().expect("rows");
        let measured = rows.iter().flat_map(|row| row["values"].as_array()).flatten().filter(|value| !value.is_null());
        assert!(rows.len() >= 3 && measured.clone().count() >= rows.len(), "{figure}");
        assert!(measured.clone().all(|value| value["median"].as_f64() >= Some(0.0)), "{figure}");
    }
    // A fault for each page that lies apart, and no more where they lie side by side: what is counted is no matter of speed.
    let faults = |row: usize| figures[3]["rows"][row]["values"][3]["median"].as_f64().expect("a count");
    assert!(faults(0) >= 1024.0 && faults(4) <= faults(0), "{text}");
    assert!(text.contains("## Figure 8") && !text.contains("PARTIAL"), "{text}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).expect("a directory").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
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
        class: Class::Text,
        dir: "/dev/shm".into(),
        json: None,
        report: None,
    };
    assert!(crate::paper::run(&args).is_err_and(|e| e.is_usage()));
    (args.figure, args.dir) = (Some(1), "/nowhere".into());
    assert!(crate::paper::run(&args).is_err_and(|e| e.to_string().contains("/nowhere")));
}

#[test]
fn a_table_has_three_digits() {
    let row = Row { name: "one".into(), values: vec![Some(Value::of(vec![3.0, 1234.5, 0.012_34])), None] };
    let figure = Figure {
        number: 1,
        title: "a title",
        unit: "ns",
        paper: "nothing",
        columns: vec!["a".into(), "b".into()],
        rows: vec![row, Row { name: "two".into(), values: vec![Some(Value::exactly(12.3456))] }],
        notes: vec!["a note".into()],
    };
    let text = figure.markdown();
    assert!(text.contains("| one | 3 | - |") && text.contains("| two | 12.3 |") && text.contains("- a note"), "{text}");
    assert!(figure.terminal().contains("the paper: nothing") && !figure.is_partial());
}
