//! Names brought into real directories, and recoveries that were cut.

mod cuts;
mod gone;
mod rig;

use crate::format::SlotKey;
use crate::name_record::Change;
use crate::recover::elsewhere::Elsewhere;
use crate::recover::names::{self, Plan};
use crate::recover::{Found, Mounted, Outcome};
use crate::slot::Begun;
use crate::{FileKind, Handle, Look, Subject, Written};
use rig::{DEV, HOUR, Lost};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Saved over an old file, removed, made and removed, linked twice.
fn changed(dir: &Path) -> (Lost<'_>, BTreeMap<String, Vec<u8>>) {
    for name in ["gone", "kept", "old"] {
        fs::write(dir.join(name), name).unwrap();
    }
    let lost = Lost::new(dir);
    let saved = lost.born("tmp", 70, b"saved");
    lost.change(Change::Rename, "tmp", "old", &saved, Some(lost.real("old")));
    lost.change(Change::Remove, "", "gone", &lost.real("gone"), None);
    let short = lost.born("short", 71, b"never seen");
    lost.change(Change::Remove, "", "short", &short, None);
    let twin = lost.born("twin-1", 72, b"twins");
    lost.change(Change::Link, "", "twin-2", &twin, None);
    lost.born("void", 73, b"");
    let after = [("kept", "kept"), ("old", "saved"), ("twin-1", "twins"), ("twin-2", "twins"), ("void", "")];
    let after = after.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec()));
    (lost, BTreeMap::from(after))
}

#[test]
fn names_and_new_files_that_the_kernel_has_lost_are_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, after) = changed(dir.path());
    let told = lost.recover(false);
    assert_eq!(lost.contents(), after);
    for outcome in [Outcome::Made(5), Outcome::Made(0), Outcome::Named(5)] {
        assert!(told.contains(&outcome), "{told:?}");
    }
    let old = fs::metadata(dir.path().join("old")).unwrap();
    assert_eq!((old.permissions().mode() & 0o7777, old.nlink()), (0o604, 1));
    let twins = ["twin-1", "twin-2"].map(|name| fs::metadata(dir.path().join(name)).unwrap());
    assert_eq!((twins[0].ino(), twins[0].nlink()), (twins[1].ino(), 2));
}

/// Cut before the first change, after the last, and in between, recovery comes to the same.
#[test]
fn recovery_of_names_may_be_cut_and_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, after) = changed(dir.path());
    lost.recover(true);
    assert_eq!(lost.contents(), after);
    let made = |name: &str| fs::metadata(dir.path().join(name)).unwrap().ino();
    let before = ["old", "twin-1", "void"].map(made);
    lost.recover(true);
    assert_eq!((lost.contents(), ["old", "twin-1", "void"].map(made)), (after.clone(), before));
    // By name: gone, old, short, tmp, twin-1, twin-2, void.
    let own = |n: u32| dir.path().join(format!("{}-{}-{n}", lost.client.log.mark(), lost.slot(0).index));
    for (name, n) in [("twin-1", 4), ("void", 6)] {
        fs::rename(dir.path().join(name), own(n)).unwrap();
        lost.recover(true);
        assert_eq!((lost.contents(), ["old", "twin-1", "void"].map(made)), (after.clone(), before), "{name}");
    }
    fs::remove_file(dir.path().join("twin-2")).unwrap();
    lost.recover(true);
    assert_eq!(lost.contents(), after);
}

/// The disk has refused a recovery one name of a file, and what it made for another one has nothing of the file.
#[test]
fn what_a_recovery_has_left_in_part_is_made_anew() {
    // The twins' own names, by name: gone, old, short, tmp, twin-1, twin-2, void.
    for n in [4, 5] {
        let dir = tempfile::tempdir().unwrap();
        let (lost, after) = changed(dir.path());
        let own = format!("{}-{}-{n}", lost.client.log.mark(), lost.slot(0).index);
        fs::write(dir.path().join(own), "").unwrap();
        lost.recover(true);
        assert_eq!(lost.contents(), after);
    }
}

/// Somebody makes a file of a name while recovery is cut: it is not replaced.
#[test]
fn names_that_are_taken_between_two_recoveries_stay_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, mut after) = changed(dir.path());
    lost.recover(true);
    // By name: gone, old, short, tmp, twin-1, twin-2, void.
    let own = dir.path().join(format!("{}-{}-6", lost.client.log.mark(), lost.slot(0).index));
    fs::rename(dir.path().join("void"), own).unwrap();
    fs::write(dir.path().join("void"), "theirs").unwrap();
    lost.recover(true);
    after.insert("void".into(), b"theirs".to_vec());
    assert_eq!(lost.contents(), after);
}

/// A file that is to have another name, which somebody else has taken, keeps the old one.
#[test]
fn no_file_loses_its_last_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let lost = Lost::new(dir.path());
    let one = lost.trust("one");
    lost.change(Change::Rename, "one", "three", &one, None);
    fs::write(dir.path().join("three"), "theirs").unwrap();
    lost.recover(false);
    let after = [("one", "one"), ("three", "theirs"), ("two", "two")];
    assert_eq!(
        lost.contents(),
        BTreeMap::from(after.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec())))
    );
}

/// What others have done with a name since is not undone: the bytes go beside it.
#[test]
fn names_that_others_have_taken_stay_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, mut after) = changed(dir.path());
    for (name, bytes) in [("old", "theirs"), ("twin-1", "theirs too")] {
        fs::remove_file(dir.path().join(name)).unwrap_or_default();
        fs::write(dir.path().join(name), bytes).unwrap();
        after.insert(name.into(), bytes.into());
    }
    let told = lost.recover(false);
    let beside = told.iter().filter_map(|outcome| match outcome {
        Outcome::Beside(path) => Some(fs::read(path).unwrap()),
        _ => None,
    });
    // The twins have a name left.
    assert_eq!(beside.collect::<Vec<_>>(), [b"saved"]);
    let mut found = lost.contents();
    found.retain(|name, _| !name.contains(".ondol-"));
    assert_eq!(found, after);
}

/// They are not logged, and who makes them up gets none.
#[test]
fn no_file_gets_setuid_or_setgid_bits() {
    for set_id in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (lost, owner) = (Lost::new(dir.path()), fs::metadata(dir.path()).unwrap());
        let (handle, kind) = (Handle { kind: 1, bytes: vec![95; 8] }, FileKind::File);
        let look = Look { dev: DEV, ino: 95, birth: 95, ctime: 1, mtime: 1, size: 0, kind, set_id };
        let file = Subject { look, handle, links: 1, mode: 0o106_755, uid: owner.uid(), gid: owner.gid() };
        lost.change(Change::Create, "", "file", &file, None);
        assert_eq!(crate::found(lost.client.log()).unwrap().is_empty(), set_id);
        lost.recover(false);
        let made = fs::metadata(dir.path().join("file")).map(|meta| meta.permissions().mode() & 0o7777);
        assert_eq!(made.ok(), (!set_id).then_some(0o755));
    }
}

/// A new pool meets a file that another one has met: it leaves what that has put beside it. The name of what is put
/// there is never too long.
#[test]
fn what_is_beside_a_file_is_there_until_somebody_removes_it() {
    // In one of the last two the cut is in the middle of a character.
    for name in ["name".to_owned(), "n".repeat(255), "\u{fc}".repeat(127), format!("n{}", "\u{fc}".repeat(127))] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(&name), "theirs").unwrap();
        let mut beside = BTreeMap::new();
        for (uuid, bytes) in [([8; 16], &b"first"[..]), ([7; 16], b"second")] {
            let lost = Lost::in_pool(uuid, dir.path(), [HOUR; 2]);
            lost.born(&name, 94, bytes);
            // Repeated, it writes to its own.
            for told in [lost.recover(false), lost.recover(true)] {
                let path = told.into_iter().find_map(|outcome| match outcome {
                    Outcome::Beside(path) => Some(path),
                    _ => None,
                });
                let path = path.unwrap().file_name().unwrap().to_str().unwrap().to_owned();
                assert!(
                    path.contains(&lost.client.log.mark()) && path.starts_with(&name[..name.floor_char_boundary(200)]),
                    "{path}"
                );
                beside.insert(path, bytes.to_vec());
            }
        }
        assert_eq!(beside.len(), 2, "{beside:?}");
        beside.insert(name, b"theirs".to_vec());
        let lost = Lost::new(dir.path());
        assert_eq!(lost.contents(), beside);
    }
}

/// A maildir: files are made in one directory and moved to the other, by a rename or by a link and the removal of the
/// first name; one is moved back, one there and removed.
fn moved(dir: &Path) -> (Lost<'_>, BTreeMap<String, Vec<u8>>) {
    for name in ["kept", "old"] {
        fs::write(dir.join(name), name).unwrap();
    }
    let lost = Lost::new(dir);
    fs::write(dir.join("sub/over"), "over").unwrap();
    let one = lost.born("one", 80, b"first");
    lost.change(Change::Rename, "one", "sub/one", &one, None);
    let two = lost.born("two", 81, b"second");
    lost.change(Change::Link, "", "sub/two", &two, None);
    lost.change(Change::Remove, "", "two", &Subject { links: 2, ..seen(&two, 1) }, None);
    let old = lost.trust("old");
    lost.change(Change::Rename, "old", "sub/over", &old, Some(lost.real("sub/over")));
    let back = lost.born("sub/back", 82, b"third");
    lost.change(Change::Rename, "sub/back", "back", &back, None);
    let gone = lost.born("gone", 83, b"fourth");
    lost.change(Change::Rename, "gone", "sub/gone", &gone, None);
    lost.change(Change::Remove, "", "sub/gone", &seen(&gone, 1), None);
    let after = [("back", "third"), ("kept", "kept"), ("sub/one", "first"), ("sub/over", "old"), ("sub/two", "second")];
    let after = after.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec()));
    (lost, BTreeMap::from(after))
}

/// A file whose ctime has changed so many times.
fn seen(file: &Subject, times: u64) -> Subject {
    Subject { look: Look { ctime: file.look.ctime + times, ..file.look }, ..file.clone() }
}

#[test]
fn files_that_were_moved_to_another_directory_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, after) = moved(dir.path());
    let ino = fs::metadata(dir.path().join("old")).unwrap().ino();
    lost.recover(false);
    assert_eq!(lost.contents(), after);
    let links = after.keys().map(|name| fs::metadata(dir.path().join(name)).unwrap().nlink());
    assert_eq!(links.collect::<Vec<_>>(), [1; 5]);
    assert_eq!(fs::metadata(dir.path().join("sub/over")).unwrap().ino(), ino);
}

/// Whether it had done with one of the directories or with none, recovery comes to the same.
#[test]
fn recovery_of_moves_may_be_cut_and_repeated() {
    for retired in [&[][..], &[0], &[1]] {
        let dir = tempfile::tempdir().unwrap();
        let (lost, after) = moved(dir.path());
        lost.recover(true);
        assert_eq!(lost.contents(), after);
        lost.recover_but(true, retired);
        assert_eq!(lost.contents(), after, "{retired:?}");
        // Somebody moves a file back by himself, and recovery is repeated: it has no other name.
        fs::rename(dir.path().join("sub/over"), dir.path().join("old")).unwrap();
        lost.recover_but(true, retired);
        let mut now = lost.contents();
        let kept = now.remove("old").or_else(|| now.remove("sub/over"));
        assert_eq!(kept.as_deref(), Some(&b"old"[..]), "{retired:?}");
    }
}

/// One of two directories is not to be found: nothing is done to the other, and all that they share stays in the log.
#[test]
fn directories_that_share_files_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, _) = moved(dir.path());
    let (over, log) = (lost.write(&lost.trust("kept"), b"replaced"), &lost.client.log);
    let Found { files: mut before, .. } = crate::found(log).unwrap();
    before.retain(|file| file.identity.as_ref().is_some_and(|known| known.handle == over.handle));
    assert_eq!(before.len(), 1);
    let last = lost.born("last", 84, b"last");
    lost.change(Change::Rename, "last", "kept", &last, Some(over));
    let Found { dirs, mut files } = crate::found(log).unwrap();
    // Cut between the record and the end of what it has replaced.
    files.extend(before);
    let before = lost.contents();
    let known = || dirs.iter().map(|dir| (dir.identity.fsid, dir.identity.ino));
    let mut elsewhere = Elsewhere::new(&Mounted, known());
    let plans = dirs.iter().map(|dir| {
        let plan = if dir.slot == lost.slot(0).index {
            names::plan(log, &mut elsewhere, dir, false).unwrap()
        } else {
            Plan::Unreachable("away".into())
        };
        assert!(matches!(plan, Plan::Names { .. } | Plan::Unreachable(_)), "{plan:?}");
        (dir, plan)
    });
    let mut groups = names::groups(plans);
    assert_eq!(groups.len(), 1);
    let mut elsewhere = Elsewhere::new(&Mounted, known());
    let (told, done) = names::bring(log, &mut elsewhere, groups.remove(0), &mut files).unwrap();
    let begun = |which: usize| {
        let SlotKey { index, incarnation } = lost.slot(which);
        log.slot(index).names_begun(incarnation).unwrap()
    };
    // Its place is known whatever becomes of its ctime; nothing was changed.
    assert!(begun(0).is_some_and(|begun| begun.waits) && begun(1).is_none());
    // Two directories, the four files that were made and are there, and the one that was replaced.
    assert_eq!((told.len(), files.len(), done.len()), (7, 0, 0), "{told:?}");
    assert!(told.iter().all(|(_, outcome)| matches!(outcome, Outcome::Unreachable(why) if why == "away")));
    assert_eq!(lost.contents(), before);
}

/// A file that was moved to a directory which somebody has changed since keeps its name, and the one that was to have
/// that gets another.
#[test]
fn a_file_that_cannot_have_its_new_name_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log"), "old").unwrap();
    let lost = Lost::with(dir.path(), [HOUR, -HOUR]);
    let old = lost.trust("log");
    lost.change(Change::Rename, "log", "sub/log.1", &old, None);
    lost.born("log", 90, b"new");
    let told = lost.recover(false);
    assert!(told.contains(&Outcome::Changed(1)), "{told:?}");
    let beside = told.iter().find_map(|outcome| match outcome {
        Outcome::Beside(path) => Some(fs::read(path).unwrap()),
        _ => None,
    });
    assert_eq!(beside.as_deref(), Some(&b"new"[..]), "{told:?}");
    assert_eq!(lost.contents()["log"], b"old");
}

/// Somebody removes a file before it is moved again: that is all that is not done.
#[test]
fn a_file_that_was_removed_since_is_not_moved() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let lost = Lost::new(dir.path());
    let [one, two] = ["one", "two"].map(|name| lost.trust(name));
    lost.change(Change::Rename, "one", "sub/one", &one, None);
    lost.change(Change::Rename, "two", "sub/two", &two, None);
    fs::remove_file(dir.path().join("one")).unwrap();
    assert!(lost.recover(false).contains(&Outcome::Gone));
    assert_eq!(lost.contents(), BTreeMap::from([("sub/two".to_owned(), b"two".to_vec())]));
}

/// While a directory waits for another one somebody writes to a file that was removed, and makes one of a name that is
/// to be made: both are his.
#[test]
fn what_is_done_to_a_directory_that_waits_stays() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["gone", "gone-too"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let lost = Lost::with(dir.path(), [-HOUR; 2]);
    for name in ["gone", "gone-too"] {
        lost.change(Change::Remove, "", name, &lost.real(name), None);
    }
    let void = lost.born("void", 91, b"");
    lost.change(Change::Link, "", "void-2", &void, None);
    let log = &lost.client.log;
    for dir in &crate::found(log).unwrap().dirs {
        let begun = Begun { behind: dir.records[0].sequence - 1, waits: true };
        log.slot(dir.slot).begin_names(dir.incarnation, begun).unwrap();
    }
    // Long after all that is logged; the other file's mtime is as old as the records.
    File::options().append(true).open(dir.path().join("gone")).unwrap().write_all(b"!").unwrap();
    let file = File::options().append(true).open(dir.path().join("gone-too")).unwrap();
    let before = std::time::Duration::from_nanos(HOUR as u64);
    file.set_modified(file.metadata().unwrap().modified().unwrap() - before).unwrap();
    fs::write(dir.path().join("void"), "theirs").unwrap();
    let told = lost.recover(false);
    assert!(told.contains(&Outcome::Changed(1)), "{told:?}");
    let after = [("gone", "gone!"), ("void", "theirs"), ("void-2", "")];
    let after = after.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec()));
    assert_eq!(lost.contents(), BTreeMap::from(after));
}

/// Files whose mtime somebody has set to the future before they were removed and replaced are not taken for written to
/// since.
#[test]
fn an_mtime_in_the_future_is_no_write() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["gone", "over"] {
        fs::write(dir.path().join(name), name).unwrap();
        let file = File::options().append(true).open(dir.path().join(name)).unwrap();
        let later = std::time::Duration::from_nanos(3 * HOUR as u64);
        file.set_modified(file.metadata().unwrap().modified().unwrap() + later).unwrap();
    }
    let lost = Lost::new(dir.path());
    lost.change(Change::Remove, "", "gone", &lost.real("gone"), None);
    let saved = lost.born("tmp", 93, b"saved");
    lost.change(Change::Rename, "tmp", "over", &saved, Some(lost.real("over")));
    let told = lost.recover(false);
    assert_eq!(lost.contents(), BTreeMap::from([("over".to_owned(), b"saved".to_vec())]), "{told:?}");
}

/// A file gets another name while the one that comes in its place waits for a lock: it is not taken for gone, and keeps
/// what is logged of it.
#[test]
fn a_file_that_is_linked_meanwhile_is_not_gone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("new"), "new").unwrap();
    let lost = Lost::new(dir.path());
    let (old, new) = (lost.born("old", 92, b"logged"), lost.trust("new"));
    let done = lost.changed(Change::Rename, ["new", "old"], &new, Some(old.clone()), true);
    assert_eq!(done, Ok(Written::Stale));
    let live = crate::found(&lost.client.log).unwrap().files;
    assert!(live.iter().any(|file| file.identity.as_ref().is_some_and(|known| known.handle == old.handle)));
}
