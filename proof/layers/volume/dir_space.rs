//! Full volumes: an operation on names that finds no space changes nothing, and removing always works.

use crate::dir_rig::{Fs, TOP, USER, mkfs};
use ondol_testkit::{over_engines, over_two_engines};
use ondol_volume::{Error, Ino, Rename};

over_engines! {
    a_directory_that_cannot_grow_stays_as_it_is,
    one_block_is_enough_for_a_directory,
    inodes_run_out,
}

over_two_engines! {
    a_full_index,
}

/// Takes all blocks but `left` with a file.
fn fill(fs: &Fs, left: u64) -> Ino {
    let file = fs.create(TOP, "ballast");
    let mut at = 0;
    while fs.volume.statfs().free > left {
        let block = u64::from(fs.volume.statfs().block_size);
        let many = (fs.volume.statfs().free - left).saturating_sub(8) * block;
        let len = many.clamp(block, 1 << 20) as usize;
        match fs.volume.files().write(file, at, &vec![7; len]) {
            Ok(n) => at += n as u64,
            Err(Error::NoSpace(_)) => break,
            Err(e) => panic!("{e}"),
        }
    }
    file
}

fn name(i: u32) -> String {
    format!("{i:05} {}", "n".repeat(200))
}

fn a_directory_that_cannot_grow_stays_as_it_is() {
    for (args, left) in [(&["-b", "1024", "-m", "0"][..], 30), (&["-b", "1024", "-m", "0", "-O", "^dir_index"], 30)] {
        let fs = Fs::open(mkfs(8, args));
        let v = &fs.volume;
        let (dir, other, file) = (fs.mkdir(TOP, "dir"), fs.mkdir(TOP, "other"), fs.create(TOP, "file"));
        let ballast = fill(&fs, left);
        let mut refused = 0;
        let mut made = 0;
        for i in 0..2000 {
            let before = (v.statfs(), v.getattr(dir).expect("dir"), v.getattr(file).expect("file"));
            match v.names().link(file, dir, name(i).as_bytes()) {
                Ok(_) => made += 1,
                Err(Error::NoSpace(_)) => {
                    refused += 1;
                    let after = (v.statfs(), v.getattr(dir).expect("dir"), v.getattr(file).expect("file"));
                    assert_eq!(before, after);
                    assert!(v.names().lookup(dir, name(i).as_bytes()).is_err());
                    if refused == 20 {
                        break;
                    }
                }
                Err(e) => panic!("{e}"),
            }
        }
        assert!(refused > 0 && made > 20, "{made} made, {refused} refused");
        assert_eq!(fs.names(dir, 10).len(), made);
        // What takes no space goes on; what it takes is given back by removing.
        let first = fs.names(dir, 10).into_keys().next().expect("a name");
        v.names().rename(dir, &first, dir, b"short", Rename::Replace).expect("rename in place");
        v.names().rename(dir, b"short", other, b"short", Rename::Replace).expect("rename across");
        fs.check("full");
        for name in fs.names(dir, 10).keys() {
            v.names().unlink(dir, name).expect("unlink");
        }
        v.names().rmdir(TOP, b"dir").expect("rmdir");
        v.names().unlink(TOP, b"ballast").expect("unlink");
        assert!(matches!(v.getattr(ballast), Err(Error::NotFound)));
        fs.mkdir(TOP, "again");
        fs.check("emptied");
    }
}

fn one_block_is_enough_for_a_directory() {
    let fs = Fs::open(mkfs(8, &["-b", "1024", "-m", "0"]));
    let v = &fs.volume;
    fill(&fs, 20);
    v.sync().expect("sync");
    let mut made = 0;
    loop {
        let free = v.statfs().free;
        match v.names().mkdir(TOP, format!("d{made}").as_bytes(), 0o755, USER) {
            Ok(_) => made += 1,
            Err(Error::NoSpace(_)) => {
                // The last few are kept for operations that free more.
                assert!(free <= 8, "{free}");
                break;
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert!(made > 5, "{made}");
    let long = v.names().symlink(TOP, b"long", &[b'l'; 500], USER);
    assert!(matches!(long, Err(Error::NoSpace(_))));
    v.names().symlink(TOP, b"short", b"s", USER).expect("takes no block");
    fs.check("full but for the last blocks");
}

fn inodes_run_out() {
    let fs = Fs::open(mkfs(8, &["-b", "1024", "-N", "64"]));
    let v = &fs.volume;
    let mut made = Vec::new();
    loop {
        let name = format!("f{}", made.len());
        match v.names().create(TOP, name.as_bytes(), 0o644, USER) {
            Ok(_) => made.push(name),
            Err(Error::NoSpace(_)) => break,
            Err(e) => panic!("{e}"),
        }
    }
    assert_eq!(v.statfs().files_free, 0);
    let free = v.statfs().free;
    assert!(matches!(v.names().mkdir(TOP, b"d", 0o755, USER), Err(Error::NoSpace(_))));
    assert_eq!((v.statfs().free, v.getattr(TOP).expect("root").nlink), (free, 3));
    fs.check("no inodes");
    v.names().unlink(TOP, made[5].as_bytes()).expect("unlink");
    fs.mkdir(TOP, "d");
    fs.check("one inode again");
}

/// An index of one level below the root is full in the end: an error, and everything that was there still is.
fn a_full_index() {
    let fs = Fs::open(mkfs(96, &["-b", "1024"]));
    let v = &fs.volume;
    let (dir, file) = (fs.mkdir(TOP, "dir"), fs.create(TOP, "file"));
    let mut targets = vec![file];
    let name = |i: usize| format!("{i:06}{}", "n".repeat(249));
    let mut made = 0;
    let full = loop {
        if made / 60_000 >= targets.len() {
            targets.push(fs.create(TOP, &format!("file {}", targets.len())));
        }
        match v.names().link(targets[targets.len() - 1], dir, name(made).as_bytes()) {
            Ok(_) => made += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(full, Error::NoSpace(what) if what.contains("index")), "{full}");
    assert!(made > 15_000, "{made}");
    assert_eq!(fs.names(dir, 3000).len(), made);
    assert!((0..made).all(|i| v.names().lookup(dir, name(i).as_bytes()).is_ok()));
    fs.check("full index");
}
