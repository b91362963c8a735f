//! Whoever asks through whatever mount: nothing changes that the caller could not have changed by ordinary calls there.

use crate::place::{Place, needs_root, output, succeeds};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// An ordinary user.
const USER: u32 = 5;

/// The capabilities that docker leaves to a container's root.
const CONTAINER: &str = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,\
    +net_bind_service,+sys_chroot,+kill,+audit_write";

/// Binds a directory of the volume ($1) to another ($2) in a mount namespace of its own, to be written to or not ($3),
/// and runs the rest there.
const JAIL: &str = r#"set -e
mount --bind "$1" "$2"
if [ "$3" = ro ]; then mount -o remount,bind,ro "$2"; fi
cd "$2"; shift 3; exec "$@""#;

/// What a volume has under each name: all of the inode but the time of its last read, and the contents.
type Seen = BTreeMap<String, (Vec<i64>, Vec<u8>)>;

fn seen(dir: &Path) -> Seen {
    let mut all = Seen::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let m = fs::symlink_metadata(&path).unwrap();
        let numbers = [m.ino(), m.mode().into(), m.uid().into(), m.gid().into(), m.nlink(), m.size()];
        let times = [m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()];
        let inode = numbers.map(u64::cast_signed).into_iter().chain(times).collect();
        let contents = if m.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if m.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.insert(path.strip_prefix(dir).unwrap().display().to_string(), (inode, contents));
    }
    let space = rustix::fs::statvfs(dir).unwrap();
    all.insert("the volume's blocks".into(), (vec![space.f_blocks.cast_signed()], Vec::new()));
    all
}

/// Makes files of the user and of root in a directory that jails see, and one of root that they do not.
fn make(place: &Place) {
    let put = |name: &str, owner: u32, mode: u32| {
        fs::write(place.on(name), name.repeat(1000)).unwrap();
        chown(place.on(name), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(place.on(name), Permissions::from_mode(mode)).unwrap();
    };
    for dir in ["", "seen", "seen/own", "outside"] {
        let _ = fs::create_dir(place.on(dir));
        fs::set_permissions(place.on(dir), Permissions::from_mode(0o755)).unwrap();
    }
    chown(place.on("seen/own"), Some(USER), Some(USER)).unwrap();
    for (name, owner, mode) in [
        ("seen/shown", 0, 0o644),
        ("seen/hidden", 0, 0o600),
        ("seen/unreadable", 0, 0o622),
        ("seen/own/one", USER, 0o644),
        ("seen/own/two", USER, 0o600),
        ("outside/file", 0, 0o666),
    ] {
        put(name, owner, mode);
    }
}

/// What is there anew, as no cache of the kernel's shows it.
fn look(place: &Place) -> Seen {
    place.umount();
    place.mount("allow_other");
    seen(&place.mount_point())
}

#[test]
fn nobody_changes_through_a_mount_what_it_does_not_let_him_write() {
    if ondol_skips::skips(needs_root()) || ondol_skips::skips(ondol_skips::missing(&["cc", "setpriv", "unshare"])) {
        return;
    }
    let Some(place) = Place::mounted("allow_other") else { return };
    let dir = place.mount_point().parent().unwrap().to_owned();
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let (program, jail) = (dir.join("rights"), dir.join("jail"));
    fs::create_dir(&jail).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("stack/rights.c");
    succeeds(Command::new("cc").args(["-O1", "-w", "-o"]).arg(&program).arg(source));
    // Room to grow.
    fs::File::options().write(true).open(place.image()).unwrap().set_len(256 << 20).unwrap();
    let user = USER.to_string();
    let callers: [(&str, &[&str]); 3] = [
        ("a user", &["--reuid", &user, "--regid", &user, "--clear-groups"]),
        ("a container's root", &["--bounding-set", CONTAINER, "--inh-caps", "-all"]),
        ("root", &[]),
    ];
    for (who, words) in callers {
        for (mode, root_of_mount) in [("ro", false), ("ro", true), ("rw", false)] {
            make(&place);
            let before = look(&place);
            let bound = if root_of_mount { place.mount_point() } else { place.on("seen") };
            for target in ["shown", "hidden", "unreadable", "own/one"] {
                let prefix = if root_of_mount { "seen/" } else { "" };
                let mut command = Command::new("unshare");
                command.args(["--mount", "--propagation", "private", "sh", "-c", JAIL, "sh"]);
                command.arg(&bound).arg(&jail).arg(mode).arg("setpriv").args(words).arg(&program);
                succeeds(command.arg(format!("{prefix}{target}")).arg(format!("{prefix}own/two")));
            }
            let after = look(&place);
            // Who may write may write: a user to his own and to what all may write to, root to whatever is in the
            // directory that he sees.
            let may = |name: &str| match (mode, who) {
                ("ro", _) => false,
                (_, "a user") => name.starts_with("seen/own") || name == "seen/unreadable",
                _ => name.starts_with("seen"),
            };
            let changed = |name: &&String| before.get(*name) != after.get(*name);
            let wrong: Vec<_> = before.keys().chain(after.keys()).filter(changed).filter(|name| !may(name)).collect();
            assert!(wrong.is_empty(), "{who}, {mode}, {}: {wrong:?}", bound.display());
            // Nor read: what a file that he may only write to held.
            let own = after.iter().filter(|(name, _)| who == "a user" && name.starts_with("seen/own"));
            for (name, (_, contents)) in own {
                let text = String::from_utf8_lossy(contents);
                assert!(
                    !text.contains("unreadable") && !text.contains("hidden"),
                    "{mode}: {name} has another's contents"
                );
            }
            assert_eq!(mode == "rw", before != after, "{who}, {mode}: nothing was tried");
            let _ = fs::remove_dir_all(place.on("seen"));
        }
    }
    // On the mount itself root may have it grow, and nobody else.
    for (who, words) in callers {
        let out = output(Command::new("setpriv").args(words).arg(&program).arg(place.mount_point()));
        let expected = if who == "root" { 0 } else { rustix::io::Errno::PERM.raw_os_error() };
        assert_eq!(out.status.code(), Some(expected), "{who}");
    }
    place.umount();
    place.is_clean();
}
