//! What follows in a page of the manual behind what the definitions say: examples, and where to read on.

/// The sections of one page.
pub(crate) struct Sections {
    /// What the page is called.
    pub(super) page: &'static str,
    /// A call, as a shell takes it, and what it does.
    pub(crate) examples: Vec<(&'static str, &'static str)>,
    /// Other pages.
    pub(super) see_also: Vec<&'static str>,
}

/// A paragraph for each page: its name, examples, each with a line of what it does, and other pages.
const TEXT: &str = include_str!("sections.txt");

/// All pages.
pub(crate) fn all() -> impl Iterator<Item = Sections> {
    TEXT.split("\n\n").map(|paragraph| {
        let (page, rest) = paragraph.split_once('\n').unwrap_or_default();
        let (examples, see_also) = rest.split_once("\nsee also ").unwrap_or((rest, ""));
        let lines: Vec<&str> = examples.lines().map(str::trim).collect();
        let examples = lines.as_chunks().0.iter().map(|[call, what]| (*call, *what)).collect();
        Sections { page, examples, see_also: see_also.trim_end().split(", ").collect() }
    })
}

/// The sections of a page.
pub(super) fn of(page: &str) -> Option<Sections> {
    all().find(|sections| sections.page == page)
}
