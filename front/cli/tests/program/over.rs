//! Making something in a pool that has changes of an image elsewhere, or an image of its own: refused with the command
//! that helps, and with `-F` it is said what is lost.

use crate::place::{Place, fails, ondol, succeeds};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;

fn pool(place: &Place, size: &str) -> PathBuf {
    let pool = place.image().with_file_name("pool");
    succeeds(ondol().args(["pool", "create", "--size", size]).arg(&pool));
    pool
}

fn in_pool(pool: &Path) -> PathBuf {
    format!("nvm:{}", pool.display()).into()
}

fn option(pool: &Path) -> String {
    format!("nvm={}", pool.display())
}

fn end(server: &mut Child) {
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Serves the image with the pool in front of it, makes files durable, and kills the server.
fn lose(place: &mut Place, pool: &Path, files: u32) {
    let server = place.serve_on(&option(pool));
    kill(place, server, files);
}

fn kill(place: &mut Place, server: usize, files: u32) {
    for n in 0..files {
        let mut file = File::create(place.on(&format!("file{n}"))).unwrap();
        file.write_all(&[7; 9000]).unwrap();
        file.sync_all().unwrap();
    }
    end(place.server(server));
    place.umount();
}

fn info(words: &[&str], of: &Path) -> serde_json::Value {
    serde_json::from_str(&succeeds(ondol().args(words).arg("--json").arg(of))).unwrap()
}

/// Refused with each of `said`, on one line, and nothing is changed.
fn refused(words: &[&OsStr], pool: &Path, said: &[&str]) {
    let before = fs::read(pool).unwrap();
    let found = fails(ondol().args(words), 1);
    let is_all = said.iter().all(|said| found.contains(said));
    assert!(is_all && found.lines().count() == 1, "{words:?}: {found:?} is not {said:?}");
    assert!(fs::read(pool).unwrap() == before, "{words:?}");
}

fn words<'w>(first: &[&'w str], last: &'w Path) -> Vec<&'w OsStr> {
    first.iter().copied().map(OsStr::new).chain([last.as_os_str()]).collect()
}

#[test]
fn a_pool_that_has_nothing_of_anybody_is_taken() {
    let Some(place) = Place::new() else { return };
    let pool = pool(&place, "64M");
    let said = succeeds(ondol().arg("mkfs").arg(in_pool(&pool)));
    assert!(!said.contains("given up"), "{said}");
    // One that stood in front of an image has no room; nothing is lost with it.
    succeeds(ondol().args(["pool", "create", "-F"]).arg(&pool));
    place.mount(&option(&pool));
    place.umount();
    for force in [&["mkfs"][..], &["mkfs", "-F"], &["mkfs", "-F", "--size", "16M"]] {
        refused(&words(force, &in_pool(&pool)), &pool, &["in front of an image", "ondol pool create -F"]);
    }
    let said = succeeds(ondol().args(["pool", "create", "-F"]).arg(&pool));
    assert!(!said.contains("given up"), "{said}");
    succeeds(ondol().arg("mkfs").arg(in_pool(&pool)));
}

#[test]
fn changes_that_only_the_pool_has_are_kept_or_given_up_by_name() {
    let Some(mut place) = Place::new() else { return };
    let (pool, image) = (pool(&place, "64M"), place.image());
    let target = in_pool(&pool);
    lose(&mut place, &pool, 2);
    let uuid = info(&["info"], &image)["uuid"].as_str().unwrap().to_owned();
    let helps = format!("ondol recover --nvm {} IMAGE", pool.display());
    let said = [uuid.as_str(), "commits of the volume", &helps, "-F"];
    refused(&words(&["mkfs"], &target), &pool, &said);
    refused(&words(&["mkfs", "--size", "16M"], &target), &pool, &said);
    refused(&words(&["mkfs"], &pool), &pool, &said);
    refused(&words(&["pool", "create"], &pool), &pool, &said);
    let other = place.image().with_file_name("other.img");
    succeeds(ondol().args(["mkfs", "--size", "8M", "-b", "4096"]).arg(&other));
    refused(&[OsStr::new("import"), other.as_os_str(), target.as_os_str()], &pool, &said);
    // By force, too, there is no room; and all of that has cost nothing.
    refused(&words(&["mkfs", "-F"], &target), &pool, &["ondol pool create -F"]);
    succeeds(ondol().args(["recover", "--nvm"]).arg(&pool).arg(&image));
    place.mount("rw");
    assert!((0..2).all(|n| fs::read(place.on(&format!("file{n}"))).unwrap() == [7; 9000]));
    place.umount();
    for command in [&["pool", "create", "-F"][..], &["mkfs", "-F"]] {
        succeeds(ondol().args(["pool", "create", "-F"]).arg(&pool));
        lose(&mut place, &pool, 3);
        let said = succeeds(ondol().args(command).arg(&pool));
        let is_told = said.contains(&uuid) && said.contains("given up: ") && said.contains("operations, which changed");
        assert!(is_told && said.contains("between"), "{command:?}: {said}");
        succeeds(ondol().args(["recover", "--discard-nvm"]).arg(&image));
        let checked = std::process::Command::new("e2fsck").args(["-fy"]).arg(&image).output().unwrap();
        assert!(checked.status.code().is_some_and(|code| code < 4), "{checked:?}");
        fs::remove_file(&pool).unwrap();
        succeeds(ondol().args(["pool", "create", "--size", "64M"]).arg(&pool));
    }
}

/// An image whose server was killed before anything was done: it still names the pool, and takes no other.
#[test]
fn a_pool_that_an_image_names_is_not_taken_from_it() {
    let Some(mut place) = Place::new() else { return };
    let pool = pool(&place, "64M");
    lose(&mut place, &pool, 0);
    let uuid = info(&["info"], &place.image())["uuid"].as_str().unwrap().to_owned();
    refused(&words(&["mkfs"], &in_pool(&pool)), &pool, &[&uuid, "ondol recover --nvm"]);
    place.mount(&option(&pool));
    place.umount();
    place.is_clean();
}

/// A pool with an image of its own that also stands in front of another one.
#[test]
fn both_images_are_named() {
    let Some(mut place) = Place::new() else { return };
    let (pool, image) = (pool(&place, "64M"), place.image());
    let target = in_pool(&pool);
    succeeds(ondol().args(["mkfs", "--size", "16M", "-L", "inside"]).arg(&target));
    let (inside, outside) = (info(&["info"], &target)["uuid"].clone(), info(&["info"], &image)["uuid"].clone());
    let (inside, outside) = (inside.as_str().unwrap(), outside.as_str().unwrap());
    refused(&words(&["mkfs"], &target), &pool, &["an image under a page table", "-F"]);
    lose(&mut place, &pool, 1);
    refused(&words(&["mkfs"], &target), &pool, &["under a page table, and", outside, "ondol recover --nvm", "-F"]);
    let said = succeeds(ondol().args(["mkfs", "-F", "-L", "new"]).arg(&target));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains("given up: the image \"inside\"") && lines[0].contains(inside), "{said}");
    assert!(lines[1].contains("given up: ") && lines[1].contains(outside) && lines[1].contains("operation"), "{said}");
    assert_eq!(info(&["info"], &target)["label"], "new");
    // What was durable is lost, and a checkpoint may have been under way: nobody takes the other image for one that has
    // lost nothing.
    for refused in [place.mount_command().arg("-o").arg(option(&pool)), place.mount_command().args(["-o", "rw"])] {
        let said = fails(refused, 32);
        assert!(said.contains("another time") || said.contains("nvm=POOL"), "{said}");
    }
    let said = fails(ondol().args(["recover", "--nvm"]).arg(&pool).arg(&image), 1);
    assert!(said.contains("another time"), "{said}");
    succeeds(ondol().args(["recover", "--discard-nvm"]).arg(&image));
    let checked = std::process::Command::new("e2fsck").args(["-fy"]).arg(&image).output().unwrap();
    assert!(checked.status.code().is_some_and(|code| code < 4), "{checked:?}");
    place.mount("rw");
    place.umount();
}

/// What the image in the pool itself has not at home is brought there by another command than that of an image
/// elsewhere, and goes with it.
#[test]
fn an_image_of_its_own_is_recovered_by_its_own_name() {
    let Some(mut place) = Place::new() else { return };
    let pool = pool(&place, "64M");
    let target = in_pool(&pool);
    succeeds(ondol().args(["mkfs", "--size", "16M"]).arg(&target));
    let server = place.serve_target(&target, "rw");
    kill(&mut place, server, 2);
    let helps = format!("`ondol recover {}` brings home what is left", target.display());
    refused(&words(&["mkfs"], &target), &pool, &["under a page table, and", &helps, "-F"]);
    succeeds(ondol().arg("recover").arg(&target));
    refused(&words(&["mkfs"], &target), &pool, &["an image under a page table", "-F"]);
    let said = succeeds(ondol().args(["mkfs", "-F"]).arg(&target));
    assert!(said.contains("given up: the image") && !said.contains("takes no other pool"), "{said}");
}
