//! Volumes that are more than one file: journals on devices of their own, and multiple mount protection.

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::{Arc, thread};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_skips::skips;
use ondol_testkit::image::{self, KernelMount, Spec, ToolError, run, scratch_dir};
use ondol_tests::no_kernel_mount;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A loop device, for as long as the value lives.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Self {
        let out = run("losetup", ["-f".as_ref(), "--show".as_ref(), file.as_os_str()]).expect("losetup");
        assert!(out.status.success(), "{out:?}");
        Self(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", ["-d", &self.0]);
    }
}

fn journal_device(path: &Path, block_size: u32) {
    File::create_new(path).and_then(|f| f.set_len(16 << 20)).expect("a file");
    let size = block_size.to_string();
    let args = ["-q", "-F", "-b", &size, "-O", "journal_dev"];
    let out = run("mke2fs", args.iter().map(AsRef::as_ref).chain([path.as_os_str()])).expect("mke2fs");
    assert!(out.status.success(), "{out:?}");
}

fn fsck(args: &[&str], image: &Path, journal: &Path) -> (i32, String) {
    let all = args.iter().map(AsRef::as_ref).chain(["-j".as_ref(), journal.as_os_str(), image.as_os_str()]);
    let out = run("e2fsck", all).expect("e2fsck");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stdout).into_owned())
}

fn must_be_clean(image: &Path, journal: &Path) {
    let (code, said) = fsck(&["-fn"], image, journal);
    assert_eq!(code, 0, "{said}");
}

fn copies(dir: &Path, image: &Path, journal: &Path, name: &str) -> (PathBuf, PathBuf) {
    let to = (dir.join(format!("{name}.img")), dir.join(format!("{name}.jnl")));
    std::fs::copy(image, &to.0).expect("copy");
    std::fs::copy(journal, &to.1).expect("copy");
    to
}

fn open(image: &Path, options: Options, journal: &Path) -> ondol::Result<Volume> {
    Volume::open_with(image, &options.with_journal_path(journal))
}

#[test]
fn a_journal_on_another_device() {
    if skips(no_kernel_mount()) {
        return;
    }
    for block_size in [1024, 4096] {
        let dir = scratch_dir().expect("scratch");
        let (image, journal, other) = (dir.path().join("image"), dir.path().join("journal"), dir.path().join("other"));
        journal_device(&journal, block_size);
        journal_device(&other, block_size);
        let device = Loop::new(&journal);
        Spec::new(32 << 20, block_size).with(&format!("-J device={}", device.0)).make_file(&image).expect("mke2fs");
        drop(device);

        // Not named, or another.
        let why = Volume::open(&image).expect_err("a refusal").to_string();
        assert!(why.contains("journal_path=") && why.contains("UUID"), "{why}");
        let why = open(&image, Options::default(), &other).expect_err("a refusal").to_string();
        assert!(why.contains("is the journal with UUID"), "{why}");
        let why = open(&image, Options::default(), &image).expect_err("a refusal").to_string();
        assert!(why.contains("journal device") || why.contains("in use"), "{why}");
        Volume::open_with(&image, &Options::default().with_read_only(true))
            .expect("nothing to replay")
            .close()
            .expect("close");

        // Ours, clean and crashed.
        let volume = open(&image, Options::default(), &journal).expect("open");
        volume.write("/ours", [1; 9000]).expect("write");
        volume.sync().expect("sync");
        volume.write("/more", [2; 9000]).expect("write");
        volume.sync().expect("sync");
        let crashed = copies(dir.path(), &image, &journal, "crashed");
        volume.close().expect("close");
        must_be_clean(&image, &journal);
        let (code, said) = fsck(&["-fy"], &crashed.0, &crashed.1);
        assert!(code <= 1 && said.contains("recovering journal"), "{code}: {said}");
        must_be_clean(&crashed.0, &crashed.1);
        let volume = open(&crashed.0, Options::default(), &crashed.1).expect("open");
        assert_eq!(volume.read("/more").expect("what was synced"), [2; 9000]);
        volume.close().expect("close");

        // The kernel's, clean and crashed.
        let device = Loop::new(&journal);
        let mount = KernelMount::new(&image, &format!("journal_path={}", device.0)).expect("kernel mount");
        assert_eq!(std::fs::read(mount.dir().join("ours")).expect("read"), [1; 9000]);
        std::fs::write(mount.dir().join("theirs"), [3; 5000]).expect("write");
        File::open(mount.dir().join("theirs")).and_then(|f| f.sync_all()).expect("fsync");
        let crashed = copies(dir.path(), &image, &journal, "theirs");
        mount.close().expect("umount");
        drop(device);
        let why = Volume::open_with(&crashed.0, &Options::default().with_read_only(true)).expect_err("a refusal");
        assert!(why.to_string().contains("journal_path="), "{why}");
        let before = (std::fs::read(&crashed.0).expect("read"), std::fs::read(&crashed.1).expect("read"));
        let reading = open(&crashed.0, Options::default().with_read_only(true), &crashed.1).expect("open");
        assert_eq!(reading.read("/theirs").expect("what was synced"), [3; 5000]);
        reading.close().expect("close");
        assert!(before == (std::fs::read(&crashed.0).expect("read"), std::fs::read(&crashed.1).expect("read")));
        for (image, journal) in [(&crashed.0, &crashed.1), (&image, &journal)] {
            let volume = open(image, Options::default(), journal).expect("open");
            assert_eq!(volume.read("/theirs").expect("what was synced"), [3; 5000]);
            volume.close().expect("close");
            must_be_clean(image, journal);
        }
    }
}

/// A protected volume, whose holder shows itself so often that others need not wait long.
fn protected() -> Spec {
    Spec::new(16 << 20, 1024).with("-O mmp -E mmp_update_interval=1")
}

fn in_memory() -> Arc<RamStore> {
    Arc::new(RamStore::from_bytes(protected().make().expect("mke2fs")))
}

/// The refusal says `whose` it is.
fn must_be_in_use<T>(what: &str, whose: &str, opened: ondol::Result<T>) {
    match opened {
        Ok(_) => panic!("{what}: a volume in use was taken"),
        Err(e) => assert!(e.to_string().contains(&format!("is in use {whose}")), "{what}: {e}"),
    }
}

/// Surroundings in which whoever holds a volume goes on while others wait.
struct Meanwhile {
    holder: Arc<Volume>,
    theirs: Arc<Fixed>,
    ours: Arc<Fixed>,
}

impl Env for Meanwhile {
    fn now(&self) -> Timestamp {
        self.ours.now()
    }

    fn random(&self, buf: &mut [u8]) {
        self.ours.random(buf);
    }

    fn monotonic_ns(&self) -> u64 {
        self.ours.monotonic_ns()
    }

    fn sleep(&self, time: Duration) {
        self.theirs.sleep(time);
        self.holder.step_until_idle().expect("steps");
        self.ours.sleep(time);
    }
}

/// A volume that is mounted is seen to be so by us, by a reader, and by a change of its superblock, and stays usable.
pub(crate) fn a_protected_volume_is_held() {
    let store = in_memory();
    let theirs = image::clock(1);
    let holder = Arc::new(Volume::open_stepped(store.clone(), &Options::default(), theirs.clone()).expect("open"));
    let env = || Arc::new(Meanwhile { holder: holder.clone(), theirs: theirs.clone(), ours: image::clock(2) });
    for options in ["", "ro", "ro,norecovery"] {
        let opened = Volume::open_stepped(store.clone(), &Options::parse(options).expect("options"), env());
        must_be_in_use(options, "on vm as memory", opened);
    }
    must_be_in_use("tune", "on vm as memory", ondol::tune_store(store.clone(), &ondol::Tune::default(), env()));
    // A check waits by the machine's clock, for as long as the holder was late at last: by minutes until it is on time
    // again.
    theirs.advance(6_000_000_000);
    holder.step_until_idle().expect("steps");
    let reading: Arc<dyn BlockStore> = store.clone();
    let check = thread::spawn(move || ondol::check_media(&reading).map(drop));
    while !check.is_finished() {
        theirs.advance(6_000_000_000);
        holder.step_until_idle().expect("steps");
        std::thread::sleep(Duration::from_millis(300));
    }
    must_be_in_use("check", "on vm as memory", check.join().expect("a thread"));
    holder.write("/still", b"mine").expect("write");
    Arc::into_inner(holder).expect("nobody waits for it").close().expect("close");
    assert!(image::check(&store.to_bytes()).expect("e2fsck").is_clean());
    let again: Arc<dyn BlockStore> = store;
    assert!(ondol::check_media(&again).expect("check").is_clean());
}

/// What a crash left is taken after waiting; a holder that was too late finds itself replaced, and writes no more.
#[test]
fn a_dead_holder_is_followed_and_a_late_one_stops() {
    let store = in_memory();
    let clock = image::clock(1);
    let late = Volume::open_stepped(store.clone(), &Options::default(), clock.clone()).expect("open");
    late.write("/early", b"synced").expect("write");
    late.sync().expect("sync");
    let next = Volume::open_stepped(store.clone(), &Options::default(), image::clock(2)).expect("nobody keeps it");
    assert_eq!(next.read("/early").expect("read"), b"synced");
    clock.advance(60_000_000_000);
    late.step_until_idle().expect_err("it has been taken");
    late.write("/lost", b"x").and_then(|()| late.sync()).expect_err("nothing is written any more");
    assert!(late.close().is_err());
    next.write("/late", b"y").expect("write");
    next.close().expect("close");
    assert!(image::check(&store.to_bytes()).expect("e2fsck").is_clean());
}

/// What the kernel answers and what we do, at the same time.
fn with_kernel<K: Send, U>(kernel: impl FnOnce() -> K + Send, us: impl FnOnce() -> U) -> (K, U) {
    std::thread::scope(|scope| {
        let kernel = scope.spawn(kernel);
        let us = us();
        (kernel.join().expect("a thread"), us)
    })
}

/// The kernel and we keep each other away.
pub(crate) fn a_kernel_keeps_away_and_so_do_we() {
    if skips(no_kernel_mount()) {
        return;
    }
    let dir = scratch_dir().expect("scratch");
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    for path in [&ours, &theirs] {
        protected().make_file(path).expect("mke2fs");
    }
    // Each waits to see whether somebody else is there: both at once.
    let (mount, volume) = with_kernel(|| KernelMount::new(&theirs, ""), || Volume::open(&ours));
    let (mount, volume) = (mount.expect("kernel mount"), volume.expect("open"));
    let (kernel, us) = with_kernel(|| KernelMount::new(&ours, ""), || Volume::open(&theirs).map(drop));
    must_be_in_use("the kernel's", "by the kernel, which has", us);
    assert!(matches!(kernel, Err(ToolError::Failed { .. })), "the kernel mounted what we have");
    volume.write("/a", b"ours").expect("write");
    volume.close().expect("close");
    std::fs::write(mount.dir().join("a"), b"theirs").expect("write");
    mount.close().expect("umount");
    let (mount, volume) = with_kernel(|| KernelMount::new(&ours, ""), || Volume::open(&theirs));
    let (mount, volume) = (mount.expect("it is free"), volume.expect("it is free"));
    assert_eq!(std::fs::read(mount.dir().join("a")).expect("read"), b"ours");
    mount.close().expect("umount");
    assert_eq!(volume.read("/a").expect("read"), b"theirs");
    volume.close().expect("close");
}

#[test]
fn a_device_that_the_kernel_has_mounted_is_not_written_and_one_that_is_written_not_mounted() {
    if skips(no_kernel_mount()) {
        return;
    }
    let busy = Some(rustix::io::Errno::BUSY.raw_os_error());
    let dir = scratch_dir().expect("a directory");
    let image = dir.path().join("image");
    Spec::new(16 << 20, 4096).make_file(&image).expect("mke2fs");
    let device = Loop::new(&image);
    let point = dir.path().join("mnt");
    std::fs::create_dir(&point).expect("a directory");
    let mount = || run("mount", ["-t".as_ref(), "ext4".as_ref(), device.0.as_ref(), point.as_os_str()]).expect("mount");
    let umount = || run("umount", [point.as_os_str()]).expect("umount");

    assert!(mount().status.success());
    let opened = Volume::open(&device.0).map(drop).map_err(|e| e.errno()).err();
    let formatted = Volume::format(&device.0, &ondol::FormatOptions::new().force(true)).map_err(|e| e.errno()).err();
    let looked = ondol::info(&device.0).is_ok();
    assert!(umount().status.success());
    assert_eq!((opened, formatted, looked), (busy, busy, true));

    let volume = Volume::open(&device.0).expect("a free device");
    let mounted = mount().status.success();
    if mounted {
        umount();
    }
    assert!(!mounted);
    volume.close().expect("closed");
    assert!(mount().status.success());
    assert!(umount().status.success());
}
