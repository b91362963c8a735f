//! The rules of the documents: wrapped lines, few words, those of the field, links that lead somewhere, real commands.

mod commands;
mod counts;
mod links;
mod width;
mod words;

use pulldown_cmark::{Event, Options, Parser, TextMergeWithOffset};
use std::path::Path;

/// Fails when a document of the workspace breaks a rule; each fault says where, what, and what to write instead.
pub(crate) fn check() -> Result<(), String> {
    let root = crate::metadata()?.workspace_root.into_std_path_buf();
    let documents = read(&root)?;
    let current: Vec<&Document> = documents.iter().filter(|document| document.name != CHANGELOG).collect();
    let mut faults = counts::faults(&current);
    faults.extend(documents.iter().flat_map(width::faults));
    faults.extend(current.iter().flat_map(|document| words::faults(document)));
    faults.extend(links::faults(&documents, &root));
    faults.extend(commands::faults(&current, &crate::names())?);
    if faults.is_empty() { Ok(()) } else { Err(format!("\n  {}", faults.join("\n  "))) }
}

/// It says what was, in the words and commands of then.
const CHANGELOG: &str = "CHANGELOG.md";

/// A Markdown file of the workspace.
struct Document {
    /// Its path from the root.
    name: String,
    text: String,
}

impl Document {
    /// What the text consists of, and the lines where that begins.
    fn events(&self) -> impl Iterator<Item = (usize, Event<'_>)> {
        let parser = Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter();
        let (mut line, mut counted) = (1, 0);
        TextMergeWithOffset::new(parser).map(move |(event, range)| {
            // The end of a block has the offset of its beginning.
            if range.start > counted {
                line += self.text[counted..range.start].matches('\n').count();
                counted = range.start;
            }
            (line, event)
        })
    }

    fn fault(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.name)
    }
}

fn read(root: &Path) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    for file in crate::sizes::files(root, "md")? {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        documents.push(Document { name: file.strip_prefix(root).unwrap_or(&file).display().to_string(), text });
    }
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(documents)
}

#[cfg(test)]
fn document(name: &str, text: &str) -> Document {
    Document { name: name.into(), text: text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_lines() {
        let text = "# a\n\n- b *c*\n  d\n\n  ```sh\n  e\n  ```\n\n| f |\n|---|\n| `g` |\n";
        let document = document("a.md", text);
        let is_code = |event: &Event<'_>| matches!(event, Event::Code(_));
        let texts = document.events().filter_map(|(line, event)| match event {
            Event::Text(text) => Some((line, text.trim().to_owned())),
            event if is_code(&event) => Some((line, "code".into())),
            _ => None,
        });
        let texts: Vec<(usize, String)> = texts.collect();
        let wanted = [(1, "a"), (3, "b"), (3, "c"), (4, "d"), (7, "e"), (10, "f"), (12, "code")];
        assert_eq!(texts, wanted.map(|(line, text)| (line, text.to_owned())));
    }
}
