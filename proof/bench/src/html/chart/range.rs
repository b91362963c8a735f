//! Quantiles on an axis of powers of ten.

use super::{Colour, LINE, WIDTH, drawing, n, name};
use crate::report::Latency;
use crate::units::short;
use maud::{Markup, html};

/// The latencies of one target.
#[derive(Clone, Debug)]
pub(in super::super) struct Range {
    pub(in super::super) name: String,
    pub(in super::super) colour: Colour,
    pub(in super::super) latency: Latency,
}

/// An axis from one power of ten to another.
struct Axis {
    from: i32,
    to: i32,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone) -> Self {
        let logs = values.filter(|value| *value > 0.0).map(f64::log10);
        let (least, most) = (logs.clone().fold(f64::MAX, f64::min), logs.fold(f64::MIN, f64::max));
        if least > most {
            return Self { from: 0, to: 1 };
        }
        let from = least.floor() as i32;
        Self { from, to: (most.ceil() as i32).max(from + 1) }
    }

    /// Where a value is drawn; zero is at the left.
    fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        MARGIN + part.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }
}

const MARGIN: f64 = 8.0;
/// From a name to what is below its line.
const HIGH: f64 = 18.0;

/// From the median to the slowest, for each target, in a unit.
pub(in super::super) fn ranges(title: &str, unit: &str, ranges: &[Range]) -> Markup {
    let axis = Axis::over(ranges.iter().flat_map(|range| [range.latency.p50, range.latency.max]));
    drawing(title, &format!("{unit}: ● half within, ○ 99 %, ◇ 99.9 %, │ slowest"), WIDTH, |first| {
        let mut top = first;
        let drawn: Vec<Markup> = ranges
            .iter()
            .map(|range| {
                let (name, below) = name(&range.name, range.colour.words, WIDTH, top);
                top = below + HIGH + 4.0;
                html! { (name) (one(range, &axis, below + HIGH / 2.0)) }
            })
            .collect();
        let body = html! {
            @for power in axis.from..=axis.to {
                @let x = n(axis.at(10_f64.powi(power)));
                line class="grid" x1=(x) x2=(x) y1=(n(first)) y2=(n(top)) {}
                text class=(if power == axis.to { "small muted end" } else if power == axis.from { "small muted" } else { "small muted middle" }) x=(x) y=(n(top + LINE)) { (tick(power)) }
            }
            @for range in &drawn { (range) }
        };
        (body, top + LINE + 4.0)
    })
}

/// A power of ten.
fn tick(power: i32) -> String {
    let value = 10_f64.powi(power);
    if power < 0 { value.to_string() } else { short(value) }
}

fn one(range: &Range, axis: &Axis, y: f64) -> Markup {
    let Latency { p50, p99, p999, max } = range.latency;
    let class = range.colour.class;
    let (median, slowest, rare) = (axis.at(p50), axis.at(max), axis.at(p999));
    let text = format!(
        "{}\nhalf within {} µs, 99 % {} µs, 99.9 % {} µs, slowest {} µs",
        range.name,
        short(p50),
        short(p99),
        short(p999),
        short(max)
    );
    let diamond = format!("M{} {}l5 5l-5 5l-5 -5z", n(rare), n(y - 5.0));
    html! {
        g class="mark" {
            title { (text) }
            rect class="area" x="0" y=(n(y - HIGH / 2.0)) width=(n(WIDTH)) height=(n(HIGH)) {}
            line class=(format!("line {class}")) x1=(n(median)) x2=(n(slowest)) y1=(n(y)) y2=(n(y)) {}
            line class=(format!("{class} tick")) x1=(n(slowest)) x2=(n(slowest)) y1=(n(y - 5.0)) y2=(n(y + 5.0)) {}
            path class=(format!("{class} hollow")) d=(diamond) {}
            circle class=(format!("{class} hollow")) cx=(n(axis.at(p99))) cy=(n(y)) r="4" {}
            circle class=(class) cx=(n(median)) cy=(n(y)) r="4.5" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_what_it_is_for() {
        let axis = Axis::over([3.0, 450.0].into_iter());
        assert_eq!((axis.from, axis.to), (0, 3));
        assert!(axis.at(3.0) > axis.at(1.0) && axis.at(450.0) < axis.at(1000.0));
        assert_eq!((axis.at(1.0), axis.at(1000.0)), (MARGIN, WIDTH - MARGIN));
        assert_eq!(axis.at(0.0), MARGIN);
        let point = Axis::over([10.0].into_iter());
        assert_eq!((point.from, point.to), (1, 2));
        let nothing = Axis::over([0.0].into_iter());
        assert_eq!((nothing.from, nothing.to), (0, 1));
    }
}
