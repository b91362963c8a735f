//! Mounts with `ro` change not a byte: of a clean image, of a dirty one that is replayed into memory, of a dirty one
//! that is read as it lies, of one that must not be written.

use ondol::{Options, Volume};
use ondol_format::{RawSuperblock, RoCompat};
use ondol_testkit::image::{self, Spec, scratch_dir};
use std::path::Path;
use zerocopy::{FromBytes, IntoBytes};

/// An image that was not closed: `/synced` is only in the journal, the orphan `/gone` is still open.
fn dirty_image(path: &Path) {
    Spec::new(16 << 20, 1024).make_file(path).expect("mke2fs");
    let volume = Volume::open(path).expect("open");
    volume.write("/home", [1; 5000]).expect("write");
    volume.close().expect("close");
    let volume = Volume::open(path).expect("open");
    volume.write("/synced", [2; 9000]).expect("write");
    volume.rename("/home", "/moved").expect("rename");
    volume.sync().expect("sync");
    let copy = std::fs::read(path).expect("read");
    volume.close().expect("close");
    std::fs::write(path, copy).expect("write back");
}

fn mounts(path: &Path, options: &str) -> Volume {
    let volume = Volume::open_with(path, &Options::parse(options).expect("options")).expect(options);
    assert!(volume.is_read_only(), "{options}");
    volume.write("/new", b"x").expect_err("a change");
    volume.remove_file("/moved").expect_err("a change");
    volume
}

#[test]
fn not_one_byte_changes() {
    let dir = scratch_dir().expect("a scratch directory");
    let path = dir.path().join("image");
    dirty_image(&path);
    // Nobody may write it, as far as permissions go.
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o444)).expect("chmod");
    let before = std::fs::read(&path).expect("read");

    let replayed = mounts(&path, "ro");
    assert!(replayed.recovered().transactions > 0);
    assert_eq!(replayed.read("/synced").expect("what was synced"), [2; 9000]);
    assert!(!replayed.exists("/home").expect("look") && replayed.exists("/moved").expect("look"));
    // Readers do not exclude each other.
    let as_it_lies = mounts(&path, "ro,norecovery");
    assert_eq!(as_it_lies.recovered().transactions, 0);
    assert!(as_it_lies.exists("/home").expect("look") && !as_it_lies.exists("/synced").expect("look"));
    replayed.close().expect("close");
    as_it_lies.close().expect("close");
    assert!(std::fs::read(&path).expect("read") == before, "a read-only mount wrote");

    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("chmod");
    let why = Volume::open_with(&path, &Options::parse("norecovery").expect("options")).expect_err("a refusal");
    assert!(why.to_string().contains("norecovery"), "{why}");
    assert!(std::fs::read(&path).expect("read") == before, "a refused mount wrote");

    ondol::recover(&path).expect("recovery");
    let clean = std::fs::read(&path).expect("read");
    let volume = mounts(&path, "ro");
    assert_eq!(volume.read("/synced").expect("what was synced"), [2; 9000]);
    volume.close().expect("close");
    assert!(std::fs::read(&path).expect("read") == clean, "a read-only mount wrote");
}

#[test]
fn what_is_mounted_read_only_because_of_a_feature_is_not_written_either() {
    let dir = scratch_dir().expect("a scratch directory");
    let path = dir.path().join("image");
    Spec::new(16 << 20, 1024).make_file(&path).expect("mke2fs");
    let told = image::run("tune2fs", ["-O".as_ref(), "read-only".as_ref(), path.as_os_str()]).expect("tune2fs");
    assert!(told.status.success(), "{told:?}");
    let before = std::fs::read(&path).expect("read");
    let volume = Volume::open(&path).expect("open");
    assert!(volume.is_read_only());
    volume.close().expect("close");
    assert!(std::fs::read(&path).expect("read") == before, "a read-only mount wrote");
}

#[test]
fn recovery_replays_the_journal_of_what_is_mounted_read_only_because_of_a_feature() {
    let dir = scratch_dir().expect("a scratch directory");
    let path = dir.path().join("image");
    dirty_image(&path);
    let mut bytes = std::fs::read(&path).expect("read");
    let mut raw = RawSuperblock::read_from_bytes(&bytes[1024..2048]).expect("a superblock");
    let mut features = raw.features();
    features.ro_compat |= RoCompat::READONLY;
    raw.set_features(features);
    raw.seal();
    bytes[1024..2048].copy_from_slice(raw.as_bytes());
    std::fs::write(&path, bytes).expect("write");
    assert!(ondol::check(&path).expect("a check").needs_recovery);
    assert!(ondol::recover(&path).expect("recovery").transactions > 0);
    let report = ondol::check(&path).expect("a check");
    assert!(!report.needs_recovery && !report.unclean && report.problems.is_empty(), "{report:?}");
    let volume = mounts(&path, "ro");
    assert_eq!(volume.read("/synced").expect("what was synced"), [2; 9000]);
}
