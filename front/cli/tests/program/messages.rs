//! How much is said, where, and who has an image.

use crate::place::{Place, eventually, fails, ondol, output, succeeds, unmounts};
use std::fs;
use std::process::Command;

fn said(command: &mut Command) -> String {
    let out = output(command.env_remove("ONDOL_LOG"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stderr).unwrap()
}

#[test]
fn commands_say_more_when_they_are_asked_to() {
    let Some(mut place) = Place::new() else { return };
    place.lose_server();
    place.umount();
    let (image, shown) = (place.image(), place.image().display().to_string());
    assert_eq!(said(ondol().arg("info").arg(&image)), "");
    let text = said(ondol().args(["-v", "recover"]).arg(&image));
    let lines: Vec<&str> = text.lines().collect();
    let [opened, closed] = lines[..] else { panic!("{text}") };
    assert!(opened.starts_with(&format!("ondol: {shown}: opened, journal compressed, data journal, ")), "{text}");
    assert!(opened.ends_with(" replayed") && closed == format!("ondol: {shown}: closed, clean"), "{text}");
    // Where an option stands makes no difference, and the last word is the level's.
    let brief = said(ondol().args(["recover", "-v"]).arg(&image));
    assert!(brief.contains("0 transactions replayed"), "{brief}");
    assert_eq!(said(ondol().args(["recover", "-v", "--log-level", "error"]).arg(&image)), "");
    assert_eq!(said(ondol().args(["--log-level", "ondol::compose=info", "recover"]).arg(&image)), brief);
    let by_variable = output(ondol().arg("recover").arg(&image).env("ONDOL_LOG", "info"));
    assert_eq!(String::from_utf8_lossy(&by_variable.stderr), brief);
}

#[test]
fn a_server_logs_as_much_as_it_is_told() {
    let Some(place) = Place::new() else { return };
    let log = place.image().with_extension("log");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    let mount = |words: &[&str], options: &str| {
        let _ = fs::remove_file(&log);
        let mut command = place.mount_command();
        command.args(words).args(["-o", &format!("log={}{options}", log.display())]).env_remove("ONDOL_LOG");
        succeeds(&mut command);
        place.umount();
    };
    mount(&["--log-level", "error"], "");
    assert_eq!(read(), "");
    mount(&[], ",log_level=warn");
    assert_eq!(read(), "");
    mount(&["-vv"], ",log_level=warn");
    assert!(eventually(|| read().contains("unmounted, clean")), "{}", read());
    assert!(read().contains(" INFO ") && read().contains("closed, clean"), "{}", read());
    mount(&[], ",log_level=ondol::mount=info");
    assert!(eventually(|| read().contains("unmounted, clean")), "{}", read());
    assert!(!read().contains("closed, clean"), "{}", read());
}

/// Who has it, by process and mount point, whatever wants it.
#[test]
fn whoever_has_an_image_or_a_pool_is_named() {
    let Some(place) = Place::new() else { return };
    let dir = place.image().parent().unwrap().to_owned();
    let here = || {
        let mut command = ondol();
        command.current_dir(&dir);
        command
    };
    succeeds(here().args(["mkfs", "-F", "-b", "4096", "disk.img"]));
    succeeds(here().args(["pool", "create", "--size", "16M", "front.pool"]));
    succeeds(here().args(["mkfs", "--size", "16M", "nvm:pool"]));
    succeeds(here().args(["mount", "-o", "nvm=front.pool", "disk.img", "mnt"]));
    let (pid, point) = (place.pid(), place.mount_point());
    let holder = format!("in use by process {pid} (ondol), which serves it on {}", point.display());
    for (line, code) in [
        ("mount disk.img mnt", 32),
        ("mkfs -F disk.img", 1),
        ("check disk.img", 8),
        ("check -n disk.img", 8),
        ("recover disk.img", 1),
        ("recover --force disk.img", 1),
        ("tune --journal classic disk.img", 1),
        ("import -F disk.img nvm:pool", 1),
        ("pool info front.pool", 1),
        ("pool create -F front.pool", 1),
        ("pool measure front.pool", 1),
        ("recover --nvm front.pool disk.img", 1),
    ] {
        let said = fails(here().args(line.split(' ')), code);
        assert!(said.contains(&holder), "{line}: {said}");
    }
    let info: serde_json::Value = serde_json::from_str(&succeeds(here().args(["info", "--json", "disk.img"]))).unwrap();
    assert_eq!((&info["pid"], info["mount_point"].as_str()), (&pid.into(), point.to_str()));
    place.umount();
    // The image in a pool.
    succeeds(here().args(["mount", "nvm:pool", "mnt"]));
    let holder = format!("(ondol), which serves it on {}", point.display());
    for (line, code) in [
        ("mkfs -F nvm:pool", 1),
        ("mount nvm:pool mnt", 32),
        ("check nvm:pool", 8),
        ("export nvm:pool out.img", 1),
        ("import -F disk.img nvm:pool", 1),
        ("pool info pool", 1),
        ("pool dump pool", 1),
        ("pool flatten pool", 1),
    ] {
        let said = fails(here().args(line.split(' ')), code);
        assert!(said.contains("pool is in use by process ") && said.contains(&holder), "{line}: {said}");
    }
    unmounts(ondol().args(["umount", "--wait"]).arg(&point));
}
