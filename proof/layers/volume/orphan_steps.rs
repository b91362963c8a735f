//! Deleting and cutting a file takes several operations where the journal is small; a crash between any two of them
//! loses nothing and leaks nothing.

use crate::rig::{Fs, mkfs};
use ondol_block::{LayerStore, RamStore};
use ondol_power::{Cut, Event, Kind, Layer, Medium, PowerDomain};
use ondol_stores::Recorder;
use ondol_testkit::over_image_setups;
use ondol_volume::{Error, Fallocate, ROOT, SetAttr};
use std::sync::Arc;

over_image_setups! {
    deletion_in_steps,
    truncate_in_steps,
}

/// Many small groups, so that the blocks of one file touch many bitmaps, and the smallest journal.
const OPTIONS: &[&str] = &["-b", "1024", "-g", "256", "-J", "size=1", "-N", "4096", "-m", "0"];

/// A volume with a file of 450 blocks, one in every group.
fn scattered(options: &[&str]) -> Vec<u8> {
    let fs = Fs::mount(mkfs(128, &[OPTIONS, options].concat()));
    let (filler, file) = (fs.create(ROOT, "filler"), fs.create(ROOT, "file"));
    let chunk = vec![1; 1 << 20];
    let mut size = 0;
    while let Ok(written) = fs.volume.files().write(filler, size, &chunk) {
        size += written as u64;
    }
    for i in 0..460 {
        fs.volume.files().fallocate(filler, Fallocate::PunchHole, (i * 220) << 10, 1 << 10).expect("a hole");
    }
    fs.volume.sync().expect("freed blocks");
    for i in 0..450 {
        fs.volume.files().write(file, (i * 5000) & !1023, &[1; 1024]).expect("a write");
    }
    fs.volume.names().unlink(ROOT, b"filler").expect("unlink");
    fs.volume.xattrs().setxattr(file, b"user.large", &[3; 700], Default::default()).expect("an attribute");
    fs.unmounted()
}

/// Every state that the medium had at a flush while `act` ran, and one write before and after each.
fn crashes(bytes: &[u8], act: impl FnOnce(&Fs)) -> Vec<Layer> {
    let domain = PowerDomain::new();
    let store = Recorder::new(RamStore::from_bytes(bytes.to_vec()), 0, domain.clone());
    let fs = Fs::over(Arc::new(store));
    let mut now = bytes.to_vec();
    fs.store.read(0, &mut now).expect("the image");
    let media = [Medium { base: Layer::new(now), kind: Kind::Block, whole: None }];
    domain.take();
    act(&fs);
    fs.engine.checkpoint_all().expect("a checkpoint");
    let events = domain.take();
    let (mut cut, mut states) = (Cut::new(&media), Vec::new());
    for (i, event) in events.iter().enumerate() {
        cut.advance(event);
        let near = events[i.saturating_sub(1)..(i + 2).min(events.len())].iter();
        if near.clone().any(|event| matches!(event, Event::Flush { .. })) {
            states.extend(cut.everything());
        }
    }
    states
}

fn deletion_in_steps() {
    for options in [["-O", "^orphan_file"], ["-O", "orphan_file"]] {
        let bytes = scattered(&options);
        let mut handles = 0;
        let states = crashes(&bytes, |fs| {
            let before = fs.engine.stats().handles;
            fs.volume.names().unlink(ROOT, b"file").expect("unlink");
            handles = fs.engine.stats().handles - before;
        });
        assert!(handles > 2, "one step is no test: {handles}");
        let (mut gone, mut deleted) = (0, 0);
        for (i, state) in states.into_iter().enumerate() {
            let fs = Fs::over(Arc::new(LayerStore::new(state)));
            let done = fs.volume.inode_ops().process_orphans().expect("orphans");
            deleted += done.deleted;
            match fs.volume.names().lookup(ROOT, b"file") {
                Ok(attr) => assert!(attr.size > 2_000_000 && done.deleted == 0),
                Err(Error::NotFound) => gone += 1,
                Err(e) => panic!("{e}"),
            }
            fs.unmount_clean(&format!("crash {i}"));
        }
        assert!(gone > 0 && deleted > 0, "no crash fell between two steps");
    }
}

fn truncate_in_steps() {
    let bytes = scattered(&[]);
    let states = crashes(&bytes, |fs| {
        let ino = fs.lookup("file");
        let set = SetAttr { size: Some(100_000), perm: Some(0o600), ..SetAttr::default() };
        assert_eq!(fs.volume.inode_ops().setattr(ino, &set).expect("truncate").size, 100_000);
    });
    let mut finished = 0;
    for (i, state) in states.into_iter().enumerate() {
        let fs = Fs::over(Arc::new(LayerStore::new(state)));
        finished += fs.volume.inode_ops().process_orphans().expect("orphans").truncated;
        let attr = fs.volume.names().lookup(ROOT, b"file").expect("the file");
        assert!(attr.size == 100_000 || attr.size > 2_000_000);
        fs.unmount_clean(&format!("crash {i}"));
    }
    assert!(finished > 0, "no crash fell between two steps");
}
