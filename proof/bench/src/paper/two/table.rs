//! Table 1, ours and the paper's.

use super::{Drawing, Measured, Paper, Table};
use crate::report::aligned;
use crate::stats::Spread;
use crate::units::format_size;
use ondol::counted;

/// What is measured.
const COLUMNS: [&str; super::COLUMNS] = [
    "O_SYNC, 16 KiB, s",
    "buffer, 16 KiB, s",
    "buffer, 1 KiB, s",
    "ondol run, 16 KiB, s",
    "ondol run, 1 KiB, s",
    "buffer: times as fast",
    "buffer: 1 KiB / 16 KiB",
    "ondol run: times as fast",
    "ondol run: 1 KiB / 16 KiB",
];

/// What the paper has.
const PAPERS: [&str; 5] = [
    "paper: O_SYNC, 16 KiB, s",
    "paper: buffer, 16 KiB, s",
    "paper: buffer, 1 KiB, s",
    "paper: times as fast",
    "paper: 1 KiB / 16 KiB",
];

const READINGS: [&str; 4] = [
    "The buffer is the paper's module: its program writes through it. `ondol run` is for programs that know of no \
     buffer. Both pools are in memory, as the paper's is. Seconds are those of the whole program, until all is on the \
     disk: the paper does not say whether its own are.",
    "Each thread writes a new file from its beginning, and all threads together ten times the buffer, as in the \
     paper; each way has a new directory and a new pool, and the ways take turns.",
    "The paper's disk writes 4 GiB/s and its server 36 cores; here it is the disk of --dir.",
    "Why not as in the paper: ten times the buffer goes through it to the disk, so what the disk streams and how fast \
     processors copy bounds the buffer, and what its flush takes bounds O_SYNC; both differ. Under `ondol run` a \
     write of 1 KiB costs as many system calls as one of 16 KiB; through the buffer it costs none.",
];

/// What its whole text says; the values of its lines stand beside ours in the Markdown.
const PAPER: &str = "the buffer is 2.7 to 11.8 times as fast with 16 KiB (Table 1)";

/// The table without lines.
pub(super) fn of(buffer: u64, total: u64) -> Table {
    let (total, buffer) = (format_size(total), format_size(buffer));
    let title = format!("Table 1: {total} with a buffer of {buffer}");
    Table { title, unit: "seconds, and multiples", columns: COLUMNS, rows: Vec::new(), paper: PAPER }
}

/// For the terminal.
pub(super) fn terminal(drawing: &Drawing) -> String {
    let mut out = head(drawing);
    aligned(&mut out, &heads(), &rows(drawing));
    out.push('\n');
    READINGS.iter().for_each(|reading| out += &format!("{reading}\n"));
    out
}

/// One line by itself.
pub(super) fn line(measured: &Measured) -> String {
    let mut out = String::new();
    aligned(&mut out, &heads(), &[row(measured)]);
    out
}

fn heads() -> Vec<&'static str> {
    std::iter::once("threads").chain(COLUMNS).chain(PAPERS).collect()
}

fn head(drawing: &Drawing) -> String {
    let rounds = counted(drawing.rounds.into(), "round");
    let mut out = format!("{}, {rounds}; the paper: 80G with 8G\n\n", drawing.table.title);
    if drawing.partial {
        out += &format!(
            "PARTIAL: the run has ended early, after {}.\n\n",
            counted(drawing.table.rows.len() as u64, "line")
        );
    }
    out
}

fn rows(drawing: &Drawing) -> Vec<Vec<String>> {
    drawing.table.rows.iter().map(row).collect()
}

fn row(measured: &Measured) -> Vec<String> {
    let Paper { sync_16k, buffer_16k, buffer_1k } = measured.paper;
    let papers = [sync_16k, buffer_16k, buffer_1k, sync_16k / buffer_16k, buffer_1k / buffer_16k];
    let papers = papers.iter().map(|value| format!("{value:.1}"));
    std::iter::once(measured.name.clone()).chain(measured.values.iter().map(shown)).chain(papers).collect()
}

/// The median, and what it lies between if there is more than one round.
fn shown(Spread { median, low, high }: &Spread) -> String {
    if low < high { format!("{median:.2} ({low:.2} .. {high:.2})") } else { format!("{median:.2}") }
}
