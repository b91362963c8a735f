//! One client that never syncs: the background commits and checkpoints early enough that no operation has to do it
//! itself.

use ondol::{FormatOptions, OpenOptions, Options, Volume};
use ondol_block::{Access, FileStore};
use ondol_env::sync::Arc;
use ondol_testkit::image;
use std::path::Path;

/// Operations until the background comes to a processor.
const LAG: u32 = 24;

/// A mail server's day, as Postmark has it: files are made, read, grown and removed in turn, no matter which.
fn day(volume: &Volume, transactions: u32) {
    let mut x = 7_u32;
    let mut random = |below: u32| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) % below
    };
    for dir in 0..50 {
        volume.create_dir(format!("/d{dir}")).unwrap();
    }
    let mut done = 0;
    let mut step = || {
        done += 1;
        if done % LAG == 0 {
            volume.step_until_idle().unwrap();
        }
    };
    let path = |n: u32| format!("/d{}/file number {n}", n % 50);
    let mut there = Vec::new();
    for next in 0..transactions {
        match random(5) {
            0 | 1 => {
                volume.write(path(next), vec![1; random(12_000) as usize + 500]).unwrap();
                there.push(next);
            }
            2 if !there.is_empty() => {
                let gone = there.swap_remove(random(there.len() as u32) as usize);
                volume.remove_file(path(gone)).unwrap();
            }
            3 if !there.is_empty() => {
                let file = there[random(there.len() as u32) as usize];
                let file = OpenOptions::new().write(true).open(volume, path(file)).unwrap();
                file.write_at(&vec![2; random(8_000) as usize], file.metadata().unwrap().len()).unwrap();
            }
            _ if !there.is_empty() => {
                volume.read(path(there[random(there.len() as u32) as usize])).unwrap();
            }
            _ => {}
        }
        step();
    }
}

fn run(dir: &Path, options: &str) {
    let image = dir.join("image");
    Volume::format(&image, &FormatOptions::new().size(256 << 20).journal_size(4 << 20).force(true)).unwrap();
    let store = Arc::new(FileStore::open(&image, Access::Write).unwrap());
    let volume = Volume::open_stepped(store, &Options::parse(options).unwrap(), image::clock(1)).unwrap();
    day(&volume, 20_000);
    let counted = volume.state().counters();
    let here = (counted.engine.foreground_commits, counted.engine.foreground_checkpoints);
    assert_eq!(here, (0, 0), "{options}: commits and checkpoints by operations");
    assert!(counted.engine.commits >= 3, "{options}: {} commits", counted.engine.commits);
    volume.close().unwrap();
}

#[test]
fn no_operation_commits_or_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    for mode in ["ordered", "journal"] {
        for engine in ["classic", "compressed"] {
            for memory in ["", ",cache=32M"] {
                run(dir.path(), &format!("data={mode},journal={engine}{memory}"));
            }
        }
    }
}
