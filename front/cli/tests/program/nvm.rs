//! Volumes with an NVM pool in front: mounted, lost, recovered, refused, given up.

use crate::place::{Place, fails, fsck, ondol, succeeds};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

/// A new pool in the same directory.
fn pool(place: &Place, name: &str) -> PathBuf {
    let pool = place.image().with_file_name(name);
    succeeds(ondol().args(["pool", "create", "--size", "64M"]).arg(&pool));
    pool
}

fn option(pool: &std::path::Path) -> String {
    format!("nvm={}", pool.display())
}

fn durable(place: &Place, name: &str, bytes: &[u8]) {
    let mut file = File::create(place.on(name)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

/// Serves with the pool, makes a file durable, and kills the server.
fn lose(place: &mut Place, pool: &std::path::Path, name: &str) {
    let server = place.serve_on(&option(pool));
    durable(place, name, &[7; 70_000]);
    place.server(server).kill().unwrap();
    place.server(server).wait().unwrap();
    place.umount();
}

fn info(words: &[&str], of: &std::path::Path) -> serde_json::Value {
    serde_json::from_str(&succeeds(ondol().args(words).arg("--json").arg(of))).unwrap()
}

#[test]
fn a_clean_image_needs_no_pool() {
    let Some(place) = Place::new() else { return };
    let pool = pool(&place, "pool");
    place.mount(&option(&pool));
    durable(&place, "a", b"in the pool");
    let told = info(&["info", "--stats"], &place.mount_point());
    assert_eq!(told["mount"]["engine"], "scalable");
    assert!(told["mount"]["survives"].as_str().unwrap().contains("what is stored here"), "{told}");
    assert!(told["counters"]["log_lines"].as_u64().unwrap() > 2 && told["counters"]["commits"].as_u64().unwrap() > 0);
    place.umount();
    place.is_clean();
    assert_eq!(info(&["pool", "info"], &pool)["volume"], serde_json::Value::Null);
    fs::remove_file(&pool).unwrap();
    place.mount("rw");
    assert_eq!(fs::read(place.on("a")).unwrap(), b"in the pool");
    place.umount();
}

#[test]
fn what_was_synced_is_there_again() {
    let Some(mut place) = Place::new() else { return };
    let pool = pool(&place, "pool");
    lose(&mut place, &pool, "lost");
    let told = info(&["info"], &place.image());
    assert_eq!((&told["state"], &told["journal"]["nvm"]), (&"dirty".into(), &info(&["pool", "info"], &pool)["uuid"]));
    // Nobody takes it without the pool, or with another.
    let uuid = told["journal"]["nvm"].as_str().unwrap().to_owned();
    let said = fails(place.mount_command().arg("-o").arg("rw"), 32);
    assert!(said.contains(&uuid) && said.contains("nvm=POOL"), "{said}");
    assert!(fsck(&place.image()).is_none_or(|(code, _)| code != Some(0)));
    let other = crate::nvm::pool(&place, "other");
    let said = fails(place.mount_command().arg("-o").arg(option(&other)), 32);
    assert!(said.contains(&uuid), "{said}");
    assert!(fails(ondol().arg("recover").arg(place.image()), 1).contains(&uuid));
    // Read only it is read with the pool, and neither of them is changed.
    let before = (fs::read(place.image()).unwrap(), fs::read(&pool).unwrap());
    place.mount(&format!("ro,{}", option(&pool)));
    assert_eq!(fs::read(place.on("lost")).unwrap(), [7; 70_000]);
    place.umount();
    assert!(before == (fs::read(place.image()).unwrap(), fs::read(&pool).unwrap()));
    let said = succeeds(ondol().args(["recover", "--nvm"]).arg(&pool).arg(place.image()));
    assert!(said.contains("clean") && !said.contains(" 0 transactions"), "{said}");
    place.is_clean();
    place.mount("rw");
    assert_eq!(fs::read(place.on("lost")).unwrap(), [7; 70_000]);
    place.umount();
}

#[test]
fn a_mount_with_the_pool_recovers() {
    let Some(mut place) = Place::new() else { return };
    let pool = pool(&place, "pool");
    for name in ["a", "b", "c"] {
        lose(&mut place, &pool, name);
    }
    place.mount(&option(&pool));
    for name in ["a", "b", "c"] {
        assert_eq!(fs::read(place.on(name)).unwrap(), [7; 70_000]);
    }
    place.umount();
    place.is_clean();
}

/// Changes one byte in the middle of what `needle` is repeated in.
fn damage(pool: &std::path::Path, needle: &[u8]) {
    let mut bytes = fs::read(pool).unwrap();
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("it is in the log");
    bytes[at + needle.len() / 2] ^= 1;
    fs::write(pool, bytes).unwrap();
}

#[test]
fn a_damaged_log_is_recovered_up_to_there_by_force() {
    let Some(mut place) = Place::new() else { return };
    let pool = pool(&place, "pool");
    let server = place.serve_on(&option(&pool));
    durable(&place, "before", &[0xB3; 200]);
    durable(&place, "damaged", &[0xD4; 200]);
    durable(&place, "behind", &[0xE5; 200]);
    place.server(server).kill().unwrap();
    place.server(server).wait().unwrap();
    place.umount();
    damage(&pool, &[0xD4; 150]);
    let image = place.image();
    let with_pool = |words: &[&str]| {
        let mut command = ondol();
        command.arg("recover").args(words).arg("--nvm").arg(&pool).arg(&image);
        command
    };
    let before = fs::read(&image).unwrap();
    let said = fails(&mut with_pool(&[]), 1);
    assert!(said.contains("a record is not whole") && said.contains("--force"), "{said}");
    assert!(fs::read(&image).unwrap() == before, "nothing is changed without --force");
    let said = succeeds(&mut with_pool(&["--force"]));
    assert!(said.contains("given up: the log of") && said.contains("are lost"), "{said}");
    assert!(said.contains("e2fsck"), "{said}");
    // Image and pool need each other no more; the image says that it has errors until e2fsck has looked.
    fs::remove_file(&pool).unwrap();
    let checked = std::process::Command::new("e2fsck").args(["-fy"]).arg(&image).output().unwrap();
    assert!(checked.status.code().is_some_and(|code| code <= 1), "{checked:?}");
    place.mount("rw");
    assert_eq!(fs::read(place.on("before")).unwrap(), [0xB3; 200]);
    assert!(!place.on("behind").exists());
    place.umount();
    place.is_clean();
}

/// What lies in a page of the pool is no part of the log: when it is damaged, that file's data is lost, and nothing
/// else.
#[test]
fn a_damaged_page_costs_its_file_alone() {
    let Some(mut place) = Place::new() else { return };
    let pool = pool(&place, "pool");
    let server = place.serve_on(&option(&pool));
    durable(&place, "before", &[0xB3; 3000]);
    durable(&place, "damaged", &[0xD4; 3000]);
    durable(&place, "behind", &[0xE5; 3000]);
    place.server(server).kill().unwrap();
    place.server(server).wait().unwrap();
    place.umount();
    damage(&pool, &[0xD4; 500]);
    let image = place.image();
    let recover = |words: &[&str]| {
        let mut command = ondol();
        command.arg("recover").args(words).arg("--nvm").arg(&pool).arg(&image);
        command
    };
    let before = fs::read(&image).unwrap();
    let said = fails(&mut recover(&[]), 1);
    assert!(said.contains("file data of block") && said.contains("--force"), "{said}");
    assert!(fs::read(&image).unwrap() == before, "nothing is changed without --force");
    let said = succeeds(&mut recover(&["--force"]));
    assert!(said.contains("file data of one block is lost"), "{said}");
    let checked = std::process::Command::new("e2fsck").args(["-fy"]).arg(&image).output().unwrap();
    assert!(checked.status.code().is_some_and(|code| code <= 1), "{checked:?}");
    place.mount("rw");
    assert_eq!(fs::read(place.on("before")).unwrap(), [0xB3; 3000]);
    assert_ne!(fs::read(place.on("damaged")).unwrap(), [0xD4; 3000]);
    assert_eq!(fs::read(place.on("behind")).unwrap(), [0xE5; 3000]);
    place.umount();
    place.is_clean();
}

#[test]
fn a_lost_pool_is_given_up_by_name() {
    let Some(mut place) = Place::new() else { return };
    let pool = pool(&place, "pool");
    place.mount("rw");
    durable(&place, "home", b"stays");
    place.umount();
    let refused = fails(ondol().args(["recover", "--discard-nvm"]).arg(place.image()), 1);
    assert!(refused.contains("nothing in an NVM pool"), "{refused}");
    lose(&mut place, &pool, "lost");
    let said = succeeds(ondol().args(["recover", "--discard-nvm", "--nvm"]).arg(&pool).arg(place.image()));
    assert!(
        said.contains("given up") && said.contains("inodes that they changed: 2") && said.contains("e2fsck"),
        "{said}"
    );
    if let Some((_, said)) = fsck(&place.image()) {
        assert!(!said.contains("unsupported"), "{said}");
        let mended = std::process::Command::new("e2fsck").arg("-fy").arg(place.image()).output().unwrap();
        assert!(mended.status.code().is_some_and(|code| code < 4), "{mended:?}");
        place.is_clean();
        place.mount("rw");
        assert_eq!(fs::read(place.on("home")).unwrap(), b"stays");
        place.umount();
    }
    // The pool's changes are of a volume that does not know of them any more.
    let said = fails(place.mount_command().arg("-o").arg(option(&pool)), 32);
    assert!(said.contains("another time"), "{said}");
}

#[test]
fn wrong_calls_are_refused() {
    let Some(place) = Place::new() else { return };
    let pool = pool(&place, "pool");
    let text = place.image().with_file_name("text");
    fs::write(&text, vec![b'x'; 1 << 20]).unwrap();
    for (options, said) in [
        ("journal=scalable".to_owned(), "needs an NVM pool"),
        (format!("journal=classic,{}", option(&pool)), "goes with `journal=scalable`"),
        (option(&text), "is no pool"),
        (option(&place.image().with_file_name("missing")), "missing"),
    ] {
        let found = fails(place.mount_command().arg("-o").arg(&options), 32);
        assert!(found.contains(said), "{options}: {found}");
        place.is_clean();
    }
    let said = fails(ondol().args(["tune", "--journal", "scalable"]).arg(place.image()), 1);
    assert!(said.contains("(mount option `nvm=POOL`)"), "{said}");
    place.mount(&option(&pool));
    let elsewhere = Place::new().unwrap();
    let said = fails(elsewhere.mount_command().arg("-o").arg(option(&pool)), 32);
    assert!(said.contains("in use"), "{said}");
    place.umount();
}
