//! A medium that fails: nobody is told that something is safe which is not.

use ondol::{FormatOptions, Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::System;
use ondol_stores::{FaultPlan, Faulty};
use ondol_testkit::rig::Setup;
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

/// With a pool, an image that cannot be written to for a while costs nothing: what is synced is in the pool, changes
/// are refused only when its log fills up, and nobody has to open the volume anew when it is over.
#[test]
fn an_image_that_fails_for_a_while_costs_no_more_than_patience() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("v.img");
    Volume::format(&image, &FormatOptions::new().size(32 << 20)).expect("format");
    let store = Arc::new(Faulty::new(RamStore::from_bytes(std::fs::read(&image).expect("read"))));
    let setup = Setup::SCALABLE_ORDERED;
    let media = setup.media(store.clone());
    let volume = Volume::open_stepped(media.clone(), &setup.options(), Arc::new(System)).expect("open");
    store.arm(FaultPlan { writes: Some(0), ..FaultPlan::default() });
    // Short enough for more than two of them in half of the log: when the image is known to fail, which is sooner or
    // later as the clock says, that is for operations to begin with.
    let mut written = Vec::new();
    let refused = loop {
        let name = format!("/{}", written.len());
        match volume.write(&name, [written.len() as u8; 16_000]) {
            Ok(()) => written.push(name),
            Err(e) => break e,
        }
        volume.sync().expect("it is in the pool");
        assert!(written.len() < 1000);
    };
    assert!(refused.to_string().contains("cannot be written to the image"), "{refused}");
    assert_eq!(refused.errno(), rustix::io::Errno::IO.raw_os_error());
    assert!(written.len() > 2 && !volume.is_read_only(), "{} files", written.len());
    volume.sync().expect("what there is, is in the pool");
    let told = volume.info().expect("it can be read").mount.expect("it is mounted");
    assert!(told.not_home.is_some_and(|why| !why.is_empty()));
    store.arm(FaultPlan::default());
    volume.write("/again", b"as before").expect("it is over");
    assert!(volume.info().expect("as before").mount.is_some_and(|mount| mount.not_home.is_none()));
    volume.close().expect("all of it is home");
    let after = Arc::new(RamStore::from_bytes(store.inner().to_bytes()));
    let volume = Volume::open_media(after, &Options::default(), Arc::new(System)).expect("without the pool");
    for (n, name) in written.iter().enumerate() {
        assert!(volume.read(name).expect("it was synced") == [n as u8; 16_000], "{name}");
    }
    assert_eq!(volume.read("/again").expect("it was written"), b"as before");
    volume.close().expect("close");
}
