//! Calls that few programs make, and the requests that calls cost.

use crate::place::{Place, output, succeeds};
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, SeekFrom, StatxFlags};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::Command;
use std::time::UNIX_EPOCH;

#[test]
fn the_birth_of_a_file_is_told() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::write(place.on("f"), b"1").unwrap();
    let ask = || rustix::fs::statx(CWD, place.on("f"), AtFlags::empty(), StatxFlags::ALL).unwrap();
    let first = ask();
    assert_ne!(first.stx_mask & StatxFlags::BTIME.bits(), 0);
    assert!(first.stx_btime.tv_sec > 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(place.on("f"), b"2").unwrap();
    let later = ask();
    let of = |t: rustix::fs::StatxTimestamp| (t.tv_sec, t.tv_nsec);
    assert_eq!(of(later.stx_btime), of(first.stx_btime));
    assert!(of(later.stx_mtime) > of(later.stx_btime));
    place.umount();
    place.is_clean();
}

#[test]
fn the_umask_is_applied_once() {
    let Some(place) = Place::mounted("rw") else { return };
    let script = "umask 027; : > f; mkdir d; mkfifo p; ln -s f l";
    succeeds(Command::new("sh").args(["-c", script]).current_dir(place.mount_point()));
    let mode = |name| fs::symlink_metadata(place.on(name)).unwrap().mode();
    assert_eq!((mode("f"), mode("d"), mode("p")), (0o100_640, 0o040_750, 0o010_640));
    assert_eq!(mode("l"), 0o120_777);
    place.umount();
    place.is_clean();
}

#[test]
fn ranges_are_copied_inside_the_volume() {
    let Some(place) = Place::mounted("rw") else { return };
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 249) as u8).collect();
    fs::write(place.on("a"), &bytes).unwrap();
    let (a, b) = (File::open(place.on("a")).unwrap(), File::create(place.on("b")).unwrap());
    let (mut from, mut to) = (100, 5000);
    let copied = rustix::fs::copy_file_range(&a, Some(&mut from), &b, Some(&mut to), 200_000).unwrap();
    assert_eq!(copied, 200_000);
    let got = fs::read(place.on("b")).unwrap();
    assert!(got[..5000].iter().all(|b| *b == 0));
    assert!(got[5000..] == bytes[100..200_100]);
    let requests = requests(&place);
    assert!(requests["copy_file_range"] >= 1, "{requests:?}");
    drop((a, b));
    place.umount();
    place.is_clean();
}

#[test]
fn holes_are_made_and_found() {
    let Some(place) = Place::mounted("rw") else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(place.on("f")).unwrap();
    file.write_all_at(&[7; 64 << 10], 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 16 << 10, 16 << 10).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 40 << 10, 4 << 10).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap(), 16 << 10);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(16 << 10)).unwrap(), 32 << 10);
    let mut byte = [1];
    for (at, expected) in [(15 << 10, 7), (16 << 10, 0), (32 << 10, 7), (41 << 10, 0), (44 << 10, 7)] {
        file.read_exact_at(&mut byte, at).unwrap();
        assert_eq!(byte[0], expected, "at {at}");
    }
    drop(file);
    place.umount();
    place.is_clean();
}

#[test]
fn direct_reads_and_writes_pass_the_page_cache() {
    const PAGE: usize = 4096;
    let Some(place) = Place::mounted("rw") else { return };
    let open = |flags: OFlags| {
        let flags = flags.bits().cast_signed();
        OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(place.on("f"))
    };
    let (direct, cached) = (open(OFlags::DIRECT).unwrap(), open(OFlags::empty()).unwrap());
    let mut space = vec![9; 4 * PAGE];
    let start = space.as_ptr().align_offset(PAGE);
    let pages = &mut space[start..start + 2 * PAGE];
    direct.write_all_at(pages, 0).unwrap();
    cached.write_all_at(&[5; 10], 100).unwrap();
    direct.read_exact_at(pages, 0).unwrap();
    assert_eq!((pages[99], pages[100], pages[109], pages[110]), (9, 5, 5, 9));
    pages.fill(3);
    direct.write_all_at(pages, 0).unwrap();
    let mut got = [0; 10];
    cached.read_exact_at(&mut got, 100).unwrap();
    assert_eq!(got, [3; 10]);
    drop((direct, cached));
    place.umount();
    place.is_clean();
}

#[test]
fn a_program_that_runs_is_not_emptied() {
    let Some(place) = Place::mounted("rw") else { return };
    let program = place.on("sleep");
    let bytes = fs::read("/bin/sleep").unwrap();
    fs::copy("/bin/sleep", &program).unwrap();
    let Ok(mut running) = Command::new(&program).arg("60").spawn() else {
        return ondol_skips::skip("the mount's programs cannot be run");
    };
    let emptying = OFlags::TRUNC.bits().cast_signed();
    let refused = OpenOptions::new().read(true).custom_flags(emptying).open(&program);
    let alive = running.try_wait().unwrap();
    let kept = fs::read(&program).unwrap() == bytes;
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ExecutableFileBusy);
    assert!(alive.is_none() && kept);
    // What is empty already is changed as well.
    for len in [bytes.len() as u64, 0] {
        let file = OpenOptions::new().write(true).open(&program).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len);
        let emptied = File::create(&program).unwrap().metadata().unwrap();
        assert!(emptied.len() == 0 && emptied.modified().unwrap() > UNIX_EPOCH);
    }
    place.umount();
    place.is_clean();
}

#[test]
fn stores_through_a_shared_mapping_reach_the_volume() {
    let Some(place) = Place::mounted("rw") else { return };
    let script = "import mmap\n\
        f = open('f', 'w+b'); f.truncate(1 << 20)\n\
        m = mmap.mmap(f.fileno(), 1 << 20)\n\
        m[5:10] = b'hello'; m[(1 << 20) - 3:] = b'end'\n\
        m.flush(); f.close(); m.close()";
    match Command::new("python3").args(["-c", script]).current_dir(place.mount_point()).output() {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => return ondol_skips::skip(format!("no python3: {e}")),
    }
    place.umount();
    place.is_clean();
    place.mount("ro");
    let got = fs::read(place.on("f")).unwrap();
    assert_eq!((&got[5..10], &got[(1 << 20) - 3..]), (&b"hello"[..], &b"end"[..]));
    place.umount();
}

#[test]
fn each_call_costs_the_requests_that_are_written_down() {
    costs("rw", "mknod 1", "");
}

#[test]
fn opening_costs_requests_where_it_is_asked_for() {
    costs("open_requests", "create 1", "open 1");
}

/// Counts requests on a mount with `options`, where a file is made by `made`, and opened by `opened`.
fn costs(options: &str, made: &str, opened: &str) {
    let Some(place) = Place::mounted(options) else { return };
    fs::create_dir(place.on("d")).unwrap();
    let mut before = requests(&place);
    let mut cost = |call: &dyn Fn()| {
        call();
        let after = requests(&place);
        let mut spent = BTreeMap::new();
        for (kind, n) in &after {
            let n = n - before.get(kind).unwrap_or(&0);
            // What the question itself costs, what comes later, whenever the kernel sees fit, and who asks for the room
            // of all mounts (df).
            if n > 0 && !matches!(&**kind, "getxattr" | "opendir" | "releasedir" | "release" | "forget" | "statfs") {
                spent.insert(kind.clone(), n);
            }
        }
        before = after;
        spent.into_iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>().join(", ")
    };
    let path = place.on("d/f");
    let durable = cost(&|| {
        let file = File::create_new(&path).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_all().unwrap();
    });
    let checks = durable.contains("getattr");
    let mut want = [made, "fsync 1", "lookup 1", "write 1"];
    want.sort_unstable();
    assert_eq!(durable.replace("getattr 1, ", ""), want.join(", "));
    // Rust's library asks for the time of birth, which no other answer carries.
    assert_eq!(cost(&|| assert!(fs::metadata(&path).is_ok())), "statx 1");
    assert_eq!(cost(&|| assert!(fs::metadata(&path).is_ok())), "");
    assert_eq!(cost(&|| drop(fs::read(&path).unwrap())), opened);
    let rename = cost(&|| fs::rename(&path, place.on("d/g")).unwrap());
    assert_eq!(rename.replace("getattr 1, ", ""), "lookup 1, rename 1");
    let unlink = cost(&|| fs::remove_file(place.on("d/g")).unwrap());
    assert_eq!(unlink.replace("getattr 1, ", ""), "unlink 1");
    println!("the kernel checks permissions: {checks}");
    place.umount();
    place.is_clean();
}

#[test]
fn small_writes_cost_a_request_each_and_nothing_else() {
    let Some(place) = Place::mounted("rw") else { return };
    let file = OpenOptions::new().append(true).create_new(true).open(place.on("f")).unwrap();
    let before = requests(&place);
    for n in 0..500u32 {
        std::io::Write::write_all(&mut &file, &n.to_le_bytes()).unwrap();
    }
    let mut spent = requests(&place);
    spent.retain(|kind, n| {
        *n -= before.get(kind).unwrap_or(&0);
        *n > 0 && !matches!(&**kind, "opendir" | "releasedir" | "forget")
    });
    // One before the first write; the others are the question itself.
    let asked = spent.remove("getxattr").unwrap();
    assert!(asked <= 5, "{asked} times for attributes");
    assert_eq!(spent, BTreeMap::from([("write".into(), 500)]));
    drop(file);
    place.umount();
    place.is_clean();
}

/// A write makes the kernel forget the size; what it then asks for makes it forget that a file has no capabilities.
#[test]
fn a_write_is_paid_again_by_the_next_read_up_to_the_end() {
    let Some(place) = Place::mounted("rw") else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(place.on("f")).unwrap();
    let cost = |call: &dyn Fn()| {
        let before = requests(&place);
        call();
        let after = requests(&place);
        let of = |kind: &str| after.get(kind).unwrap_or(&0) - before.get(kind).unwrap_or(&0);
        (of("getattr"), of("getxattr"))
    };
    let write = || file.write_all_at(&[1; 4096], 0).unwrap();
    let read = |len: usize| assert!(file.read_at(&mut vec![0; len], 0).unwrap() == len.min(4096));
    // What the question itself costs.
    let (_, asked) = cost(&|| ());
    assert_eq!(cost(&write), (0, asked + 1));
    assert_eq!(cost(&write), (0, asked));
    assert_eq!(cost(&|| read(4096)), (0, asked));
    assert_eq!(cost(&|| read(5000)), (1, asked));
    assert_eq!(cost(&|| read(5000)), (0, asked));
    assert_eq!(cost(&write), (0, asked + 1));
    drop(file);
    place.umount();
    place.is_clean();
}

#[test]
fn a_mount_is_told_of_opens_only_where_they_are_asked_for() {
    let Some(place) = Place::new() else { return };
    for (options, told) in
        [("rw", false), ("open_requests", true), ("ro,open_requests", false), ("writeback_cache", true)]
    {
        place.mount(options);
        if !options.starts_with("ro") {
            fs::write(place.on("f"), b"text").unwrap();
        }
        for _ in 0..20 {
            assert_eq!(fs::read(place.on("f")).unwrap(), b"text");
            assert!(fs::read_dir(place.mount_point()).unwrap().count() > 0);
        }
        // The first of each kind learns that it is not needed.
        let n: u64 = ["open", "opendir"].iter().filter_map(|kind| requests(&place).get(*kind).copied()).sum();
        assert_eq!(n > 20, told, "{options}: {n} opens");
        assert_eq!(OpenOptions::new().write(true).open(place.on("f")).is_err(), options.starts_with("ro"));
        place.umount();
    }
    place.is_clean();
}

#[test]
fn the_writeback_cache_collects_writes() {
    let Some(place) = Place::mounted("writeback_cache") else { return };
    let file = OpenOptions::new().append(true).create_new(true).open(place.on("f")).unwrap();
    for n in 0..1000u32 {
        std::io::Write::write_all(&mut &file, &n.to_le_bytes()).unwrap();
    }
    file.sync_all().unwrap();
    let requests = requests(&place);
    assert!(requests["write"] < 100, "{requests:?}");
    let told = file.metadata().unwrap();
    drop(file);
    place.umount();
    place.is_clean();
    place.mount("ro");
    let expected: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
    assert!(fs::read(place.on("f")).unwrap() == expected);
    let kept = fs::metadata(place.on("f")).unwrap();
    assert_eq!((kept.len(), kept.mtime(), kept.mtime_nsec()), (told.len(), told.mtime(), told.mtime_nsec()));
    place.umount();
}

/// How many requests of each kind the mount has served.
pub(crate) fn requests(place: &Place) -> BTreeMap<String, u64> {
    let mut ask = crate::place::ondol();
    let out = output(ask.args(["info", "--json", "--stats"]).arg(place.mount_point()));
    let info: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    serde_json::from_value(info["requests"].clone()).unwrap()
}
