//! The reference model against the kernel's ext4: the judge is judged first.

use ondol_testkit::image::{KernelMount, Spec, scratch_dir};
use ondol_testkit::strategy;
use ondol_testkit::target::{Directory, Lockstep};
use ondol_tests::{no_kernel_mount, parameter, skip};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn the_model_agrees_with_the_kernel() {
    if skip("the_model_agrees_with_the_kernel", no_kernel_mount()) {
        return;
    }
    let cases = parameter("ONDOL_CASES", 24) as u32;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&strategy::ops(1..120), |ops| {
        let dir = scratch_dir().unwrap();
        let image = dir.path().join("image");
        Spec::new(32 << 20, 1024).make_file(&image).unwrap();
        let mount = Rc::new(RefCell::new(KernelMount::new(&image, "").unwrap()));
        let root = mount.borrow().dir().to_owned();
        let again = mount.clone();
        let remount = Box::new(move || again.borrow_mut().remount().map_err(std::io::Error::other));
        let mut lockstep = Lockstep::new(Directory::new(root, remount)).unwrap();
        lockstep.run(&ops, 10).map_err(|e| TestCaseError::fail(e.to_string()))
    });
    if let Err(e) = outcome {
        panic!("{e}");
    }
}
