//! What is removed while somebody still has it, without having it open: through our mount as on the kernel's ext4.

use ondol_skips::skips;
use ondol_testkit::image::{KernelMount, Spec, scratch_dir};
use ondol_tests::{mount, no_fuse_mount, no_kernel_mount};
use rustix::fs::{Mode, OFlags, StatVfs, open, statvfs};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Turns of ten milliseconds after which what the kernel is to do on its own is not going to happen.
const TURNS: u32 = 6000;

/// A working directory that is removed.
const SCRIPT: &str = "
mkdir d e && cd d && rmdir ../d && stat -c '%F %h' . && stat -c '%F %h' /proc/self/cwd
touch x; mkdir y; ls; cd ../e && ls -d . && cd .. && rmdir e && ls
";

/// Output and exit code of the script, run in `dir`.
fn script(dir: &Path) -> String {
    let out = Command::new("sh").args(["-c", SCRIPT]).env("LC_ALL", "C").current_dir(dir).output().expect("sh");
    let text = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    format!("{}\n{}", text.concat(), out.status)
}

fn handle(path: &Path) -> OwnedFd {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("O_PATH")
}

/// A file and a directory that are known and not open: what is seen of them once they have no names.
fn known(dir: &Path) -> String {
    std::fs::write(dir.join("f"), [3; 100_000]).expect("write");
    std::fs::write(dir.join("g"), "another").expect("write");
    std::fs::create_dir(dir.join("d")).expect("mkdir");
    let (file, sub) = (handle(&dir.join("f")), handle(&dir.join("d")));
    std::fs::rename(dir.join("g"), dir.join("f")).expect("rename");
    std::fs::remove_dir(dir.join("d")).expect("rmdir");
    let seen = [&file, &sub].map(|fd| rustix::fs::fstat(fd).map(|stat| (stat.st_nlink, stat.st_mode)));
    let mut bytes = Vec::new();
    let read = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).and_then(|mut f| f.read_to_end(&mut bytes));
    let read = read.map_err(|e| e.raw_os_error());
    std::fs::remove_file(dir.join("f")).expect("unlink");
    format!("{seen:?} {read:?} {}", bytes.iter().all(|&byte| byte == 3))
}

/// What is free.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Space {
    inodes: u64,
    blocks: u64,
}

fn space(dir: &Path) -> Space {
    let StatVfs { f_ffree, f_bfree, .. } = statvfs(dir).expect("statvfs");
    Space { inodes: f_ffree, blocks: f_bfree }
}

/// Waits for the kernel to let go of what nobody has any more.
fn must_come_back(dir: &Path, want: Space) {
    for _ in 0..TURNS {
        if space(dir) == want {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("free: {:?}, not {want:?}", space(dir));
}

#[test]
fn removed_inodes_live_as_long_as_the_kernel_knows_them() {
    if skips(no_fuse_mount()) || skips(no_kernel_mount()) {
        return;
    }
    let dir = scratch_dir().expect("scratch");
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    for image in [&ours, &theirs] {
        Spec::new(32 << 20, 4096).make_file(image).expect("mke2fs");
    }
    let at = dir.path().join("mnt");
    std::fs::create_dir(&at).expect("mkdir");
    let kernel = KernelMount::new(&theirs, "").expect("kernel mount");
    let mut fuse = mount(&ours, &at, "").expect("mount");
    let empty = space(&at);
    assert_eq!(script(&at), script(kernel.dir()));
    must_come_back(&at, empty);
    assert_eq!(known(&at), known(kernel.dir()));
    must_come_back(&at, empty);
    // What is removed without being known by anybody is free at once, however large.
    std::fs::write(at.join("large"), vec![1; 8 << 20]).expect("write");
    assert_ne!(space(&at), empty);
    std::fs::remove_file(at.join("large")).expect("unlink");
    must_come_back(&at, empty);
    kernel.close().expect("umount");
    fuse.unmount().expect("umount");
    assert!(ondol_testkit::image::check(&std::fs::read(&ours).expect("read")).expect("e2fsck").is_clean());
}
