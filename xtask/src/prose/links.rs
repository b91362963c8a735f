//! Links lead somewhere: to a file of the repository, and behind `#` to a heading there or an element with that `id`.

use super::Document;
use pulldown_cmark::{Event, Tag, TagEnd};
use std::collections::BTreeMap;
use std::path::Path;

/// What an anchor may name in each document.
type Anchors<'a> = BTreeMap<&'a str, Vec<String>>;

pub(super) fn faults(documents: &[Document], root: &Path) -> Vec<String> {
    let anchors: Anchors<'_> = documents.iter().map(|document| (&*document.name, anchors(document))).collect();
    let mut faults = Vec::new();
    for document in documents {
        for (line, link) in links(document) {
            if let Err(why) = lead(&document.name, &link, &anchors, root) {
                faults.push(document.fault(line, &format!("link to `{link}`: {why}")));
            }
        }
    }
    faults
}

/// The targets of links and images, also of those in HTML, without those on other servers.
fn links(document: &Document) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, event) in document.events() {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                found.push((line, dest_url.into_string()));
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let targets = ["href", "src", "srcset"].into_iter().flat_map(|name| attributes(&html, name));
                found.extend(targets.map(|target| (line, target)));
            }
            _ => {}
        }
    }
    found.retain(|(_, link)| !link.contains("://") && !link.starts_with("mailto:"));
    found
}

/// The values of an attribute in a piece of HTML.
fn attributes(html: &str, name: &str) -> Vec<String> {
    let begin = format!(" {name}=\"");
    html.split(&begin).skip(1).filter_map(|rest| rest.split_once('"')).map(|(value, _)| value.to_owned()).collect()
}

/// Fails when a link in a document leads nowhere, and says which one is meant, if that can be told.
fn lead(from: &str, link: &str, anchors: &Anchors<'_>, root: &Path) -> Result<(), String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { from.to_owned() } else { below(from, path)? };
    if !root.join(&target).exists() && !anchors.contains_key(&*target) {
        let name = target.rsplit('/').next();
        let same = anchors.keys().find(|document| document.rsplit('/').next() == name);
        let meant = same.map_or("name a file that is there".into(), |document| format!("{document} is there"));
        return Err(format!("no file `{target}`; {meant}"));
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let there = anchors.get(&*target).ok_or(format!("`{target}` is no document, so leave out `#{anchor}`"))?;
    if there.iter().any(|known| known == anchor) {
        return Ok(());
    }
    let nearest = there.iter().max_by_key(|known| shared(known, anchor));
    Err(format!("`{target}` has no heading for it; the nearest is `#{}`", nearest.map_or("", |known| known)))
}

/// The path from the root of what a document names by a path from its directory.
fn below(from: &str, path: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop().ok_or("it leads out of the repository; name a file in it")?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// How many words two anchors have in common.
fn shared(a: &str, b: &str) -> usize {
    a.split('-').filter(|word| b.split('-').any(|other| other == *word)).count()
}

/// What anchors may name: headings, as GitHub calls them, and elements with an `id`.
fn anchors(document: &Document) -> Vec<String> {
    let (mut found, mut heading) = (Vec::new(), None);
    for (_, event) in document.events() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let again = (1..).map(|n| format!("{slug}-{n}"));
                let free = std::iter::once(slug.clone()).chain(again).find(|name| !found.contains(name));
                found.extend(free);
            }
            Event::Text(text) | Event::Code(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
            Event::Html(html) | Event::InlineHtml(html) => found.extend(attributes(&html, "id")),
            _ => {}
        }
    }
    found
}

/// GitHub's rule: small letters, digits, `-` and `_` stay, blanks become `-`, and all else goes.
fn slug(heading: &str) -> String {
    let stays = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
    heading.to_lowercase().chars().filter(|c| stays(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prose::document;

    const HEADINGS: &str =
        "# A `b`: *c_d*, (e) — f\n\n## Again\n\n## Again\n\n<a id=\"other\"></a>Text\n\nIch Übe\n---\n";

    #[test]
    fn anchors_are_as_on_github() {
        let wanted = ["a-b-c_d-e--f", "again", "again-1", "other", "ich-übe"];
        assert_eq!(anchors(&document("a.md", HEADINGS)), wanted);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("src")).unwrap();
        std::fs::write(root.path().join("src/a.rs"), "").unwrap();
        let good = r#"
[a](../a.md#again-1) [b](#x), `[c](none.md)`

# X

[d](../src) ![e](../src/a.rs) <https://a.b/c#d>
[f](b.md) <img src="../src/a.rs"> [g](../a.md#other)
"#;
        let wrong = r#"
[a](a.md#again)
[b](../a.md#again-2)
![c](../src/none.png)

[d](#y) [e](../../a.md) [f](../src/a.rs#L1)
<img src="none">
"#;
        let documents = [document("a.md", HEADINGS), document("docs/b.md", good), document("docs/c.md", wrong)];
        let wanted = [
            "docs/c.md:2: link to `a.md#again`: no file `docs/a.md`; a.md is there",
            "docs/c.md:3: link to `../a.md#again-2`: `a.md` has no heading for it; the nearest is `#again-1`",
            "docs/c.md:4: link to `../src/none.png`: no file `src/none.png`; name a file that is there",
            "docs/c.md:6: link to `#y`: `docs/c.md` has no heading for it; the nearest is `#`",
            "docs/c.md:6: link to `../../a.md`: it leads out of the repository; name a file in it",
            "docs/c.md:6: link to `../src/a.rs#L1`: `src/a.rs` is no document, so leave out `#L1`",
            "docs/c.md:7: link to `none`: no file `docs/none`; name a file that is there",
        ];
        assert_eq!(faults(&documents, root.path()), wanted);
    }
}
