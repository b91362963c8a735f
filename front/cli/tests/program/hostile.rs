//! Names, labels and paths that mean the reader's terminal: whatever is in an image or on the command line, what is
//! printed is text.

use crate::place::{Place, ondol};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

/// Clears a screen, forges a line, writes backwards, and is no UTF-8.
const NAME: &[u8] = b"a\x1b[2J\nclean, 0 problems\r\xff\xe2\x80\xaeb\x7f\xc2\x9b1m";
const SHOWN: &str = "a^[[2J^Jclean, 0 problems^MM-^?M-bM-^@M-.b^?M-BM-^[1m";

fn run(args: &[&str], target: &Path) -> (Output, String) {
    let out = ondol().args(args).arg(target).env("ONDOL_LOG", "info").output().unwrap();
    let text = String::from_utf8([&out.stdout[..], &out.stderr[..]].concat()).expect("UTF-8");
    let strange = text.chars().find(|&c| c != '\n' && !ondol::is_printable(c));
    assert_eq!(strange, None, "{args:?}: {text:?}");
    (out, text)
}

/// Replaces every `old` in the file by `new`, of the same length; how many there were.
fn replace(path: &Path, old: &[u8], new: &[u8]) -> usize {
    assert_eq!(old.len(), new.len());
    let bytes = fs::read(path).unwrap();
    let places: Vec<usize> = (0..bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    let file = File::options().write(true).open(path).unwrap();
    places.iter().for_each(|&at| file.write_all_at(new, at as u64).unwrap());
    places.len()
}

#[test]
fn nothing_in_an_image_or_a_path_is_printed_raw() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(OsStr::from_bytes(b"image\x1b]0;owned\x07\nimage: clean"));
    let plain = vec![b'x'; NAME.len()];
    let label = "lab\x1b[31m\nel\u{9b}2J";
    // Without checksums, so that what is changed below is what is found.
    let (made, said) =
        run(&["mkfs", "--size", "16M", "-b", "1024", "-O", "^metadata_csum,^metadata_csum_seed", "-L", label], &path);
    assert!(made.status.success(), "{said}");
    let volume = ondol::Volume::open(&path).unwrap();
    let name = Path::new("/").join(OsStr::from_bytes(&plain));
    volume.write(&name, b"text").unwrap();
    volume.hard_link(&name, Path::new("/").join(OsStr::from_bytes(NAME))).unwrap();
    volume.close().unwrap();
    // One name is there twice then: a problem with a name in it.
    assert!(replace(&path, &plain, NAME) > 0);

    let (out, said) = run(&["check", "-n"], &path);
    assert_eq!(out.status.code(), Some(4), "{said}");
    assert!(said.contains(&format!("'{SHOWN}'")), "{said}");
    assert!(said.lines().all(|line| !line.starts_with("clean") && !line.starts_with("image:")), "{said}");

    let (out, said) = run(&["info"], &path);
    assert!(out.status.success() && said.contains("lab^[[31m^JelM-BM-^[2J"), "{said}");
    let (_, said) = run(&["info", "--json"], &path);
    let json: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(json["label"], label);
    assert_eq!(said.lines().count(), 1);
    // A label that is no text.
    replace(&path, b"lab\x1b[31m", b"lab\xff\xfe\x1b\n!");
    let (_, said) = run(&["info", "--json"], &path);
    let json: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert!(json["label"].as_str().is_some_and(|label| label.starts_with("labM-^?M-~^[^J!")), "{said}");

    let absent = dir.path().join(OsStr::from_bytes(NAME));
    for args in
        [&["info"][..], &["check"], &["recover"], &["recover", "--force"], &["mkfs"], &["tune", "--data", "journal"]]
    {
        let (out, said) = run(args, &absent);
        assert!(!out.status.success() && said.lines().count() == 1, "{args:?}: {said}");
    }
    let (out, said) = run(&["mkfs"], &path);
    assert!(out.status.code() == Some(1) && said.lines().count() == 1, "{said}");
    let (out, said) = run(&["recover"], &path);
    let shown = String::from_utf8(out.stdout).expect("UTF-8");
    assert!(out.status.success() && shown.lines().last().is_some_and(|line| line.ends_with("; clean")), "{said}");
    // What is logged has the name, too.
    assert!(said.contains(": opened, journal ") && said.contains(": closed, clean\n"), "{said}");
}

#[test]
fn who_stops_reading_gets_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    assert!(ondol().args(["mkfs", "--size", "16M"]).arg(&image).status().unwrap().success());
    let script = "\"$1\" info --json \"$2\" 2>\"$3\" | true";
    let said = dir.path().join("said");
    // Where something is mounted, a child of the program does the work.
    let mounted = Place::mounted("rw");
    for _ in 0..5 {
        let program = env!("CARGO_BIN_EXE_ondol");
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "-", program]).args([&image, &said]);
        assert!(shell.status().unwrap().success());
        assert_eq!(fs::read_to_string(&said).unwrap(), "");
    }
    if let Some(place) = mounted {
        place.umount();
    }
}
