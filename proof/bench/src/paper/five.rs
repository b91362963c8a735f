//! Paper 5, the lock-free NVM journal. Its figures show varmail (4) and TokuBench (5) by threads, with a journal in 256
//! MB of NVM before a disk: the paper's journal beside one with locks, and ext4's own.

use super::frame::{Ablation, Contender, List, Panel, Paper, Size};
use super::summary::Column;
use crate::args::Settle;
use crate::report::TargetReport;
use crate::units::MIB;

pub(super) const LIST: List = List {
    name: "paper 5",
    title: "the lock-free NVM journal",
    panels: &PANELS,
    columns: &[
        Column::ratio("scalable / fg, library", SCALABLE.name, FG.name),
        Column::ratio("scalable / classic, library", SCALABLE.name, CLASSIC.name),
        Column::ratio("scalable / classic, mount", MOUNT_SCALABLE.name, MOUNT_CLASSIC.name),
        Column::ratio("library scalable / kernel", SCALABLE.name, KERNEL.name),
        Column::ratio("mount scalable / kernel", MOUNT_SCALABLE.name, KERNEL.name),
        Column::result("library scalable, MiB/s written", SCALABLE.name, written),
        Column::result("kernel, MiB/s written", KERNEL.name, written),
        Column::said("paper: o-ext4 / fg-ext4", |paper| paper.rival.map(str::to_owned)),
        Column::said("paper: o-ext4 / ext4", |paper| Some(paper.ratio.to_owned())),
        Column::said("paper: rates", |paper| paper.rates.map(str::to_owned)),
    ],
    readings: &[
        "ext4 is `classic` and the kernel's own, fg-ext4 is `fg` (the same engine with one lock and one thread for \
         checkpoints), o-ext4 is `scalable`; all are `ordered`, as in the paper.",
        "\"256 MB\" of NVM is a pool of 256 MiB in memory, as the paper's is.",
        "\"3,000,0000\" files of TokuBench are read as 3,000,000, as TokuBench has elsewhere; its tree is one for \
         each thread, with 128 entries in a directory.",
        "\"191 %\" and \"138 %\" better are read as 2.91 and 2.38 times: the abstract has 2.9 and 2.3.",
        "The paper's threads but for 16 are on an axis without numbers in the text: 1 and 4 are chosen.",
        "The paper's disk (Intel P3700) answers a flush from a cache that survives a power cut: it lies between \
         memory, where a flush costs nothing, and the modelled disk, where it takes 1 ms.",
        "Whether a run ends with a sync is not said: what is left to be written counts here.",
        "Filebench's MB/s count reads, too; those here count what is written.",
    ],
    fixed: &[
        "all of it at once: `fg` has one lock and one thread for checkpoints, and stands in the table above.",
        "appending without a lock alone: the engine's lock comes with one thread for checkpoints.",
        "commits while others append, and one record for each operation: the log has no other form.",
    ],
    settle: Some(Settle::Close),
};

const CLASSIC: Contender =
    Contender { name: "classic", target: "lib:classic.img{on},data=ordered,journal=classic,cache=2G" };
const FG: Contender = Contender { name: "fg", target: "lib:fg.img{on},pool=256M,data=ordered,journal=fg,cache=2G" };
const SCALABLE: Contender =
    Contender { name: "scalable", target: "lib:scalable.img{on},pool=256M,data=ordered,journal=scalable,cache=2G" };
const MOUNT_CLASSIC: Contender =
    Contender { name: "mount classic", target: "fuse:classic.img{on},data=ordered,journal=classic,cache=2G" };
const MOUNT_SCALABLE: Contender = Contender {
    name: "mount scalable",
    target: "fuse:scalable.img{on},pool=256M,data=ordered,journal=scalable,cache=2G",
};
const KERNEL: Contender = Contender { name: "kernel", target: "kernel:ext4{on},data=ordered" };

const ONE_THREAD: Contender = Contender {
    name: "without parallel checkpoints",
    target: "lib:one.img{on},pool=256M,data=ordered,journal=scalable,checkpoint_threads=1,cache=2G",
};
const NO_PAGES: Contender = Contender {
    name: "without pages for file data",
    target: "lib:pages.img{on},pool=256M,data=ordered,journal=scalable,buffer=0,cache=2G",
};
const ABLATIONS: [Ablation; 2] =
    [Ablation { without: ONE_THREAD, full: SCALABLE.name }, Ablation { without: NO_PAGES, full: SCALABLE.name }];

const CONTENDERS: [Contender; 6] = [CLASSIC, FG, SCALABLE, MOUNT_CLASSIC, MOUNT_SCALABLE, KERNEL];

const MEMORY: &[(&str, &str)] = &[("{on}", "")];
const SSD: &[(&str, &str)] = &[("{on}", ",on=ssd")];

/// What the user wrote in a second.
fn written(target: &TargetReport) -> Option<String> {
    let counters = &target.counters;
    let bytes_per_op = counters.user_bytes as f64 / counters.ops.max(1) as f64;
    Some(format!("{:.0}", target.ops_per_s.median * bytes_per_op / MIB as f64))
}

const CORES: &str = "the paper's threads meet in locks on 24 cores; few processors run few threads at once, which \
                     seldom meet, and what works in the background takes its time from them";
const NOBODY_SYNCS: &str = "nobody syncs, so a journal that logs a block once for all operations of a commit does \
                            less than one that logs each operation; what the paper saves is threads that wait for a \
                            lock on 24 cores";
const FLUSHES: &str =
    "a flush of the modelled disk is longer than one of the paper's, and an fsync that ends in NVM waits for none";
const STREAM: &str = "nobody syncs, so that the modelled disk's streaming rate, a quarter of that of the paper's, is \
                      what all wait for in the end";

/// Sizes of varmail with so many threads.
const fn varmail(threads: u32) -> [Size; 2] {
    let full = Size {
        ops: 80_000,
        threads: Some(threads),
        params: &["files=100000"],
        scale: "the paper's 100,000 files of 16 KiB",
    };
    let scale = "a tenth of the paper's files";
    [full, Size { ops: 40_000, params: &["files=10000"], scale, ..full }]
}

/// Sizes of TokuBench with so many threads.
const fn tokubench(threads: u32) -> [Size; 2] {
    let full =
        Size { ops: 80_000, threads: Some(threads), params: &[], scale: "a thirtieth of the paper's files of 4 KiB" };
    [full, Size { ops: 30_000, scale: "a hundredth of the paper's files of 4 KiB", ..full }]
}

/// The paper's figures are of 16 threads.
const fn panel(base: Panel, workload: &'static str, [full, quick]: [Size; 2]) -> Panel {
    Panel { workload, full, quick, ..base }
}

const NOT_STATED: Paper = Paper::ratio("not stated");

const VARMAIL: Panel = Panel {
    figures: &[4],
    device: "memory",
    workload: "varmail, 1 thread",
    run: "varmail",
    params: &["size=16k"],
    full: varmail(1)[0],
    quick: varmail(1)[1],
    contenders: &CONTENDERS,
    ablations: &ABLATIONS,
    fill: MEMORY,
    paper: NOT_STATED,
    why: CORES,
};

const VARMAIL_16: Panel = Panel {
    paper: Paper { rival: Some("2.38"), rates: Some("o-ext4 700 MB/s"), ..Paper::ratio("2.91") },
    ..panel(VARMAIL, "varmail, 16 threads", varmail(16))
};

const TOKUBENCH: Panel = Panel {
    figures: &[5],
    run: "tokubench",
    params: &["size=4k"],
    why: NOBODY_SYNCS,
    ..panel(VARMAIL, "TokuBench, 1 thread", tokubench(1))
};

const TOKUBENCH_16: Panel = Panel {
    paper: Paper {
        rival: Some("1.69"),
        rates: Some("ext4 156.9, fg-ext4 183.5, o-ext4 309.6 MB/s"),
        ..Paper::ratio("1.97")
    },
    ..panel(TOKUBENCH, "TokuBench, 16 threads", tokubench(16))
};

const PANELS: [Panel; 8] = [
    VARMAIL,
    panel(VARMAIL, "varmail, 4 threads", varmail(4)),
    VARMAIL_16,
    TOKUBENCH,
    panel(TOKUBENCH, "TokuBench, 4 threads", tokubench(4)),
    TOKUBENCH_16,
    Panel {
        device: "ssd",
        full: Size { ops: 32_000, ..VARMAIL_16.full },
        // An fsync that waits for the disk takes some ms.
        quick: Size { ops: 20_000, ..VARMAIL_16.quick },
        fill: SSD,
        why: FLUSHES,
        ..VARMAIL_16
    },
    Panel { device: "ssd", fill: SSD, why: STREAM, ..TOKUBENCH_16 },
];
