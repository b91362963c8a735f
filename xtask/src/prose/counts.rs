//! Documents stay short: a bar on the words of the README, and one on those of all documents.

use super::Document;

const README: usize = 900;
const ALL: usize = 45_000;

/// How many pages are named when there are too many words.
const NAMED: usize = 5;

/// Takes all documents that count.
pub(super) fn faults(documents: &[&Document]) -> Vec<String> {
    let mut pages: Vec<(usize, &str)> = documents.iter().map(|page| (words(&page.text), &*page.name)).collect();
    let all: usize = pages.iter().map(|(count, _)| count).sum();
    let readme = pages.iter().find(|(_, name)| *name == "README.md").map_or(0, |(count, _)| *count);
    let mut faults = Vec::new();
    if readme > README {
        let more = readme - README;
        faults.push(format!("README.md:1: {readme} words, and the bar is {README}: cut {more}, or move them to docs/"));
    }
    if all > ALL {
        pages.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let longest: Vec<String> =
            pages.iter().take(NAMED).map(|(count, name)| format!("{name}:1 ({count})")).collect();
        let (more, longest) = (all - ALL, longest.join(", "));
        faults.push(format!("all documents: {all} words, and the bar is {ALL}: cut {more}; the longest are {longest}"));
    }
    faults
}

/// As `wc -w` counts.
fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prose::document;

    #[test]
    fn at_the_bars_nothing_is_said() {
        let [readme, page] = [document("README.md", &"a\tword\n".repeat(450)), document("a.md", &"a ".repeat(44_100))];
        assert_eq!(faults(&[&readme, &page]), [""; 0]);
    }

    #[test]
    fn more_than_the_bars_is_found() {
        let readme = document("README.md", &"word ".repeat(901));
        assert_eq!(faults(&[&readme]), ["README.md:1: 901 words, and the bar is 900: cut 1, or move them to docs/"]);
        let pages = ["a", "b", "c", "d", "e", "f"].map(|name| name.to_owned() + ".md");
        let pages: Vec<Document> =
            pages.iter().enumerate().map(|(n, name)| document(name, &"word ".repeat(7_500 + n))).collect();
        assert_eq!(
            faults(&pages.iter().collect::<Vec<_>>()),
            ["all documents: 45015 words, and the bar is 45000: cut 15; the longest are \
              f.md:1 (7505), e.md:1 (7504), d.md:1 (7503), c.md:1 (7502), b.md:1 (7501)"]
        );
    }
}
