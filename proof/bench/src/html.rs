//! The report to look at: one page, and an SVG and a CSV for each of its charts.
//!
//! All of it is made from the JSON and the Markdown of a result, whatever bench wrote them.
//!
//! An object in the JSON that reads as a run (`targets`) or as a table (`columns` and `rows`) has charts, however deep
//! it lies; its title is made of the names around it. The page is one file that fetches nothing, and its
//! `Content-Security-Policy` forbids it to. Whatever a name or an error holds is text in it: elements are made by a
//! library that escapes, HTML in the Markdown is shown as it is written, and the JSON lies in a `script` element with
//! `<`, `>` and `&` as escapes. An SVG beside it has light colours and neither variables nor media queries, so that
//! programs for documents read it. There is no PNG: drawing one would add 2.4 MB and draw no letters on machines
//! without fonts; the browser draws it.

mod chart;
mod figures;
mod page;
mod palette;
mod prose;
mod sheet;
#[cfg(test)]
mod tests;

use crate::BenchError;
use crate::error::Context;
use crate::results::Results;
use std::io;
use std::path::Path;

/// Writes `stem.html`, and the charts into the directory `stem`, into `dir`, which exists. `json` and `markdown` are one result.
///
/// # Errors
/// A file cannot be written; the error names it. `json` is none.
pub(crate) fn write(dir: &Path, stem: &str, json: &str, markdown: &str) -> Result<(), BenchError> {
    let value = serde_json::from_str(json).map_err(io::Error::from).context(|| "JSON")?;
    let results = Results::of(&value);
    let sections = figures::sections(&results);
    let charts = dir.join(stem);
    std::fs::create_dir_all(&charts).context(|| charts.display().to_string())?;
    let save = |path: &Path, text: &str| std::fs::write(path, text).context(|| path.display().to_string());
    for figure in sections.iter().flat_map(|section| &section.figures) {
        save(&charts.join(format!("{}.svg", figure.file)), &figure.alone())?;
        save(&charts.join(format!("{}.csv", figure.file)), &figure.sheet.csv()?)?;
    }
    save(&dir.join(stem).with_extension("html"), &page::page(&results, &sections, stem, json, markdown)?)
}

/// `text` with U+FFFD for what neither XML nor HTML has.
fn legal(text: &str) -> String {
    let is_legal = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'));
    text.chars().map(|c| if is_legal(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}
