//! The workloads of the suite, and the targets that they run on.

use crate::args::SuiteMedium;

/// How much of a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) ops: u64,
    pub(super) params: &'static [&'static str],
}

/// One workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its name here.
    pub(super) name: &'static str,
    /// The workload to run.
    pub(super) run: &'static str,
    pub(super) setting: Option<&'static str>,
    /// Threads, if not the workload's own number.
    pub(super) threads: Option<u32>,
    /// Processes, if its program works with some.
    pub(super) clients: Option<u32>,
    pub(super) full: Size,
    pub(super) quick: Size,
    /// The kernel's rate should be reached so many times.
    pub(super) aim: f64,
}

const fn size(ops: u64, params: &'static [&'static str]) -> Size {
    Size { ops, params }
}

/// fs_mark's and dbench's clients are processes, Filebench's threads are threads.
const FS_MARK: Row = Row {
    name: "fs-mark 1",
    run: "fs-mark",
    setting: None,
    threads: Some(1),
    clients: Some(1),
    full: size(20_000, &[]),
    quick: size(3_000, &[]),
    aim: 1.5,
};

const FILEBENCH: Row = Row { setting: None, threads: None, clients: None, aim: 0.5, ..FS_MARK };

/// The rows, in the order of the table.
pub(super) const LIST: [Row; 9] = [
    FS_MARK,
    Row { name: "fs-mark 4", clients: Some(4), ..FS_MARK },
    Row { name: "fs-mark 16", clients: Some(16), ..FS_MARK },
    Row { name: "varmail", run: "varmail", full: size(200_000, &[]), quick: size(20_000, &[]), aim: 1.0, ..FILEBENCH },
    Row {
        name: "postmark",
        run: "postmark",
        setting: Some("paper3"),
        full: size(60_000, &[]),
        quick: size(6_000, &["files=1000", "subdirs=2500"]),
        aim: 0.6,
        ..FS_MARK
    },
    Row {
        name: "dbench 4",
        run: "dbench",
        clients: Some(4),
        full: size(400_000, &[]),
        quick: size(40_000, &[]),
        aim: 0.6,
        ..FS_MARK
    },
    Row {
        name: "fileserver",
        run: "fileserver",
        full: size(100_000, &[]),
        quick: size(10_000, &["files=1000"]),
        ..FILEBENCH
    },
    Row {
        name: "webproxy",
        run: "webproxy",
        full: size(200_000, &[]),
        quick: size(20_000, &["files=1000"]),
        ..FILEBENCH
    },
    Row {
        name: "tokubench 4",
        run: "tokubench",
        threads: Some(4),
        full: size(100_000, &[]),
        quick: size(10_000, &[]),
        ..FILEBENCH
    },
];

/// What carries requests, as targets name it.
pub(super) const TRANSPORTS: [&str; 2] = ["dev", "uring"];

/// What every row runs on beside the kernel: its name in the tables, and the target but for its transport.
pub(super) const OURS: [(&str, &str); 4] = [
    ("classic ordered", "fuse:classic.img,data=ordered,journal=classic"),
    ("compressed journal", "fuse:compressed.img,data=journal,journal=compressed"),
    ("passthrough", "passthrough"),
    ("null", "null"),
];

/// Of those the first so many have a volume.
pub(super) const VOLUMES: usize = 2;

/// A target of ours over a transport, on a medium.
pub(super) fn target(base: &str, transport: &str, on: SuiteMedium) -> String {
    match on {
        SuiteMedium::Ram => format!("{base},transport={transport}"),
        SuiteMedium::Ssd => format!("{base},on=ssd,transport={transport}"),
        SuiteMedium::Disk => format!("{base},on=disk,transport={transport}"),
    }
}

/// All targets: the kernel's ext4 first.
pub(super) fn targets(on: SuiteMedium, rings: bool) -> Vec<String> {
    let kernel = match on {
        SuiteMedium::Ram => "kernel:ext4".to_owned(),
        SuiteMedium::Ssd => "kernel:ext4,on=ssd".to_owned(),
        SuiteMedium::Disk => "kernel:ext4,on=disk".to_owned(),
    };
    let ours = if on == SuiteMedium::Ram { OURS.len() } else { VOLUMES };
    let transports = if rings { TRANSPORTS.len() } else { 1 };
    let all = OURS
        .iter()
        .take(ours)
        .flat_map(|(_, base)| TRANSPORTS.iter().take(transports).map(move |transport| target(base, transport, on)));
    std::iter::once(kernel).chain(all).collect()
}
