//! Volumes in object storage whose fsyncs end on this machine; what they take; clones, and deleting.

use crate::bucket::{Store, durable};
use crate::place::{fails, ondol, output, succeeds};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

impl Store {
    fn info(&self, target: &Path) -> Value {
        serde_json::from_str(&succeeds(ondol().args(["info", "--json"]).arg(target))).unwrap()
    }

    /// Kills a server, as a machine that loses its power.
    fn lose(&mut self, server: usize) {
        self.place.server(server).kill().unwrap();
        self.place.server(server).wait().unwrap();
        let out = output(ondol().args(["umount", "--wait"]).arg(self.place.mount_point()));
        assert!(out.status.success(), "{out:?}");
    }
}

/// What a command that fails with `code` says, after notices of what it has found.
fn refused(command: &mut Command, code: i32) -> String {
    let out = output(command);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{command:?}: {said}");
    said.lines().last().unwrap().to_owned()
}

/// The UUID behind `give_up=` in a message.
fn named(said: &str) -> String {
    said.split("give_up=").nth(1).unwrap().chars().take(36).collect()
}

#[test]
fn what_was_acknowledged_here_comes_to_the_bucket_after_a_crash() {
    let Some(mut store) = Store::new() else { return };
    let target = store.target();
    let local = format!("rw,durable=local,redo={},redo_size=8M,lag_seconds=3600", store.file("redo").display());
    for round in 0..3u8 {
        let server = store.serve(&local);
        for n in 0..round {
            assert_eq!(fs::read(store.on(&format!("synced {n}"))).unwrap(), vec![n; 50_000], "{round}");
        }
        durable(&store.on(&format!("synced {round}")), &vec![round; 50_000]).unwrap();
        store.lose(server);
        let said = store.said(server);
        assert!(said.contains("If this machine is lost") && said.contains("3600 seconds"), "{said}");
    }
    // Without the log nobody writes unless he gives up what is in it; with it, all is there.
    let said = refused(ondol().args(["recover", &target]), 1);
    assert!(said.contains("local log") && said.contains("redo=FILE"), "{said}");
    let wrong = format!("rw,durable=local,redo={},redo_size=8M", store.file("other").display());
    let said = refused(&mut store.mount_command(&target, &wrong), 32);
    assert!(said.contains("which is not here"), "{said}");
    assert!(!store.file("other").exists(), "a log that was made for nothing stays");
    store.mount(&local);
    let info = store.info(&store.place.mount_point());
    let lag = &info["bucket"]["lag"];
    assert!(lag["most_seconds"] == 3600 && lag["transactions"].is_u64(), "{info}");
    assert!(info["mount"]["survives"].as_str().unwrap().contains("local log"), "{info}");
    assert!(info["mount"]["options"].as_str().unwrap().contains("durable=local,redo="), "{info}");
    store.place.umount();
    // Closed, it needs no log.
    for n in 0..3u8 {
        let path = format!("/synced {n}");
        assert_eq!(output(ondol().args(["cat", &target, &path])).stdout, vec![n; 50_000]);
    }
    store.mount("rw");
    store.place.umount();
    store.is_clean();
}

#[test]
fn a_machine_that_is_lost_takes_its_last_moments_and_nothing_else() {
    let Some(mut store) = Store::new() else { return };
    let target = store.target();
    store.mount("rw");
    durable(&store.on("before"), b"in the bucket").unwrap();
    store.place.umount();
    let log = store.file("redo");
    let server = store.serve(&format!("rw,durable=local,redo={},redo_size=8M,lag_seconds=3600", log.display()));
    durable(&store.on("late"), &[9; 20_000]).unwrap();
    store.lose(server);
    fs::remove_file(&log).unwrap();
    let said = refused(&mut store.mount_command(&target, "rw"), 32);
    store.mount(&format!("rw,give_up={}", named(&said)));
    assert_eq!(fs::read(store.on("before")).unwrap(), b"in the bucket");
    // The last second may have been in the bucket already.
    assert!(fs::read(store.on("late")).map_or(true, |late| late == [9; 20_000]));
    store.place.umount();
    store.is_clean();
}

#[test]
fn a_log_in_a_pool_serves_as_well() {
    let Some(mut store) = Store::new() else { return };
    let pool = store.file("pool");
    succeeds(ondol().args(["pool", "create", "--size", "24M"]).arg(&pool));
    let local = format!("rw,durable=local,nvm={}", pool.display());
    let server = store.serve(&local);
    durable(&store.on("synced"), &[5; 50_000]).unwrap();
    store.lose(server);
    let said = succeeds(ondol().args(["pool", "info", "--json"]).arg(&pool));
    assert!(said.contains("home-log"), "{said}");
    let info: Value = serde_json::from_str(&said).unwrap();
    assert!(info["home_log"]["batches"].as_u64() >= Some(1), "{info}");
    let said = succeeds(ondol().args(["pool", "dump"]).arg(&pool));
    assert!(said.contains("area home-log") && said.contains("\nbatch "), "{said}");
    store.mount(&local);
    assert_eq!(fs::read(store.on("synced")).unwrap(), [5; 50_000]);
    store.place.umount();
    store.is_clean();
}

#[test]
fn options_of_the_log_that_do_not_fit_are_refused_by_name() {
    let Some(store) = Store::new() else { return };
    let target = store.target();
    for (options, what) in [
        ("durable=local", "`durable=local` needs a log on this machine"),
        ("durable=local,redo=a,nvm=b", "not in both"),
        ("redo=a", "`redo=` goes with `durable=local` alone"),
        ("nvm=a", "`nvm=` goes with `durable=local` alone"),
        ("lag=1M", "`lag=` goes with `durable=local` alone"),
        ("durable=local,redo=/nowhere/log", "the local log /nowhere/log cannot be used"),
        ("disk_cache=/nowhere/cache", "/nowhere/cache cannot be used as a cache"),
    ] {
        let said = fails(&mut store.mount_command(&target, options), 32);
        assert!(said.contains(what), "{options}: {said}");
    }
    for options in ["durable=perhaps", "lag_seconds=0", "give_up=12"] {
        let said = fails(&mut store.mount_command(&target, options), 1);
        assert!(said.contains(options.split('=').next().unwrap()), "{options}: {said}");
    }
    succeeds(ondol().args(["mkfs", "--size", "16M"]).arg(store.file("img")));
    let said =
        fails(ondol().args(["mount", "-o", "redo=log"]).arg(store.file("img")).arg(store.place.mount_point()), 32);
    assert!(said.contains("`redo=` is for volumes in object storage alone"), "{said}");
}

#[test]
fn info_tells_what_a_volume_takes_and_asks() {
    let Some(store) = Store::new() else { return };
    store.mount(&format!("rw,disk_cache={},disk_cache_size=16M", store.file("blocks").display()));
    durable(&store.on("file"), &(0..400_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    let told = store.info(&store.place.mount_point());
    let bucket = &told["bucket"];
    let (stored, requests) = (&bucket["stored"], &bucket["requests"]);
    assert!(stored["bytes"].as_u64() >= Some(400_000) && stored["objects"].as_u64() > Some(2), "{told}");
    assert!(requests["puts"].as_u64() > Some(0) && requests["up"].as_u64() > Some(400_000), "{told}");
    assert_eq!(bucket["disk_cache"]["room"], 16 << 20, "{told}");
    store.place.umount();
}

#[test]
fn a_clone_goes_its_own_way_and_keeps_its_original_from_being_deleted() {
    let Some(store) = Store::new() else { return };
    let (target, clone) = (store.target(), store.target_of("clone"));
    store.mount("rw");
    durable(&store.on("file"), &[1; 300_000]).unwrap();
    succeeds(ondol().args(["snapshot", "create"]).arg(store.place.mount_point()).arg("one"));
    durable(&store.on("file"), b"later").unwrap();
    let said = fails(ondol().args(["clone", &target, &clone]), 1);
    assert!(said.contains("process"), "{said}");
    succeeds(ondol().args(["clone", &store.snapshot("one"), &clone]));
    let said = fails(ondol().args(["clone", &store.snapshot("one"), &clone]), 1);
    assert!(said.contains(&clone), "{said}");
    store.place.umount();
    succeeds(store.mount_command(&clone, "rw").args(["--take-over"]));
    assert_eq!(fs::read(store.on("file")).unwrap(), [1; 300_000]);
    durable(&store.on("own"), b"of the clone").unwrap();
    store.place.umount();
    assert_eq!(succeeds(ondol().args(["cat", &target, "/file"])), "later");
    fails(ondol().args(["cat", &target, "/own"]), 1);
    assert_eq!(succeeds(ondol().args(["cat", &clone, "/own"])), "of the clone");
    succeeds(ondol().args(["check", "-n", &clone]));
    store.exported(&clone);
    let said = fails(ondol().args(["delete", "--yes", &target]), 1);
    assert!(said.contains("is needed by") && said.contains("clone"), "{said}");
    fails(ondol().args(["delete", &target]), 2);
    succeeds(ondol().args(["delete", "--yes", &clone]));
    let said = fails(ondol().args(["info", &clone]), 1);
    assert!(said.contains("ondol mkfs"), "{said}");
    store.is_clean();
    succeeds(ondol().args(["delete", "--yes", &target]));
    fails(ondol().args(["info", &target]), 1);
    let said = fails(ondol().args(["delete", "--yes"]).arg(store.file("exported.img")), 1);
    assert!(said.contains("not in object storage"), "{said}");
}

/// What a program says, whether it is content or not: only what can be shown, and with one of two codes.
fn said_of(command: &mut Command) -> String {
    let out = output(command);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{command:?}: {out:?}");
    let text = String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap();
    assert!(text.chars().all(|c| c == '\n' || (c >= ' ' && c != '\u{7f}')), "{text:?}");
    text
}

#[test]
fn a_log_is_shown_without_its_bucket() {
    let Some(mut store) = Store::new() else { return };
    let log = store.file("redo");
    let server = store.serve(&format!("durable=local,redo={},redo_size=8M,lag_seconds=3600", log.display()));
    let show = |word: &str, file: &Path| {
        let mut command = ondol();
        command.args(["pool", word]).arg(file);
        command
    };
    let said = fails(&mut show("dump", &log), 1);
    assert!(said.contains("another process uses it"), "{said}");
    (0..3u8).for_each(|n| durable(&store.on(&format!("file {n}")), &[n; 20_000]).unwrap());
    store.lose(server);
    let info: Value = serde_json::from_str(&succeeds(show("info", &log).arg("--json"))).unwrap();
    assert!(info["batches"].as_u64() >= Some(3) && info["not_in_bucket"].as_u64() >= Some(1), "{info}");
    let text = succeeds(&mut show("info", &log));
    assert!(text.contains(info["log"].as_str().unwrap()) && text.contains("not in bucket"), "{text}");
    let dumped = succeeds(&mut show("dump", &log));
    let batches: Vec<u64> =
        dumped.lines().filter_map(|line| line.strip_prefix("batch ")?.split(' ').next()?.parse().ok()).collect();
    assert_eq!(Some(batches.len() as u64), info["batches"].as_u64(), "{dumped}");
    assert!(batches.is_sorted() && batches.first() == info["first"].as_u64().as_ref(), "{dumped}");
    assert!(dumped.contains("\n  write ") && dumped.contains("bytes written"), "{dumped}");
    // Bytes of anybody, in a copy: an answer in words, and what is shown was in it.
    let whole = fs::read(&log).unwrap();
    let junk: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let broken = store.file("broken");
    for at in [0, 100, 4096, 4200, 8192, 8200, 8300, 12288, 20000] {
        let mut bytes = whole.clone();
        bytes[at..at + 700].copy_from_slice(&junk[at % 3000..at % 3000 + 700]);
        fs::write(&broken, &bytes).unwrap();
        said_of(&mut show("info", &broken));
        let shown = said_of(&mut show("dump", &broken));
        let lines = shown.lines().take_while(|line| line.starts_with("batch ") || line.starts_with("  "));
        assert!(lines.zip(dumped.lines()).all(|(one, other)| one == other), "{at}: {shown}");
    }
    for len in [0, 8, 4096, 9000, 30_000] {
        fs::write(&broken, &whole[..len]).unwrap();
        said_of(&mut show("info", &broken));
        said_of(&mut show("dump", &broken));
    }
    // All of it comes to the bucket: to look at it has changed nothing.
    assert_eq!(fs::read(&log).unwrap(), whole);
    store.mount(&format!("durable=local,redo={}", log.display()));
    assert!((0..3u8).all(|n| fs::read(store.on(&format!("file {n}"))).unwrap() == [n; 20_000]));
    store.place.umount();
    let info: Value = serde_json::from_str(&succeeds(show("info", &log).arg("--json"))).unwrap();
    assert_eq!(info["not_in_bucket"], 0, "{info}");
    store.is_clean();
}
