//! Medians as bars, with the rounds on them.

use super::{Colour, LINE, WIDTH, drawing, n, name};
use crate::stats::Spread;
use crate::units::short;
use maud::{Markup, html};

/// One bar.
#[derive(Clone, Debug)]
pub(in super::super) struct Bar {
    pub(in super::super) name: String,
    pub(in super::super) colour: Colour,
    pub(in super::super) spread: Spread,
    /// What each round came to.
    pub(in super::super) rounds: Vec<f64>,
    /// Stands behind the median.
    pub(in super::super) note: String,
}

/// How long the longest may be: values stand behind it.
const LONGEST: f64 = 200.0;
const THICK: f64 = 13.0;

/// Bars below each other, from zero on.
pub(in super::super) fn bars(title: &str, unit: &str, bars: &[Bar]) -> Markup {
    let most = bars.iter().map(|bar| bar.spread.max).fold(0.0, f64::max);
    let scale = |value: f64| if most > 0.0 { value / most * LONGEST } else { 0.0 };
    drawing(title, unit, WIDTH, |mut top| {
        let drawn: Vec<Markup> = bars
            .iter()
            .map(|bar| {
                let (name, below) = name(&bar.name, bar.colour.words, WIDTH, top);
                top = below + THICK + 12.0;
                html! { (name) (one(bar, below + 2.0, scale)) }
            })
            .collect();
        (html! { @for bar in &drawn { (bar) } }, top)
    })
}

fn one(bar: &Bar, top: f64, scale: impl Fn(f64) -> f64) -> Markup {
    let Spread { median, min, max } = bar.spread;
    let middle = top + THICK / 2.0;
    let rounds: Vec<String> = bar.rounds.iter().map(|&round| short(round)).collect();
    let text = format!(
        "{}: {} ({} .. {}) {}\nrounds: {}",
        bar.name,
        short(median),
        short(min),
        short(max),
        bar.note,
        rounds.join(", ")
    );
    html! {
        g class="mark" {
            title { (text) }
            rect class="area" x="0" y=(n(top)) width=(n(WIDTH)) height=(n(THICK)) {}
            rect class=(format!("bar {}", bar.colour.class)) x="0" y=(n(top)) width=(n(scale(median).max(0.5))) height=(n(THICK)) rx="1.5" {}
            @if bar.rounds.len() > 1 {
                line class="spread" x1=(n(scale(min))) x2=(n(scale(max))) y1=(n(middle)) y2=(n(middle)) {}
                @for &round in &bar.rounds {
                    circle class="round" cx=(n(scale(round))) cy=(n(middle)) r="1.8" {}
                }
            }
            text x=(n(scale(max) + 7.0)) y=(n(top + LINE - 2.5)) {
                tspan class="value" { (short(median)) }
                tspan class="muted" dx="6" { (bar.note) }
            }
        }
    }
}
