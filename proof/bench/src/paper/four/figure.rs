//! A figure as a table of medians.

use crate::report::aligned;
use crate::series::Part;
use crate::stats::Spread;
use serde::Serialize;

/// A line of a figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// One for each column, as far as there are.
    pub(super) values: Vec<Option<Spread>>,
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
        let cell = |value: &Option<Spread>| value.map_or("-".into(), |value| three_digits(value.median));
        let row = |row: &Row| std::iter::once(row.name.clone()).chain(row.values.iter().map(cell)).collect();
        self.rows.iter().map(row).collect()
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
