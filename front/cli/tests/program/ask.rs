//! Asking a mounted volume, and what the program says about wrong requests.

use crate::place::{Place, fails, fsck, ondol, output, succeeds};
use std::fs;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn info_of_a_mounted_volume_comes_from_its_server() {
    let Some(place) = Place::mounted("data=journal") else { return };
    fs::create_dir(place.on("dir")).unwrap();
    fs::write(place.on("dir/file"), b"x").unwrap();
    for target in [place.mount_point(), place.on("dir"), place.image()] {
        let info = json(&succeeds(ondol().args(["info", "--json", "--stats"]).arg(&target)));
        assert_eq!(info["block_size"], 1024, "{target:?}");
        assert_eq!(info["mount"]["data"], "journal");
        assert!(info["counters"]["handles"].as_u64().unwrap() >= 2);
        assert_eq!(info["requests"]["mkdir"], 1);
        assert!(info["counters"]["fuse_requests"].as_u64().unwrap() > 3);
    }
    let brief = json(&succeeds(ondol().args(["info", "--json"]).arg(place.mount_point())));
    assert!(brief.get("counters").is_none() && brief.get("requests").is_none());
    let text = succeeds(ondol().arg("info").arg(place.mount_point()));
    assert!(text.contains("block size") && text.contains("1024"), "{text}");
    let mut names = [0; 64];
    assert_eq!(rustix::fs::listxattr(place.mount_point(), &mut names[..]).unwrap(), 0);
    place.umount();
    let info = json(&succeeds(ondol().args(["info", "--json"]).arg(place.image())));
    assert_eq!((&info["state"], &info["block_size"]), (&"clean".into(), &1024.into()));
}

#[test]
fn sync_reaches_the_server() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::create_dir(place.on("dir")).unwrap();
    fs::write(place.on("dir/file"), b"x").unwrap();
    let commits = || {
        let info = json(&succeeds(ondol().args(["info", "--json", "--stats"]).arg(place.mount_point())));
        (info["counters"]["commits"].as_u64().unwrap(), info["requests"]["fsyncdir"].as_u64().unwrap_or(0))
    };
    let before = commits();
    succeeds(ondol().arg("sync").arg(place.on("dir")));
    let after = commits();
    assert!(after.0 > before.0, "{before:?} {after:?}");
    assert_eq!(after.1, before.1 + 1);
    place.umount();
    let said = fails(ondol().arg("sync").arg(place.mount_point()), 1);
    assert!(said.contains("not on a volume mounted by ondol"), "{said}");
}

#[test]
fn an_fsync_by_file_waits_for_its_file_and_ondol_sync_for_all() {
    // No timer commits meanwhile.
    let Some(place) = Place::mounted("fsync=file,commit=900") else { return };
    let info = || json(&succeeds(ondol().args(["info", "--json", "--stats"]).arg(place.mount_point())));
    let commits = || info()["counters"]["commits"].as_u64().unwrap();
    let fsync = |name: &str| {
        let before = commits();
        fs::File::open(place.on(name)).unwrap().sync_all().unwrap();
        commits() - before
    };
    assert_eq!(info()["mount"]["fsync"], "file");
    fs::create_dir(place.on("dir")).unwrap();
    fs::write(place.on("a"), b"x").unwrap();
    fs::write(place.on("dir/b"), b"x").unwrap();
    assert_eq!((fsync("dir/b"), fsync("dir/b"), fsync("a"), fsync("dir")), (1, 0, 0, 0));
    fs::rename(place.on("a"), place.on("c")).unwrap();
    assert_eq!((fsync("dir/b"), fsync("dir"), fsync("c")), (0, 0, 1));
    fs::hard_link(place.on("c"), place.on("dir/d")).unwrap();
    assert_eq!((fsync("dir/b"), fsync("dir"), fsync("c")), (0, 1, 0));
    fs::remove_file(place.on("dir/d")).unwrap();
    let before = commits();
    succeeds(ondol().arg("sync").arg(place.mount_point()));
    assert_eq!(commits(), before + 1);
}

#[test]
fn requests_stay_few() {
    let Some(place) = Place::mounted("rw") else { return };
    let count = || {
        let info = json(&succeeds(ondol().args(["info", "--json", "--stats"]).arg(place.mount_point())));
        info["requests"].clone()
    };
    for i in 0..50 {
        let mut file = fs::File::create(place.on(&format!("f{i}"))).unwrap();
        std::io::Write::write_all(&mut file, &[1; 4096]).unwrap();
        file.sync_all().unwrap();
    }
    let made = count();
    assert_eq!((&made["mknod"], &made["write"], &made["fsync"]), (&50.into(), &50.into(), &50.into()));
    assert!(made["lookup"].as_u64().unwrap() <= 52, "{made}");
    assert!(made.get("open").is_none(), "{made}");
    for _ in 0..50 {
        fs::metadata(place.on("f7")).unwrap();
        assert!(fs::metadata(place.on("absent")).is_err());
        assert_eq!(fs::read(place.on("f7")).unwrap().len(), 4096);
        assert_eq!(fs::read_dir(place.mount_point()).unwrap().count(), 51);
    }
    let used = count();
    let more = |kind: &str| used[kind].as_u64().unwrap_or(0) - made[kind].as_u64().unwrap_or(0);
    assert!(more("lookup") <= 2 && more("getattr") <= 3, "{made} {used}");
    assert!(more("read") <= 1 && more("readdir") + more("readdirplus") <= 8, "{made} {used}");
    place.umount();
}

/// The choice is kept in the image, taken by mounts, and no matter to e2fsck and other programs; while it is mounted
/// they refuse it.
#[test]
fn an_image_chooses_its_journal() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("x.img");
    let journal = || json(&succeeds(ondol().args(["info", "--json"]).arg(&image)))["journal"].clone();
    let asks = || journal()["engine"].as_str().unwrap().to_owned();
    let fsck = |code: i32| {
        let found = fsck(&image);
        assert!(found.as_ref().is_none_or(|(got, _)| *got == Some(code)), "{found:?}");
    };
    let succeeds = |args: &[&str]| assert!(output(ondol().args(args).arg(&image)).status.success(), "{args:?}");
    succeeds(&["mkfs", "--size", "64M", "--journal-size", "8M"]);
    assert_eq!(asks(), "compressed");
    fsck(0);
    assert_eq!((&journal()["data"], &journal()["bytes"]), (&"journal".into(), &(8 << 20).into()));
    succeeds(&["tune", "--journal", "classic", "--data", "writeback"]);
    assert_eq!((asks(), &journal()["data"]), ("classic".into(), &"writeback".into()));
    let text = crate::place::succeeds(ondol().arg("info").arg(&image));
    assert!(text.contains("  engine    classic\n") && text.contains("  data      writeback\n"), "{text}");
    succeeds(&["tune", "--data", "ordered"]);
    assert_eq!((asks(), &journal()["data"]), ("classic".into(), &"ordered".into()));
    fsck(0);
    succeeds(&["tune", "--journal", "compressed"]);
    assert_eq!(asks(), "compressed");
    for (size, bytes) in [("4M", 4 << 20), ("16M", 16 << 20)] {
        succeeds(&["tune", "--journal-size", size]);
        assert_eq!((asks(), &journal()["bytes"]), ("compressed".into(), &bytes.into()));
        fsck(0);
    }
    assert!(fails(ondol().args(["tune", "--journal-size", "1K"]).arg(&image), 1).contains("the least is 1024"));
    assert!(fails(ondol().args(["tune", "--journal-size", "40M"]).arg(&image), 1).contains("more than half"));
    assert!(fails(ondol().arg("tune").arg(&image), 2).contains("nothing to change"));
    fails(ondol().args(["mkfs", "-F", "-O", "ondol_journal"]).arg(&image), 2);
}

#[test]
fn mounting_nothing_or_nowhere_fails() {
    let Some(place) = Place::new() else { return };
    let said = fails(ondol().arg("mount").arg(place.image()).arg("/nonexistent/dir"), 32);
    assert!(said.contains("/nonexistent/dir"), "{said}");
    assert!(place.is_unlocked());
    let said = fails(ondol().arg("mount").arg("/nonexistent.img").arg(place.mount_point()), 32);
    assert!(said.contains("/nonexistent.img"), "{said}");
    fails(ondol().arg("mount").arg(place.image()).arg(place.image()), 32);
    let said = fails(ondol().arg("umount").arg(place.mount_point()), 32);
    assert!(said.contains("not on a volume"), "{said}");
}
