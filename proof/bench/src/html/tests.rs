//! The page is well-formed, holds the JSON as it is, and takes every name as text.

use super::write;
use crate::results::{Results, What};
use html5ever::tendril::TendrilSink;
use html5ever::tokenizer::TokenizerOpts;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use serde_json::{Value, json};
use std::path::Path;

/// A name that would end elements, attributes, scripts and comments.
const HOSTILE: &str =
    "lib:\"><script>alert('x')</script><img src=//evil/x onerror=alert(1)>&amp;-->]]>\u{1}|`*a*`,on=ssd.img";

fn target(name: &str, rates: &[f64]) -> Value {
    json!({
        "target": name, "guarantee": format!("promises of {name}"), "floor": false,
        "ops_per_s": {"median": 0.0, "min": 0.0, "max": 0.0}, "rates": rates, "ratio": {"median": 1.0, "low": 1.0, "high": 1.0},
        "latency_us": {"p50": 1.5, "p99": 20.0, "p999": 300.0, "max": 4000.0}, "fsync_us": {"p50": 1.5, "p99": 2.0, "p999": 3.0, "max": 4.0},
        "counters": {"ops": 10, "user_bytes": 100, "fsyncs": 5, "client": {"calls": 20, "voluntary": 0, "involuntary": 0}, "device_flushes": 15},
    })
}

fn run(workload: &str) -> Value {
    json!({
        "workload": workload, "params": {"name": HOSTILE, "threads": 2}, "contents": {"class": "text", "lz4_ratio": 2.5},
        "machine": {"cpu": HOSTILE, "cores": 2, "kernel": "6.18", "memory_bytes": 1 << 30}, "commit": "abc", "rounds": 3, "partial": false,
        "targets": [target("kernel:ext4", &[100.0, 110.0, 90.0]), target(HOSTILE, &[200.0, 220.0, 360.0])],
    })
}

fn table() -> Value {
    let value = |n: f64| json!({"median": n, "low": n / 2.0, "high": n * 2.0});
    json!({
        "number": 9, "title": HOSTILE, "unit": HOSTILE, "paper": HOSTILE, "columns": [HOSTILE, "b"], "notes": [HOSTILE],
        "rows": [{"name": HOSTILE, "values": [value(3.0), null]}, {"name": "two", "values": [value(0.0), value(7.0)]}],
    })
}

/// Two runs and a table, as papers have them, and more that is neither.
fn series() -> Value {
    let panel = |workload: &str| json!({"figures": [1, 4], "device": "ssd", "workload": workload, "paper": {"ratio": "8.3"}, "result": run(workload)});
    json!({"paper": 3, "quick": true, "partial": true, "panels": [panel("varmail"), panel("fileserver")], "figures": [table()], "rows": [{"targets": 3}, {"columns": []}]})
}

/// Writes a report of `json` and hands the page and the directory of the charts to `look`.
fn written(json: &Value, look: impl FnOnce(&str, &Path)) {
    let dir = tempfile::tempdir().expect("a directory");
    let markdown =
        format!("# Title {HOSTILE}\n\n| a | b |\n|---|--:|\n| {HOSTILE} | 1 |\n\n{HOSTILE}\n\n[a](//evil/y)\n");
    let text = serde_json::to_string_pretty(json).expect("JSON");
    write(dir.path(), "result", &text, &markdown).expect("written");
    let page = std::fs::read_to_string(dir.path().join("result.html")).expect("the page");
    look(&page, &dir.path().join("result"));
}

/// A page as browsers read it, and what is wrong with it.
fn read(page: &str) -> (RcDom, Vec<String>) {
    let tokenizer = TokenizerOpts { exact_errors: true, ..TokenizerOpts::default() };
    let dom = parse_document(RcDom::default(), ParseOpts { tokenizer, ..ParseOpts::default() }).one(page);
    let errors = dom.errors.borrow().iter().map(ToString::to_string).collect();
    (dom, errors)
}

/// Name, attributes, and text.
type Element = (String, Vec<(String, String)>, String);

/// All elements below a node.
fn elements(node: &Handle, found: &mut Vec<Element>) {
    if let NodeData::Element { name, attrs, .. } = &node.data {
        let attrs = attrs.borrow().iter().map(|attr| (attr.name.local.to_string(), attr.value.to_string())).collect();
        let mut text = String::new();
        for child in node.children.borrow().iter() {
            if let NodeData::Text { contents } = &child.data {
                text.push_str(&contents.borrow());
            }
        }
        found.push((name.local.to_string(), attrs, text));
    }
    node.children.borrow().iter().for_each(|child| elements(child, found));
}

fn all(page: &str) -> Vec<Element> {
    let mut found = Vec::new();
    elements(&read(page).0.document, &mut found);
    found
}

#[test]
fn pages_are_well_formed() {
    let broken = "<!DOCTYPE html><html><head><title>x</title></head><body><p></b></body></html>";
    assert!(!read(broken).1.is_empty(), "an error is found");
    for json in [series(), run("varmail"), json!({"panels": []}), table()] {
        written(&json, |page, _| {
            let errors = read(page).1;
            assert!(errors.is_empty(), "{errors:?}\n{page}");
        });
    }
}

#[test]
fn names_are_text_and_nothing_is_fetched() {
    written(&series(), |page, _| {
        let found = all(page);
        let count = |name: &str| found.iter().filter(|(element, ..)| element == name).count();
        assert_eq!(
            (count("script"), count("img"), count("iframe"), count("b")),
            (3, 0, 0, 1),
            "the page's own, and `The paper:`"
        );
        for (element, attrs, _) in &found {
            for (name, value) in attrs {
                let is_own = value.starts_with('#') || value.starts_with("data:,");
                assert!(!matches!(name.as_str(), "href" | "src") || is_own, "{element} {name}={value}");
                assert!(!name.starts_with("on"), "{element} {name}={value}");
            }
        }
        let shown = HOSTILE.replace('\u{1}', "\u{fffd}");
        for element in ["td", "dt", "span", "li", "summary"] {
            let has = found.iter().any(|(name, _, text)| name == element && text.contains(&shown));
            assert_eq!(has, element != "summary", "{element}");
        }
        let policy = found
            .iter()
            .flat_map(|(_, attrs, _)| attrs)
            .find(|(name, value)| name == "content" && value.contains("default-src"));
        assert!(policy.is_some_and(|(_, policy)| policy.starts_with("default-src 'none';")));
    });
}

#[test]
fn the_json_comes_out_of_the_page_as_it_was() {
    for json in [series(), run("varmail")] {
        written(&json, |page, _| {
            let found = all(page);
            let is_result =
                |attrs: &[(String, String)]| attrs.iter().any(|(name, value)| name == "id" && value == "result");
            let (_, _, text) = found.iter().find(|(_, attrs, _)| is_result(attrs)).expect("the JSON");
            assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), json);
        });
    }
}

#[test]
fn charts_lie_beside_the_page() {
    written(&series(), |page, charts| {
        let found = all(page);
        let sheets: Vec<&String> = found.iter().filter(|(name, ..)| name == "pre").map(|(_, _, text)| text).collect();
        let mut names: Vec<_> = std::fs::read_dir(charts)
            .expect("charts")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        // An overview, four charts of each run, one of the table.
        assert_eq!((names.len(), sheets.len()), (2 * 10, 10), "{names:?}");
        assert!(
            names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))),
            "{names:?}"
        );
        assert!(
            names.contains(&"01-figure-9-lib-script-alert-x-script-img-src-evil-x-onerror-al.svg".into()),
            "{names:?}"
        );
        for name in &names {
            let text = std::fs::read_to_string(charts.join(name)).expect("a chart");
            if name.ends_with(".svg") {
                let svg = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
                let words: String = svg.descendants().filter_map(|node| node.text()).collect();
                assert!(words.contains("<script>alert('x')</script>") && !text.contains("var("), "{name}: {words}");
                assert!(!svg.descendants().any(|node| node.has_tag_name("script")), "{name}");
            } else {
                assert!(text.contains("onerror=alert(1)"), "{name}: {text}");
                assert!(
                    sheets
                        .iter()
                        .any(|sheet| sheet.replace('\n', "\r\n").trim() == text.replace('\u{1}', "\u{fffd}").trim()),
                    "{name}"
                );
            }
        }
    });
}

#[test]
fn what_is_drawn_is_what_the_file_says() {
    let series = series();
    let results = Results::of(&series);
    assert!(results.partial && results.quick && results.commit.as_deref() == Some("abc"));
    let titles: Vec<&str> = results.parts.iter().map(|part| part.title.as_str()).collect();
    assert_eq!(
        titles,
        [&format!("Figure 9: {HOSTILE}"), "Figures 1, 4: varmail, ssd", "Figures 1, 4: fileserver, ssd"]
    );
    assert!(
        matches!(results.parts.as_slice(), [table, one, _] if matches!(table.what, What::Table(_)) && matches!(one.what, What::Run(_)))
    );
    written(&run("varmail"), |page, charts| {
        // Rounds are paired: 2, 2 and 4 times; 15 flushes for 5 fsyncs.
        for part in [
            "× 2.00 (2.00 .. 4.00)",
            "<tspan class=\"value\">220</tspan>",
            "device flushes / fsync: 3",
            "in process",
            "3 rounds",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let rates = std::fs::read_to_string(charts.join("01-varmail-rate.csv")).expect("rates");
        assert!(rates.contains(",220,200,360,2,2,4,200,220,360\r\n"), "{rates}");
    });
}
