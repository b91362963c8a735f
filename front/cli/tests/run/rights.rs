//! Nobody gains rights through a pool: `docs/design/run.md`, *Whose a pool is*. Root is needed for all of it: to be
//! attacked, and to be the attackers.

use crate::forger::{Forger, SIZE, USER};
use crate::power::{Mounted, unavailable, user_can};
use crate::{eventually, ondol, output, succeeds};
use ondol_skips::{skip, skips};
use rustix::fs::{CWD, Mode, RenameFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::scope;

/// What root's file holds, and what somebody wants it to hold.
const SECRET: &[u8] = b"root:$6$original:1:0:99999:7:::\n";
const FORGED: &[u8] = b"root::1:0:99999:7:::\n";

/// A file system with a directory of an ordinary user, and files that only root may write to. Everybody may enter it.
/// It is small: who may not open handles looks all through it.
struct Scene {
    _mounted: Mounted,
    place: tempfile::TempDir,
}

impl Scene {
    #[track_caller]
    fn new() -> Option<Self> {
        let unfit = || (!user_can()).then(|| "an ordinary user may not run what was built here".to_owned());
        if skips(unavailable(&[]).or_else(unfit)) {
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let [image, dir] = ["image", "mnt"].map(|name| place.path().join(name));
        fs::create_dir(&dir).unwrap();
        let scene = Self { _mounted: mounted(&image, &dir), place };
        fs::create_dir(scene.path("user")).unwrap();
        chown(scene.path("user"), Some(USER), Some(USER)).unwrap();
        fs::create_dir(scene.path("etc")).unwrap();
        scene.private("etc/shadow");
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("mnt").join(name)
    }

    /// A file of root's alone.
    fn private(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, SECRET).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// The user's pool, in which the user has made up what root's file is to hold.
    fn forged(&self, mode: u32) -> PathBuf {
        let pool = self.path("user/pool");
        Forger::new(&pool).bytes(&self.path("etc/shadow"), FORGED, false).done(&pool, USER, mode);
        pool
    }

    #[track_caller]
    fn is_as_it_was(&self) {
        assert_eq!(fs::read(self.path("etc/shadow")).unwrap(), SECRET);
    }
}

/// A new file system.
fn mounted(image: &Path, dir: &Path) -> Mounted {
    File::create(image).unwrap().set_len(48 << 20).unwrap();
    succeeds(Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(image));
    Mounted::new(image, dir)
}

/// The program as an ordinary user.
fn as_user(scene: &Scene) -> Command {
    let mut command = ondol();
    command.uid(USER).gid(USER).env("XDG_CACHE_HOME", scene.path("user/cache")).current_dir(scene.path("user"));
    command
}

/// What a command says that must fail.
#[track_caller]
fn fails(command: &mut Command) -> String {
    let out = output(command);
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(!out.status.success() && !said.contains("panicked"), "{command:?}: {said}");
    said
}

fn recover(pool: &Path) -> Command {
    let mut command = ondol();
    command.arg("recover").arg(pool);
    command
}

#[test]
fn a_pool_is_its_owners_alone() {
    let Some(scene) = Scene::new() else { return };
    let mut run = as_user(&scene);
    let pool = scene.path("user/new");
    succeeds(run.args(["run", "-q", "--size", "2M", "--buffer"]).arg(&pool).args(["--", "true"]));
    assert_eq!(pool.metadata().unwrap().mode() & 0o7777, 0o600);
    // Root joins nobody else's, and nobody any that others may read.
    let run = |pool: &Path| {
        let mut command = ondol();
        command.args(["run", "-q", "--buffer"]).arg(pool).args(["--", "true"]);
        command
    };
    assert!(fails(&mut run(&pool)).contains("use one of your own"));
    let made = scene.path("made");
    succeeds(ondol().args(["pool", "create", "--size", "2M"]).arg(&made));
    assert_eq!(made.metadata().unwrap().mode() & 0o7777, 0o600);
    succeeds(&mut run(&made));
    for mode in [0o640, 0o604] {
        fs::set_permissions(&made, Permissions::from_mode(mode)).unwrap();
        assert!(fails(&mut run(&made)).contains("chmod 600"));
    }
    succeeds(&mut recover(&made));
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&made, Permissions::from_mode(mode)).unwrap();
        for said in [fails(&mut run(&made)), fails(&mut recover(&made))] {
            assert!(said.contains("others than its owner may write to it"), "{said}");
        }
    }
    // A user neither runs with nor recovers what lies under a name that others may use, too.
    let theirs = scene.path("theirs");
    for (mode, why) in [(0o644, "Permission denied"), (0o666, "not used")] {
        Forger::new(&theirs).bytes(&scene.path("etc/shadow"), FORGED, false).done(&theirs, 5, mode);
        assert!(fails(run_new(&mut as_user(&scene), &theirs)).contains(why));
        assert!(fails(as_user(&scene).arg("recover").arg(&theirs)).contains(why));
    }
    // No link is followed to where a pool is made.
    symlink(scene.path("elsewhere"), scene.path("link")).unwrap();
    fails(run_new(&mut ondol(), &scene.path("link")));
    fails(ondol().args(["pool", "create", "--size", "2M"]).arg(scene.path("link")));
    assert!(!scene.path("elsewhere").exists());
    scene.is_as_it_was();
}

fn run_new<'c>(command: &'c mut Command, pool: &Path) -> &'c mut Command {
    command.args(["run", "-q", "--size", "2M", "--buffer"]).arg(pool).args(["--", "true"])
}

#[test]
fn roots_recovery_does_what_the_pools_owner_may() {
    let Some(scene) = Scene::new() else { return };
    let [own, kept, pool] = ["user/own", "user/kept", "user/pool"].map(|name| scene.path(name));
    for (path, mode) in [(&own, 0o600), (&kept, 0o444)] {
        fs::write(path, b"before").unwrap();
        chown(path, Some(USER), Some(USER)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let forged = || {
        let forger = Forger::new(&pool).bytes(&own, b"after!", false).bytes(&kept, b"after.", false);
        let forger = forger.born(&scene.path("etc/cron"), 0o104_755, 0);
        forger.bytes(&scene.path("etc/shadow"), FORGED, false).done(&pool, USER, 0o600);
    };
    forged();
    let by_root = fails(&mut recover(&pool));
    assert_eq!(by_root.matches("cannot be reached").count(), 2, "{by_root}");
    let brought = || [&own, &kept].map(|path| fs::read(path).unwrap());
    assert_eq!(brought(), [b"after!", b"after."]);
    assert_eq!(kept.metadata().unwrap().mode() & 0o7777, 0o444);
    for path in [&own, &kept] {
        fs::write(path, b"before").unwrap();
    }
    forged();
    // As the user sees it.
    let by_user = fails(as_user(&scene).arg("recover").arg(&pool));
    assert_eq!((by_user, brought()), (by_root, [*b"after!", *b"after."].map(Vec::from)));
    assert_eq!(kept.metadata().unwrap().mode() & 0o7777, 0o444);
    scene.is_as_it_was();
    assert!(!scene.path("etc/cron").exists());
}

#[test]
fn a_name_that_alternates_gives_nothing() {
    let Some(scene) = Scene::new() else { return };
    for round in 0..40 {
        let (pool, away) = (scene.forged(0o600), scene.path("user/away"));
        let over = AtomicBool::new(false);
        scope(|threads| {
            threads.spawn(|| {
                while !over.load(Relaxed) {
                    let _ = if round % 2 == 0 { fs::rename(&pool, &away) } else { fs::hard_link(&pool, &away) };
                    let _ = fs::remove_file(&pool);
                    let _ = fs::rename(&away, &pool);
                }
            });
            output(&mut recover(&pool));
            over.store(true, Relaxed);
        });
        scene.is_as_it_was();
    }
}

#[test]
fn the_owner_that_a_users_medium_tells_is_not_believed() {
    let Some(scene) = Scene::new() else { return };
    let [media, pool] = ["media", "user/pool"].map(|name| scene.path(name));
    fs::create_dir(&media).unwrap();
    let stick = mounted(&scene.place.path().join("stick"), &media);
    scene.forged(0o600);
    fs::copy(&pool, media.join("pool")).unwrap();
    fs::set_permissions(media.join("pool"), Permissions::from_mode(0o600)).unwrap();
    let remount = |how: &str| succeeds(Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&media));
    remount("nosuid,nodev");
    for said in [fails(&mut recover(&media.join("pool"))), fails(run_new(&mut ondol(), &media.join("pool")))] {
        assert!(said.contains("mounted with nosuid"), "{said}");
    }
    scene.is_as_it_was();
    // Root's word is that only root could make this.
    remount("suid");
    succeeds(&mut recover(&media.join("pool")));
    assert_eq!(&fs::read(scene.path("etc/shadow")).unwrap()[..FORGED.len()], FORGED);
    drop(stick);
}

#[test]
fn a_directory_that_is_exchanged_leads_nowhere() {
    let Some(scene) = Scene::new() else { return };
    let [dir, link, pool] = ["user/dir", "user/link", "pool"].map(|name| scene.path(name));
    symlink(scene.path("etc"), &link).unwrap();
    let exchange = || rustix::fs::renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    let before = scene.path("etc").read_dir().unwrap().count();
    for _ in 0..40 {
        fs::create_dir(&dir).unwrap();
        let file = dir.join("file");
        fs::write(&file, b"theirs").unwrap();
        Forger::new(&pool).bytes(&file, b"root's", true).done(&pool, 0, 0o600);
        let over = AtomicBool::new(false);
        scope(|threads| {
            threads.spawn(|| {
                while !over.load(Relaxed) {
                    exchange();
                    exchange();
                }
            });
            output(&mut recover(&pool));
            over.store(true, Relaxed);
        });
        assert_eq!(scene.path("etc").read_dir().unwrap().count(), before);
        fs::remove_dir_all(&dir).unwrap();
    }
    scene.is_as_it_was();
}

/// What lies under the name of a side file is not opened: it might be a FIFO, or a link.
#[test]
fn a_side_file_is_made_anew() {
    let Some(scene) = Scene::new() else { return };
    let [file, pool] = ["user/file", "pool"].map(|name| scene.path(name));
    fs::write(&file, b"theirs").unwrap();
    let fifo = |path: &Path| rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let link = |path: &Path| symlink(scene.path("etc/shadow"), path).unwrap();
    let hard = |path: &Path| fs::hard_link(scene.path("etc/shadow"), path).unwrap();
    let left = |path: &Path| fs::write(path, b"what a recovery has left that was cut").unwrap();
    let mut beside: Option<PathBuf> = None;
    for make in [None, Some(&fifo as &dyn Fn(&Path)), Some(&link), Some(&hard), Some(&left)] {
        make.into_iter().zip(&beside).for_each(|(make, beside)| make(beside));
        Forger::new(&pool).bytes(&file, b"root's", true).done(&pool, 0, 0o600);
        assert!(ends(&mut recover(&pool)));
        let entries = scene.path("user").read_dir().unwrap().map(|entry| entry.unwrap().path());
        let [made] = entries.filter(|path| *path != file).collect::<Vec<_>>().try_into().unwrap();
        let meta = made.symlink_metadata().unwrap();
        assert!(meta.is_file() && meta.mode() & 0o777 == 0o600 && meta.nlink() == 1);
        assert_eq!(fs::read(&made).unwrap(), b"root's");
        fs::remove_file(&made).unwrap();
        assert_eq!(*beside.get_or_insert_with(|| made.clone()), made);
    }
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
    scene.is_as_it_was();
}

/// Whether a command ends, well, of itself.
fn ends(command: &mut Command) -> bool {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let ended = eventually(|| child.try_wait().unwrap().is_some());
    let _ = child.kill();
    let well = child.wait().unwrap().success();
    ended && well
}

/// In a namespace of its own: nobody else is to wait for this server.
#[test]
#[expect(deprecated, reason = "its other form is unsafe; this thread shares nothing with others that it would lose")]
fn a_server_that_never_answers_is_not_asked() {
    let Some(scene) = Scene::new() else { return };
    let [hung, file, pool] = ["user/hung", "etc/moved", "pool"].map(|name| scene.path(name));
    fs::create_dir(&hung).unwrap();
    let Ok(server) = File::options().read(true).write(true).open("/dev/fuse") else { return skip("no /dev/fuse") };
    fs::write(&file, b"before").unwrap();
    Forger::new(&pool).bytes(&file, b"after!", false).done(&pool, 0, 0o600);
    // All that is mounted is looked through for it.
    fs::rename(&file, scene.path("etc/here")).unwrap();
    let ended = scope(|threads| {
        let recovering = threads.spawn(|| {
            rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            let options =
                format!("fd={},rootmode=40000,user_id={USER},group_id={USER},allow_other", server.as_raw_fd());
            let options = std::ffi::CString::new(options).unwrap();
            mount("hung", &hung, "fuse", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str()).unwrap();
            ends(&mut recover(&pool))
        });
        recovering.join().unwrap()
    });
    assert!(ended);
    assert_eq!(fs::read(scene.path("etc/here")).unwrap(), b"after!");
}

/// All that may be told of what lies below a directory, contents included, by path.
fn seen(dir: &Path) -> Vec<(PathBuf, [i64; 8], Vec<u8>)> {
    let mut seen = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let meta = path.symlink_metadata().unwrap();
        let about = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
        let about =
            about.into_iter().chain([meta.mode(), meta.uid(), meta.gid()].map(i64::from)).chain([meta.size() as i64]);
        let bytes = if meta.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        if meta.is_dir() {
            left.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        }
        seen.push((path, about.collect::<Vec<_>>().try_into().unwrap(), bytes));
    }
    seen.sort();
    seen
}

/// Another user's pools, forged for any file and then damaged: root's recovery leaves what that user may not change as
/// it is. Some hundred; in `cargo xtask hunt` more.
#[test]
fn no_pool_of_another_user_changes_what_that_user_may_not() {
    let Some(scene) = Scene::new() else { return };
    // In memory: making thousands of pools durable takes long.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = memory.path().join("pool");
    fs::create_dir(scene.path("etc/deep")).unwrap();
    fs::set_permissions(scene.path("etc/deep"), Permissions::from_mode(0o700)).unwrap();
    let name = |n| format!("etc/{}file-{n}", if n % 2 == 0 { "" } else { "deep/" });
    let victims: Vec<PathBuf> = (0..8).map(|n| scene.private(&name(n))).collect();
    let before = seen(&scene.path(""));
    let rounds = if std::env::var_os("ONDOL_HUNT").is_some() { 10_000 } else { 300 };
    let mut random = u64::from(std::process::id()) << 32 | 0x9E37_79B9;
    println!("begins with {random}");
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut recovered = 0;
    for round in 0..rounds {
        let mut forger = Forger::new(&pool);
        if next(2) == 0 {
            let dir = ["etc/new", "etc/deep/new"][next(2) as usize];
            forger =
                forger.born(&scene.path(dir), [0o104_755, 0o100_644][next(2) as usize], [0, USER][next(2) as usize]);
        }
        let first = next(victims.len() as u64) as usize;
        for victim in victims.iter().cycle().skip(first).take(1 + next(3) as usize) {
            forger = forger.bytes(victim, &FORGED[..1 + next(FORGED.len() as u64) as usize], next(3) == 0);
        }
        forger.done(&pool, USER, 0o600);
        // The first is whole.
        let mut bytes = fs::read(&pool).unwrap();
        let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        for _ in 0..if round == 0 { 0 } else { next(4) } {
            let at = used[next(used.len() as u64) as usize] as u64 + next(8);
            bytes[at.min(SIZE - 1) as usize] ^= 1 << next(8);
        }
        fs::write(&pool, bytes).unwrap();
        recovered += u64::from(ondol::run::recover(&pool, next(2) == 0).is_ok());
    }
    assert!(recovered > rounds / 4, "{recovered} of {rounds}");
    assert!(seen(&scene.path("")) == before);
    println!("{rounds} pools, {recovered} of them were looked through");
}
