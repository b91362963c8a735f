//! Images that were not unmounted cleanly, that can only be read, or that are made to harm who copies from them.

use super::Desk;
use crate::place::{Place, fails, ondol, output, succeeds};
use ondol::{FileType, FormatOptions, Volume};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[test]
fn what_needs_recovery_is_read_as_recovered_and_not_written() {
    let Some(mut place) = Place::new() else { return };
    place.lose_server();
    let before = fs::read(place.image()).unwrap();
    let info = succeeds(ondol().args(["info", "--json"]).arg(place.image()));
    assert!(info.contains("\"state\":\"dirty\""), "{info}");
    assert_eq!(succeeds(ondol().arg("cat").arg(place.image()).arg("/synced")), "durable");
    assert!(succeeds(ondol().arg("ls").arg(place.image())).contains("synced\n"));
    let copy = place.image().with_file_name("copy");
    succeeds(ondol().arg("cp").arg(place.image()).arg(":/synced").arg(&copy));
    assert_eq!(fs::read(copy).unwrap(), b"durable");
    assert!(fs::read(place.image()).unwrap() == before, "the image was written");
    // What writes recovers first.
    succeeds(ondol().arg("cp").arg(place.image()).args([":/synced", ":/copy"]));
    assert_eq!(succeeds(ondol().arg("cat").arg(place.image()).arg("/copy")), "durable");
    place.is_clean();
}

#[test]
fn what_can_only_be_read_is_read() {
    let desk = Desk::made(&["--size", "16M", "-O", "^has_journal,^orphan_file"]);
    assert_eq!(desk.does("ls disk.img"), "lost+found\n");
    let said = desk.refuses("cp disk.img disk.img :/", 1);
    assert!(said.starts_with("ondol: disk.img: it can only be read: it has no journal"), "{said}");
    if !rustix::process::geteuid().is_root() {
        desk.sh("chmod 400 disk.img");
        assert_eq!(desk.does("ls disk.img"), "lost+found\n");
        assert!(desk.refuses("cp disk.img disk.img :/", 1).contains("Permission denied"));
    }
}

/// Replaces names in an image without checksums.
fn rename(image: &Path, old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let bytes = fs::read(image).unwrap();
    let places: Vec<usize> = (0..bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    assert!(!places.is_empty());
    let file = fs::File::options().write(true).open(image).unwrap();
    places.iter().for_each(|&at| file.write_all_at(new, at as u64).unwrap());
}

/// An image may have two entries of one name, the first a symbolic link out of the directory that is copied to, the
/// second a directory or a file.
#[test]
fn copying_out_stays_in_its_directory() {
    let desk = Desk::new();
    let image = desk.at("disk.img");
    fs::remove_file(&image).unwrap();
    Volume::format(
        &image,
        &FormatOptions::new().size(16 << 20).features("^metadata_csum,^metadata_csum_seed,^dir_index"),
    )
    .unwrap();
    let volume = Volume::open(&image).unwrap();
    let outside = desk.at("outside");
    fs::create_dir(&outside).unwrap();
    volume.create_dir("/d").unwrap();
    volume.symlink(&outside, "/d/aaaaaaa1").unwrap();
    volume.create_dir("/d/aaaaaaa2").unwrap();
    volume.write("/d/aaaaaaa2/evil", b"evil").unwrap();
    volume.symlink(outside.join("evil"), "/d/bbbbbbb1").unwrap();
    volume.write("/d/bbbbbbb2", b"evil").unwrap();
    volume.close().unwrap();
    rename(&image, b"aaaaaaa2", b"aaaaaaa1");
    rename(&image, b"bbbbbbb2", b"bbbbbbb1");
    let names: Vec<_> = {
        let volume = Volume::open_with(&image, &ondol::Options::default().with_read_only(true)).unwrap();
        volume
            .read_dir("/d")
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|e| (e.file_name(), e.file_type().unwrap()))
            .collect()
    };
    assert_eq!(names.iter().filter(|(name, _)| name == "aaaaaaa1").count(), 2, "{names:?}");
    assert!(names.iter().any(|(_, kind)| *kind == FileType::Directory));
    for how in ["-r", "-a"] {
        let mut command = desk.ondol(&["cp", how, "disk.img", ":/d", "out"]);
        let code = output(&mut command).status.code();
        assert!(code == Some(0) || code == Some(1));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "written outside with {how}");
        let _ = fs::remove_dir_all(desk.at("out"));
    }
}

/// A directory that names itself below itself.
#[test]
fn a_tree_that_goes_round_comes_to_an_end() {
    let desk = Desk::new();
    let image = desk.at("disk.img");
    let features = "^metadata_csum,^metadata_csum_seed,^dir_index";
    fs::remove_file(&image).unwrap();
    Volume::format(&image, &FormatOptions::new().size(16 << 20).features(features)).unwrap();
    let volume = Volume::open(&image).unwrap();
    volume.create_dir_all("/top/below/deepest").unwrap();
    volume.write("/top/below/file", b"text").unwrap();
    let ino = |path: &str| volume.metadata(path).unwrap().ino();
    let (top, deepest) = (ino("/top"), ino("/top/below/deepest"));
    volume.close().unwrap();
    // An entry is the number of its inode, its own length, the length of its name, a type, and the name.
    let end = [&[7, 2][..], b"deepest"].concat();
    let bytes = fs::read(&image).unwrap();
    let is_there = |at: &usize| bytes[*at..].starts_with(&deepest.to_le_bytes()) && bytes[at + 6..].starts_with(&end);
    // Its directory, and what the journal has of that.
    let places: Vec<usize> = (0..bytes.len() - 20).filter(is_there).collect();
    assert!(!places.is_empty());
    let file = fs::File::options().write(true).open(&image).unwrap();
    places.iter().for_each(|at| file.write_all_at(&top.to_le_bytes(), *at as u64).unwrap());
    let out = output(&mut desk.ondol(&["ls", "-R", "disk.img", "/top"]));
    let (listed, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(1));
    assert!(listed.contains("/top/below:\n") && said.contains("/top/below/deepest: this directory has a second name"));
    let said = fails(&mut desk.ondol(&["cp", "-r", "disk.img", ":/top", "out"]), 1);
    assert!(said.contains("was copied already"), "{said}");
    assert_eq!(fs::read(desk.at("out/below/file")).unwrap(), b"text");
    let volume = Volume::open(&image).unwrap();
    let said = volume.remove_dir_all("/top").expect_err("an endless tree").to_string();
    assert!(said.contains("/top/below/deepest") && said.contains("it lies below itself"), "{said}");
    volume.close().unwrap();
}
