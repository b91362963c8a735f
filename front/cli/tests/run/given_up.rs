//! Programs that give up rights: they have no part in the pool any more, and what was in it is on the disk.

use crate::{Place, Steps, compiled, ondol, output};
use ondol_skips::skip;
use std::fs;

/// What is said of such a program.
const SAID: &str = "a program has changed its user or rights";

/// Root's files with a pool that others may not use.
#[track_caller]
fn place() -> Option<Place> {
    let place = Place::new()?;
    if !rustix::process::geteuid().is_root() {
        skip("only root may become somebody else");
        return None;
    }
    Some(place)
}

/// The program has the pool mapped, or open.
fn has_pool(place: &Place, steps: &Steps) -> bool {
    let of = format!("/proc/{}", steps.program().as_raw_nonzero());
    let (maps, pool) = (fs::read_to_string(format!("{of}/maps")).unwrap(), place.pool());
    let open = fs::read_dir(format!("{of}/fd")).unwrap().flatten();
    let is_open = open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|path| path == pool);
    is_open || maps.lines().any(|line| line.ends_with(pool.to_str().unwrap()))
}

/// A trusted file with acknowledged records.
#[track_caller]
fn logged(place: &Place, steps: &mut Steps) {
    let logged = (0..5).any(|_| {
        steps.all(&["open", "write 1000", "fsync", "fsync", "write 100", "fsync"]);
        place.live() >= 100 && steps.ask("dirty") != "0"
    });
    assert!(logged && has_pool(place, steps));
}

#[test]
fn whoever_gives_up_rights_lets_go_of_the_pool() {
    let Some(place) = place() else { return };
    for way in 0..15 {
        let mut steps = Steps::new(&place, &format!("f{way}"));
        logged(&place, &mut steps);
        match steps.ask(&format!("drops {way}")).as_str() {
            "ok" => {}
            answer if [10, 12, 13, 14].contains(&way) => {
                skip("this kernel refuses a way to give up rights");
                assert_ne!(answer, "");
                continue;
            }
            answer => panic!("way {way}: {answer}"),
        }
        assert_eq!((has_pool(&place, &steps), place.live()), (false, 0), "way {way}");
        assert_eq!(steps.ask("dirty"), "0", "way {way}");
        // From now on it is as without this command.
        steps.all(&["write 10", "fsync"]);
        assert_eq!((steps.ask("dirty").as_str(), place.live()), ("0", 0), "way {way}");
        steps.end();
    }
}

#[test]
fn whoever_changes_nothing_keeps_it() {
    let Some(place) = place() else { return };
    let mut steps = Steps::new(&place, "f");
    logged(&place, &mut steps);
    steps.all(&["dropsnothing"]);
    logged(&place, &mut steps);
    steps.end();
}

#[test]
fn children_let_go_for_themselves() {
    let Some(place) = place() else { return };
    for way in ["childdrops 0", "childdrops 1", "childdrops 2"] {
        let mut steps = Steps::new(&place, &way.replace(' ', ""));
        logged(&place, &mut steps);
        steps.all(&[way]);
        // A file that such a child has is synced for real from then on; others are as they were.
        assert!(has_pool(&place, &steps));
        let mut other = Steps::new(&place, "other");
        logged(&place, &mut other);
        other.end();
        steps.end();
    }
}

/// Threads that write and sync meanwhile notice nothing.
#[test]
fn threads_go_on() {
    let Some(place) = place() else { return };
    for _ in 0..5 {
        let mut steps = Steps::new(&place, "f");
        steps.all(&["crowd"]);
        assert!(!has_pool(&place, &steps));
        assert!(crate::eventually(|| place.live() == 0));
        steps.end();
    }
}

#[test]
fn it_is_said_once() {
    let Some(place) = place() else { return };
    let program = compiled(place.memory.path(), "steps.c", &["-pthread"]);
    let script = format!("printf 'drops 0\\n' | '{0}' f; printf 'drops 5\\n' | '{0}' f", program.display());
    let mut command = ondol();
    command.args(["run", "--size", "8M", "--buffer"]).arg(place.pool()).args(["--", "sh", "-c", &script]);
    let out = output(command.current_dir(place.path("")));
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(said.matches(SAID).count(), 1, "{said}");
}
