//! The page: one file that needs nothing else.

use super::figures::{Figure, Section, guarantees};
use super::prose::{self, Prose};
use super::{legal, palette};
use crate::BenchError;
use crate::results::Results;
use crate::units::GIB;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::fmt::Write;

/// The page of a result; `stem` names it where it has no title, and names its downloads.
pub(super) fn page(
    results: &Results,
    sections: &[Section],
    stem: &str,
    json: &str,
    markdown: &str,
) -> Result<String, BenchError> {
    let prose = prose::read(markdown);
    let title = prose.title.clone().unwrap_or_else(|| stem.to_owned());
    // A single run is looked at first; a section for each figure repeats what the charts show, but a chapter's is its summary.
    let has_chapters = results.parts.iter().any(|part| part.chapter.is_some());
    let tables_first = has_chapters || results.parts.len() > 1 && !prose.has_sections;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:";
    let mut parts = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        parts.push(part(at, section)?);
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(palette::page())) }
            }
            body data-name=(stem) {
                header {
                    h1 { (title) }
                    (facts(results))
                    p class="tools" {
                        button type="button" id="theme" {}
                        button type="button" id="save" { "Download JSON" }
                        button type="button" id="print" { "Print" }
                    }
                    (contents(sections))
                }
                main {
                    @if tables_first { (tables(&prose)) }
                    @for part in &parts { (part) }
                    @if !tables_first { (tables(&prose)) }
                }
                footer { (how()) }
                div id="tip" role="tooltip" hidden {}
                script type="text/plain" id="chart-style" { (PreEscaped(palette::alone())) }
                script type="application/json" id="result" { (PreEscaped(embedded(json))) }
                script { (PreEscaped(include_str!("page.js"))) }
            }
        }
    };
    Ok(legal(&page.into_string()))
}

/// JSON that ends no element and means the same: what HTML or XML could stumble over stands in strings alone, where it can be written by its number.
fn embedded(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

/// What everything was measured with.
fn facts(results: &Results) -> Markup {
    html! {
        p class="facts" {
            @if results.partial { strong { "PARTIAL: the run has ended early" } }
            @if results.quick { strong { "quick: fewer operations" } }
            @if let Some(machine) = &results.machine {
                span { (machine.cpu) }
                span { (ondol::counted(machine.cores, "core")) }
                span { (format!("{:.1} GiB", machine.memory_bytes as f64 / GIB as f64)) }
                span { "Linux " (machine.kernel) }
            }
            @if let Some(commit) = &results.commit { span { "commit " (commit) } }
        }
    }
}

/// The index: every section, below the chapter that it belongs to.
fn contents(sections: &[Section]) -> Markup {
    let numbered: Vec<(usize, &Section)> = sections.iter().enumerate().collect();
    html! {
        nav aria-label="Contents" {
            ul { li { a href="#tables" { "Tables" } } }
            @for group in numbered.chunk_by(|(_, one), (_, next)| one.chapter == next.chapter) {
                @if let Some(chapter) = group.first().and_then(|(_, section)| section.chapter.as_ref()) { b { (chapter) } }
                ul {
                    @for (at, section) in group {
                        li { a href=(format!("#part-{at}")) { (within(section)) } }
                    }
                }
            }
        }
    }
}

/// A section's title without its chapter.
fn within(section: &Section) -> &str {
    let chapter = section.chapter.as_deref();
    let rest = chapter.and_then(|name| section.title.strip_prefix(name)).and_then(|rest| rest.strip_prefix(", "));
    rest.unwrap_or(&section.title)
}

fn tables(prose: &Prose) -> Markup {
    html! {
        section id="tables" {
            h2 { "Tables" }
            (prose.body)
        }
    }
}

fn part(at: usize, section: &Section) -> Result<Markup, BenchError> {
    let mut figures = Vec::new();
    for one in &section.figures {
        figures.push(figure(one)?);
    }
    Ok(html! {
        section id=(format!("part-{at}")) class=[(section.figures.len() == 1).then_some("one")] {
            h2 { (section.title) }
            @if !section.facts.is_empty() {
                p class="facts" { @for fact in &section.facts { span { (fact) } } }
            }
            div class="figures" { @for figure in &figures { (figure) } }
            @if let Some(paper) = &section.paper { p { b { "The paper: " } (paper) } }
            @if !section.notes.is_empty() {
                ul { @for note in &section.notes { li { (note) } } }
            }
            (guarantees(section))
        }
    })
}

fn figure(figure: &Figure) -> Result<Markup, BenchError> {
    Ok(html! {
        figure id=(figure.file) {
            (figure.svg)
            p class="tools" {
                @for kind in ["SVG", "PNG", "CSV"] { button type="button" data-save=(kind) { (kind) } }
            }
            details class="values" {
                summary { "Values" }
                (figure.sheet.table())
            }
            pre class="csv" hidden { (figure.sheet.csv()?.replace("\r\n", "\n")) }
        }
    })
}

/// What a reader has to know of all figures.
fn how() -> Markup {
    html! {
        p {
            "Targets take turns in every round. Bars and points are medians over rounds, lines go from the lowest to the highest round, and a ratio is to the first target in the same round. "
            "A target in process makes no system calls: set it beside others in process first. A floor is no peer: it shows what FUSE itself takes."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::embedded;
    use serde_json::{Value, json};

    #[test]
    fn embedded_json_means_the_same() {
        let value = json!({"a<b": "</script><!-- & ]]> \u{2028}\u{7f}\u{85}\u{ffff} \\u003c ü \"", "n": [1.5, null]});
        let text = embedded(&value.to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{7f}', '\u{85}', '\u{ffff}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}
