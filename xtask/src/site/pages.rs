//! The book's pages: the documents, a page for each file outside of them that one links to, and the order of all.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Groups of documents as readers come to them. Those that no group names are the last of the last group.
const GROUPS: [(&str, &[&str]); 3] = [
    (
        "Use",
        &[
            "docs/install.md",
            "docs/commands.md",
            "docs/crash-contract.md",
            "docs/ext4.md",
            "docs/write-buffer.md",
            "docs/object-storage.md",
            "docs/sqlite.md",
            "docs/c.md",
        ],
    ),
    (
        "Understand",
        &[
            "docs/comparison.md",
            "docs/benchmarks.md",
            "docs/papers.md",
            "ARCHITECTURE.md",
            DESIGN,
            "docs/format.md",
            "docs/glossary.md",
        ],
    ),
    ("Develop", &["docs/testing.md", "docs/crash-testing.md", "docs/programs.md", "docs/fsck-images.md"]),
];

/// A directory whose documents are below one entry.
const DESIGN: &str = "docs/design";

/// Pages by their paths in the book, and the pictures that they show.
pub(crate) fn gather(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let documents = documents(root)?;
    let mut sources = Sources { root, documents: &documents, files: BTreeSet::from([DESIGN.into()]) };
    let mut pages = BTreeMap::new();
    let mut titles = BTreeMap::new();
    for path in &documents {
        let text = sources.read(path)?;
        titles.insert(path.clone(), title(&text).ok_or_else(|| format!("{} has no heading", path.display()))?);
        pages.insert(page(path), sources.rewritten(path, &text).into_bytes());
    }
    for dir in sources.files.clone().iter().filter(|path| root.join(path).is_dir()) {
        pages.insert(dir.join("index.md"), sources.listing(dir, &titles)?.into_bytes());
    }
    for file in sources.files.iter().filter(|path| root.join(path).is_file()) {
        if is_picture(file) {
            pages.insert(file.clone(), fs::read(root.join(file)).map_err(|e| e.to_string())?);
        } else {
            pages.insert(ending(file, ".md"), source(file, &sources.read(file)?).into_bytes());
        }
    }
    let files = sources.files.iter().filter(|path| !is_picture(path) && *path != Path::new(DESIGN));
    let files: Vec<(PathBuf, bool)> = files.map(|path| (path.clone(), root.join(path).is_dir())).collect();
    pages.insert("SUMMARY.md".into(), summary(&titles, &files).into_bytes());
    Ok(pages)
}

/// The documents, as paths below the project's directory.
fn documents(root: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let mut found = BTreeSet::new();
    for dir in ["", "docs", DESIGN] {
        for path in listed(root, Path::new(dir))? {
            if path.extension().is_some_and(|ending| ending == "md") && root.join(&path).is_file() {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

/// What a directory holds and shows, in order.
fn listed(root: &Path, dir: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let entries = fs::read_dir(root.join(dir)).map_err(|e| format!("{}: {e}", dir.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Ok(names.filter(|name| !name.as_encoded_bytes().starts_with(b".")).map(|name| dir.join(name)).collect())
}

/// What documents are made from.
struct Sources<'a> {
    root: &'a Path,
    documents: &'a BTreeSet<PathBuf>,
    /// What they link to outside of the documents: files and directories.
    files: BTreeSet<PathBuf>,
}

impl Sources<'_> {
    fn read(&self, path: &Path) -> Result<String, String> {
        fs::read_to_string(self.root.join(path)).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// A document whose links lead to pages of the book.
    fn rewritten(&mut self, path: &Path, text: &str) -> String {
        let mut edits = Vec::new();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else { continue };
            let Some(new) = self.link(path, &dest_url) else { continue };
            if let Some(at) = text[range.clone()].rfind(&*dest_url) {
                edits.push((range.start + at, dest_url.len(), new));
            }
        }
        edits.sort();
        let mut text = text.to_owned();
        for (at, len, new) in edits.into_iter().rev() {
            text.replace_range(at..at + len, &new);
        }
        text
    }

    /// What a link must be in the book, if it is another one there. One to what is not there stays, to be found later.
    fn link(&mut self, from: &Path, link: &str) -> Option<String> {
        let (path, anchor) = link.find('#').map_or((link, ""), |at| link.split_at(at));
        let target = normal(&from.parent()?.join(path)).filter(|_| !path.is_empty())?;
        let start = path.trim_end_matches('/');
        if self.documents.contains(&target) {
            return start.strip_suffix("README.md").map(|dir| format!("{dir}index.md{anchor}"));
        }
        let full = self.root.join(&target);
        let new = match full {
            _ if full.is_dir() => format!("{start}/index.md{anchor}"),
            _ if full.is_file() && !is_picture(&target) => format!("{start}.md{anchor}"),
            _ if full.is_file() => link.to_owned(),
            _ => return None,
        };
        self.files.insert(target);
        Some(new)
    }

    /// A page for a directory. The files in it become pages, too.
    fn listing(&mut self, dir: &Path, titles: &BTreeMap<PathBuf, String>) -> Result<String, String> {
        let mut text =
            if dir == Path::new(DESIGN) { "# Design\n\n".into() } else { format!("# {}\n\n", dir.display()) };
        for path in listed(self.root, dir)?.into_iter().filter(|path| self.root.join(path).is_file()) {
            let name = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
            let line = match titles.get(&path) {
                Some(title) => writeln!(text, "- [{title}]({name})"),
                None => writeln!(text, "- [{name}]({name}.md)"),
            };
            line.map_err(|e| e.to_string())?;
            if !self.documents.contains(&path) {
                self.files.insert(path);
            }
        }
        Ok(text)
    }
}

/// The page of a document. mdBook has no README.
fn page(document: &Path) -> PathBuf {
    if document.ends_with("README.md") { document.with_file_name("index.md") } else { document.to_owned() }
}

fn ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "svg")
}

/// A file as a page, in a fence that nothing in it ends.
fn source(path: &Path, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let language = match path.extension().and_then(|ending| ending.to_str()) {
        // Not as a test, with a button that sends it elsewhere.
        Some("rs") => "rust,noplayground",
        Some(language @ ("c" | "sh" | "js")) => language,
        Some("h") => "c",
        Some("mount" | "service" | "conf") => "ini",
        _ => "text",
    };
    format!("# {}\n\n{fence}{language}\n{text}\n{fence}\n", path.display())
}

/// A path without `.` and `..`; `None` for one that leaves where it began.
pub(crate) fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir if normal.pop() => {}
            _ => return None,
        }
    }
    Some(normal)
}

/// The text of a document's first heading.
fn title(text: &str) -> Option<String> {
    let mut events = Parser::new(text).skip_while(|event| !matches!(event, Event::Start(Tag::Heading { .. })));
    events.next()?;
    let words = events.map_while(|event| match event {
        Event::Text(words) | Event::Code(words) => Some(words.into_string()),
        Event::End(TagEnd::Heading(_)) => None,
        _ => Some(String::new()),
    });
    Some(words.collect())
}

/// What mdBook is told of the order. `files` are what is no document, and whether it is a directory.
fn summary(titles: &BTreeMap<PathBuf, String>, files: &[(PathBuf, bool)]) -> String {
    let is_design = |path: &&PathBuf| path.starts_with(DESIGN);
    let entry = |path: &Path, title: &str| format!("- [{title}]({})\n", page(path).display());
    let first = Path::new("README.md");
    let mut text = "# Summary\n\n".to_owned();
    text.extend(titles.get(first).map(|title| format!("[{title}](index.md)\n")));
    for (n, (group, named)) in GROUPS.iter().enumerate() {
        text += &format!("\n# {group}\n\n");
        for path in named.iter().map(Path::new) {
            if path == Path::new(DESIGN) {
                text += &entry(&path.join("README.md"), "Design");
                text.extend(
                    titles
                        .iter()
                        .filter(|(path, _)| is_design(path))
                        .map(|(path, title)| format!("  {}", entry(path, title))),
                );
            } else {
                text.extend(titles.get(path).map(|title| entry(path, title)));
            }
        }
        if n + 1 == GROUPS.len() {
            let is_named =
                |path: &PathBuf| GROUPS.iter().any(|(_, named)| named.iter().any(|name| path == Path::new(name)));
            let rest = titles.iter().filter(|(path, _)| !is_named(path) && !is_design(path) && *path != first);
            text.extend(rest.map(|(path, title)| entry(path, title)));
        }
    }
    text += "\n# Files\n\n";
    for (path, is_dir) in files {
        let parent = files.iter().any(|(other, _)| path.parent() == Some(other));
        let indent = if parent { "  " } else { "" };
        let page = if *is_dir { path.join("index.md") } else { ending(path, ".md") };
        text += &format!("{indent}- [{}]({})\n", path.display(), page.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages of a project with these files.
    fn gathered(files: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            crate::site::write(&dir.path().join(path), text).expect("written");
        }
        let pages = gather(dir.path()).expect("gathered");
        pages.into_iter().map(|(path, text)| (path, String::from_utf8(text).expect("text"))).collect()
    }

    #[test]
    fn links_lead_to_pages_of_the_book() {
        let readme = "# `A` project\n\n![it](docs/it.svg) [use](docs/use.md#how) [why](docs/design) \
            [up](https://x.invalid/docs)\n";
        let document = "# Use\n\n[first](../README.md#a) [code](../src/a.rs#L1) [all](../tests/) \
            [none](none.md)\n\n    [no](../src/a.rs)\n";
        let pages = gathered(&[
            ("README.md", readme),
            ("docs/use.md", document),
            ("docs/it.svg", "<svg/>"),
            ("docs/design/b.md", "# B\n"),
            ("src/a.rs", "//! ```\n"),
            ("tests/one.sh", "true\n"),
            ("tests/.hidden", ""),
        ]);
        let page = |path: &str| pages[Path::new(path)].as_str();
        assert_eq!(page("index.md"), readme.replace("docs/design)", "docs/design/index.md)"));
        let moved = document.replace("README.md", "index.md").replacen("a.rs#L1", "a.rs.md#L1", 1);
        assert_eq!(page("docs/use.md"), moved.replace("tests/)", "tests/index.md)"));
        assert_eq!(page("docs/it.svg"), "<svg/>");
        assert_eq!(page("docs/design/index.md"), "# Design\n\n- [B](b.md)\n");
        assert_eq!(page("src/a.rs.md"), "# src/a.rs\n\n````rust,noplayground\n//! ```\n\n````\n");
        assert_eq!(page("tests/index.md"), "# tests\n\n- [one.sh](one.sh.md)\n");
        let summary = "# Summary\n\n[A project](index.md)\n\n# Use\n\n\n# Understand\n\n\
            - [Design](docs/design/index.md)\n  - [B](docs/design/b.md)\n\n# Develop\n\n- [Use](docs/use.md)\n\n\
            # Files\n\n\
            - [src/a.rs](src/a.rs.md)\n- [tests](tests/index.md)\n  \
            - [tests/one.sh](tests/one.sh.md)\n";
        assert_eq!(page("SUMMARY.md"), summary);
    }
}
