//! `kill -9` of the server under load: everything that was synced is there afterwards, and e2fsck finds nothing to mend.

use ondol_testkit::image::{self, Spec, scratch_dir};
use ondol_testkit::op::Fill;
use ondol_tests::{FuseMount, no_fuse_mount, parameter, skip};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Bytes of each file.
const LEN: u64 = 10_000;

/// Writes files, syncs each and returns the numbers of those whose sync returned; others are written, renamed, cut and
/// removed without sync. Ends when the server dies.
fn load(dir: &Path, thread: u32, stop: &AtomicBool) -> Vec<u32> {
    let mut synced = Vec::new();
    for n in thread * 1_000_000 + 1.. {
        let done = || -> std::io::Result<()> {
            let scratch = dir.join(format!("scratch-{thread}"));
            fs::write(&scratch, Fill::unique(n).bytes(0, LEN * 3))?;
            let mut file = File::create_new(dir.join(format!("file-{n}")))?;
            file.write_all(&Fill::unique(n).bytes(0, LEN))?;
            file.sync_all()?;
            synced.push(n);
            if n % 3 == 0 {
                fs::rename(&scratch, dir.join(format!("moved-{thread}")))?;
            } else if n % 3 == 1 {
                File::options().write(true).open(&scratch)?.set_len(777)?;
            }
            Ok(())
        };
        let mut done = done;
        if stop.load(Relaxed) || done().is_err() {
            return synced;
        }
    }
    synced
}

fn must_be_there(dir: &Path, synced: &[u32]) {
    for n in synced {
        let name = dir.join(format!("file-{n}"));
        let bytes = fs::read(&name).unwrap_or_else(|e| panic!("{} was synced: {e}", name.display()));
        assert!(bytes == Fill::unique(*n).bytes(0, LEN), "{} has other bytes than were synced", name.display());
    }
}

fn rounds(options: &str, kind: &Spec) {
    let dir = scratch_dir().unwrap();
    let (image, point) = (dir.path().join("image"), dir.path().join("mounted"));
    fs::create_dir(&point).unwrap();
    kind.make_file(&image).unwrap();
    let mut mount = FuseMount::new(&image, &point, options).unwrap();
    let mut all = Vec::new();
    for round in 0..parameter("ONDOL_KILLS", 4) {
        let here = point.join(format!("round-{round}"));
        fs::create_dir(&here).unwrap();
        File::open(&point).unwrap().sync_all().unwrap();
        let stop = AtomicBool::new(false);
        let synced = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|t| {
                    scope.spawn({
                        let (here, stop) = (&here, &stop);
                        move || load(here, t, stop)
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(200 + 130 * round));
            mount.kill().unwrap();
            stop.store(true, Relaxed);
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<u32>>()
        });
        assert!(!synced.is_empty(), "nothing was synced before the kill");
        all.push((here, synced));
        // What is there now is what a crash leaves: e2fsck must be able to take it from here.
        image::judge_replay(&fs::read(&image).unwrap()).unwrap().unwrap_or_else(|what| panic!("{what}"));
        mount.mount_again().unwrap();
        all.iter().for_each(|(here, synced)| must_be_there(here, synced));
    }
    mount.unmount().unwrap();
    let verdict = image::check(&fs::read(&image).unwrap()).unwrap();
    assert!(verdict.is_clean(), "e2fsck -fn:\n{}", verdict.output);
}

#[test]
fn ordered() {
    if !skip("ordered", no_fuse_mount()) {
        rounds("data=ordered", &Spec::new(256 << 20, 4096));
    }
}

#[test]
fn journal() {
    if !skip("journal", no_fuse_mount()) {
        rounds("data=journal", &Spec::new(256 << 20, 1024).with("-O orphan_file"));
    }
}
