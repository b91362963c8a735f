//! Table 1, ours and the paper's.

use super::{Drawing, Measured, Paper};
use crate::report::{aligned, pipes};
use crate::stats::{Ratio, Spread};
use crate::units::format_size;
use ondol::counted;
use std::fmt::Write;

const HEAD: [&str; 11] = [
    "threads",
    "O_SYNC, 16 KiB, s",
    "buffer, 16 KiB, s",
    "buffer, 1 KiB, s",
    "times as fast, 16 KiB",
    "1 KiB / 16 KiB, buffer",
    "paper: O_SYNC, 16 KiB, s",
    "paper: buffer, 16 KiB, s",
    "paper: buffer, 1 KiB, s",
    "paper: times as fast",
    "paper: 1 KiB / 16 KiB",
];

const READINGS: [&str; 4] = [
    "The buffer is the pool of `ondol run`, in memory, as the paper's is; the paper's is a module that its program writes through. Seconds are those of the whole program, until all is on the disk: the paper does not say whether its own are.",
    "Each thread writes a new file from its beginning, and all threads together ten times the buffer, as in the paper; each way has a new directory and a new buffer, and the ways take turns.",
    "The paper's disk writes 4 GiB/s and its server 36 cores; here it is the disk of --dir.",
    "Why not as in the paper: ten times the buffer goes through it to the disk, so what the disk streams and how fast processors copy bounds the buffer, and what its flush takes bounds O_SYNC; both differ, and a write of 1 KiB costs as many system calls as one of 16 KiB.",
];

/// For the terminal.
pub(super) fn terminal(drawing: &Drawing) -> String {
    let mut out = head(drawing);
    aligned(&mut out, &HEAD, &rows(drawing));
    out.push('\n');
    READINGS.iter().for_each(|reading| out += &format!("{reading}\n"));
    out
}

/// As Markdown.
pub(super) fn markdown(drawing: &Drawing) -> String {
    let machine = &drawing.machine;
    let mut out = String::from("# Paper 2: the NVM write buffer\n\n");
    let _ = writeln!(
        out,
        "{}, {} cores, Linux {}, commit {}.\n\n{}",
        machine.cpu,
        machine.cores,
        machine.kernel,
        drawing.commit,
        head(drawing)
    );
    pipes(&mut out, &HEAD, &rows(drawing));
    out.push('\n');
    READINGS.iter().for_each(|reading| out += &format!("- {reading}\n"));
    out
}

/// One line by itself.
pub(super) fn line(measured: &Measured) -> String {
    let mut out = String::new();
    aligned(&mut out, &HEAD, &[row(measured)]);
    out
}

fn head(drawing: &Drawing) -> String {
    let (total, buffer) = (format_size(drawing.total), format_size(drawing.buffer));
    let rounds = counted(drawing.rounds.into(), "round");
    let mut out = format!("Table 1: {total} with a buffer of {buffer}, {rounds}; the paper: 80G with 8G\n\n");
    if drawing.partial {
        out += &format!("PARTIAL: the run has ended early, after {}.\n\n", counted(drawing.lines.len() as u64, "line"));
    }
    out
}

fn rows(drawing: &Drawing) -> Vec<[String; 11]> {
    drawing.lines.iter().map(row).collect()
}

fn row(measured: &Measured) -> [String; 11] {
    let Paper { sync_16k, buffer_16k, buffer_1k } = measured.paper;
    [
        measured.threads.to_string(),
        seconds(measured.sync_16k),
        seconds(measured.buffer_16k),
        seconds(measured.buffer_1k),
        multiple(measured.faster),
        multiple(measured.longer),
        format!("{sync_16k:.1}"),
        format!("{buffer_16k:.1}"),
        format!("{buffer_1k:.1}"),
        format!("{:.1}", sync_16k / buffer_16k),
        format!("{:.1}", buffer_1k / buffer_16k),
    ]
}

/// The median, and what it lies between if there is more than one round.
fn seconds(Spread { median, min, max }: Spread) -> String {
    if min < max { format!("{median:.2} ({min:.2} .. {max:.2})") } else { format!("{median:.2}") }
}

fn multiple(Ratio { median, low, high }: Ratio) -> String {
    seconds(Spread { median, min: low, max: high })
}
