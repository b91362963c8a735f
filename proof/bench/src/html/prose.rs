//! The Markdown of a result as a part of the page. Whatever it holds, only its own words and tables come out.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// What a Markdown text says.
pub(super) struct Prose {
    /// Its first heading.
    pub(super) title: Option<String>,
    /// The rest.
    pub(super) body: Markup,
    /// It has headings below the first.
    pub(super) has_sections: bool,
}

/// Reads a text as `report::pipes` and its like write it.
pub(super) fn read(markdown: &str) -> Prose {
    let mut events: Vec<Event<'_>> = Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(harmless).collect();
    let is_end = |event: &Event<'_>| matches!(event, Event::End(TagEnd::Heading(HeadingLevel::H1)));
    let title = matches!(events.first(), Some(Event::Start(Tag::Heading { level: HeadingLevel::H1, .. })))
        .then(|| events.iter().position(is_end))
        .flatten()
        .map(|end| events.drain(..=end).filter_map(words).collect());
    let events = events.into_iter().map(lowered).collect::<Vec<_>>();
    let has_sections = events.iter().any(|event| matches!(event, Event::Start(Tag::Heading { .. })));
    let mut body = String::new();
    pulldown_cmark::html::push_html(&mut body, events.into_iter().flat_map(framed));
    Prose { title, body: PreEscaped(body), has_sections }
}

/// HTML is text, and links and images are what they are called.
fn harmless(event: Event<'_>) -> Option<Event<'_>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::HtmlBlock) => None,
        Event::End(TagEnd::Link | TagEnd::Image | TagEnd::HtmlBlock) => None,
        other => Some(other),
    }
}

/// A heading of the page is above those of the text.
fn lowered(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Start(Tag::Heading { level, id, classes, attrs }) => {
            Event::Start(Tag::Heading { level: below(level), id, classes, attrs })
        }
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below(level))),
        other => other,
    }
}

/// The page's second level has its sections.
fn below(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => HeadingLevel::H3,
        _ => HeadingLevel::H4,
    }
}

fn words(event: Event<'_>) -> Option<String> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text.into_string()),
        _ => None,
    }
}

/// A table moves to the side by itself where there is no room.
fn framed(event: Event<'_>) -> Vec<Event<'_>> {
    match &event {
        Event::Start(Tag::Table(_)) => vec![Event::Html("<div class=\"scroll\">".into()), event],
        Event::End(TagEnd::Table) => vec![event, Event::Html("</div>".into())],
        _ => vec![event],
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn only_words_and_tables_come_out() {
        let text = "# A `title`\n\nfirst\n\n| a | b |\n|---|--:|\n| <b>x</b> | [y](javascript:z) |\n\n<script>alert(1)</script>\n\n![i](//host/p.png)\n";
        let prose = read(text);
        assert_eq!(prose.title.as_deref(), Some("A title"));
        let body = prose.body.into_string();
        for part in [
            "<p>first</p>",
            "<div class=\"scroll\"><table>",
            "&lt;b&gt;x&lt;/b&gt;",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        ] {
            assert!(body.contains(part), "{part}: {body}");
        }
        for part in ["<b>", "<script", "javascript", "href", "src", "<h1>"] {
            assert!(!body.contains(part), "{part}: {body}");
        }
        assert!(!prose.has_sections && read("# a\n\n## b\n").has_sections);
    }
}
