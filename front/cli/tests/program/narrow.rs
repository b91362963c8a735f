//! Programs whose positions in listings have 32 bits.

use crate::place::{Place, output, succeeds};
use ondol_skips::{missing, skip, skips};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Names in a directory: none of them has the hash of another, by this seed.
const NAMES: usize = 2000;
const SEED: &str = "hash_seed=fedcba98-7654-3210-fedc-ba9876543210";

/// A mount with a directory of so many names; `None`, noted as skipped, where there can be none.
fn filled() -> Option<Place> {
    if skips(missing(&["mke2fs"])) {
        return None;
    }
    let place = Place::new()?;
    let mke2fs = ondol_skips::find("mke2fs")?;
    succeeds(Command::new(mke2fs).args(["-q", "-F", "-t", "ext4", "-E", SEED]).arg(place.image()));
    place.mount("rw");
    fs::create_dir(place.on("dir")).unwrap();
    for n in 0..NAMES {
        File::create(place.on(&format!("dir/file {n:04}"))).unwrap();
    }
    Some(place)
}

#[test]
fn positions_of_a_listing_fit_into_31_bits() {
    let Some(place) = filled() else { return };
    let dir = File::open(place.on("dir")).unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); 4096];
    let mut listed = rustix::fs::RawDir::new(&dir, &mut space);
    let mut positions = std::collections::BTreeSet::new();
    while let Some(entry) = listed.next() {
        positions.insert(entry.unwrap().next_entry_cookie());
    }
    assert_eq!(positions.len(), NAMES + 2);
    assert!(positions.last().is_some_and(|last| *last < 1 << 31), "{:#x?}", positions.last());
    drop(dir);
    place.umount();
}

#[test]
fn a_32_bit_program_lists_and_seeks() {
    if skips(missing(&["cc"])) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join("narrow");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/narrow.c");
    if !output(Command::new("cc").args(["-m32", "-O1", "-o"]).arg(&program).arg(source)).status.success() {
        return skip("cc makes no 32-bit programs here");
    }
    let Some(place) = filled() else { return };
    for dir in ["dir", "lost+found", "."] {
        let said = succeeds(Command::new(&program).arg(place.on(dir)));
        let expected = fs::read_dir(place.on(dir)).unwrap().count() + 2;
        assert_eq!(said.trim(), expected.to_string(), "{dir}");
    }
    place.umount();
    place.is_clean();
}
