//! A mount whose files are closed is free at once. One test, one thread: no child of another has copies of its files.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

#[allow(dead_code, reason = "shared with the tests of the program")]
#[path = "program/place.rs"]
mod place;

use std::path::Path;

/// The program under test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ondol"))
}

use place::{Place, eventually, ondol, succeeds};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Command;

#[test]
fn a_mount_is_free_when_its_files_are_closed() {
    let Some(place) = Place::new() else { return };
    for round in 0..20 {
        place.mount("rw");
        let mut file = File::create(place.on("file")).unwrap();
        file.write_all(&[round; 100_000]).unwrap();
        let gone = File::create(place.on("gone")).unwrap();
        fs::remove_file(place.on("gone")).unwrap();
        let mut again = File::open(place.on("file")).unwrap();
        again.read_exact(&mut [0; 1000]).unwrap();
        assert!(fs::read_dir(place.mount_point()).unwrap().count() >= 1);
        succeeds(ondol().arg("info").arg(place.mount_point()));
        drop((file, gone, again));
        succeeds(ondol().args(["umount", "--wait"]).arg(place.mount_point()));
        assert!(place.is_unlocked());
    }
    // Whoever is about to let go of it is waited for.
    for how in ["exec 3> \"$0/file\"; sleep 0.3", "cd \"$0\"; sleep 0.3"] {
        place.mount("rw");
        let mut user = Command::new("sh").args(["-c", &format!("{how}; :")]).arg(place.mount_point()).spawn().unwrap();
        let uses = format!("/proc/{}", user.id());
        let on = |link: &str| fs::read_link(format!("{uses}/{link}")).is_ok_and(|p| p.starts_with(place.mount_point()));
        assert!(eventually(|| on("fd/3") || on("cwd")));
        succeeds(ondol().args(["umount", "--wait"]).arg(place.mount_point()));
        user.wait().unwrap();
    }
    place.is_clean();
}
