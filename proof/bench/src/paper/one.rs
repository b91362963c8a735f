//! Paper 1, the persistent page table. Its figures show Filebench on NVM in memory, with ext4 in `ordered` (figure 3)
//! and `journal` (figure 4): a journal whose checkpoints swap blocks beside one whose checkpoints copy them.

use super::frame::{Ablation, Contender, List, Panel, Paper, Size};
use super::summary::Column;
use crate::args::Settle;
use crate::report::TargetReport;

pub(super) const LIST: List = List {
    name: "paper 1",
    title: "the persistent page table and block swap",
    panels: &PANELS,
    columns: &[
        Column::ratio("swap / classic, library", SWAP.name, CLASSIC.name),
        Column::ratio("swap / classic, mount", MOUNT_SWAP.name, MOUNT_CLASSIC.name),
        Column::ratio("remap / classic, library (not in the paper)", REMAP.name, CLASSIC.name),
        Column::ratio("library swap / kernel", SWAP.name, KERNEL.name),
        Column::ratio("mount swap / kernel", MOUNT_SWAP.name, KERNEL.name),
        Column::result("NVM B/user B: classic", CLASSIC.name, nvm_bytes),
        Column::result("NVM B/user B: swap", SWAP.name, nvm_bytes),
        Column::said("paper: PPT / ext4", |paper| Some(paper.ratio.to_owned())),
    ],
    readings: &[
        "Both of ours are images in NVM pools in memory, under a page table; `classic` copies at a checkpoint as jbd2 \
         does, `swap` exchanges pages.",
        "\"500 threads\" is taken as it stands; `--quick` has 100.",
        "\"1,000,000 directories\" is read as Filebench's `meandirwidth=1000000`, which puts all files into one \
         directory; its own fileserver has 20.",
        "The number and size of files is not stated: they are Filebench 1.5's own, but no fewer than ten files for \
         each thread.",
        "The paper's ordered mode is with DAX, which needs a device of persistent memory: the kernel's ext4 is on a \
         loop device in memory, with its page cache.",
        "\"1 GiB/s\" is `nvm_model=bandwidth=1G`: all threads' bytes share one channel. The kernel's memory cannot be \
         slowed so, so that it takes no part there.",
    ],
    fixed: &[
        "the exchange at a checkpoint: `classic` is the full system without it, and stands in the table above.",
        "the exchange without the page table, which it is made of.",
        "the undo log of the page table: without it a cut loses the map.",
    ],
    settle: Some(Settle::Close),
};

const CLASSIC: Contender =
    Contender { name: "classic", target: "lib:nvm:classic.pool,data={mode},journal=classic,cache=2G{model}" };
const SWAP: Contender =
    Contender { name: "swap", target: "lib:nvm:swap.pool,data={mode},journal=swap,cache=2G{model}" };
const REMAP: Contender =
    Contender { name: "remap", target: "lib:nvm:remap.pool,data={mode},journal=remap,cache=2G{model}" };
const MOUNT_CLASSIC: Contender =
    Contender { name: "mount classic", target: "fuse:nvm:classic.pool,data={mode},journal=classic,cache=2G{model}" };
const MOUNT_SWAP: Contender =
    Contender { name: "mount swap", target: "fuse:nvm:swap.pool,data={mode},journal=swap,cache=2G{model}" };
const KERNEL: Contender = Contender { name: "kernel", target: "kernel:ext4,data={mode}" };

/// An image that is a file in memory: no table between its blocks and pages.
const PLAIN: Contender =
    Contender { name: "without page table", target: "lib:plain.img,on=ram,data={mode},journal=classic,cache=2G" };
const ABLATIONS: [Ablation; 1] = [Ablation { without: PLAIN, full: CLASSIC.name }];

const ALL: [Contender; 6] = [CLASSIC, SWAP, REMAP, MOUNT_CLASSIC, MOUNT_SWAP, KERNEL];
const LIBRARY: [Contender; 3] = [CLASSIC, SWAP, REMAP];

const MEMORY: &str = "memory";
const SLOW: &str = "1 GiB/s";

const ORDERED: &[(&str, &str)] = &[("{mode}", "ordered"), ("{model}", "")];
const JOURNAL: &[(&str, &str)] = &[("{mode}", "journal"), ("{model}", "")];
const ORDERED_SLOW: &[(&str, &str)] = &[("{mode}", "ordered"), ("{model}", ",nvm_model=bandwidth=1G")];
const JOURNAL_SLOW: &[(&str, &str)] = &[("{mode}", "journal"), ("{model}", ",nvm_model=bandwidth=1G")];

/// What reached NVM for each byte of the user.
fn nvm_bytes(target: &TargetReport) -> Option<String> {
    let counters = &target.counters;
    let reached = counters.device.nvm_reached().filter(|_| counters.user_bytes > 0)?;
    Some(format!("{:.2}", reached as f64 / counters.user_bytes as f64))
}

const fn full(ops: u64, params: &'static [&'static str], scale: &'static str) -> Size {
    Size { ops, threads: Some(500), params, scale }
}

const fn quick(ops: u64) -> Size {
    Size { ops, threads: Some(100), params: &["files=1000"], scale: "100 threads, a fifth of the paper's, 1,000 files" }
}

const OWN: &str = "the paper's 500 threads, Filebench's own 10,000 files";

const PROCESSORS: &str = "the paper's 500 threads wait for memory that 16 processors share; few processors are waited \
                          for themselves, and an exchange takes of their time what the copy did that it saves";
const METADATA: &str = "metadata alone is journaled, and a block that changes again before a checkpoint goes home \
                        once for all of them: a run as short as these leaves little to exchange; the paper does not \
                        say how long its runs were";
const CHANNEL: &str = "where all bytes share a channel, half as many are worth something; but reads go through the \
                       same channel, and images of metadata are written to the log by both";

const VARMAIL: Panel = Panel {
    figures: &[3],
    device: MEMORY,
    workload: "varmail, ordered",
    run: "varmail",
    params: &["width=1000000"],
    full: full(
        100_000,
        &["files=5000"],
        "the paper's 500 threads, 5,000 files (Filebench's own 1,000 are too few for them)",
    ),
    quick: quick(30_000),
    contenders: &ALL,
    ablations: &ABLATIONS,
    fill: ORDERED,
    paper: Paper::ratio("1.54"),
    why: METADATA,
};

const FILESERVER: Panel = Panel {
    workload: "fileserver, ordered",
    run: "fileserver",
    full: full(50_000, &["files=10000"], OWN),
    quick: quick(15_000),
    paper: Paper::ratio("1.02 to 1.54"),
    ..VARMAIL
};

const WEBPROXY: Panel = Panel {
    workload: "webproxy, ordered",
    run: "webproxy",
    full: full(100_000, &["files=10000"], OWN),
    quick: quick(50_000),
    ..FILESERVER
};

/// The same in `journal`.
const fn journaled(panel: Panel, workload: &'static str, ratio: &'static str) -> Panel {
    Panel { figures: &[4], workload, fill: JOURNAL, paper: Paper::ratio(ratio), why: PROCESSORS, ..panel }
}

/// The same in memory that is as slow as a device.
const fn slow(panel: Panel, fill: &'static [(&'static str, &'static str)], why: &'static str) -> Panel {
    Panel { device: SLOW, contenders: &LIBRARY, ablations: &[], fill, why, ..panel }
}

const VARMAIL_JOURNAL: Panel = journaled(VARMAIL, "varmail, journal", "1.46");
const FILESERVER_JOURNAL: Panel = journaled(FILESERVER, "fileserver, journal", "1.46");
const WEBPROXY_JOURNAL: Panel = journaled(WEBPROXY, "webproxy, journal", "1.61");

const PANELS: [Panel; 12] = [
    FILESERVER,
    VARMAIL,
    WEBPROXY,
    FILESERVER_JOURNAL,
    VARMAIL_JOURNAL,
    WEBPROXY_JOURNAL,
    slow(FILESERVER, ORDERED_SLOW, METADATA),
    slow(VARMAIL, ORDERED_SLOW, METADATA),
    slow(WEBPROXY, ORDERED_SLOW, METADATA),
    slow(FILESERVER_JOURNAL, JOURNAL_SLOW, CHANNEL),
    slow(VARMAIL_JOURNAL, JOURNAL_SLOW, CHANNEL),
    slow(WEBPROXY_JOURNAL, JOURNAL_SLOW, CHANNEL),
];
