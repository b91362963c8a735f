//! Volumes in object storage: made, mounted, lost, taken over, snapshotted, exported, brought in, refused. The store is
//! a directory.

use crate::place::{Place, eventually, fails, fsck, ondol, output, succeeds, transport, unmounts};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that is a store, and a place to mount on.
pub(crate) struct Store {
    pub(crate) place: Place,
}

impl Store {
    /// With a volume of 64 MiB.
    pub(crate) fn new() -> Option<Self> {
        let store = Self::empty()?;
        succeeds(ondol().args(["mkfs", "--size", "64M", "-L", "afar"]).arg(store.target()));
        Some(store)
    }

    pub(crate) fn empty() -> Option<Self> {
        Some(Self { place: Place::new()? })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.image().with_file_name(name)
    }

    pub(crate) fn target(&self) -> String {
        self.target_of("store")
    }

    /// Another one in the same store: in a directory, or where `ONDOL_TEST_BUCKET` says, as `s3://BUCKET/PREFIX`.
    pub(crate) fn target_of(&self, name: &str) -> String {
        let file = self.file(name);
        match std::env::var("ONDOL_TEST_BUCKET") {
            // The name of the directory is nobody else's.
            Ok(bucket) => {
                let own = file.parent().unwrap().file_name().unwrap().to_str().unwrap().trim_start_matches('.');
                format!("{bucket}/{own}/{name}")
            }
            Err(_) => format!("file://{}", file.display()),
        }
    }

    pub(crate) fn snapshot(&self, name: &str) -> String {
        format!("{}?snapshot={name}", self.target())
    }

    pub(crate) fn on(&self, name: &str) -> PathBuf {
        self.place.on(name)
    }

    pub(crate) fn mount_command(&self, target: &str, options: &str) -> Command {
        let mut command = ondol();
        command.args(["mount", target]).arg(self.place.mount_point());
        command.args(["-o", &format!("transport={},{options}", transport())]);
        command
    }

    pub(crate) fn mount(&self, options: &str) {
        succeeds(&mut self.mount_command(&self.target(), options));
    }

    pub(crate) fn serve(&mut self, options: &str) -> usize {
        let target = self.target();
        self.place.serve_target(Path::new(&target), options)
    }

    /// What a server in the foreground has said, once it has ended.
    pub(crate) fn said(&mut self, server: usize) -> String {
        let server = self.place.server(server);
        server.wait().unwrap();
        let mut said = String::new();
        server.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// An image that e2fsck takes.
    pub(crate) fn exported(&self, target: &str) -> PathBuf {
        let image = self.file("exported.img");
        succeeds(ondol().args(["export", "-F", target]).arg(&image));
        let found = fsck(&image);
        assert!(found.as_ref().is_none_or(|(code, _)| *code == Some(0)), "{found:?}");
        image
    }

    pub(crate) fn is_clean(&self) {
        succeeds(ondol().args(["check", "-n", &self.target()]));
        self.exported(&self.target());
    }
}

/// Writes a file and makes it durable.
pub(crate) fn durable(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[test]
fn a_volume_is_made_mounted_checked_and_exported() {
    let Some(store) = Store::new() else { return };
    let target = store.target();
    store.mount("rw");
    durable(&store.on("file"), &[7; 300_000]).unwrap();
    fs::create_dir_all(store.on("a/b")).unwrap();
    fs::write(store.on("a/b/unsynced"), "text").unwrap();
    // The state of a mount comes from its server, by its directory and by its target.
    for asked in [store.place.mount_point(), PathBuf::from(&target)] {
        let info = succeeds(ondol().args(["info", "--json"]).arg(asked));
        for said in ["\"state\":\"mounted\"", "\"engine\":\"batch\"", "\"chunk_bytes\":4096", "is in object storage"] {
            assert!(info.contains(said), "{said}: {info}");
        }
    }
    let said = fails(ondol().args(["ls", &target]), 2);
    assert!(said.contains("is mounted on") && said.contains("ondol umount"), "{said}");
    // It returns when the volume is closed: whoever comes next need not wait, also not in another process.
    for _ in 0..3 {
        store.place.umount();
        succeeds(ondol().args(["check", &target]));
        store.mount("rw");
    }
    store.place.umount();
    let info = succeeds(ondol().args(["info", &target]));
    assert!(info.contains("afar") && info.contains("clean") && info.contains("closed"), "{info}");
    assert_eq!(succeeds(ondol().args(["cat", &target, "/a/b/unsynced"])), "text");
    // What is read takes nothing away from whoever writes; what is written is there for the next one.
    let file = store.file("beside");
    fs::write(&file, "from outside").unwrap();
    succeeds(ondol().args(["cp", &target]).arg(&file).arg(":/beside"));
    store.mount("ro");
    assert_eq!(fs::read(store.on("file")).unwrap(), [7; 300_000]);
    assert_eq!(fs::read(store.on("beside")).unwrap(), b"from outside");
    assert!(fs::write(store.on("new"), "").is_err());
    store.place.umount();
    let image = store.exported(&target);
    assert_eq!(succeeds(ondol().arg("cat").arg(&image).arg("/a/b/unsynced")), "text");
    // And back.
    let other = store.target_of("other");
    succeeds(ondol().arg("import").arg(&image).arg(&other));
    let said = fails(ondol().arg("import").arg(&image).arg(&other), 1);
    assert!(said.contains("is not empty") && said.contains("-F"), "{said}");
    succeeds(ondol().args(["check", &other]));
    assert_eq!(succeeds(ondol().args(["cat", &other, "/beside"])), "from outside");
    store.is_clean();
}

#[test]
fn a_mount_makes_a_volume_where_there_is_none() {
    let Some(store) = Store::empty() else { return };
    for _ in 0..2 {
        succeeds(store.mount_command(&store.target(), "rw").args(["--create", "64M"]));
        File::options().append(true).create(true).open(store.on("log")).unwrap().write_all(b"x").unwrap();
        store.place.umount();
    }
    assert_eq!(succeeds(ondol().args(["cat", &store.target(), "/log"])), "xx");
    store.is_clean();
}

#[test]
fn who_has_a_volume_is_named_and_it_is_taken_over_when_asked_for() {
    let (Some(mut store), Some(second)) = (Store::new(), Place::new()) else { return };
    let target = store.target();
    let first = store.serve("rw");
    let pid = store.place.server(first).id();
    durable(&store.on("synced"), b"first").unwrap();
    let mount = |words: &[&str]| {
        let mut command = ondol();
        command.args(["mount", "-o", &format!("transport={}", transport()), &target]).arg(second.mount_point());
        command.args(words);
        command
    };
    let said = fails(&mut mount(&[]), 32);
    let holder = format!("process {pid} of user ");
    for said_of in [holder.as_str(), "mounted on", "seconds ago", "--take-over"] {
        assert!(said.contains(said_of), "{said_of}: {said}");
    }
    let said = fails(ondol().args(["recover", &target]), 1);
    assert!(said.contains(&holder), "{said}");
    succeeds(&mut mount(&["--take-over"]));
    assert_eq!(fs::read(second.on("synced")).unwrap(), b"first");
    durable(&second.on("synced"), b"second").unwrap();
    // Nothing is acknowledged any more by the first one.
    let refused = durable(&store.on("late"), b"lost").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{refused}");
    let said = fails(ondol().args(["umount", "--wait"]).arg(store.place.mount_point()), 2);
    assert!(said.contains("was not closed") && said.contains(&target), "{said}");
    let said = store.said(first);
    assert!(said.contains("was taken over by process") && !said.contains("ondol recover"), "{said}");
    unmounts(ondol().args(["umount", "--wait"]).arg(second.mount_point()));
    assert_eq!(succeeds(ondol().args(["cat", &target, "/synced"])), "second");
    fails(ondol().args(["cat", &target, "/late"]), 1);
    store.is_clean();
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let Some(mut store) = Store::new() else { return };
    for round in 0..3u8 {
        let server = store.serve("rw");
        for n in 0..=round {
            let expected = if n == round { None } else { Some(vec![n; 100_000]) };
            assert_eq!(fs::read(store.on(&format!("synced {n}"))).ok(), expected, "{round}");
        }
        durable(&store.on(&format!("synced {round}")), &vec![round; 100_000]).unwrap();
        fs::write(store.on("unsynced"), "perhaps").unwrap();
        store.place.server(server).kill().unwrap();
        store.place.server(server).wait().unwrap();
        let out = output(ondol().args(["umount", "--wait"]).arg(store.place.mount_point()));
        assert!(out.status.success(), "{out:?}");
    }
    // Whoever is gone is not waited for, and that is said.
    let server = store.serve("rw");
    store.place.umount();
    let said = store.said(server);
    assert!(said.contains("is gone without closing"), "{said}");
    store.is_clean();
}

#[test]
fn what_was_deleted_while_it_was_open_is_gone_from_an_export() {
    let Some(mut store) = Store::new() else { return };
    let server = store.serve("rw");
    durable(&store.on("held"), &[7; 100_000]).unwrap();
    let held = File::open(store.on("held")).unwrap();
    fs::remove_file(store.on("held")).unwrap();
    durable(&store.on("synced"), b"text").unwrap();
    store.place.server(server).kill().unwrap();
    store.place.server(server).wait().unwrap();
    drop(held);
    store.place.umount();
    let image = store.exported(&store.target());
    assert_eq!(succeeds(ondol().arg("cat").arg(&image).arg("/synced")), "text");
}

#[test]
fn snapshots_are_made_listed_read_and_deleted_while_somebody_writes() {
    let (Some(mut store), Some(second)) = (Store::new(), Place::new()) else { return };
    let (target, dir) = (store.target(), store.place.mount_point());
    store.serve("rw");
    durable(&store.on("file"), &[1; 50_000]).unwrap();
    fs::write(store.on("unsynced"), "before").unwrap();
    succeeds(ondol().args(["snapshot", "create"]).arg(&dir).arg("one"));
    let file = File::options().write(true).open(store.on("file")).unwrap();
    for round in 0..5u8 {
        file.write_all_at(&[2 + round; 50_000], 0).unwrap();
        file.sync_all().unwrap();
        if round == 2 {
            // By its target, as by the directory.
            succeeds(ondol().args(["snapshot", "create", &target, "two"]));
        }
    }
    fs::remove_file(store.on("unsynced")).unwrap();
    let said = fails(ondol().args(["snapshot", "create"]).arg(&dir).arg("one"), 1);
    assert!(said.contains("there is one of this name"), "{said}");
    let said = fails(ondol().args(["snapshot", "create"]).arg(&dir).arg("a/b"), 1);
    assert!(said.contains("/?#&=%"), "{said}");
    for asked in [dir.as_path(), Path::new(&target)] {
        let listed = succeeds(ondol().args(["snapshot", "list"]).arg(asked));
        let names: Vec<&str> = listed.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert_eq!(names, ["one", "two"], "{listed}");
    }
    assert!(succeeds(ondol().args(["snapshot", "list", "--json", &target])).contains("\"name\":\"two\""));
    // It is mounted as it was, also without being asked to be for reading; and what is written goes on.
    let mut mount = ondol();
    mount.args(["mount", "-o", &format!("transport={}", transport()), &store.snapshot("one")]);
    succeeds(mount.arg(second.mount_point()));
    assert_eq!(fs::read(second.on("file")).unwrap(), [1; 50_000]);
    assert_eq!(fs::read(second.on("unsynced")).unwrap(), b"before");
    assert!(fs::write(second.on("new"), "").is_err());
    durable(&store.on("later"), b"later").unwrap();
    unmounts(ondol().args(["umount", "--wait"]).arg(second.mount_point()));
    succeeds(ondol().args(["check", "-n", &store.snapshot("two")]));
    let image = store.exported(&store.snapshot("two"));
    assert_eq!(succeeds(ondol().arg("cat").arg(&image).arg("/file")).into_bytes(), [4; 50_000]);
    assert_eq!(succeeds(ondol().args(["cat", &store.snapshot("one"), "/unsynced"])), "before");
    succeeds(ondol().args(["snapshot", "delete"]).arg(&dir).arg("one"));
    drop(file);
    store.place.umount();
    // Of a volume that nobody has, too.
    succeeds(ondol().args(["snapshot", "delete", &target, "two"]));
    succeeds(ondol().args(["snapshot", "create", &target, "three"]));
    let said = fails(ondol().args(["snapshot", "create", &target, "three"]), 1);
    assert!(said.contains("has a snapshot three already"), "{said}");
    let said = fails(ondol().args(["snapshot", "delete", &target, "two"]), 1);
    assert!(said.contains("has no snapshot two"), "{said}");
    let said = fails(ondol().args(["ls", &store.snapshot("two")]), 2);
    assert!(said.contains("has no snapshot two"), "{said}");
    // What is made in its place leaves it as it is.
    let said = fails(ondol().args(["mkfs", "--size", "64M", &target]), 1);
    assert!(said.contains("is not empty") && said.contains("-F makes"), "{said}");
    succeeds(ondol().args(["mkfs", "-F", &target]));
    fails(ondol().args(["cat", &target, "/later"]), 1);
    assert_eq!(succeeds(ondol().args(["cat", &store.snapshot("three"), "/later"])), "later");
    store.is_clean();
}

#[test]
fn a_volume_gets_another_size() {
    let Some(store) = Store::new() else { return };
    let target = store.target();
    store.mount("rw");
    durable(&store.on("file"), &[9; 1_000_000]).unwrap();
    succeeds(ondol().arg("resize").arg(store.place.mount_point()).arg("96M"));
    store.place.umount();
    store.is_clean();
    for size in ["160M", "48M"] {
        succeeds(ondol().args(["resize", &target, size]));
        store.is_clean();
    }
    let listed = succeeds(ondol().args(["ls", "-l", &target]));
    assert!(listed.contains(" 1000000 "), "{listed}");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let Some(store) = Store::new() else { return };
    let (target, mount) = (store.target(), store.place.mount_point());
    let absent = format!("file://{}", store.file("absent").display());
    let empty = format!("file://{}", store.file("empty").display());
    fs::create_dir(store.file("empty")).unwrap();
    let mounts = |target: &str, options: &str, code: i32| {
        fails(ondol().args(["mount", "-o", options, target]).arg(&mount), code)
    };
    for (options, said) in [
        ("journal=classic", "`journal=classic` makes no sense"),
        ("journal_size=64M", "`journal_size=` makes no sense"),
        ("ro,norecovery", "`norecovery` makes no sense"),
    ] {
        let got = mounts(&target, options, 32);
        assert!(got.contains(said), "{options}: {got}");
    }
    assert!(mounts(&target, "partition=1", 1).contains("have no parts"));
    assert!(mounts(&target, "lease=1", 1).contains("from 3 to 86400"));
    let image = store.place.image();
    let got = fails(ondol().args(["mount", "--take-over"]).arg(&image).arg(&mount), 32);
    assert!(got.contains("`take_over` is for volumes in object storage alone"), "{got}");
    assert!(mounts(&absent, "rw", 32).contains("cannot open the directory of file://"));
    let got = mounts(&empty, "rw", 32);
    assert!(got.contains("holds no volume") && got.contains("`ondol mkfs"), "{got}");
    for secret in ["s3://user:warmth@bucket/x", "s3://bucket/x?X-Signature=warmth"] {
        let got = mounts(secret, "rw", 32);
        assert!(!got.contains("warmth") && (got.contains("password") || got.contains("snapshot=NAME")), "{got}");
    }
    assert!(mounts("s3://bucket", "rw", 32).contains("names no prefix"));
    assert!(mounts("file://here", "rw", 32).contains("must be absolute"));
    let mkfs = |words: &[&str], code: i32| fails(ondol().arg("mkfs").args(words), code);
    assert!(mkfs(&[&absent], 2).contains("--size SIZE says it"));
    let got = mkfs(&["--size", "64M", "--journal", "compressed", &absent], 2);
    assert!(got.contains("engine compressed keeps a log"), "{got}");
    for odd in ["5000", "2K", "128K"] {
        let got = mkfs(&["--size", "64M", "--chunk", odd, &absent], 2);
        assert!(got.contains("4096") && got.contains("65536"), "{got}");
    }
    assert!(!store.file("absent").exists());
    let got = fails(ondol().args(["snapshot", "list"]).arg(&image), 1);
    assert!(got.contains("is not on a volume mounted by ondol"), "{got}");
    store.place.mount("rw");
    let got = fails(ondol().args(["snapshot", "create"]).arg(&mount).arg("one"), 1);
    assert!(got.contains("only volumes in object storage have snapshots"), "{got}");
    store.place.umount();
}

#[test]
fn a_volume_that_nobody_mounts_is_taken_over_too() {
    let Some(mut store) = Store::new() else { return };
    let target = store.target();
    let server = store.serve("rw");
    durable(&store.on("file"), b"synced").unwrap();
    let said = succeeds(ondol().args(["recover", "--take-over", &target]));
    assert!(said.contains("taken over; clean"), "{said}");
    // Whoever is idle learns of it, too, and what comes later fails.
    assert!(eventually(|| durable(&store.on("late"), b"x").is_err()));
    output(ondol().args(["umount", "--wait"]).arg(store.place.mount_point()));
    store.said(server);
    assert_eq!(succeeds(ondol().args(["cat", &target, "/file"])), "synced");
    store.is_clean();
}
