//! Programs that change, between the fsync of a file and its final name, what recovery knows a file by: times, owner,
//! mode, names, size, attributes. The kernel has committed all of that by the cut, and none of the bytes.

use crate::compiled;
use crate::power::{Cut, cut, in_rounds, unavailable, user_can};
use ondol_skips::skips;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// What is wrong with a file that was saved one way.
fn wrong_with(way: &str, bytes: &[u8], meta: &Metadata, by_user: bool) -> Option<String> {
    let letter = way.as_bytes()[0];
    let is_saved = |(at, byte): (usize, &u8)| *byte == letter || way == "twice" && at == 5;
    if bytes.len() < 4096 || !bytes[..4096].iter().enumerate().all(is_saved) {
        return Some(format!("{} bytes, not what was synced", bytes.len()));
    }
    let times = (meta.mtime(), meta.mtime_nsec());
    let is_set = match way {
        "utimensat" | "futimens" | "utimes" | "futimes" | "lutimes" | "futimesat" | "raw" | "unseen" | "synced"
        | "twice" => times == (1_000_000_000, 5_000),
        "utime" => times == (1_000_000_000, 0),
        "future" => times == (4_000_000_000, 0),
        "chmod" => meta.mode() & 0o7777 == 0o400,
        "installed" => times == (1_000_000_000, 5_000) && meta.mode() & 0o7777 == 0o444,
        "fchmod" => meta.mode() & 0o7777 == 0o444,
        "chown" => by_user || (meta.uid(), meta.gid()) == (7, 8),
        "link" => meta.nlink() == 2,
        _ => true,
    };
    (!is_set).then(|| format!("its bytes are there, what was set is not: {meta:?}"))
}

fn check(dir: &Path, by_user: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_saved = |name: &String| !name.starts_with('.') && name.rsplit_once('-').is_some_and(|(_, n)| n.len() == 1);
    let saved: Vec<String> = names.filter(is_saved).collect();
    for name in &saved {
        let (path, way) = (dir.join(name), name.rsplit_once('-').unwrap().0);
        let meta = fs::metadata(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        wrong.extend(wrong_with(way, &bytes, &meta, by_user).map(|what| format!("{name}: {what}")));
    }
    if saved.len() < 60 {
        wrong.push(format!("only {saved:?} have their names"));
    }
    wrong
}

#[test]
fn what_was_synced_before_its_file_got_other_times_rights_or_names_is_there_after_a_power_cut() {
    if skips(unavailable(&["cc"])) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = compiled(place.path(), "saver.c", &[]);
    let user = user_can();
    in_rounds(2, |round| {
        let by_user = user && round % 2 == 1;
        let what = Cut {
            image: 48 << 20,
            pool: "16M",
            program: &[program.as_os_str()],
            word: "",
            by_user,
            after: Duration::ZERO,
            ..Cut::default()
        };
        cut(&what, |_, dir| check(dir, by_user))
    });
}
