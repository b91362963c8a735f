//! How much memory a server takes when many want much of it at once.

use crate::place::Place;
use crate::transport::{on_each, told};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Barrier;

/// Threads that write a mebibyte each, and again over it.
const WRITERS: usize = 200;
const SIZE: usize = 1 << 20;

/// Bytes that do not compress, or that do.
fn contents(n: usize) -> Vec<u8> {
    let mut x = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut noise = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    };
    match n % 4 {
        0 => b"a line that others have, too. ".iter().copied().cycle().take(SIZE).collect(),
        _ => (0..SIZE / 8).flat_map(|_| noise()).collect(),
    }
}

/// A figure of a process, in KiB.
pub(crate) fn figure(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse().unwrap()
}

/// As large pieces of a listing as the kernel asks for, by many at once.
fn everybody_lists(place: &Place) {
    let dir = place.on("many");
    fs::create_dir(&dir).unwrap();
    for n in 0..2000 {
        drop(File::create(dir.join(format!("a name of some length, as they are, number {n}"))).unwrap());
    }
    std::thread::scope(|scope| {
        for n in 0..WRITERS {
            let (dir, place) = (&dir, &place);
            scope.spawn(move || {
                // Each change makes the kernel drop the listing that it keeps.
                drop(File::create(place.on(&format!("many/{n}"))).unwrap());
                let mut space = Vec::with_capacity(SIZE);
                let opened = File::open(dir).unwrap();
                let mut list = rustix::fs::RawDir::new(opened, space.spare_capacity_mut());
                let mut names = 0;
                while let Some(entry) = list.next() {
                    entry.unwrap();
                    names += 1;
                }
                assert!(names > 2000, "{names} names");
            });
        }
    });
}

fn everybody_writes(place: &Place) {
    let begin = Barrier::new(WRITERS);
    std::thread::scope(|scope| {
        for n in 0..WRITERS {
            let (begin, place) = (&begin, &place);
            scope.spawn(move || {
                let mut how = File::options();
                how.create(true).truncate(false).read(true).write(true);
                let file = how.open(place.on(&format!("file{n}"))).unwrap();
                let (first, second) = (contents(n), contents(n + 1));
                begin.wait();
                file.write_all_at(&first, 0).unwrap();
                file.write_all_at(&second, 0).unwrap();
                let mut back = vec![0; SIZE];
                file.read_exact_at(&mut back, 0).unwrap();
                assert!(back == second, "file{n}");
            });
        }
    });
}

#[test]
fn a_server_keeps_within_what_it_says() {
    on_each(|transport| {
        for options in [
            "data=journal,journal=compressed",
            "data=journal,journal=compressed,cache=16M,dirty=8M",
            "data=journal,journal=classic,cache=16M,dirty=8M",
            "data=ordered,journal=compressed,cache=8M",
            "data=ordered,journal=classic,cache=4M",
        ] {
            stays_within(&format!("{options},{transport}"));
        }
    });
}

fn stays_within(options: &str) {
    let Some(mut place) = Place::of_size("512M") else { return };
    let server = place.serve_on(options);
    let pid = place.server(server).id();
    let bound = told(&place)["memory_bound"].as_u64().unwrap() >> 10;
    everybody_writes(&place);
    everybody_lists(&place);
    let (peak, now) = (figure(pid, "VmHWM"), figure(pid, "VmRSS"));
    println!("{options}: {peak} KiB at most, {now} KiB now, of {bound}");
    assert!(peak < bound, "{options}: {peak} KiB of {bound}");
    place.umount();
    assert!(place.server(server).wait().unwrap().success());
    place.is_clean();
}
