//! Paper 3, the compressed journal. Its figures show Filebench and Postmark on one solid-state and one hard disk; here
//! both are modelled, and under us and the kernel alike.

use super::frame::{Ablation, Contender, List, Panel, Paper, Size};
use super::summary::Column;
use crate::args::Settle;
use crate::report::compression;

pub(super) const LIST: List = List {
    name: "paper 3",
    title: "the compressed journal",
    panels: &PANELS,
    columns: &[
        Column::ratio("classic journal / ordered", JOURNAL.name, ORDERED.name),
        Column::ratio("compressed / classic ordered", COMPRESSED.name, ORDERED.name),
        Column::ratio("compressed / kernel ordered", COMPRESSED.name, KERNEL.name),
        Column::ratio("kernel journal / ordered", KERNEL_JOURNAL.name, KERNEL.name),
        Column::said("paper: compressed / kernel ordered", |paper| Some(paper.ratio.to_owned())),
        Column::result("compression µs/commit (ratio)", COMPRESSED.name, |target| {
            target.counters.device.engine.as_ref().map(compression)
        }),
        Column::said("paper: µs/commit", |paper| paper.compression_us.map(|us| format!("{us:.0}"))),
    ],
    readings: &[
        "Classic and compressed are the library's; mounts of them are in the panels' own tables.",
        "The paper names its disks (Samsung 850 PRO, a Seagate of 2 TB): both are modelled, after the data sheet \
         where there is one.",
        "The paper gives no parameters for Filebench: they are Filebench 1.5's own. Filebench writes zeros; what is \
         written here compresses as source text does, by 2.5, unless `--ratio` says otherwise.",
        "The mean time for compressing a commit is not said to be of one disk: it stands beside both.",
    ],
    fixed: &[
        "all of it at once: `classic journal` is a journal of two flushes without compression, and stands in the \
         table above.",
        "compression alone, and one flush in place of two alone: a unit is one record, compressed or not, and one \
         flush is what a unit needs. With `--ratio 1` contents do not compress.",
        "checkpoints in the background: the engine has no others.",
        "zeroing is the paper's, and not the full system's: the column with it shows what it costs.",
    ],
    settle: Some(Settle::Close),
};

const ORDERED: Contender =
    Contender { name: "classic ordered", target: "lib:ordered.img,on={disk},data=ordered,journal=classic,cache=2G" };
const JOURNAL: Contender =
    Contender { name: "classic journal", target: "lib:journal.img,on={disk},data=journal,journal=classic,cache=2G" };
const COMPRESSED: Contender = Contender {
    name: "compressed journal",
    target: "lib:compressed.img,on={disk},data=journal,journal=compressed,cache=2G",
};
const KERNEL: Contender = Contender { name: "kernel ordered", target: "kernel:ext4,on={disk}" };
const KERNEL_JOURNAL: Contender = Contender { name: "kernel journal", target: "kernel:ext4,on={disk},data=journal" };

const CONTENDERS: [Contender; 8] = [
    ORDERED,
    JOURNAL,
    COMPRESSED,
    Contender {
        name: "mount classic ordered",
        target: "fuse:ordered.img,on={disk},data=ordered,journal=classic,cache=2G",
    },
    Contender {
        name: "mount compressed journal",
        target: "fuse:compressed.img,on={disk},data=journal,journal=compressed,cache=2G",
    },
    KERNEL,
    KERNEL_JOURNAL,
    Contender { name: "kernel fast_commit", target: "kernel:ext4,on={disk},feature=fast_commit" },
];

/// As large as mke2fs makes it on an image of 1 GiB: a quarter of what ours have.
const SMALL: Contender = Contender {
    name: "without larger journal (64M)",
    target: "lib:small.img,on={disk},data=journal,journal=compressed,journal_size=64M,cache=2G",
};
const ZEROING: Contender = Contender {
    name: "with zeroing",
    target: "lib:zeroing.img,on={disk},data=journal,journal=compressed,zeroing,cache=2G",
};
const ABLATIONS: [Ablation; 2] =
    [Ablation { without: SMALL, full: COMPRESSED.name }, Ablation { without: ZEROING, full: COMPRESSED.name }];

const SSD: &[(&str, &str)] = &[("{disk}", "ssd")];
const HDD: &[(&str, &str)] = &[("{disk}", "hdd")];

const fn size(ops: u64, params: &'static [&'static str], scale: &'static str) -> Size {
    Size { ops, threads: None, params, scale }
}

const fn paper(ratio: &'static str, compression_us: f64) -> Paper {
    Paper { compression_us: Some(compression_us), ..Paper::ratio(ratio) }
}

const OWN: &str = "Filebench's own set of files and threads";
const OWN_FIFTH: &str = "a fifth of Filebench's own files, its own threads";
const PAPERS: &str = "the paper's 10,000 files in 25,000 directories";
const PAPERS_TENTH: &str = "a tenth of the paper's files, 1,000 directories";
const PAPERS_TWENTIETH: &str = "a twentieth of the paper's files, 500 directories";

const FLUSHES: &str = "all threads share a flush, with every journal, so that half as many of them are worth no more \
                       than the flush's part of the time; the paper does not count flushes, and Filebench's zeros \
                       compress a hundred times better";
const NOBODY_SYNCS: &str = "nobody syncs, so the kernel keeps what is dirty for up to 30 seconds and never writes \
                            what is deleted before, and ours commit after 5; the paper says neither how long it ran \
                            nor how much memory its kernel had";
const POSTMARK_FSYNC_WHY: &str =
    "the paper gives one ratio for Postmark with and without fsync; with it, flushes are what a file costs";

const VARMAIL: Panel = Panel {
    figures: &[1, 4],
    device: "ssd",
    workload: "varmail",
    run: "varmail",
    params: &[],
    full: size(60_000, &[], OWN),
    quick: size(30_000, &[], OWN),
    contenders: &CONTENDERS,
    ablations: &ABLATIONS,
    fill: SSD,
    paper: paper("8.3", 107.0),
    why: FLUSHES,
};

const FILESERVER: Panel = Panel {
    workload: "fileserver",
    run: "fileserver",
    full: size(30_000, &[], OWN),
    quick: size(20_000, &["files=2000"], OWN_FIFTH),
    paper: paper("below 1", 109_000.0),
    why: NOBODY_SYNCS,
    ..VARMAIL
};

const POSTMARK: Panel = Panel {
    figures: &[6],
    workload: "postmark",
    run: "postmark",
    full: size(30_000, &[], PAPERS),
    quick: size(8_000, &["files=1000", "subdirs=1000"], PAPERS_TENTH),
    paper: paper("up to 1.21", 169.0),
    why: NOBODY_SYNCS,
    ..VARMAIL
};

const POSTMARK_FSYNC: Panel = Panel {
    workload: "postmark with fsync",
    params: &["fsync=create"],
    full: size(1_600, &["files=1000", "subdirs=1000"], PAPERS_TENTH),
    quick: size(600, &["files=250", "subdirs=250"], "a fortieth of the paper's files, 250 directories"),
    why: POSTMARK_FSYNC_WHY,
    ..POSTMARK
};

/// On the hard disk, where an fsync takes a hundredth of a second and more, with fewer of them.
const PANELS: [Panel; 8] = [
    VARMAIL,
    FILESERVER,
    Panel {
        figures: &[1, 5],
        device: "hdd",
        full: size(4_000, &[], OWN),
        quick: size(1_500, &[], OWN),
        fill: HDD,
        paper: paper("4.5", 107.0),
        ..VARMAIL
    },
    Panel {
        figures: &[1, 5],
        device: "hdd",
        full: size(5_000, &["files=2000"], OWN_FIFTH),
        quick: size(2_000, &["files=600"], "a seventeenth of Filebench's own files, its own threads"),
        fill: HDD,
        paper: paper("10.6", 109_000.0),
        ..FILESERVER
    },
    POSTMARK,
    POSTMARK_FSYNC,
    Panel {
        figures: &[7],
        device: "hdd",
        full: size(8_000, &["files=1000", "subdirs=1000"], PAPERS_TENTH),
        quick: size(3_000, &["files=500", "subdirs=500"], PAPERS_TWENTIETH),
        fill: HDD,
        paper: paper("1.0", 169.0),
        ..POSTMARK
    },
    Panel {
        figures: &[7],
        device: "hdd",
        full: size(200, &["files=300", "subdirs=300"], "three hundredths of the paper's files, 300 directories"),
        quick: size(150, &["files=100", "subdirs=100"], "a hundredth of the paper's files, 100 directories"),
        fill: HDD,
        paper: paper("1.0", 169.0),
        ..POSTMARK_FSYNC
    },
];
