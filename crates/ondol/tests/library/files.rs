//! Files, directories and what is known of them, as programs that know `std::fs` use them.

use ondol::{
    DirBuilder, Error, FileTimes, FileType, FormatOptions, JournalEngine, OpenOptions, Options, Result, Volume,
};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

fn volume() -> (TempDir, Volume) {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    Volume::format(&image, &FormatOptions::new().size(64 << 20)).expect("format");
    let volume = Volume::open(&image).expect("open");
    (dir, volume)
}

/// The kind of an error and its text.
fn refused<T>(result: Result<T>) -> (ErrorKind, String) {
    let error = std::io::Error::from(result.err().expect("a refusal"));
    (error.kind(), error.to_string())
}

#[test]
fn metadata_tells_what_was_set_and_outlives_a_close() {
    let (dir, volume) = volume();
    volume.write("/f", vec![1; 5000]).unwrap();
    volume.create_dir("/d").unwrap();
    volume.symlink("f", "/l").unwrap();
    let (early, late) = (UNIX_EPOCH - Duration::from_millis(1_500), UNIX_EPOCH + Duration::new(3_000_000_000, 5));
    volume.set_times("/f", FileTimes::new().set_accessed(early).set_modified(late)).unwrap();
    volume.chown("/l", Some(70_000), None).unwrap();
    volume.set_permissions("/f", 0o640).unwrap();
    volume.close().unwrap();

    let volume = Volume::open(dir.path().join("image")).unwrap();
    let f = volume.metadata("/l").unwrap();
    assert_eq!((f.len(), f.permissions(), f.nlink()), (5000, 0o640, 1));
    assert_eq!((f.accessed(), f.modified()), (early, late));
    assert_eq!((f.uid(), f.gid()), (70_000, rustix::process::getegid().as_raw()));
    assert!(f.is_file() && !f.is_dir() && !f.is_symlink());
    assert!(f.created().is_some_and(|created| created > UNIX_EPOCH && f.changed() >= created));
    assert!(volume.metadata("/d").unwrap().is_dir());
    assert!(volume.symlink_metadata("/l").unwrap().is_symlink());
    // A time that is not set stays.
    let file = volume.open_file("/f").unwrap();
    file.set_times(FileTimes::new().set_modified(early)).unwrap();
    file.set_permissions(0o400).unwrap();
    let f = file.metadata().unwrap();
    assert_eq!((f.accessed(), f.modified(), f.permissions()), (early, early, 0o400));
    drop(file);
    volume.close().unwrap();
}

#[test]
fn how_a_file_is_opened_is_checked_as_std_does() {
    let (_dir, volume) = volume();
    let open = |options: &OpenOptions| options.open(&volume, "/f").map(drop);
    for options in [
        &OpenOptions::new(),
        OpenOptions::new().read(true).create(true),
        OpenOptions::new().read(true).truncate(true),
        OpenOptions::new().create_new(true),
        OpenOptions::new().append(true).truncate(true).create(true),
    ] {
        let (kind, text) = refused(open(options));
        assert_eq!(kind, ErrorKind::InvalidInput, "{options:?}: {text}");
    }
    assert!(!volume.exists("/f").unwrap(), "what is refused makes nothing");
    assert_eq!(refused(open(OpenOptions::new().write(true))).0, ErrorKind::NotFound);
    open(OpenOptions::new().write(true).create_new(true)).unwrap();
    assert_eq!(refused(open(OpenOptions::new().write(true).create_new(true))).0, ErrorKind::AlreadyExists);
    let mut options = OpenOptions::new();
    options.append(true);
    open(&options).unwrap();
    volume.close().unwrap();
}

#[test]
fn clones_of_a_file_share_its_position_and_each_keeps_it_open() {
    let (_dir, volume) = volume();
    let free = volume.statfs().files_free;
    let mut file = OpenOptions::new().read(true).write(true).create(true).open(&volume, "/f").unwrap();
    let mut clone = file.try_clone().unwrap();
    file.write_all(b"warm ").unwrap();
    clone.write_all(b"floor").unwrap();
    assert_eq!(file.stream_position().unwrap(), 10);
    volume.remove_file("/f").unwrap();
    drop(file);
    assert_eq!(volume.statfs().files_free, free - 1);
    let mut text = String::new();
    clone.seek(SeekFrom::Start(0)).unwrap();
    clone.read_to_string(&mut text).unwrap();
    assert_eq!(text, "warm floor");
    drop(clone);
    assert_eq!(volume.statfs().files_free, free);
    volume.close().unwrap();
}

#[test]
fn a_copy_has_content_holes_and_permissions_and_no_file_is_copied_onto_itself() {
    let (_dir, volume) = volume();
    volume.write("/from", b"beginning").unwrap();
    let from = OpenOptions::new().write(true).open(&volume, "/from").unwrap();
    from.write_all_at(b"middle", 1 << 20).unwrap();
    from.set_len(3 << 20).unwrap();
    from.set_permissions(0o751).unwrap();
    volume.write("/to", vec![9; 5 << 20]).unwrap();
    for to in ["/to", "/new"] {
        assert_eq!(volume.copy("/from", to).unwrap(), 3 << 20, "{to}");
        assert!(volume.read(to).unwrap() == volume.read("/from").unwrap(), "{to}");
        let (copy, original) = (volume.metadata(to).unwrap(), volume.metadata("/from").unwrap());
        assert_eq!((copy.permissions(), copy.blocks()), (0o751, original.blocks()), "{to}");
    }
    volume.hard_link("/from", "/same").unwrap();
    volume.create_dir("/d").unwrap();
    assert_eq!(refused(volume.copy("/from", "/same")).0, ErrorKind::InvalidInput);
    assert_eq!(refused(volume.copy("/d", "/new")).0, ErrorKind::InvalidInput);
    assert_eq!(volume.metadata("/same").unwrap().len(), 3 << 20, "a refused copy truncates nothing");
    drop(from);
    volume.close().unwrap();
}

#[test]
fn text_is_read_as_text_only() {
    let (_dir, volume) = volume();
    volume.write("/text", "온돌").unwrap();
    volume.write("/bytes", b"ab\xffcd").unwrap();
    assert_eq!(volume.read_to_string("/text").unwrap(), "온돌");
    let error = volume.read_to_string("/bytes").unwrap_err();
    assert!(matches!(&error, Error::NotText { at: 2, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    volume.close().unwrap();
}

#[test]
fn entries_come_once_while_others_are_made_and_removed() {
    let (_dir, volume) = volume();
    volume.create_dir_all("/d/e").unwrap();
    let names: BTreeSet<_> = (0..1500).map(|n| format!("name {n}")).collect();
    names.iter().for_each(|name| volume.write(format!("/d/{name}"), b"").unwrap());
    let mut seen = Vec::new();
    for (n, entry) in volume.read_dir("/d").unwrap().enumerate() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(entry.path().to_str().unwrap(), format!("/d/{name}"));
        assert_eq!(entry.file_type().unwrap(), if name == "e" { FileType::Directory } else { FileType::Regular });
        volume.write(format!("/d/later {n}"), b"").unwrap();
        if n >= 7 {
            volume.remove_file(format!("/d/later {}", n - 7)).unwrap();
        }
        // A listing reads ahead: what was removed since may come.
        if !name.starts_with("later") && name != "e" {
            assert_eq!(entry.metadata().unwrap().ino(), entry.ino());
            volume.remove_file(entry.path()).unwrap();
            assert_eq!(refused(entry.metadata()).0, ErrorKind::NotFound);
            seen.push(name);
        }
        assert!(n < 100_000, "a listing that does not end");
    }
    let set: BTreeSet<_> = seen.iter().cloned().collect();
    assert!(set == names && seen.len() == names.len(), "{} of {} names", seen.len(), names.len());
    assert_eq!(refused(volume.read_dir("/d/none").map(drop)).0, ErrorKind::NotFound);
    volume.write("/file", b"").unwrap();
    assert_eq!(refused(volume.read_dir("/file").map(drop)).0, ErrorKind::NotADirectory);
    volume.close().unwrap();
}

#[test]
fn a_tree_is_removed_and_links_in_it_are_not_followed() {
    let (_dir, volume) = volume();
    volume.create_dir_all("/tree/a/b").unwrap();
    volume.create_dir_all("/tree/a/b").unwrap();
    (0..600).for_each(|n| volume.write(format!("/tree/a/{n}"), b"x").unwrap());
    volume.create_dir("/kept").unwrap();
    volume.write("/kept/file", b"kept").unwrap();
    volume.symlink("/kept", "/tree/a/b/link").unwrap();
    volume.symlink("/kept", "/link").unwrap();
    volume.remove_dir_all("/tree").unwrap();
    volume.remove_dir_all("/link").unwrap();
    let left: Vec<_> = volume.read_dir("/").unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "kept" || name == "lost+found"), "{left:?}");
    assert_eq!(volume.read("/kept/file").unwrap(), b"kept");
    assert_eq!(refused(volume.remove_dir_all("/kept/file")).0, ErrorKind::NotADirectory);
    volume.write("/file", b"").unwrap();
    assert_eq!(refused(volume.create_dir_all("/file/below")).0, ErrorKind::AlreadyExists);
    volume.close().unwrap();
}

/// A cache that holds nothing, and one inode: everything leaves at once, and nothing waits for room that cannot come.
#[test]
fn a_cache_may_have_no_room_at_all() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [JournalEngine::Classic, JournalEngine::Compressed] {
        let image = dir.path().join(engine.name());
        Volume::format(&image, &FormatOptions::new().size(16 << 20)).unwrap();
        let options = Options::default().with_journal(engine).with_cache(0).with_cached_inodes(1);
        let volume = Volume::open_with(&image, &options).unwrap();
        volume.create_dir("/d").unwrap();
        let names = || (0..40u8).map(|n| (n, format!("/d/{n}")));
        names().for_each(|(n, name)| volume.write(name, vec![n; 5000]).unwrap());
        names().for_each(|(n, name)| assert_eq!(volume.read(name).unwrap(), vec![n; 5000]));
        volume.close().unwrap();
        assert!(ondol::check(&image).unwrap().is_clean());
    }
}

/// Files that are removed, as many as there may be, and open all the while, as a mount has them: they leave the cache,
/// and the stated bound counts them.
#[test]
fn removed_files_that_are_held_are_within_the_bound() {
    const FILES: u64 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    Volume::format(&image, &FormatOptions::new().size(256 << 20).inodes(FILES as u32 + 1_000)).unwrap();
    let volume = Volume::open_with(&image, &Options::default().with_cached_inodes(2_000)).unwrap();
    let (inodes, before, bound) = (volume.inodes(), volume.statfs().files_free, volume.state().memory_bound());
    let cached = || volume.state().counters().files.cached_inodes;
    let held: Vec<ondol::Ino> = (0..FILES)
        .map(|n| {
            let name = n.to_string();
            let ino = inodes.names().create(ondol::ROOT, name.as_bytes(), 0o600, ondol::Caller::default()).unwrap().ino;
            inodes.inode_ops().looked_up(ino);
            inodes.inode_ops().open(ino).unwrap();
            inodes.files().write(ino, 0, name.as_bytes()).unwrap();
            inodes.names().unlink(ondol::ROOT, name.as_bytes()).unwrap();
            ino
        })
        .collect();
    assert!(cached() < 4_000, "{} inodes are cached", cached());
    assert_eq!(volume.state().memory_bound() - bound, 192 * FILES);
    // They are all there, and can be opened once more.
    for (n, ino) in held.iter().enumerate().step_by(997) {
        let mut bytes = vec![0; 10];
        let read = inodes.files().read(*ino, 0, &mut bytes).unwrap();
        assert_eq!(bytes[..read], *n.to_string().as_bytes());
        assert_eq!(inodes.inode_ops().open(*ino).unwrap().nlink, 0);
        inodes.inode_ops().release(*ino).unwrap();
    }
    // The last to let go deletes them.
    for ino in &held {
        inodes.inode_ops().release(*ino).unwrap();
        inodes.inode_ops().forget(*ino, 1).unwrap();
    }
    assert_eq!((volume.state().memory_bound(), volume.statfs().files_free), (bound, before));
    volume.close().unwrap();
    assert!(ondol::check(&image).unwrap().is_clean());
}

/// Deeper than stacks are, and than paths are long.
#[test]
fn a_tree_of_any_depth_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    Volume::format(&image, &FormatOptions::new().size(128 << 20).block_size(1024).inodes(41_000)).unwrap();
    let volume = Volume::open(&image).unwrap();
    let before = volume.statfs().files_free;
    let mut at = ondol::ROOT;
    for _ in 0..40_000 {
        at = volume.inodes().names().mkdir(at, b"d", 0o755, ondol::Caller::default()).unwrap().ino;
    }
    volume.remove_dir_all("/d").unwrap();
    volume.sync().unwrap();
    assert_eq!(volume.statfs().files_free, before);
    volume.close().unwrap();
}

#[test]
fn an_error_has_the_kind_of_std_and_names_the_path_and_no_inode() {
    let (_dir, volume) = volume();
    volume.create_dir_all("/d/e").unwrap();
    volume.write("/f", b"").unwrap();
    let cases: [(Result<()>, ErrorKind, &str); 4] = [
        (volume.write("/d", b"x"), ErrorKind::IsADirectory, "/d: it is a directory"),
        (volume.read_dir("/f").map(drop), ErrorKind::NotADirectory, "/f: not a directory"),
        (volume.remove_dir("/d"), ErrorKind::DirectoryNotEmpty, "/d: the directory is not empty"),
        (volume.remove_file("/g"), ErrorKind::NotFound, "/g: no such file or directory"),
    ];
    for (result, kind, text) in cases {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        assert_eq!(std::io::Error::from(error).kind(), kind);
    }
    volume.close().unwrap();
}

#[test]
fn directories_are_made_with_a_mode_and_with_those_above() {
    let (_dir, volume) = volume();
    let make = |path: &str, recursive| DirBuilder::new().mode(0o1710).recursive(recursive).create(&volume, path);
    assert_eq!(refused(make("/a/b", false)).0, ErrorKind::NotFound);
    make("/a/b", true).unwrap();
    make("/a/b", true).unwrap();
    assert_eq!(refused(make("/a/b", false)).0, ErrorKind::AlreadyExists);
    assert_eq!(["/a", "/a/b"].map(|path| volume.metadata(path).unwrap().permissions()), [0o1710; 2]);
    volume.create_dir("/c").unwrap();
    assert_eq!(volume.metadata("/c").unwrap().permissions(), 0o755);
}
