//! Damaged images on a mount: what cannot be read is named, and whoever asks for it learns that it cannot be read.

use crate::place::{Place, output, succeeds};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

const NAMES: [&str; 5] = ["a", "damaged", "m", "sub", "z"];

/// debugfs(8) on the image that is not mounted; `None`, with a line that says so, where it is not installed.
fn debugfs(place: &Place, write: bool, request: &str) -> Option<String> {
    let mut command = Command::new("debugfs");
    command.args(write.then_some("-w")).args(["-R", request]).arg(place.image()).stdin(Stdio::null());
    match command.output() {
        Ok(out) => Some(String::from_utf8_lossy(&out.stdout).into_owned()),
        Err(e) => {
            ondol_skips::skip(format!("no debugfs: {e}"));
            None
        }
    }
}

/// Where in the image the inode of `name` is, in bytes.
fn place_of_inode(place: &Place, name: &str) -> Option<u64> {
    let said = debugfs(place, false, &format!("imap /d/{name}"))?;
    // "Inode 14 is part of block group 0", "located at block 35, offset 0x0d00".
    let (_, at) = said.split_once("located at block ").unwrap_or_else(|| panic!("no place: {said}"));
    let (block, offset) = at.trim().split_once(", offset 0x").unwrap();
    let (block, offset) = (block.parse::<u64>().unwrap(), u64::from_str_radix(offset, 16).unwrap());
    let stats = succeeds(Command::new("dumpe2fs").arg("-h").arg(place.image()).stderr(Stdio::null()));
    let size = stats.lines().find_map(|line| line.strip_prefix("Block size:")).unwrap();
    Some(block * size.trim().parse::<u64>().unwrap() + offset)
}

/// A shell line in the directory; its code and both outputs.
fn sh(place: &Place, line: &str) -> (Option<i32>, String) {
    let out = output(Command::new("sh").args(["-c", line]).current_dir(place.on("d")).env("LC_ALL", "C"));
    (out.status.code(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

#[test]
fn a_name_is_listed_whatever_is_behind_it() {
    // No such inode is in use; one that is not what its checksum says; one of no type; one without names; one beyond
    // all.
    for damage in ["clri", "checksum", "mode", "links", "free"] {
        for form in [&["-O", "metadata_csum"][..], &["-O", "^filetype,^metadata_csum"]] {
            if damage == "checksum" && form.contains(&"^filetype,^metadata_csum") {
                continue;
            }
            let Some(place) = Place::new() else { return };
            let made = Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).args(form).arg(place.image()).output();
            if let Err(e) = made {
                return ondol_skips::skip(format!("no mke2fs: {e}"));
            }
            place.mount("rw");
            fs::create_dir(place.on("d")).unwrap();
            for name in NAMES {
                if name == "sub" {
                    fs::create_dir(place.on("d/sub"))
                } else {
                    fs::write(place.on(&format!("d/{name}")), b"text")
                }
                .unwrap();
            }
            place.umount();
            let Some(at) = place_of_inode(&place, "damaged") else { return };
            match damage {
                "checksum" => {
                    // A byte of a time, which may be any.
                    let image = File::options().read(true).write(true).open(place.image()).unwrap();
                    let mut byte = [0];
                    image.read_exact_at(&mut byte, at + 8).unwrap();
                    image.write_all_at(&[byte[0] ^ 0x5a], at + 8).unwrap();
                }
                "clri" => drop(debugfs(&place, true, "clri /d/damaged")),
                "mode" => drop(debugfs(&place, true, "sif /d/damaged mode 0")),
                "links" => drop(debugfs(&place, true, "sif /d/damaged links_count 0")),
                _ => {
                    debugfs(&place, true, "unlink /d/damaged");
                    debugfs(&place, true, "ln <4000> /d/damaged");
                }
            }
            place.mount("ro");
            let what = format!("{damage} {form:?}");
            for line in ["ls -a", "ls -a", "ls -aU", "find . -maxdepth 1", "echo *"] {
                let (_, said) = sh(&place, line);
                let words: Vec<&str> = said.split_whitespace().map(|w| w.trim_start_matches("./")).collect();
                assert!(NAMES.iter().all(|name| words.contains(name)), "{what}: {line}: {said}");
            }
            for line in [
                "ls -la",
                "stat damaged",
                "cat damaged",
                "find . -ls",
                "tar -cf - . | cat >/dev/null; tar -cf out.tar .",
                "file=$(mktemp); tar -cf \"$file\" damaged; code=$?; rm \"$file\"; exit $code",
            ] {
                let (code, said) = sh(&place, line);
                assert_ne!(code, Some(0), "{what}: {line}");
                assert!(line.contains("tar ") || said.contains("Structure needs cleaning"), "{what}: {line}: {said}");
            }
            let (code, said) = sh(&place, "tar -c . | tar -t; exit $?");
            assert!(said.contains("./z") && code.is_some(), "{what}: {said}");
            let (code, said) = sh(&place, "tar -cf - . 2>&1 >/dev/null");
            assert!(code == Some(2) && said.contains("damaged: "), "{what}: tar ended with {code:?}: {said}");
            assert_eq!(fs::read(place.on("d/z")).unwrap(), b"text");
            place.umount();
        }
    }
}

/// What stands before a damaged part of a directory is listed, and the listing then ends with an error.
#[test]
fn a_damaged_directory_is_listed_up_to_the_damage() {
    let Some(place) = Place::new() else { return };
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^dir_index,^metadata_csum"])
        .arg(place.image())
        .output();
    if let Err(e) = made {
        return ondol_skips::skip(format!("no mke2fs: {e}"));
    }
    place.mount("rw");
    fs::create_dir(place.on("d")).unwrap();
    for n in 0..100 {
        drop(File::create(place.on(&format!("d/a name of some length, number {n:03}"))).unwrap());
    }
    place.umount();
    let Some(blocks) = debugfs(&place, false, "blocks /d") else { return };
    let blocks: Vec<u64> = blocks.split_whitespace().map(|b| b.parse().unwrap()).collect();
    assert!(blocks.len() > 3, "{blocks:?}");
    // The length of the third block's first entry.
    File::options().write(true).open(place.image()).unwrap().write_all_at(&[0, 0], blocks[2] * 1024 + 4).unwrap();
    place.mount("ro");
    let (code, said) = sh(&place, "ls -aU");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("Structure needs cleaning"), "{said}");
    let listed = said.lines().filter(|line| line.starts_with("a name of some length")).count();
    assert!((30..60).contains(&listed), "{listed} names of two blocks");
    place.umount();
}
