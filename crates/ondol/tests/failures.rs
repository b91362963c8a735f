//! A medium that fails: nobody is told that something is safe which is not.

use ondol::{FormatOptions, Options, Volume};
use ondol_block::{FaultPlan, Faulty, RamStore};
use ondol_env::System;
use std::sync::Arc;

#[test]
fn after_a_failed_flush_neither_sync_nor_close_pretends() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.img");
    Volume::format(&image, &FormatOptions::new().size(16 << 20)).expect("format");
    let store = Arc::new(Faulty::new(RamStore::from_bytes(std::fs::read(&image).expect("read"))));
    let volume = Volume::open_store(store.clone(), &Options::default(), Arc::new(System)).expect("open");
    volume.write("/safe", b"synced").expect("write");
    volume.sync().expect("sync");
    volume.write("/lost", b"not synced").expect("write");
    store.arm(FaultPlan { flushes: Some(0), once: true, ..FaultPlan::default() });
    assert!(volume.sync().is_err());
    assert!(volume.sync().is_err(), "the next flush works, but what the failed one lost is lost");
    assert!(volume.write("/more", b"x").is_err());
    assert!(volume.is_read_only());
    assert!(volume.close().is_err(), "the image still needs recovery");

    let after = Arc::new(RamStore::from_bytes(store.inner().to_bytes()));
    let volume = Volume::open_store(after, &Options::default(), Arc::new(System)).expect("open after recovery");
    assert_eq!(volume.read("/safe").expect("what was synced"), b"synced");
    volume.close().expect("close");
}
