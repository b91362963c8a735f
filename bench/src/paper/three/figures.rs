//! The list of runs, and what the paper has for each.

use ondol::Options;
use serde::Serialize;

/// What the paper says of a panel. It gives ratios and times in its text; its bars have no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Paper {
    /// Its scheme in multiples of ext4 `data=ordered`, in its own words.
    pub(super) ratio: &'static str,
    /// Mean microseconds for compressing a commit, on a disk that it does not name.
    pub(super) compression_us: f64,
}

/// How much of a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) ops: u64,
    pub(super) params: &'static [&'static str],
}

/// One workload on one disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    pub(super) figures: &'static [u32],
    pub(super) device: &'static str,
    /// Its name here.
    pub(super) workload: &'static str,
    /// The workload to run.
    pub(super) run: &'static str,
    pub(super) params: &'static [&'static str],
    pub(super) full: Size,
    pub(super) quick: Size,
    pub(super) paper: Paper,
}

const fn size(ops: u64, params: &'static [&'static str]) -> Size {
    Size { ops, params }
}

const VARMAIL: Panel = Panel {
    figures: &[1, 4],
    device: "ssd",
    workload: "varmail",
    run: "varmail",
    params: &[],
    full: size(100_000, &[]),
    quick: size(30_000, &[]),
    paper: Paper { ratio: "8.3", compression_us: 107.0 },
};

const FILESERVER: Panel = Panel {
    workload: "fileserver",
    run: "fileserver",
    full: size(50_000, &[]),
    quick: size(20_000, &["files=2000"]),
    paper: Paper { ratio: "below 1", compression_us: 109_000.0 },
    ..VARMAIL
};

const POSTMARK: Panel = Panel {
    figures: &[6],
    workload: "postmark",
    run: "postmark",
    full: size(60_000, &[]),
    quick: size(12_000, &["files=2000", "subdirs=2000"]),
    paper: Paper { ratio: "up to 1.21", compression_us: 169.0 },
    ..VARMAIL
};

const POSTMARK_FSYNC: Panel = Panel {
    workload: "postmark with fsync",
    params: &["fsync=create"],
    full: size(20_000, &[]),
    quick: size(4_000, &["files=1000", "subdirs=1000"]),
    ..POSTMARK
};

/// The panels. On the hard disk, where an fsync takes a hundredth of a second and more, with fewer of them.
pub(super) const PANELS: [Panel; 8] = [
    VARMAIL,
    FILESERVER,
    Panel {
        figures: &[1, 5],
        device: "hdd",
        full: size(20_000, &[]),
        quick: size(6_000, &[]),
        paper: Paper { ratio: "4.5", ..VARMAIL.paper },
        ..VARMAIL
    },
    Panel {
        figures: &[1, 5],
        device: "hdd",
        full: size(30_000, &[]),
        quick: size(10_000, &["files=2000"]),
        paper: Paper { ratio: "10.6", ..FILESERVER.paper },
        ..FILESERVER
    },
    POSTMARK,
    POSTMARK_FSYNC,
    Panel { figures: &[7], device: "hdd", paper: Paper { ratio: "1.0", ..POSTMARK.paper }, ..POSTMARK },
    Panel {
        figures: &[7],
        device: "hdd",
        full: size(6_000, &["files=2000", "subdirs=2000"]),
        quick: size(600, &["files=200", "subdirs=200"]),
        paper: Paper { ratio: "1.0", ..POSTMARK.paper },
        ..POSTMARK_FSYNC
    },
];

/// The target that the paper's scheme is compared with, and that ours is: each front end has its own.
pub(super) const OURS: &str = "lib:ordered.img,on=DISK,data=ordered,journal=classic,cache=2G";
/// The paper's system.
pub(super) const COMPRESSED: &str = "lib:compressed.img,on=DISK,data=journal,journal=compressed,cache=2G";
/// The paper's baseline.
pub(super) const KERNEL: &str = "kernel:ext4,on=DISK";
/// The paper's other baseline.
pub(super) const KERNEL_JOURNAL: &str = "kernel:ext4,on=DISK,data=journal";

/// What is run, with `DISK` for the disk: engines that this build has, and the kernel's file system where this process may mount
/// it.
pub(super) fn targets() -> Vec<String> {
    let compressed = Options::parse("journal=compressed").is_ok();
    let root = rustix::process::geteuid().is_root();
    let all = [
        (OURS, true),
        ("lib:journal.img,on=DISK,data=journal,journal=classic,cache=2G", true),
        (COMPRESSED, compressed),
        ("fuse:ordered.img,on=DISK,data=ordered,journal=classic,cache=2G", root),
        ("fuse:compressed.img,on=DISK,data=journal,journal=compressed,cache=2G", root && compressed),
        (KERNEL, root),
        (KERNEL_JOURNAL, root),
        ("kernel:ext4,on=DISK,feature=fast_commit", root),
    ];
    all.into_iter().filter(|&(_, here)| here).map(|(target, _)| target.to_owned()).collect()
}
