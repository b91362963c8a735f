//! Files that do not borrow their volume, and what keeps a volume from being closed.

use ondol::pool::CreateOptions;
use ondol::{Aside, DirEntry, Error, File, Map, MapMut, Open, OpenOptions, ReadDir, Scratch, View, Volume};
use ondol_env::sync::thread;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

#[path = "../../examples/spawn_blocking.rs"]
mod spawn_blocking;
#[path = "../../examples/threads.rs"]
mod threads;

/// A volume in a pool, which can lend bytes and memory.
fn volume() -> (TempDir, String, Volume) {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = dir.path().join("pool");
    ondol::pool::create(&pool, &CreateOptions::new().size(80 << 20)).expect("a pool");
    let target = format!("nvm:{}", pool.display());
    Volume::format(&target, &ondol::FormatOptions::new()).expect("format");
    let volume = Volume::open(&target).expect("open");
    (dir, target, volume)
}

fn file(path: &str) -> Open {
    Open::File(Path::new(path).into())
}

fn directory(path: &str) -> Open {
    Open::Directory(Path::new(path).into())
}

#[test]
fn the_examples_do_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(threads::run(dir.path()).unwrap(), 400);
    assert_eq!(spawn_blocking::run(dir.path()).unwrap(), (0..20).map(|n| 1000 * n).sum::<u64>());
}

#[test]
fn everything_that_is_opened_can_go_to_other_threads_and_stay_there() {
    fn owned<T: Send + Sync + 'static>() {}
    owned::<Volume>();
    owned::<File>();
    owned::<ReadDir>();
    owned::<DirEntry>();
    owned::<View>();
    owned::<Map>();
    owned::<MapMut>();
    owned::<Scratch>();
    owned::<Aside>();
}

#[test]
fn a_volume_tells_what_is_open_and_closes_only_without() {
    let (_dir, target, volume) = volume();
    volume.create_dir("/d").unwrap();
    volume.write("/d/b", "b").unwrap();
    volume.write("/a", vec![7; 8192]).unwrap();
    assert_eq!(volume.still_open(), []);
    let a = OpenOptions::new().read(true).write(true).open(&volume, "/a").unwrap();
    let copy = a.try_clone().unwrap();
    let again = volume.open_file("a").unwrap();
    let entry = volume.read_dir("/d").unwrap().next().unwrap().unwrap();
    let memory = volume.scratch(4096).unwrap();
    assert_eq!(volume.still_open(), [file("/a"), file("a"), directory("/d"), Open::Memory]);
    drop((a, again));
    assert_eq!(volume.still_open(), [file("/a"), directory("/d"), Open::Memory], "a clone is the same open file");
    drop(copy);
    let aside = memory.set_aside();
    drop(entry);
    assert_eq!(volume.still_open(), [Open::Memory], "memory that was set aside is the volume's still");
    drop(aside);
    volume.close().unwrap();

    let volume = Volume::open(&target).unwrap();
    let map = OpenOptions::new().read(true).write(true).open(&volume, "/a").unwrap().map_mut().unwrap();
    let view = volume.open_file("/d/b").unwrap().view(..).unwrap();
    let whole = volume.open_file("/a").unwrap().map().unwrap();
    assert_eq!(volume.still_open(), [file("/a"), file("/a"), file("/d/b")], "what lends bytes outlives its file");
    let refused = volume.close().unwrap_err();
    assert!(matches!(&refused, Error::StillOpen(open) if open.len() == 3), "{refused:?}");
    assert_eq!((refused.kind(), refused.errno()), (ErrorKind::ResourceBusy, 16));
    let said = "the volume is still in use by 3 things: the file /a, the file /a, the file /d/b; it is closed when \
                the last of it is dropped";
    assert_eq!(refused.to_string(), said);
    assert_eq!((&*whole, map.len(), view.to_vec()), (&*vec![7; 8192], 8192, b"b".to_vec()));
    assert!(Volume::open(&target).is_err(), "it is not closed yet");
    drop((map, view));
    assert!(Volume::open(&target).is_err(), "nor now");
    drop(whole);
    Volume::open(&target).expect("now it is").close().unwrap();
}

#[test]
fn a_file_works_after_its_volume_is_dropped_and_then_closes_it() {
    let (_dir, target, volume) = volume();
    let mut log = OpenOptions::new().read(true).write(true).create(true).open(&volume, "/log").unwrap();
    let named = log.try_clone().unwrap();
    drop(volume);
    log.write_all(b"warm floor").unwrap();
    named.link("/other").unwrap();
    let mut copy = log.try_clone().unwrap();
    drop((log, named));
    let mut text = String::new();
    copy.rewind().unwrap();
    (&copy).read_to_string(&mut text).unwrap();
    assert_eq!(text, "warm floor");
    // The last one is dropped by another thread.
    thread::spawn(move || drop(copy)).join().unwrap();
    let volume = Volume::open(&target).unwrap();
    assert_eq!(volume.recovered().transactions, 0, "it was closed, and not left to recovery");
    assert_eq!(volume.read("/other").unwrap(), b"warm floor");
    volume.close().unwrap();
}

#[test]
fn files_of_two_volumes_do_not_meet() {
    let (_dir, _, one) = volume();
    let (_dir, _, other) = volume();
    let (a, b) =
        (one.create("/f").unwrap(), OpenOptions::new().read(true).write(true).create(true).open(&other, "/f").unwrap());
    assert_eq!(b.copy_range(0, &a, 0, 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!((one.still_open(), other.still_open()), (vec![file("/f")], vec![file("/f")]));
    drop(a);
    one.close().unwrap();
    assert!(matches!(other.close(), Err(Error::StillOpen(_))));
    b.write_all_at(b"still there", 0).unwrap();
}

#[test]
fn threads_open_and_drop_files_while_others_do() {
    let (_dir, target, volume) = volume();
    let volume = Arc::new(volume);
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let volume = volume.clone();
            thread::spawn(move || {
                let kept = volume.create(format!("/{thread}")).unwrap();
                for n in 0..200u64 {
                    let file = OpenOptions::new().write(true).open(&volume, format!("/{thread}")).unwrap();
                    file.write_all_at(&n.to_le_bytes(), n * 8).unwrap();
                }
                kept
            })
        })
        .collect();
    let kept: Vec<File> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(volume.still_open().len(), 8);
    let volume = Arc::into_inner(volume).expect("the threads have ended");
    // They are dropped elsewhere while the volume is being closed; whoever comes last closes.
    let dropping = thread::spawn(move || drop(kept));
    match volume.close() {
        Ok(()) => {}
        Err(Error::StillOpen(open)) => assert!((1..=8).contains(&open.len()), "{open:?}"),
        Err(e) => panic!("{e}"),
    }
    dropping.join().unwrap();
    let volume = Volume::open(&target).unwrap();
    assert!((0..8).all(|thread| volume.metadata(format!("/{thread}")).unwrap().len() == 1600));
    volume.close().unwrap();
}

#[test]
fn files_keep_the_owner_for_whom_they_were_opened() {
    let (_dir, _, mut volume) = volume();
    volume.act_as(ondol::Caller::new(1000, 1000));
    let file = OpenOptions::new().read(true).write(true).create(true).mode(0o6777).open(&volume, "/f").unwrap();
    volume.set_permissions("/f", 0o6777).unwrap();
    volume.act_as(ondol::Caller::new(0, 0));
    volume.write("/g", "text").unwrap();
    let g = volume.open_file("/g").unwrap();
    g.copy_range(0, &file, 0, 4).unwrap();
    assert_eq!(file.metadata().unwrap().permissions() & 0o6000, 0, "a user's copy takes the setuid bit away");
    assert_eq!(volume.metadata("/g").unwrap().uid(), 0);
}
