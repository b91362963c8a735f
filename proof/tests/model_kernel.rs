//! The reference model against the kernel's ext4: the judge is judged first.

use ondol_skips::skips;
use ondol_testkit::image::{KernelMount, Spec, scratch_dir};
use ondol_testkit::op::Op;
use ondol_testkit::strategy::{self, Mix};
use ondol_testkit::target::{Directory, Lockstep};
use ondol_tests::{hunt, no_kernel_mount, parameter};
use std::cell::RefCell;
use std::rc::Rc;

fn run(ops: &[Op]) -> Result<(), String> {
    let dir = scratch_dir().unwrap();
    let image = dir.path().join("image");
    Spec::new(32 << 20, 1024).make_file(&image).unwrap();
    let mount = Rc::new(RefCell::new(KernelMount::new(&image, "").unwrap()));
    let root = mount.borrow().dir().to_owned();
    let remount = Box::new(move || mount.borrow_mut().remount().map_err(std::io::Error::other));
    let mut lockstep = Lockstep::new(Directory::new(root, remount))?;
    lockstep.run(ops, 10).map_err(|e| e.to_string())
}

#[test]
fn the_model_agrees_with_the_kernel() {
    if skips(no_kernel_mount()) {
        return;
    }
    hunt(parameter("ONDOL_CASES", 60), strategy::ops_of(Mix::kernel(), 1..150), run);
}
