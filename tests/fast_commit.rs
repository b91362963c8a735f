//! Images whose journal has a fast-commit area: written by the kernel, left dirty, and opened by us.
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

use ondol::{Options, Volume};
use ondol_testkit::image::{KernelMount, Spec, scratch_dir};
use ondol_tests::{no_kernel_mount, skip};
use std::fs::File;
use std::io::Write;

/// What was fsynced is there, or the image is refused by the feature's name; never a volume without it.
#[test]
fn a_fast_commit_area_in_use_is_never_ignored() {
    if skip("fast_commit", no_kernel_mount()) {
        return;
    }
    let dir = scratch_dir().expect("a scratch directory");
    let image = dir.path().join("fc.img");
    Spec::new(64 << 20, 4096).with("-O fast_commit").make_file(&image).expect("mke2fs");
    let mount = KernelMount::new(&image, "").expect("a kernel mount");
    let (mut refused, mut opened) = (0, 0);
    for n in 0..12 {
        let mut file = File::create(mount.dir().join(format!("f{n}"))).expect("create");
        file.write_all(&[n; 5000]).expect("write");
        file.sync_all().expect("fsync");
        let copy = dir.path().join("copy.img");
        std::fs::copy(&image, &copy).expect("copy");
        match Volume::open_with(&copy, &Options::default()) {
            Ok(volume) => {
                opened += 1;
                for m in 0..=n {
                    assert_eq!(volume.read(format!("/f{m}")).expect("a synced file"), [m; 5000]);
                }
            }
            Err(e) => {
                refused += 1;
                assert!(e.to_string().contains("fast_commit"), "{e}");
            }
        }
    }
    mount.close().expect("umount");
    let volume = Volume::open(&image).expect("a clean image opens");
    assert_eq!(volume.read("/f3").expect("read"), [3; 5000]);
    assert!(refused > 0, "the kernel made no fast commit in {opened} fsyncs: nothing was tried");
}
