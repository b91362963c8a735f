//! Inodes that somebody knows by number outlive their names until they are forgotten: to their users, on the image,
//! after a crash.

use crate::rig::{Fs, USER, assert_clean, checked, mkfs};
use ondol_testkit::{SetWhenDropped, over_setups};
use ondol_volume::{Error, Ino, ROOT, Rename, SetXattr};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

over_setups! {
    what_is_known_lives_until_it_is_forgotten,
    the_last_of_users_and_knowers_deletes,
    what_is_being_deleted_counts_as_free,
    a_crash_leaves_an_orphan,
    forgetting_may_meet_the_end,
    orphans_of_many_threads_come_and_go,
}

const IMAGES: [&[&str]; 3] = [&["-b", "1024"], &["-b", "4096", "-O", "orphan_file"], &["-b", "1024", "-O", "ea_inode"]];

#[derive(Clone, Copy, Debug, PartialEq)]
struct Free {
    inodes: u64,
    blocks: u64,
}

/// What is free, with everything durable.
fn free(fs: &Fs) -> Free {
    fs.volume.sync().expect("sync");
    let stat = fs.volume.statfs();
    Free { inodes: stat.files_free, blocks: stat.free }
}

fn file(fs: &Fs, name: &str) -> Ino {
    let ino = fs.create(ROOT, name);
    fs.volume.files().write(ino, 0, &[7; 50_000]).expect("write");
    fs.volume.inode_ops().looked_up(ino);
    ino
}

fn must_live(fs: &Fs, ino: Ino, what: &str) {
    let attr = fs.volume.getattr(ino).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(attr.nlink, 0, "{what}");
}

fn must_be_gone(fs: &Fs, ino: Ino, what: &str) {
    assert!(matches!(fs.volume.getattr(ino), Err(Error::NotFound)), "{what}");
}

fn what_is_known_lives_until_it_is_forgotten() {
    for options in IMAGES {
        let fs = Fs::mount(mkfs(16, options));
        let v = &fs.volume;
        let empty = free(&fs);
        let (removed, replaced, dir) = (file(&fs, "removed"), file(&fs, "replaced"), fs.mkdir(ROOT, "dir"));
        v.inode_ops().looked_up(removed);
        v.inode_ops().looked_up(dir);
        v.xattrs().setxattr(removed, b"user.large", &[1; 900], SetXattr::Any).expect("an attribute");
        fs.create(ROOT, "other");
        let full = free(&fs);
        v.names().unlink(ROOT, b"removed").expect("unlink");
        v.names().rename(ROOT, b"other", ROOT, b"replaced", Rename::Replace).expect("rename");
        v.names().rmdir(ROOT, b"dir").expect("rmdir");
        for ino in [removed, replaced, dir] {
            must_live(&fs, ino, "removed");
        }
        assert_eq!(free(&fs), full, "{options:?}: nothing is freed");
        let soon = v.inode_ops().statfs_forgetting();
        // What was opened by number reads on.
        v.inode_ops().open(removed).expect("open");
        let mut bytes = [0; 10];
        assert_eq!(v.files().read(removed, 40_000, &mut bytes).expect("read"), 10);
        assert_eq!(bytes, [7; 10]);
        // Cut to nothing while it is open, it counts for what it has left.
        v.files().truncate(removed, 0).expect("truncate");
        let cut = v.inode_ops().statfs_forgetting();
        assert_eq!(cut.free, soon.free, "{options:?}: counted once");
        v.inode_ops().release(removed).expect("release");
        must_live(&fs, removed, "closed again");
        v.inode_ops().forget(removed, 1).expect("forget");
        must_live(&fs, removed, "known once more");
        assert!(v.names().create(dir, b"x", 0o644, USER).is_err(), "a directory that is removed takes no names");
        for ino in [removed, replaced, dir] {
            v.inode_ops().forget(ino, 1).expect("forget");
            must_be_gone(&fs, ino, "forgotten");
        }
        // Values in inodes of their own come free, too, and are not in what was said before.
        let Free { inodes, blocks } = free(&fs);
        assert!(soon.free > full.blocks && soon.free <= blocks, "{options:?}: {soon:?} said, {blocks} free");
        let said = soon.files_free;
        assert!(said > full.inodes && said <= inodes, "{options:?}: {soon:?} said, {inodes} free");
        let now = v.inode_ops().statfs_forgetting();
        assert_eq!((now.files_free, now.free), (inodes, blocks), "{options:?}: nobody waits any more");
        v.names().unlink(ROOT, b"replaced").expect("unlink");
        assert_eq!(free(&fs), empty, "{options:?}");
        assert_clean(&fs.unmounted(), "all gone");
        assert_eq!(checked(&fs.unmounted()).orphans, 0);
    }
}

fn the_last_of_users_and_knowers_deletes() {
    let fs = Fs::mount(mkfs(16, IMAGES[0]));
    let v = &fs.volume;
    let empty = free(&fs);
    for forgotten_first in [true, false] {
        let ino = file(&fs, "f");
        v.inode_ops().open(ino).expect("open");
        v.names().unlink(ROOT, b"f").expect("unlink");
        let (forget, release) =
            (|| v.inode_ops().forget(ino, 1).expect("forget"), || v.inode_ops().release(ino).expect("release"));
        if forgotten_first {
            forget();
        } else {
            release();
        }
        must_live(&fs, ino, "one of both");
        if forgotten_first {
            release();
        } else {
            forget();
        }
        must_be_gone(&fs, ino, "both");
    }
    // Who is forgotten before loses its name at once; whom nobody forgets that has a name keeps it.
    let (early, kept) = (file(&fs, "early"), file(&fs, "kept"));
    v.inode_ops().forget(early, 5).expect("forget");
    v.names().unlink(ROOT, b"early").expect("unlink");
    must_be_gone(&fs, early, "forgotten before");
    v.names().link(kept, ROOT, b"again").expect("link");
    v.names().unlink(ROOT, b"kept").expect("unlink");
    v.inode_ops().forget(kept, 1).expect("forget");
    v.inode_ops().forget(kept, 1).expect("forget what is not known");
    assert_eq!(v.getattr(kept).expect("it has a name").nlink, 1);
    v.names().unlink(ROOT, b"again").expect("unlink");
    assert_eq!(free(&fs), empty);
    assert_clean(&fs.unmounted(), "all gone");
}

/// A large file is deleted in many steps: who asks meanwhile is told of no less than is free in the end.
fn what_is_being_deleted_counts_as_free() {
    for options in [&["-b", "1024", "-g", "256", "-J", "size=1", "-N", "4096", "-m", "0"][..], IMAGES[1]] {
        let fs = Fs::mount(mkfs(128, options));
        let empty = free(&fs);
        assert!((0..20).any(|_| seen_while_deleting(&fs, empty) > 0));
        assert_eq!(free(&fs), empty);
        assert_clean(&fs.unmounted(), "deleted");
    }
}

/// How often somebody could ask while it went on.
fn seen_while_deleting(fs: &Fs, empty: Free) -> u32 {
    let Free { inodes, blocks } = empty;
    let v = &fs.volume;
    let ino = fs.create(ROOT, "large");
    v.inode_ops().looked_up(ino);
    for n in 0..90 {
        v.files().write(ino, n << 20, &[n as u8; 1 << 20]).expect("write");
    }
    v.names().unlink(ROOT, b"large").expect("unlink");
    // As under load: long after that.
    fs.env.advance(1_000_000_000);
    let (over, mut seen) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = SetWhenDropped(&over);
            v.inode_ops().forget(ino, 1).expect("forget");
        });
        while !over.load(SeqCst) {
            let now = v.inode_ops().statfs_forgetting();
            // Until the request to forget comes, the file has its blocks.
            if now.free > blocks / 2 {
                assert!(now.free >= blocks && now.files_free >= inodes, "{now:?} of {inodes} and {blocks}");
                seen += 1;
            }
        }
    });
    seen
}

fn a_crash_leaves_an_orphan() {
    for options in IMAGES {
        let fs = Fs::mount(mkfs(16, options));
        let empty = free(&fs);
        let (removed, dir) = (file(&fs, "removed"), fs.mkdir(ROOT, "dir"));
        fs.volume.inode_ops().looked_up(dir);
        fs.volume.names().unlink(ROOT, b"removed").expect("unlink");
        fs.volume.names().rmdir(ROOT, b"dir").expect("rmdir");
        let crashed = fs.bytes();
        assert_eq!(checked(&crashed).orphans, 2, "{options:?}");
        let again = Fs::open(crashed);
        assert_eq!(again.volume.inode_ops().process_orphans().expect("orphans").deleted, 2);
        assert_eq!(free(&again), empty);
        for ino in [removed, dir] {
            must_be_gone(&again, ino, "processed");
        }
        assert_clean(&again.unmounted(), "recovered");
        // Nor is a clean end spoilt by what nobody has forgotten.
        fs.volume.inode_ops().process_orphans().expect("orphans");
        assert_clean(&fs.unmounted(), "closed");
    }
}

/// The volume is closed while the kernel still forgets: each inode is deleted once, by one or the other.
fn forgetting_may_meet_the_end() {
    for options in IMAGES {
        let fs = Fs::mount(mkfs(16, options));
        let v = &fs.volume;
        let empty = free(&fs).inodes;
        for round in 0..6 {
            let inos: Vec<Ino> = (0..120).map(|n| file_of(&fs, &format!("{round}-{n}"))).collect();
            (0..120).for_each(|n| v.names().unlink(ROOT, format!("{round}-{n}").as_bytes()).expect("unlink"));
            std::thread::scope(|scope| {
                scope.spawn(|| inos.iter().for_each(|&ino| v.inode_ops().forget(ino, 1).expect("forget")));
                scope.spawn(|| v.inode_ops().process_orphans().map(drop).expect("orphans"));
            });
            v.inode_ops().process_orphans().expect("orphans");
            assert_eq!(free(&fs).inodes, empty, "{options:?}");
        }
        assert_clean(&fs.unmounted(), "both");
    }
}

fn file_of(fs: &Fs, name: &str) -> Ino {
    let ino = fs.create(ROOT, name);
    fs.volume.inode_ops().looked_up(ino);
    ino
}

/// Many threads make orphans and delete them: none stays entered whose inode is free.
fn orphans_of_many_threads_come_and_go() {
    for options in IMAGES {
        let fs = Fs::mount(mkfs(16, options));
        let v = &fs.volume;
        std::thread::scope(|scope| {
            for t in 0..4 {
                let fs = &fs;
                scope.spawn(move || {
                    for n in 0..400 {
                        let name = format!("{t}-{n}");
                        let ino = file_of(fs, &name);
                        fs.volume.names().unlink(ROOT, name.as_bytes()).expect("unlink");
                        fs.volume.inode_ops().forget(ino, 1).expect("forget");
                    }
                });
            }
        });
        let left = v.inode_ops().process_orphans().expect("orphans");
        assert_eq!(left.deleted + left.truncated, 0, "{options:?}: entered and free");
        assert_clean(&fs.unmounted(), "come and gone");
    }
}
