//! Which threads serve a mount: counted, not timed.

use crate::place::{Place, eventually};
use crate::transport::on_each;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A serving thread, and how often it has given its processor away.
#[derive(Debug)]
struct Task {
    id: u32,
    switches: u64,
}

fn serving(pid: u32) -> Vec<Task> {
    // A server that has ended has none.
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let task = |entry: fs::DirEntry| {
        // It may have ended meanwhile.
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse::<u64>().ok()
        };
        let serves = status.starts_with("Name:\tondol-fuse-") && !status.starts_with("Name:\tondol-fuse-fore");
        let switches = field("voluntary_ctxt_switches")? + field("nonvoluntary_ctxt_switches")?;
        serves.then_some(Task { id: entry.file_name().to_str()?.parse().ok()?, switches })
    };
    tasks.filter_map(task).collect()
}

const WINDOWS: u32 = 20;

fn processors() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// One client, whose requests are all answered at once: over `/dev/fuse` by one thread, over io_uring by one for each
/// processor that it runs on.
#[test]
fn one_client_meets_the_same_thread() {
    on_each(|transport| {
        let Some(mut place) = Place::new() else { return };
        let server = place.serve_on(transport);
        let pid = place.server(server).id();
        let ask = |n: u32| {
            let path = place.on("f");
            fs::write(&path, n.to_le_bytes()).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), 4);
            fs::remove_file(&path).unwrap();
        };
        (0..50).for_each(ask);
        let threads = if transport.ends_with("dev") { 1 } else { processors() };
        // Where other programs keep a thread from running, another takes its place, and serves from then on.
        let mut steady = 0;
        for _ in 0..WINDOWS {
            let before = serving(pid);
            (0..50).for_each(ask);
            let mut spent: Vec<u64> = serving(pid)
                .iter()
                .map(|task| task.switches - before.iter().find(|b| b.id == task.id).map_or(0, |b| b.switches))
                .collect();
            spent.sort_unstable();
            let (all, warm) = (spent.iter().sum::<u64>(), spent.iter().rev().take(threads).sum::<u64>());
            assert!(all > 25, "{transport}: {spent:?} switches");
            steady += u32::from(warm * 10 > all * 9);
        }
        println!("{transport}: {steady} of {WINDOWS}");
        assert!(steady * 2 > WINDOWS, "{transport}: the same thread in {steady} of {WINDOWS} windows");
        place.umount();
        place.is_clean();
    });
}

/// Many fsyncs wait in one commit, each with a thread; afterwards nobody needs these threads.
#[test]
fn threads_of_a_burst_are_let_go() {
    const CLIENTS: usize = 24;
    let Some(mut place) = Place::new() else { return };
    let server = place.serve_on("transport=dev");
    let pid = place.server(server).id();
    let (begin, seen) = (Barrier::new(CLIENTS), AtomicBool::new(false));
    let most = std::thread::scope(|s| {
        for n in 0..CLIENTS {
            let (begin, seen, place) = (&begin, &seen, &place);
            s.spawn(move || {
                let mut how = OpenOptions::new();
                let file = how.create_new(true).write(true).open(place.on(&format!("f{n}")));
                begin.wait();
                let file = file.unwrap();
                while !seen.load(Relaxed) {
                    file.write_all_at(b"x", 0).unwrap();
                    file.sync_all().unwrap();
                }
            });
        }
        // Clients go on until it is seen: how soon they meet in one commit is the scheduler's business.
        let mut most = 0;
        eventually(|| {
            most = most.max(serving(pid).len());
            most > 2
        });
        seen.store(true, Relaxed);
        most
    });
    assert!(most > 2, "{most} threads at most");
    let (mut left, file) = (most, File::create(place.on("last")).unwrap());
    // Also while one client goes on.
    let gone = eventually(|| {
        file.write_all_at(b"x", 0).unwrap();
        left = serving(pid).len();
        left <= 1
    });
    assert!(gone, "{left} threads of {most} are left");
    drop(file);
    place.umount();
    place.is_clean();
}
