//! A mount by the program against the reference model, with remounts: what a program on the mount sees.

use ondol_skips::skips;
use ondol_testkit::image::{self, Spec, scratch_dir};
use ondol_testkit::op::Op;
use ondol_testkit::strategy::{self, Mix};
use ondol_testkit::target::{Directory, Lockstep};
use ondol_tests::{hunt, mount, no_fuse_mount, parameter};
use std::cell::RefCell;
use std::rc::Rc;

fn run(spec: &Spec, options: &str, ops: &[Op]) -> Result<(), String> {
    let dir = scratch_dir().unwrap();
    let (image, point) = (dir.path().join("image"), dir.path().join("mounted"));
    std::fs::create_dir(&point).unwrap();
    spec.make_file(&image).unwrap();
    let mount = Rc::new(RefCell::new(mount(&image, &point, options)?));
    let again = mount.clone();
    let remount = Box::new(move || again.borrow_mut().remount().map_err(std::io::Error::other));
    let mut lockstep = Lockstep::new(Directory::new(point, remount))?;
    lockstep.run(ops, 10).map_err(|e| e.to_string())?;
    drop(lockstep);
    mount.borrow_mut().unmount()?;
    let verdict = image::check(&std::fs::read(&image).unwrap()).map_err(|e| e.to_string())?;
    if verdict.is_clean() { Ok(()) } else { Err(format!("e2fsck -fn:\n{}", verdict.output)) }
}

fn agree(spec: &Spec, options: &str) {
    if !skips(no_fuse_mount()) {
        hunt(parameter("ONDOL_CASES", 40), strategy::ops_of(Mix::mount(), 1..150), |ops| run(spec, options, ops));
    }
}

#[test]
fn ordered() {
    agree(&Spec::new(32 << 20, 1024).journal(4), "data=ordered,open_requests");
}

#[test]
fn journal() {
    agree(&Spec::new(64 << 20, 4096), "data=journal,open_requests");
}
