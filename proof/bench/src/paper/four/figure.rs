//! A figure as a table of medians.

use crate::report::{aligned, pipes};
use crate::series::Part;
use serde::Serialize;
use std::fmt::Write;

/// What some rounds came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Value {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Value {
    /// Of at least one round.
    pub(super) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let at = |n: usize| rounds.get(n).copied().unwrap_or(f64::NAN);
        Self { median: at(rounds.len() / 2), low: at(0), high: at(rounds.len().saturating_sub(1)) }
    }

    /// What was counted, and does not differ.
    pub(super) fn exactly(value: f64) -> Self {
        Self { median: value, low: value, high: value }
    }
}

/// A line of a figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// One for each column, as far as there are.
    pub(super) values: Vec<Option<Value>>,
}

/// A figure, drawn.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) number: u32,
    pub(super) title: &'static str,
    /// What the values are, and in which unit.
    pub(super) unit: &'static str,
    /// What the paper says.
    pub(super) paper: &'static str,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// What follows from it.
    pub(super) notes: Vec<String>,
}

impl Figure {
    fn head(&self) -> Vec<&str> {
        std::iter::once(self.unit).chain(self.columns.iter().map(String::as_str)).collect()
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let cell = |value: &Option<Value>| value.map_or("-".into(), |value| three_digits(value.median));
        let row = |row: &Row| std::iter::once(row.name.clone()).chain(row.values.iter().map(cell)).collect();
        self.rows.iter().map(row).collect()
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = format!("\n## Figure {}: {}\n\n", self.number, self.title);
        pipes(&mut out, &self.head(), &self.cells());
        for note in &self.notes {
            let _ = write!(out, "\n- {note}");
        }
        let _ = writeln!(out, "\n- The paper: {}", self.paper);
        out
    }
}

impl Part for Figure {
    fn terminal(&self) -> String {
        let mut out = String::new();
        aligned(&mut out, &self.head(), &self.cells());
        self.notes.iter().for_each(|note| out += &format!("{note}\n"));
        out + &format!("the paper: {}\n", self.paper)
    }

    fn is_partial(&self) -> bool {
        false
    }
}

/// With three digits, or all that stand before the point.
fn three_digits(value: f64) -> String {
    let digits = if value == value.trunc() { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 3) };
    format!("{value:.*}", digits as usize)
}
