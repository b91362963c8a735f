//! The values of a chart: as a table of the page, and as CSV.

use crate::BenchError;
use crate::error::Context;
use crate::units::short;
use maud::{Markup, html};
use std::io;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Number(f64),
    /// There is none.
    Nothing,
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Nothing, Self::Number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Values in rows and columns; rows may be shorter than the head.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// RFC 4180, with all digits; the first line has the names.
    pub(super) fn csv(&self) -> Result<String, BenchError> {
        let write = || -> io::Result<Vec<u8>> {
            let mut out = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
            out.write_record(&self.head)?;
            for row in &self.rows {
                let cells = row.iter().map(|cell| match cell {
                    Cell::Text(text) => text.clone(),
                    Cell::Number(value) => value.to_string(),
                    Cell::Nothing => String::new(),
                });
                let missing = self.head.len().saturating_sub(row.len());
                out.write_record(cells.chain(std::iter::repeat_n(String::new(), missing)))?;
            }
            out.into_inner().map_err(|e| io::Error::other(e.to_string()))
        };
        let bytes = write().context(|| "CSV")?;
        String::from_utf8(bytes).map_err(io::Error::other).context(|| "CSV")
    }

    /// For the page.
    pub(super) fn table(&self) -> Markup {
        html! {
            div class="scroll" {
                table {
                    thead { tr { @for name in &self.head { th { (name) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for cell in row {
                                    @match cell {
                                        Cell::Text(text) => td { (text) },
                                        Cell::Number(value) => td class="number" data-value=(value) { (short(*value)) },
                                        Cell::Nothing => td class="number" { "-" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_quotes_and_all_digits() {
        let rows = vec![
            vec![Cell::from("a,\"b\"\nc"), Cell::Number(1.0 / 3.0)],
            vec![Cell::from("d")],
            vec![Cell::from("e"), Cell::Nothing],
        ];
        let sheet = Sheet { head: vec!["name, long".into(), "x".into()], rows };
        assert_eq!(
            sheet.csv().expect("CSV"),
            "\"name, long\",x\r\n\"a,\"\"b\"\"\nc\",0.3333333333333333\r\nd,\r\ne,\r\n"
        );
    }
}
