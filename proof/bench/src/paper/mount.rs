//! `ondol bench mount`: workloads on mounts of ours over each transport, beside the kernel's ext4 and the two servers
//! without a volume, which show what FUSE itself takes. The papers' runner with a list of no paper.

use super::frame::{Contender, List, Panel, Paper, Size};
use super::summary::Column;

pub(super) const LIST: List = List {
    name: "mount",
    title: "programs on a mount",
    panels: &PANELS,
    columns: &[
        Column::ratio("classic, dev / kernel", DEV.name, KERNEL.name),
        Column::ratio("classic, uring / kernel", RINGS.name, KERNEL.name),
        Column::ratio("compressed, dev / kernel", COMPRESSED_DEV.name, KERNEL.name),
        Column::ratio("compressed, uring / kernel", COMPRESSED_RINGS.name, KERNEL.name),
        Column::ratio("pass-through, uring / kernel", THROUGH_RINGS.name, KERNEL.name),
        Column::ratio("null, uring / kernel", NULL_RINGS.name, KERNEL.name),
        Column::ratio("classic / pass-through, dev", DEV.name, THROUGH_DEV.name),
        Column::ratio("classic / pass-through, uring", RINGS.name, THROUGH_RINGS.name),
    ],
    readings: &[],
    fixed: &[],
    settle: None,
};

const fn contender(name: &'static str, target: &'static str) -> Contender {
    Contender { name, target }
}

const KERNEL: Contender = contender("kernel", "kernel:ext4");
const DEV: Contender = contender("classic, dev", "fuse:classic.img,data=ordered,journal=classic,transport=dev");
const RINGS: Contender = contender("classic, uring", "fuse:classic.img,data=ordered,journal=classic,transport=uring");
const COMPRESSED_DEV: Contender =
    contender("compressed, dev", "fuse:compressed.img,data=journal,journal=compressed,transport=dev");
const COMPRESSED_RINGS: Contender =
    contender("compressed, uring", "fuse:compressed.img,data=journal,journal=compressed,transport=uring");
const THROUGH_DEV: Contender = contender("pass-through, dev", "passthrough,transport=dev");
const THROUGH_RINGS: Contender = contender("pass-through, uring", "passthrough,transport=uring");

const NULL_RINGS: Contender = contender("null, uring", "null,transport=uring");

const CONTENDERS: [Contender; 9] = [
    KERNEL,
    DEV,
    RINGS,
    COMPRESSED_DEV,
    COMPRESSED_RINGS,
    THROUGH_DEV,
    THROUGH_RINGS,
    contender("null, dev", "null,transport=dev"),
    NULL_RINGS,
];

const fn size(ops: u64, params: &'static [&'static str]) -> Size {
    Size { ops, threads: None, params, scale: "" }
}

const VARMAIL: Panel = Panel {
    figures: &[],
    device: "memory",
    workload: "varmail",
    run: "varmail",
    params: &[],
    full: size(200_000, &[]),
    quick: size(20_000, &[]),
    contenders: &CONTENDERS,
    ablations: &[],
    fill: &[],
    paper: Paper::ratio(""),
    why: "",
};

const TOKUBENCH: Size = Size { threads: Some(4), ..size(100_000, &[]) };

const PANELS: [Panel; 5] = [
    VARMAIL,
    Panel {
        workload: "Postmark",
        run: "postmark",
        full: size(60_000, &[]),
        quick: size(6_000, &["files=1000", "subdirs=2500"]),
        ..VARMAIL
    },
    Panel {
        workload: "fileserver",
        run: "fileserver",
        full: size(100_000, &[]),
        quick: size(10_000, &["files=1000"]),
        ..VARMAIL
    },
    Panel {
        workload: "webproxy",
        run: "webproxy",
        full: size(200_000, &[]),
        quick: size(20_000, &["files=1000"]),
        ..VARMAIL
    },
    Panel {
        workload: "TokuBench, 4 threads",
        run: "tokubench",
        full: TOKUBENCH,
        quick: Size { ops: 10_000, ..TOKUBENCH },
        ..VARMAIL
    },
];
