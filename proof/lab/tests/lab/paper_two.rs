//! Paper 2's program, and its table.

use crate::place::{eventually, ondol, succeeds};
use crate::{lab, program, scratch};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;

/// What `ondol bench paper 2` measures: each thread's file is whole, with the buffer and without.
#[test]
fn the_program_of_paper_2_writes_whole_files() {
    let (files, memory) = (tempfile::tempdir().unwrap(), scratch());
    let (plain, buffered) = (files.path().join("plain"), files.path().join("buffered"));
    for dir in [&plain, &buffered] {
        std::fs::create_dir(dir).unwrap();
    }
    let words = ["bench", "write", "--threads", "3", "--bytes", "3145728", "--unit"];
    succeeds(lab().args(words).args(["16384", "--dir"]).arg(&plain));
    let mut run = ondol();
    run.args(["run", "--quiet", "--size", "1M", "--buffer"])
        .arg(memory.path().join("pool"))
        .arg("--dir")
        .arg(&buffered);
    run.arg("--").arg(env!("CARGO_BIN_EXE_ondol-lab")).args(words).args(["1024", "--dir"]).arg(&buffered);
    succeeds(run.env("ONDOL", program()));
    for dir in [&plain, &buffered] {
        let sizes: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes, [1 << 20; 3], "{}", dir.display());
    }
}

#[test]
fn a_table_of_paper_2_that_is_interrupted_leaves_nothing() {
    let files = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(files.path()).unwrap().flatten();
    let mut command = lab();
    command.args(["bench", "paper", "2", "--quick", "--dir"]).arg(files.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let works = eventually(|| entries().any(|entry| entry.path().join("file000").exists()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert!(works, "nothing was written");
    assert_eq!((status.code(), entries().count()), (Some(130), 0));
    let mine = format!("ondol-bench-{}-", child.id());
    let left = |dir: &str| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&mine)).count()
    };
    assert_eq!(left("/dev/shm"), 0);
}
