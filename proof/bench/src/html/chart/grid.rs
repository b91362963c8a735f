//! Values in rows and columns.

use super::{Colour, LINE, WIDTH, drawing, n, name, wrapped};
use crate::results::Middle;
use crate::units::short;
use maud::{Markup, html};

/// A row, and a value for each column.
#[derive(Clone, Debug)]
pub(in super::super) struct Line {
    pub(in super::super) name: String,
    pub(in super::super) colour: Colour,
    pub(in super::super) values: Vec<Option<Middle>>,
}

/// The least width of a column.
const NARROW: f64 = 50.0;
/// Between two columns.
const GAP: f64 = 6.0;
const THICK: f64 = 5.0;

/// Bars in columns, each of which has a scale of its own.
pub(in super::super) fn table(title: &str, unit: &str, columns: &[String], lines: &[Line]) -> Markup {
    let count = columns.len().max(1) as f64;
    let width = WIDTH.max(count * NARROW);
    let step = (width + GAP) / count;
    let most = |column: usize| {
        let values = lines.iter().filter_map(|line| line.values.get(column).copied().flatten());
        values.map(|value| value.high).fold(0.0, f64::max)
    };
    let scales: Vec<f64> = (0..columns.len()).map(most).collect();
    let letters = ((step - GAP) / 5.0) as usize;
    let heads: Vec<Vec<String>> = columns.iter().map(|column| wrapped(column, letters)).collect();
    drawing(title, unit, width, |mut top| {
        let deep = heads.iter().map(Vec::len).max().unwrap_or(0) as f64 * (LINE - 2.0);
        let head = html! {
            @for (column, lines) in heads.iter().enumerate() {
                @for (at, line) in lines.iter().enumerate() {
                    text class="small muted" x=(n(column as f64 * step)) y=(n(top + 8.0 + at as f64 * (LINE - 2.0))) { (line) }
                }
            }
        };
        top += deep + 4.0;
        let drawn: Vec<Markup> = lines
            .iter()
            .map(|line| {
                let (name, below) = name(&line.name, line.colour.words, width, top + 2.0);
                let rule = n(top - 1.0);
                top = below + LINE + THICK + 6.0;
                html! {
                    line class="grid" x1="0" x2=(n(width)) y1=(rule) y2=(rule) {}
                    (name)
                    @for (column, (value, most)) in line.values.iter().zip(&scales).enumerate() {
                        @if let Some(value) = value {
                            (cell(line, columns.get(column).map_or("", String::as_str), *value, *most, (column as f64 * step, below, step - GAP)))
                        }
                    }
                }
            })
            .collect();
        (html! { (head) @for line in &drawn { (line) } }, top)
    })
}

/// A value at a place of a width, of a column with `most` as its largest.
fn cell(line: &Line, column: &str, value: Middle, most: f64, (x, y, width): (f64, f64, f64)) -> Markup {
    let Middle { median, low, high } = value;
    let scale = |value: f64| if most > 0.0 { value.max(0.0) / most * width } else { 0.0 };
    let range = if low < high { format!(" ({} .. {})", short(low), short(high)) } else { String::new() };
    let (top, middle) = (y + LINE, y + LINE + THICK / 2.0);
    html! {
        g class="mark" {
            title { (format!("{}\n{column}: {}{range}", line.name, short(median))) }
            rect class="area" x=(n(x)) y=(n(y)) width=(n(width)) height=(n(LINE + THICK)) {}
            text class="small value" x=(n(x)) y=(n(y + 10.0)) { (short(median)) }
            rect class=(format!("bar {}", line.colour.class)) x=(n(x)) y=(n(top)) width=(n(scale(median).max(0.5))) height=(n(THICK)) {}
            @if low < high {
                line class="spread" x1=(n(x + scale(low))) x2=(n(x + scale(high))) y1=(n(middle)) y2=(n(middle)) {}
            }
        }
    }
}

/// A row of ratios.
#[derive(Clone, Debug)]
pub(in super::super) struct Heat {
    pub(in super::super) name: String,
    /// One for each column.
    pub(in super::super) ratios: Vec<Option<f64>>,
}

/// Room for the names of rows.
const NAMES: f64 = 112.0;
const HIGH: f64 = 26.0;

/// Ratios as colours: columns have letters, which are explained below.
pub(in super::super) fn heat(title: &str, unit: &str, columns: &[(String, Colour)], rows: &[Heat]) -> Markup {
    let count = columns.len().max(1) as f64;
    let step = ((WIDTH - NAMES) / count).max(34.0);
    let width = NAMES + step * count;
    drawing(title, unit, width, |first| {
        let top = first + LINE;
        let body = html! {
            @for at in 0..columns.len() {
                text class="middle muted" x=(n(NAMES + (at as f64 + 0.5) * step)) y=(n(first + 8.0)) { (letter(at)) }
            }
            @for (at, row) in rows.iter().enumerate() {
                (heat_row(row, columns, top + at as f64 * HIGH, step))
            }
        };
        let mut end = top + rows.len() as f64 * HIGH + 8.0;
        let legend: Vec<Markup> = columns
            .iter()
            .enumerate()
            .map(|(at, (column, colour))| {
                let (drawn, below) = name(&format!("{}: {column}", letter(at)), colour.words, width, end);
                end = below + 2.0;
                drawn
            })
            .collect();
        (html! { (body) @for line in &legend { (line) } }, end)
    })
}

fn heat_row(row: &Heat, columns: &[(String, Colour)], y: f64, step: f64) -> Markup {
    let lines = wrapped(&row.name, 21);
    let first = y + HIGH / 2.0 + 3.5 - (lines.len().min(2) as f64 - 1.0) * 5.5;
    html! {
        @for (at, line) in lines.iter().take(2).enumerate() {
            text x="0" y=(n(first + at as f64 * 11.0)) { (line) }
        }
        @for (at, (ratio, (column, _))) in row.ratios.iter().zip(columns).enumerate() {
            @if let Some(ratio) = ratio {
                @let x = NAMES + at as f64 * step;
                g class="mark" {
                    title { (format!("{}\n{column}: {}", row.name, short(*ratio))) }
                    rect class=(if *ratio < 1.0 { "cell worse" } else { "cell better" }) fill-opacity=(format!("{:.2}", strength(*ratio))) x=(n(x)) y=(n(y)) width=(n(step)) height=(n(HIGH)) {}
                    text class="middle" x=(n(x + step / 2.0)) y=(n(y + HIGH / 2.0 + 3.5)) { (format!("{ratio:.2}")) }
                }
            }
        }
    }
}

/// How much of the colour: none at 1, all that a text stays readable on at four times or a quarter.
fn strength(ratio: f64) -> f64 {
    let far = if ratio > 0.0 { ratio.log2().abs() / 2.0 } else { 1.0 };
    far.min(1.0) * 0.55
}

/// A to Z, then AA and so on.
fn letter(at: usize) -> String {
    let own = char::from(b'A' + (at % 26) as u8);
    if at < 26 { own.to_string() } else { format!("{}{own}", letter(at / 26 - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_as_strong_as_ratios_are_far_from_one() {
        assert_eq!(strength(1.0), 0.0);
        assert_eq!(strength(2.0), strength(0.5));
        assert_eq!((strength(4.0), strength(100.0), strength(0.0)), (0.55, 0.55, 0.55));
        assert_eq!((letter(0), letter(25), letter(26), letter(53)), ("A".into(), "Z".into(), "AA".into(), "BB".into()));
    }
}
