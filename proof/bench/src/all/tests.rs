//! Everything is in one result, what was measured is kept, and the page leads to all of it.

use super::{CHAPTERS, Collection, What, chapters, draw, paper_args, suite_args};
use crate::BenchError;
use crate::args::AllArgs;
use crate::results::Results;
use crate::series::{self, Outcome, Part};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;

fn args(report: Option<&Path>) -> AllArgs {
    let report = report.map(Path::to_owned);
    AllArgs {
        quick: true,
        ablate: true,
        nvm_model: Some("pcm"),
        rounds: Some(2),
        dir: "/dev/shm".into(),
        json: None,
        report,
    }
}

/// An outcome of tables.
#[derive(Serialize)]
struct Tables {
    partial: bool,
    tables: Vec<Value>,
}

impl Outcome for Tables {
    fn terminal(&self) -> String {
        String::new()
    }

    fn markdown(&self) -> String {
        format!("# Chapter\n\n{} of them\n\n## Below\n", ondol::counted(self.tables.len() as u64, "table"))
    }

    fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

struct Line;

impl Part for Line {
    fn terminal(&self) -> String {
        String::new()
    }

    fn is_partial(&self) -> bool {
        false
    }
}

/// Two tables, or one and an error.
fn measure(collection: &mut Collection<'_>, mut second: Option<BenchError>) -> Result<(), BenchError> {
    let value = json!({"median": 2.0, "low": 1.0, "high": 3.0});
    let table = |number: u32| json!({"number": number, "title": "t", "unit": "s", "columns": ["a"], "rows": [{"name": "row", "values": [value]}]});
    series::run(
        collection,
        ("table", &[1_u32, 2]),
        &mut Tables { partial: true, tables: Vec::new() },
        u32::to_string,
        |number| if *number == 2 { second.take().map_or(Ok(Line), Err) } else { Ok(Line) },
        |tables, number, _, partial| {
            tables.tables.push(table(*number));
            tables.partial = partial;
        },
    )
}

/// What there is after paper 3 has ended so: the outcome, and the JSON, the Markdown and the page.
fn drawn(third: Option<BenchError>) -> (Result<(), BenchError>, Value, String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut third = third;
    let result = draw(&args(Some(dir.path())), &CHAPTERS, Vec::new(), |chapter, collection| {
        measure(collection, third.take_if(|_| chapter.what == What::Paper(3)))
    });
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("a file");
    (result, serde_json::from_str(&read("all.json")).expect("JSON"), read("all.md"), read("all.html"))
}

fn titles(json: &Value) -> Vec<String> {
    Results::of(json).parts.into_iter().map(|part| part.title).collect()
}

#[test]
fn all_chapters_are_in_one_result() {
    let (result, json, text, page) = drawn(None);
    assert!(result.is_ok() && json["partial"] == false && json["missing"] == json!([]));
    let chapters: Vec<_> = CHAPTERS.iter().map(|chapter| chapter.name).collect();
    let expected: Vec<_> =
        chapters.iter().flat_map(|name| [1, 2].map(|number| format!("{name}, figure {number}: t"))).collect();
    assert_eq!(titles(&json), expected);
    assert_eq!(text.matches("\n## Chapter\n\n2 tables of them\n\n### Below\n").count(), CHAPTERS.len(), "{text}");
    // The index leads to every part of every chapter, and the headings of the tables stay apart.
    for (at, title) in expected.iter().enumerate() {
        let name = title.split_once(", ").map_or("", |(_, name)| name);
        assert!(page.contains(&format!("<a href=\"#part-{at}\">{name}</a>")), "{title}: {page}");
        assert!(page.contains(&format!("<section id=\"part-{at}\"")), "{title}");
    }
    for name in chapters {
        assert!(page.contains(&format!("<b>{name}</b>")), "{name}: {page}");
    }
    assert!(page.contains("<h3>Chapter</h3>") && page.contains("<h4>Below</h4>"), "{page}");
}

#[test]
fn a_signal_ends_all_and_what_was_measured_is_kept() {
    let (result, json, text, _) = drawn(Some(BenchError::Interrupted));
    assert!(matches!(result, Err(BenchError::Interrupted)) && json["partial"] == true);
    assert!(text.contains("PARTIAL"), "{text}");
    let whole = ["paper 1", "paper 2"].into_iter().flat_map(|name| [1, 2].map(|number| (name, number)));
    let expected: Vec<_> =
        whole.chain([("paper 3", 1)]).map(|(name, number)| format!("{name}, figure {number}: t")).collect();
    assert_eq!(titles(&json), expected);
    assert_eq!(
        (&json["chapters"][1]["result"]["partial"], &json["chapters"][2]["result"]["partial"]),
        (&false.into(), &true.into())
    );
}

#[test]
fn what_fails_is_named_and_the_rest_is_measured() {
    let (result, json, text, _) = drawn(Some(BenchError::Unfit("no such disk".into())));
    assert_eq!(result.expect_err("paper 3 fails").to_string(), "paper 3: no such disk; the rest is measured");
    assert_eq!(
        (titles(&json).len(), &json["partial"], &json["missing"]),
        (11, &true.into(), &json!(["paper 3: no such disk"]))
    );
    assert!(text.contains("PARTIAL") && text.contains("Not here: paper 3: no such disk"), "{text}");
}

#[test]
fn papers_are_asked_for_what_they_have() {
    let asked = [1, 2, 3, 4, 5].map(|number| paper_args(number, &args(None)));
    assert_eq!(asked.each_ref().map(|one| one.ablate), [true, false, true, false, true]);
    assert_eq!(asked.each_ref().map(|one| one.nvm_model.is_some()), [true, false, false, false, true]);
}

#[test]
fn what_cannot_be_written_is_said_before_anything_is_measured() {
    let nowhere = AllArgs { json: Some("/proc/no/file".into()), ..args(None) };
    let result = draw(&nowhere, &CHAPTERS, Vec::new(), |_, _| panic!("measured"));
    assert!(result.expect_err("no such directory").to_string().contains("/proc/no/file"));
}

#[test]
fn who_may_not_mount_has_the_papers() {
    let (here, missing) = chapters(false);
    assert!(here.len() == 5 && here.iter().all(|chapter| chapter.what != What::Suite));
    assert_eq!(missing, ["suite mount: needs root, which mounts"]);
    assert_eq!(chapters(true), (CHAPTERS.to_vec(), Vec::new()));
    let on_disk = AllArgs { dir: "/proc".into(), ..args(None) };
    assert_eq!(suite_args(&on_disk).expect("memory").dir, Path::new("/dev/shm"));
}

#[test]
fn a_directory_that_is_not_there_is_refused() {
    let nowhere = AllArgs { dir: "/nowhere".into(), ..args(None) };
    assert!(super::run(&nowhere).is_err_and(|e| e.is_usage() && e.to_string().contains("/nowhere")));
}
