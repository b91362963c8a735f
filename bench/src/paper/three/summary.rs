//! All panels in one table.

use super::figures::{COMPRESSED, KERNEL, KERNEL_JOURNAL, OURS};
use super::{Drawing, Drawn, heading};
use crate::report::{TargetReport, aligned, compression, pipes};
use ondol::counted;

const HEAD: [&str; 8] = [
    "figure: workload, disk",
    "classic journal / ordered",
    "compressed / classic ordered",
    "compressed / kernel ordered",
    "kernel journal / ordered",
    "paper: compressed / kernel ordered",
    "compression µs/commit (ratio)",
    "paper: µs/commit",
];

/// For the terminal.
pub(super) fn terminal(drawing: &Drawing) -> String {
    let mut out = partial(drawing) + "Ratios of medians; in process for classic and compressed\n\n";
    aligned(&mut out, &HEAD, &rows(&drawing.panels));
    out
}

/// As Markdown.
pub(super) fn markdown(drawing: &Drawing) -> String {
    let mut out = String::from("# Paper 3: the compressed journal\n\n") + &partial(drawing);
    pipes(&mut out, &HEAD, &rows(&drawing.panels));
    out.push_str(
        "\nRatios of medians; classic and compressed run in process, the paper's ratios are to its kernel's ext4.\n",
    );
    out
}

/// Says that something is missing, if so.
fn partial(drawing: &Drawing) -> String {
    if !drawing.partial {
        return String::new();
    }
    format!("PARTIAL: the run has ended early, after {}.\n\n", counted(drawing.panels.len() as u64, "panel"))
}

fn rows(panels: &[Drawn]) -> Vec<[String; 8]> {
    panels.iter().map(row).collect()
}

fn row(panel: &Drawn) -> [String; 8] {
    let find = |target: &str| {
        let name = target.replace("DISK", panel.device);
        panel.result.targets.iter().find(move |report| report.target == name)
    };
    let ratio = |of: Option<&TargetReport>, to: Option<&TargetReport>| match of.zip(to) {
        Some((of, to)) if to.ops_per_s.median > 0.0 => format!("{:.2}", of.ops_per_s.median / to.ops_per_s.median),
        _ => "-".to_owned(),
    };
    let (ours, compressed) = (find(OURS), find(COMPRESSED));
    let (kernel, kernel_journal) = (find(KERNEL), find(KERNEL_JOURNAL));
    let engine = compressed.and_then(|target| target.counters.device.engine.as_ref());
    [
        heading(panel.figures, panel.workload, panel.device),
        ratio(find(&OURS.replace("ordered", "journal")), ours),
        ratio(compressed, ours),
        ratio(compressed, kernel),
        ratio(kernel_journal, kernel),
        panel.paper.ratio.to_owned(),
        engine.map_or("-".to_owned(), compression),
        format!("{:.0}", panel.paper.compression_us),
    ]
}
