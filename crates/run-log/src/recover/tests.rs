//! Names brought into a real directory, and recoveries that were cut.

use crate::name_record::{Change, Names};
use crate::recover::elsewhere::Elsewhere;
use crate::recover::names::{self, Plan};
use crate::recover::{Found, Outcome};
use crate::{Call, Client, FileKind, Handle, Identity, Log, LogOptions, Look, NameCall, Place, Side, Subject, Written};
use ondol_medium::{Nvm, Pool, PoolSpec};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// An hour, nanoseconds.
const HOUR: i64 = 3_600_000_000_000;

/// A device that the directory is not on: the page cache is another one.
const DEV: u64 = 1;

/// A directory that the kernel has not kept what the log has of, and one in it, `sub`: their ctimes are long before the log's.
struct Lost<'d> {
    dir: &'d Path,
    client: Client,
    clocks: [Cell<u64>; 2],
}

struct OneChange<'l> {
    lost: &'l Lost<'l>,
    names: Names,
    there: usize,
    left: Option<usize>,
    subject: Subject,
    replaced: Option<Subject>,
}

struct OneCall {
    look: Look,
    identity: Option<Identity>,
    bytes: &'static [u8],
    size: Cell<u64>,
}

/// Which directory a path is in, and the name.
fn split(path: &str) -> (usize, &str) {
    path.strip_prefix("sub/").map_or((0, path), |name| (1, name))
}

impl NameCall for OneChange<'_> {
    type Fail = ();

    fn now_ns(&self) -> u64 {
        0
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn look(&self, side: Side) -> Result<Look, ()> {
        Ok(self.lost.look(if side == Side::Left { self.left.unwrap() } else { self.there }))
    }

    fn subject(&self, done: bool) -> Option<Subject> {
        let ctime = self.subject.look.ctime + u64::from(done);
        Some(Subject { look: Look { ctime, ..self.subject.look }, ..self.subject.clone() })
    }

    fn hold(&self) -> bool {
        true
    }

    fn replaced(&self) -> Result<Option<Subject>, ()> {
        Ok(self.replaced.clone())
    }

    fn run(&self) -> Result<(), ()> {
        for dir in [self.there].into_iter().chain(self.left) {
            let clock = &self.lost.clocks[dir];
            clock.set(clock.get() + 1);
        }
        Ok(())
    }
}

impl Call for OneCall {
    type Fail = ();

    fn look(&self) -> Result<Look, ()> {
        Ok(Look { size: self.size.get(), ..self.look })
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn settle(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), ()> {
        Ok(())
    }

    fn identity(&self) -> Option<Identity> {
        self.identity.clone()
    }

    fn write(&self) -> Result<usize, ()> {
        self.size.set(self.size.get() + self.bytes.len() as u64);
        Ok(self.bytes.len())
    }

    fn place(&self) -> Option<Place> {
        Some(Place::Append)
    }

    fn cursor(&self) -> Option<u64> {
        None
    }

    fn moved(&self, _end: u64) -> bool {
        true
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self, len: usize, show: &mut dyn FnMut(&[&[u8]])) {
        show(&[&self.bytes[..len]]);
    }
}

impl<'d> Lost<'d> {
    fn new(dir: &'d Path) -> Self {
        Self::with(dir, HOUR)
    }

    /// With times in `sub` that lie so far from now: nanoseconds.
    fn with(dir: &'d Path, sub: i64) -> Self {
        let pool = Nvm::volatile(2 << 20).unwrap();
        let mut pool = Pool::create(pool, &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
        let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
        let clock = |from_now: i64| Cell::new(crate::client::wall_ns().saturating_add_signed(from_now));
        let lost = Self { dir, client: Client::new(log).unwrap(), clocks: [clock(HOUR), clock(sub)] };
        fs::create_dir(dir.join("sub")).unwrap();
        for (which, path) in [dir.to_owned(), dir.join("sub")].into_iter().enumerate() {
            let identity = Identity::of(File::open(&path).unwrap().as_fd(), path);
            let call = OneCall { look: lost.look(which), identity, bytes: b"", size: Cell::new(0) };
            let slot = lost.client.slot(&lost.look(which)).unwrap().unwrap();
            assert_eq!(lost.client.sync(slot, &call), Ok(false));
        }
        lost
    }

    fn look(&self, dir: usize) -> Look {
        let (now, kind) = (self.clocks[dir].get(), FileKind::Directory);
        Look { dev: DEV, ino: 2 + dir as u64, birth: 1, ctime: now, mtime: now, size: 0, kind }
    }

    fn slot(&self, dir: usize) -> (u32, u64) {
        self.client.trusted(&self.look(dir)).unwrap().unwrap()
    }

    fn change(&self, change: Change, old: &str, name: &str, subject: &Subject, replaced: Option<Subject>) {
        let ((there, name), (from, old)) = (split(name), split(old));
        let left = (change == Change::Rename && from != there).then_some(from);
        let change = if left.is_some() { Change::Arrive } else { change };
        let names = Names { change, name: name.into(), old: old.into() };
        let call = OneChange { lost: self, names, there, left, subject: subject.clone(), replaced };
        let done = self.client.change_names(self.slot(there), left.map(|left| self.slot(left)), &call);
        assert_eq!(done, Ok(Written::Done(())), "{name}");
    }

    /// A file that the kernel has not kept, with these bytes.
    fn born(&self, name: &str, ino: u64, bytes: &'static [u8]) -> Subject {
        let now = crate::client::wall_ns();
        let look = Look { dev: DEV, ino, birth: ino, ctime: now, mtime: now, size: 0, kind: FileKind::File };
        let (handle, owner) = (Handle { kind: 1, bytes: vec![ino as u8; 8] }, fs::metadata(self.dir).unwrap());
        let subject = Subject { look, handle, links: 1, mode: 0o100_604, uid: owner.uid(), gid: owner.gid() };
        self.change(Change::Create, "", name, &subject, None);
        // Its ctime is one later when it is looked at the second time.
        let look = Look { ctime: now + 1, ..look };
        let call = OneCall { look, identity: None, bytes, size: Cell::new(0) };
        let slot = self.client.slot(&look).unwrap().unwrap();
        if !bytes.is_empty() {
            assert_eq!(self.client.write(slot, &call), Ok(Written::Done(bytes.len())));
        }
        Subject { look: call.look().unwrap(), ..subject }
    }

    /// A file that is there, and trusted: nothing was written to it.
    fn trust(&self, name: &str) -> Subject {
        let path = self.dir.join(name);
        let file = Subject { look: Look { dev: DEV, ..self.real(name).look }, ..self.real(name) };
        let identity = Identity::of(File::open(&path).unwrap().as_fd(), path);
        let call = OneCall { look: file.look, identity, bytes: b"", size: Cell::new(file.look.size) };
        let slot = self.client.slot(&file.look).unwrap().unwrap();
        assert_eq!(self.client.sync(slot, &call), Ok(false));
        file
    }

    /// What is there on the disk.
    fn real(&self, name: &str) -> Subject {
        let dir = File::open(self.dir).unwrap();
        Subject::at(dir.as_fd(), &std::ffi::CString::new(name).unwrap()).unwrap()
    }

    /// Recovery, of the log as it is now, which stays so.
    fn recover(&self, begun: bool) -> Vec<Outcome> {
        self.recover_but(begun, &[])
    }

    /// As [`Lost::recover`], if one that was cut had retired these directories.
    fn recover_but(&self, begun: bool, retired: &[usize]) -> Vec<Outcome> {
        let log = &self.client.log;
        self.client.persist().unwrap();
        let copy = Nvm::from_bytes(&log.nvm.to_bytes().unwrap()).unwrap();
        let log = Log::join(copy).unwrap();
        if begun {
            for dir in &crate::found(&log).unwrap().dirs {
                log.slot(dir.slot).begin_names(dir.incarnation, dir.records[0].sequence - 1).unwrap();
            }
        }
        for dir in &crate::found(&log).unwrap().dirs {
            if retired.iter().any(|retired| self.slot(*retired).0 == dir.slot) {
                log.retire_dir(dir).unwrap();
            }
        }
        let recovered = crate::recover(&log).unwrap();
        assert!(recovered.is_complete() && crate::found(&log).unwrap().is_empty(), "{recovered:?}");
        recovered.files.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let mut contents = BTreeMap::new();
        for (dir, before) in [(self.dir.to_owned(), ""), (self.dir.join("sub"), "sub/")] {
            for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
                let name = entry.file_name().into_string().unwrap();
                if name != "sub" {
                    contents.insert(format!("{before}{name}"), fs::read(entry.path()).unwrap());
                }
            }
        }
        contents
    }
}

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
    let own = |n: u32| dir.path().join(format!("{}-{}-{n}", lost.client.log.mark(), lost.slot(0).0));
    for (name, n) in [("twin-1", 4), ("void", 6)] {
        fs::rename(dir.path().join(name), own(n)).unwrap();
        lost.recover(true);
        assert_eq!((lost.contents(), ["old", "twin-1", "void"].map(made)), (after.clone(), before), "{name}");
    }
    fs::remove_file(dir.path().join("twin-2")).unwrap();
    lost.recover(true);
    assert_eq!(lost.contents(), after);
}

/// Somebody makes a file of a name while recovery is cut: it is not replaced.
#[test]
fn names_that_are_taken_between_two_recoveries_stay_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, mut after) = changed(dir.path());
    lost.recover(true);
    // By name: gone, old, short, tmp, twin-1, twin-2, void.
    let own = dir.path().join(format!("{}-{}-6", lost.client.log.mark(), lost.slot(0).0));
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

/// A maildir: files are made in one directory and moved to the other, by a rename or by a link and the removal of the first name; one is moved back, one there and removed.
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
    let (log, before) = (&lost.client.log, lost.contents());
    let Found { dirs, mut files } = crate::found(log).unwrap();
    let mut elsewhere = Elsewhere::new([].into_iter());
    let plans = dirs.iter().map(|dir| {
        let plan = if dir.slot == lost.slot(0).0 {
            names::plan(log, &mut elsewhere, dir, false).unwrap()
        } else {
            Plan::Unreachable("away".into())
        };
        assert!(matches!(plan, Plan::Names { .. } | Plan::Unreachable(_)), "{plan:?}");
        (dir, plan)
    });
    let mut groups = names::groups(plans);
    assert_eq!(groups.len(), 1);
    let mut elsewhere = Elsewhere::new([].into_iter());
    let (told, done) = names::bring(log, &mut elsewhere, groups.remove(0), &mut files).unwrap();
    // Two directories, and the three files that were made and are there.
    assert_eq!((told.len(), files.len(), done.len()), (5, 0, 0), "{told:?}");
    assert!(told.iter().all(|(_, outcome)| matches!(outcome, Outcome::Unreachable(why) if why == "away")));
    assert_eq!(lost.contents(), before);
}

/// A file that was moved to a directory which somebody has changed since keeps its name, and the one that was to have that gets another.
#[test]
fn a_file_that_cannot_have_its_new_name_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log"), "old").unwrap();
    let lost = Lost::with(dir.path(), -HOUR);
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
