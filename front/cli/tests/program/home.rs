//! Images that lie in a pool, under a page table: made, mounted, lost, exported, brought in, refused.

use crate::place::{Place, eventually, fails, fsck, needs_root, ondol, succeeds, transport};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A place whose image lies in a pool.
struct Home {
    place: Place,
    servers: Vec<Child>,
}

impl Home {
    fn new() -> Option<Self> {
        let home = Self { place: Place::new()?, servers: Vec::new() };
        succeeds(ondol().args(["mkfs", "--size", "64M", "-L", "warm"]).arg(home.target()));
        Some(home)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.image().with_file_name(name)
    }

    fn pool(&self) -> PathBuf {
        self.file("pool")
    }

    fn target(&self) -> PathBuf {
        in_pool(&self.pool())
    }

    fn mount_command(&self, options: &str) -> Command {
        let mut command = ondol();
        command.arg("mount").arg(self.target()).arg(self.place.mount_point());
        command.args(["-o", &format!("transport={},{options}", transport())]);
        command
    }

    fn mount(&self, options: &str) {
        succeeds(&mut self.mount_command(options));
    }

    /// Serves, makes a file durable, and kills the server.
    fn lose(&mut self, options: &str, name: &str) {
        let server = self.mount_command(options).arg("-f").stderr(Stdio::null()).spawn().unwrap();
        self.servers.push(server);
        assert!(eventually(|| self.place.is_mounted()), "the server did not mount");
        durable(&self.place, name, &[7; 70_000]);
        let mut server = self.servers.pop().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        self.place.umount();
    }

    /// The exported image, which e2fsck takes.
    fn exported(&self) -> PathBuf {
        let image = self.file("exported.img");
        let _ = fs::remove_file(&image);
        succeeds(ondol().arg("export").arg(self.target()).arg(&image));
        let found = fsck(&image);
        assert!(found.as_ref().is_none_or(|(code, _)| *code == Some(0)), "{found:?}");
        image
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn in_pool(pool: &Path) -> PathBuf {
    format!("nvm:{}", pool.display()).into()
}

fn durable(place: &Place, name: &str, bytes: &[u8]) {
    let mut file = File::create(place.on(name)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

fn info(of: &Path) -> serde_json::Value {
    serde_json::from_str(&succeeds(ondol().args(["info", "--json"]).arg(of))).unwrap()
}

#[test]
fn an_image_lives_in_a_pool_and_leaves_it_again() {
    let Some(home) = Home::new() else { return };
    let told = info(&home.target());
    assert_eq!((&told["label"], &told["state"], &told["block_size"]), (&"warm".into(), &"clean".into(), &4096.into()));
    assert!(told["table"]["pages"].as_u64().unwrap() > told["blocks"].as_u64().unwrap(), "{told}");
    home.mount("rw");
    let text: Vec<u8> = (0..300_000).map(|n| (n / 7) as u8).collect();
    durable(&home.place, "text", &text);
    let mounted = info(&home.place.mount_point());
    assert_eq!(mounted["mount"]["engine"], "remap");
    // By its name, too, the server answers, and nobody else has it.
    assert_eq!(info(&home.target())["state"], "mounted");
    let said = fails(ondol().arg("recover").arg(home.target()), 1);
    assert!(said.contains("in use"), "{said}");
    home.place.umount();
    assert!(succeeds(ondol().arg("check").arg(home.target())).contains("clean"));
    let image = home.exported();
    if needs_root().is_none() {
        let mount = Command::new("mount").args(["-o", "loop,ro"]).arg(&image).arg(home.place.mount_point()).status();
        assert!(mount.unwrap().success());
        let found = fs::read(home.place.on("text"));
        assert!(Command::new("umount").arg(home.place.mount_point()).status().unwrap().success());
        assert!(found.unwrap() == text);
    }
    // And back, into a pool that is made for it.
    let second = in_pool(&home.file("second"));
    succeeds(ondol().arg("import").arg(&image).arg(&second));
    assert!(fails(ondol().arg("import").arg(&image).arg(&second), 1).contains("-F"));
    succeeds(ondol().args(["import", "-F"]).arg(&image).arg(&second));
    let again = home.file("again.img");
    succeeds(ondol().arg("export").arg(&second).arg(&again));
    assert!(fs::read(&again).unwrap() == fs::read(&image).unwrap());
    let said = fails(ondol().arg("export").arg(&second).arg(&again), 1);
    assert!(said.contains("ext4") && said.contains("-F"), "{said}");
}

#[test]
fn what_was_synced_is_there_after_the_server_was_killed() {
    for options in ["rw", "data=ordered", "journal=classic,data=journal", "journal=classic,data=ordered"] {
        let Some(mut home) = Home::new() else { return };
        home.lose(options, "lost");
        assert_eq!(info(&home.target())["state"], "dirty", "{options}");
        // The copy has what the journal holds; the pool is as it was.
        let before = fs::read(home.pool()).unwrap();
        home.exported();
        home.mount("ro");
        assert!(fs::read(home.place.on("lost")).unwrap() == [7; 70_000]);
        home.place.umount();
        assert!(fs::read(home.pool()).unwrap() == before, "{options}");
        let said = succeeds(ondol().arg("recover").arg(home.target()));
        assert!(said.contains("clean") && !said.contains(" 0 transactions"), "{said}");
        home.mount("rw");
        assert!(fs::read(home.place.on("lost")).unwrap() == [7; 70_000], "{options}");
        home.place.umount();
        assert!(succeeds(ondol().args(["check", "-n"]).arg(home.target())).contains("clean"));
    }
}

#[test]
fn damage_of_the_map_is_named_and_nothing_is_written() {
    let Some(home) = Home::new() else { return };
    let pool: serde_json::Value =
        serde_json::from_str(&succeeds(ondol().args(["pool", "info", "--json"]).arg(home.pool()))).unwrap();
    let area = pool["areas"].as_array().unwrap().iter().find(|area| area["kind"] == "page-map").unwrap();
    let at = area["start"].as_u64().unwrap() as usize + 8 * 5;
    let mut bytes = fs::read(home.pool()).unwrap();
    bytes[at + 1] ^= 4;
    fs::write(home.pool(), &bytes).unwrap();
    let to = home.file("copy.img");
    let mut commands = [
        (ondol(), vec!["check"], 8),
        (ondol(), vec!["check", "-n"], 8),
        (ondol(), vec!["info"], 1),
        (ondol(), vec!["recover"], 1),
        (ondol(), vec!["export"], 1),
    ];
    for (command, words, code) in &mut commands {
        command.args(words.iter()).arg(home.target());
        if words[0] == "export" {
            command.arg(&to);
        }
        let said = fails(command, *code);
        assert!(said.contains("the entry of block 5") && said.contains("restore the pool"), "{words:?}: {said}");
    }
    let said = fails(&mut home.mount_command("rw"), 32);
    assert!(said.contains("the entry of block 5"), "{said}");
    assert!(fs::read(home.pool()).unwrap() == bytes && !to.exists());
}

#[test]
fn a_pool_shares_its_room_and_wrong_calls_are_refused() {
    let Some(home) = Home::new() else { return };
    let (small, none, text) = (home.file("small"), home.file("none"), home.file("text"));
    succeeds(ondol().args(["pool", "create", "--size", "6M"]).arg(&small));
    fs::write(&text, vec![b'x'; 1 << 20]).unwrap();
    let before = fs::read(&small).unwrap();
    for (words, target, code, said) in [
        (vec!["info"], &small, 1, "holds no image"),
        (vec!["mkfs", "--size", "64M"], &small, 1, "has room for an image of"),
        (vec!["mkfs"], &small, 2, "too small"),
        (vec!["mkfs"], &none, 2, "--size SIZE"),
        (vec!["mkfs", "-b", "1024", "--size", "8M"], &none, 2, "blocks of 4096 bytes"),
        (vec!["mkfs"], &text, 1, "is no pool"),
        (vec!["mkfs"], &home.pool(), 1, "-F"),
        (vec!["check"], &none, 8, "No such file"),
    ] {
        let found = fails(ondol().args(&words).arg(in_pool(target)), code);
        assert!(found.contains(said) && found.lines().count() == 1, "{words:?} {target:?}: {found}");
    }
    assert!(fs::read(&small).unwrap() == before && !none.exists(), "nothing is made, nothing is changed");
    // An image with smaller blocks, and a target that is no pool.
    let image = home.place.image();
    succeeds(ondol().args(["mkfs", "-F", "-b", "1024"]).arg(&image));
    let said = fails(ondol().arg("import").arg(&image).arg(in_pool(&none)), 1);
    assert!(said.contains("1024") && !none.exists(), "{said}");
    let said = fails(ondol().arg("import").arg(&image).arg(&none), 1);
    assert!(said.contains("nvm:"), "{said}");
    succeeds(ondol().args(["mkfs", "-F", "--size", "32M"]).arg(home.target()));
    assert_eq!(info(&home.target())["blocks"], 8192);
}

/// As its helper is called, and with a pool that is made by the mount.
#[test]
fn a_mount_makes_a_pool_that_is_not_there() {
    let Some(home) = Home::new() else { return };
    fs::remove_file(home.pool()).unwrap();
    let said = fails(&mut home.mount_command("rw"), 32);
    assert!(said.contains("No such file"), "{said}");
    let mut command = ondol();
    command.args(["mount", "--create", "16M"]).arg(home.target()).arg(home.place.mount_point());
    succeeds(command.args(["-o", &format!("transport={}", transport())]));
    durable(&home.place, "new", b"warm floor");
    home.place.umount();
    home.mount("rw");
    assert_eq!(fs::read(home.place.on("new")).unwrap(), b"warm floor");
    home.place.umount();
}

#[test]
fn a_pool_is_flattened_and_its_image_is_the_same() {
    let Some(mut home) = Home::new() else { return };
    let json = |args: &[&str], of: &Path| -> serde_json::Value {
        serde_json::from_str(&succeeds(ondol().args(args).arg(of))).unwrap()
    };
    home.mount("journal=swap");
    for round in 0..3u8 {
        for n in 0..20 {
            durable(&home.place, &format!("f{n}"), &[round + n; 30_000]);
        }
    }
    let busy = fails(ondol().args(["pool", "flatten"]).arg(home.pool()), 1);
    assert!(busy.contains("in use"), "{busy}");
    home.place.umount();
    let before = info(&home.target())["table"].clone();
    assert!(before["displaced"].as_u64().unwrap() > 50 && before["extents"].as_u64().unwrap() > 5, "{before}");
    let image = fs::read(home.exported()).unwrap();
    let done = json(&["pool", "flatten", "--json"], &home.pool());
    assert_eq!((&done["moved"], &done["extents_before"]), (&before["displaced"], &before["extents"]));
    let after = json(&["pool", "info", "--json"], &home.pool())["table"].clone();
    assert_eq!((&after["displaced"], &after["mapped"]), (&0.into(), &before["mapped"]), "{after}");
    assert_eq!(after["extents"], done["extents"]);
    assert!(fs::read(home.exported()).unwrap() == image);
    let again = succeeds(ondol().args(["pool", "flatten"]).arg(home.pool()));
    assert!(again.contains(": 0 of ") && again.contains(" 0 pages copied"), "{again}");
    // What is in the image's journal alone stays there.
    home.lose("journal=swap", "last");
    succeeds(ondol().args(["pool", "flatten"]).arg(home.pool()));
    assert_eq!(
        (&info(&home.target())["state"], &info(&home.target())["table"]["displaced"]),
        (&"dirty".into(), &0.into())
    );
    home.mount("journal=swap");
    assert_eq!(fs::read(home.place.mount_point().join("f3")).unwrap(), [5; 30_000]);
    assert_eq!(fs::read(home.place.mount_point().join("last")).unwrap(), [7; 70_000]);
    home.place.umount();
    home.exported();
}

#[test]
fn what_is_no_image_in_a_pool_is_not_flattened() {
    let Some(home) = Home::new() else { return };
    let empty = home.file("empty");
    succeeds(ondol().args(["pool", "create", "--size", "4M"]).arg(&empty));
    let e = fails(ondol().args(["pool", "flatten"]).arg(&empty), 1);
    assert!(e.contains("holds no image"), "{e}");
    let e = fails(ondol().args(["pool", "flatten"]).arg(home.file("absent")), 1);
    assert!(e.contains("cannot open"), "{e}");
}
