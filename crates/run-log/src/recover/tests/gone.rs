//! Files that were born in a directory that somebody has removed, or changed, after the cut.

use super::rig::{HOUR, Lost};
use crate::format::SlotKey;
use crate::name_record::Change;
use crate::recover::{FoundFile, Outcome};
use crate::slot::Begun;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Makes another directory of the same name.
fn remove_sub(dir: &Path) {
    fs::remove_dir_all(dir.join("sub")).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
}

/// What is live of the file that was made at this path.
fn live(lost: &Lost<'_>, path: &Path) -> FoundFile {
    lost.client.persist().unwrap();
    let mut files = crate::found(&lost.client.log).unwrap().files;
    files.retain(|file| file.identity.as_ref().is_some_and(|known| known.path == path));
    files.remove(0)
}

/// Somebody removes the directory that files were moved and linked from: they are made where they are to be. One with
/// no other name went with its directory.
#[test]
fn files_born_in_a_directory_that_is_gone_are_where_they_came_to() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("over"), "over").unwrap();
    let lost = Lost::new(dir.path());
    let one = lost.born("sub/one", 100, b"first");
    lost.change(Change::Rename, "sub/one", "one", &one, None);
    let two = lost.born("sub/two", 101, b"second");
    lost.change(Change::Link, "", "two", &two, None);
    let three = lost.born("sub/three", 102, b"third");
    lost.change(Change::Rename, "sub/three", "over", &three, Some(lost.real("over")));
    lost.born("sub/own", 103, b"fourth");
    remove_sub(dir.path());
    let after = [("one", "first"), ("over", "third"), ("two", "second")];
    let after = BTreeMap::from(after.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec())));
    let told = lost.recover(false);
    assert_eq!(lost.contents(), after, "{told:?}");
    // The directory, and the file in it.
    assert_eq!(told.iter().filter(|outcome| **outcome == Outcome::Gone).count(), 2, "{told:?}");
    let made = || after.keys().map(|name| fs::metadata(dir.path().join(name)).unwrap());
    let inodes: Vec<_> = made().map(|file| (file.ino(), file.nlink())).collect();
    assert!(inodes.iter().all(|(_, links)| *links == 1));
    lost.recover(true);
    assert_eq!(lost.contents(), after);
    assert_eq!(made().map(|file| (file.ino(), file.nlink())).collect::<Vec<_>>(), inodes);
}

/// Somebody has changed the other directory, too: the bytes go beside the name.
#[test]
fn files_born_in_a_directory_that_is_gone_go_beside_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let lost = Lost::with(dir.path(), [-HOUR, HOUR]);
    let one = lost.born("sub/one", 104, b"first");
    lost.change(Change::Rename, "sub/one", "one", &one, None);
    remove_sub(dir.path());
    let told = lost.recover(false);
    let beside = told.iter().find_map(|outcome| match outcome {
        Outcome::Beside(path) => Some(fs::read(path).unwrap()),
        _ => None,
    });
    assert_eq!(beside.as_deref(), Some(&b"first"[..]), "{told:?}");
}

/// A file of which a real sync has retired a part was on the disk, so it was removed: it is not made of the rest.
#[test]
fn files_of_which_the_log_has_a_part_are_not_made() {
    for (sub, gone) in [(HOUR, true), (-HOUR, false)] {
        let dir = tempfile::tempdir().unwrap();
        let lost = Lost::with(dir.path(), [HOUR, sub]);
        let part = lost.write(&lost.born("sub/part", 105, b"synced, "), b"and not");
        let found = live(&lost, &dir.path().join("sub/part"));
        lost.client.log.slot(found.slot).retire(found.incarnation, found.records[0].sequence).unwrap();
        lost.change(Change::Rename, "sub/part", "part", &part, None);
        if gone {
            remove_sub(dir.path());
        }
        let told = lost.recover(false);
        assert_eq!(lost.contents(), BTreeMap::new(), "{told:?}");
    }
}

/// A file that the kernel had moved already was on the disk: who has removed it since has removed it.
#[test]
fn files_that_had_come_and_were_removed_since_are_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let lost = Lost::new(dir.path());
    let one = lost.born("sub/one", 106, b"first");
    lost.change(Change::Rename, "sub/one", "one", &one, None);
    let one = super::seen(&one, 1);
    lost.change(Change::Rename, "one", "uno", &one, None);
    lost.client.persist().unwrap();
    let (log, SlotKey { index: slot, incarnation }) = (&lost.client.log, lost.slot(0));
    let dirs = crate::found(log).unwrap().dirs;
    let arrival = dirs.iter().find(|dir| dir.slot == slot).unwrap().records[0].sequence;
    log.slot(slot).begin_names(incarnation, Begun { behind: arrival, waits: false }).unwrap();
    remove_sub(dir.path());
    let told = lost.recover(false);
    assert_eq!(lost.contents(), BTreeMap::new(), "{told:?}");
}
