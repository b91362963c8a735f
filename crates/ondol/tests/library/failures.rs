//! A medium that fails: nobody is told that something is safe which is not.

use ondol::{FormatOptions, Options, Volume};
use ondol_block::{BlockStore, FaultPlan, Faulty, RamStore};
use ondol_env::System;
use std::sync::Arc;

#[test]
fn after_a_failed_flush_neither_sync_nor_close_pretends() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.img");
    Volume::format(&image, &FormatOptions::new().size(16 << 20)).expect("format");
    let store = Arc::new(Faulty::new(RamStore::from_bytes(std::fs::read(&image).expect("read"))));
    let volume = Volume::open_media(store.clone(), &Options::default(), Arc::new(System)).expect("open");
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
    let volume = Volume::open_media(after, &Options::default(), Arc::new(System)).expect("open after recovery");
    assert_eq!(volume.read("/safe").expect("what was synced"), b"synced");
    volume.close().expect("close");
}

/// Recovers, reads, changes and closes a volume; then checks it.
fn use_it(store: &Arc<dyn BlockStore>) -> ondol::Result<()> {
    let volume = Volume::open_stepped(store.clone(), &Options::default(), Arc::new(System))?;
    let _bytes = volume.read("/safe")?;
    volume.write("/more", b"more")?;
    volume.close()?;
    ondol::check_media(store).map(drop)
}

/// Whatever it was to read: from recovery to close, and in a check.
#[test]
fn a_read_that_fails_is_no_corruption() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.img");
    Volume::format(&image, &FormatOptions::new().size(8 << 20)).expect("format");
    let ram = Arc::new(RamStore::from_bytes(std::fs::read(&image).expect("read")));
    let volume = Volume::open_stepped(ram.clone(), &Options::default(), Arc::new(System)).expect("open");
    volume.write("/safe", b"synced").expect("write");
    volume.sync().expect("sync");
    drop(volume);
    let dirty = ram.to_bytes();
    let once = |reads| FaultPlan { reads, once: true, ..FaultPlan::default() };
    let with = |plan| {
        let faulty = Arc::new(Faulty::new(RamStore::from_bytes(dirty.clone())));
        faulty.arm(plan);
        let store: Arc<dyn BlockStore> = faulty.clone();
        (use_it(&store), faulty.stats().reads)
    };
    let (sound, reads) = with(once(None));
    sound.expect("nothing fails");
    assert!(reads > 40, "{reads} reads");
    for nth in 0..reads {
        if let Err(e) = with(once(Some(nth))).0 {
            assert_eq!(e.errno(), rustix::io::Errno::IO.raw_os_error(), "read {nth}: {e}");
        }
    }
}
