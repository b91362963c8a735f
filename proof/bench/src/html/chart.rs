//! Charts as SVG. Each is as wide as a phone, and its marks say their values.
//!
//! Lengths are units of the drawing, of which a chart has `WIDTH` between its edges.

mod bars;
mod grid;
mod range;

pub(super) use bars::{Bar, bars};
pub(super) use grid::{Heat, Line, heat, table};
pub(super) use range::{Range, ranges};

use maud::{Markup, html};

/// Between the edges.
const WIDTH: f64 = 400.0;
/// What stays free at the sides and below.
const EDGE: f64 = 6.0;
/// From line to line of a text.
const LINE: f64 = 13.0;
/// Letters of a name for which there is room in a line.
const LETTERS: usize = 70;

/// What colours a mark: the front end of a target, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour {
    /// The class in `chart.css`.
    pub(super) class: &'static str,
    /// In words, for those who see no colours.
    pub(super) words: &'static str,
}

/// A number of the drawing.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A drawing with its title and unit at the top; `body` draws from the place that it is given on, and says where it ends.
fn drawing(title: &str, unit: &str, width: f64, body: impl FnOnce(f64) -> (Markup, f64)) -> Markup {
    let titles = wrapped(title, 52);
    let top = 4.0 + titles.len() as f64 * (LINE + 3.0);
    let units = wrapped(unit, LETTERS);
    let (body, end) = body(top + units.len() as f64 * LINE + 6.0);
    html! {
        svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {} {}", n(width + 2.0 * EDGE), n(end + EDGE))) role="img" aria-label=(title) {
            g transform=(format!("translate({} 0)", n(EDGE))) {
                @for (at, line) in titles.iter().enumerate() {
                    text class="title" x="0" y=(n(14.0 + at as f64 * (LINE + 3.0))) { (line) }
                }
                @for (at, line) in units.iter().enumerate() {
                    text class="muted" x="0" y=(n(top + 9.0 + at as f64 * LINE)) { (line) }
                }
                (body)
            }
        }
    }
}

/// The name of something, in as many lines as it takes from `top` on, with `words` at the right of the first: the drawing, and where it ends.
fn name(name: &str, words: &str, width: f64, top: f64) -> (Markup, f64) {
    let lines = wrapped(name, (LETTERS - 3).saturating_sub(words.chars().count()));
    let drawn = html! {
        @for (at, line) in lines.iter().enumerate() {
            text x="0" y=(n(top + 10.0 + at as f64 * LINE)) { (line) }
        }
        @if !words.is_empty() {
            text class="muted end" x=(n(width)) y=(n(top + 10.0)) { (words) }
        }
    };
    (drawn, top + lines.len() as f64 * LINE)
}

/// Cuts a text into lines of at most `letters`, behind a comma or a space if there is one in the last two thirds.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let letters = letters.max(4);
    let mut lines = Vec::new();
    let mut rest: Vec<char> = text.chars().collect();
    while rest.len() > letters {
        let cut = (letters / 3..letters).rev().find(|&at| matches!(rest.get(at), Some(',' | ' ' | '/')));
        let tail = rest.split_off(cut.map_or(letters, |at| at + 1));
        lines.push(rest.into_iter().collect::<String>().trim_end().to_owned());
        rest = tail;
    }
    if !rest.is_empty() {
        lines.push(rest.into_iter().collect());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_where_they_have_commas() {
        assert_eq!(wrapped("short", 10), ["short"]);
        assert_eq!(wrapped("lib:a.img,data=journal", 14), ["lib:a.img,", "data=journal"]);
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("äöüäöüäöüä", 4), ["äöüä", "öüäö", "üä"]);
        assert!(wrapped("", 10).is_empty());
    }

    #[test]
    fn numbers_have_one_digit_at_most() {
        assert_eq!((n(12.0), n(0.26), n(-0.5)), ("12".into(), "0.3".into(), "-0.5".into()));
    }
}
