//! The links of a finished site: each that stays inside must lead to a file, and to an anchor in it.

use html5gum::{Token, Tokenizer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// What a page names, and what it can be named by.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
    /// Its links begin at the site's root, and not where it lies.
    is_at_root: bool,
}

/// How many links there are; fails when one leads nowhere.
pub(crate) fn check(site: &Path) -> Result<usize, String> {
    let mut pages = BTreeMap::new();
    for file in crate::sizes::files(site, "html")? {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        pages.insert(file.strip_prefix(site).unwrap_or(&file).to_owned(), parse(&text));
    }
    let mut count = 0;
    let mut faults = Vec::new();
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| is_inside(link)) {
            count += 1;
            if !leads_somewhere(link, path, page, &pages, site) {
                faults.push(format!("{}: {link}", path.display()));
            }
        }
    }
    if faults.is_empty() { Ok(count) } else { Err(format!("links lead nowhere:\n  {}", faults.join("\n  "))) }
}

fn parse(text: &str) -> Page {
    let mut page = Page::default();
    for Ok(token) in Tokenizer::new(text) {
        let Token::StartTag(tag) = token else { continue };
        for (name, value) in &tag.attributes {
            let value = String::from_utf8_lossy(value).into_owned();
            match name.as_slice() {
                b"href" if *tag.name == b"base"[..] => page.is_at_root = value == "/",
                b"href" | b"src" => page.links.push(value),
                b"id" => _ = page.anchors.insert(value),
                _ => {}
            }
        }
    }
    page
}

/// Whether it has no scheme, as `https:` is one.
fn is_inside(link: &str) -> bool {
    !link.starts_with("//") && !link.split(['/', '#', '?']).next().is_some_and(|start| start.contains(':'))
}

fn leads_somewhere(link: &str, at: &Path, page: &Page, pages: &BTreeMap<PathBuf, Page>, site: &Path) -> bool {
    let decoded = |part: &str| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned();
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = decoded(path.split('?').next().unwrap_or(path));
    let (path, anchor) = (path.as_str(), decoded(anchor));
    let start = if page.is_at_root { Path::new("") } else { at.parent().unwrap_or(at) };
    let joined = match path.strip_prefix('/') {
        Some(rest) => Some(rest.into()),
        None if path.is_empty() => Some(at.to_owned()),
        None => super::pages::normal(&start.join(path)),
    };
    let Some(mut target) = joined else { return false };
    if site.join(&target).is_dir() {
        target.push("index.html");
    }
    let is_safe = target.components().all(|part| matches!(part, Component::Normal(_)));
    match pages.get(&target) {
        Some(page) => anchor.is_empty() || page.anchors.contains(&anchor),
        None => is_safe && anchor.is_empty() && site.join(&target).is_file(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(files: &[(&str, &str)]) -> Result<usize, String> {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            crate::site::write(&dir.path().join(path), text).expect("written");
        }
        check(dir.path())
    }

    #[test]
    fn links_that_lead_somewhere_are_counted() {
        let index = r##"<p id="a b"><a href="sub/page.html#x">a</a><a href="#a%20b">b</a><a href="sub/">c</a>
            <a href="https://nowhere.invalid/">d</a><img src="x.svg?1"><!-- <a href="no"> --></p>"##;
        let page = r#"<h1 id="x"><a href="../index.html">up</a><a href="/x.svg">picture</a></h1>"#;
        let lost = r#"<base href="/"><a href="sub/page.html">page</a>"#;
        let files = [
            ("index.html", index),
            ("sub/page.html", page),
            ("sub/index.html", ""),
            ("deep/lost.html", lost),
            ("x.svg", ""),
        ];
        assert_eq!(checked(&files), Ok(7));
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        for link in ["page.html#y", "none.html", "#y", "sub/", "../index.html", "x.svg#y", "/none", "page.html#X"] {
            let index = format!(r#"<a href="{link}">a</a>"#);
            let files = [("index.html", &*index), ("page.html", "<p id=x>"), ("x.svg", ""), ("sub/page.html", "")];
            let faults = checked(&files).expect_err(link);
            assert!(faults.ends_with(&format!("index.html: {link}")), "{faults}");
        }
    }
}
