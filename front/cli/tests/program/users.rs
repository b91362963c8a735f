//! Users: who may do what on a mount, and mounting without privilege.

use crate::place::{Place, needs_root, ondol, output, succeeds};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Command, Output};

const NOBODY: u32 = 65534;

/// Runs a shell line as nobody.
fn as_nobody(line: &str) -> Output {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).uid(NOBODY).gid(NOBODY).current_dir("/");
    output(&mut command)
}

fn open_to_all(place: &Place) {
    let above = place.mount_point().parent().unwrap().to_owned();
    fs::set_permissions(above, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_kernel_checks_permissions() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("allow_other") else { return };
    open_to_all(&place);
    fs::set_permissions(place.mount_point(), Permissions::from_mode(0o777)).unwrap();
    fs::write(place.on("secret"), b"s").unwrap();
    fs::set_permissions(place.on("secret"), Permissions::from_mode(0o600)).unwrap();
    let secret = place.on("secret").display().to_string();
    assert!(!as_nobody(&format!("cat {secret}")).status.success());
    assert!(!as_nobody(&format!("chmod 777 {secret}")).status.success());
    assert!(as_nobody(&format!("umask 027; echo x > {}", place.on("own").display())).status.success());
    let own = fs::metadata(place.on("own")).unwrap();
    assert_eq!((own.uid(), own.gid(), own.mode()), (NOBODY, NOBODY, 0o100_640));
    place.umount();
    place.is_clean();
}

#[test]
fn without_allow_other_the_mount_is_its_users_own() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("rw") else { return };
    open_to_all(&place);
    fs::set_permissions(place.mount_point(), Permissions::from_mode(0o777)).unwrap();
    assert!(!as_nobody(&format!("ls {}", place.mount_point().display())).status.success());
    place.umount();
}

#[test]
fn changes_by_users_take_setuid_away_at_once() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("allow_other,suid") else { return };
    open_to_all(&place);
    let path = place.on("program");
    let shown = path.display();
    fs::write(&path, b"program").unwrap();
    let arm = || fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
    let perm = || fs::metadata(&path).unwrap().mode() & 0o7777;
    for line in [format!("echo x >> {shown}"), format!("truncate -s 3 {shown}"), format!(": > {shown}")] {
        arm();
        assert_eq!(perm(), 0o6777);
        assert!(as_nobody(&line).status.success(), "{line}");
        assert_eq!(perm(), 0o777, "{line}");
    }
    arm();
    fs::write(&path, b"by root").unwrap();
    assert_eq!(perm(), 0o6777);
    chown(&path, Some(1), Some(1)).unwrap();
    assert_eq!(perm(), 0o777);
    place.umount();
    place.is_clean();
}

/// Everything in a mount namespace of its own, where the FUSE device is open to all as it is on ordinary systems.
#[test]
fn an_unprivileged_user_mounts() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::new() else { return };
    open_to_all(&place);
    let dir = place.mount_point().parent().unwrap().to_owned();
    for path in [dir.clone(), place.image(), place.mount_point()] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // Copied there: this process's copy could be open for writing still in the child of another thread.
    let script = r#"
        set -e
        cp "$PROGRAM" "$D/ondol"
        mkdir "$D/dev"; mount -t tmpfs none "$D/dev"; mknod "$D/dev/fuse" c 10 229; chmod 666 "$D/dev/fuse"
        mount --bind "$D/dev/fuse" /dev/fuse
        cat > "$D/user.sh" <<'USER'
set -e
cd "$D"
./ondol mkfs -F disk.img
./ondol mount disk.img mnt
grep " $D/mnt .* - fuse.ondol $D/disk.img .*user_id=65534" /proc/self/mountinfo
echo text > mnt/file; mkdir mnt/dir; mv mnt/file mnt/dir/
[ "$(stat -c %u mnt/dir/file)" = 65534 ]
./ondol info --json mnt > /dev/null
./ondol sync mnt
./ondol umount mnt
flock -n disk.img true
./ondol mount -f disk.img mnt & server=$!
for i in $(seq 600); do grep -q " $D/mnt " /proc/self/mountinfo && break; sleep 0.1; done
[ "$(cat mnt/dir/file)" = text ]
exec 5> mnt/open
kill -TERM $server
wait $server
flock -n disk.img true
USER
        setpriv --reuid 65534 --regid 65534 --clear-groups sh "$D/user.sh"
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).env("D", &dir).env("PROGRAM", env!("CARGO_BIN_EXE_ondol"));
    let Ok(out) = command.output() else {
        return ondol_skips::skip("unshare is not installed");
    };
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}\n{said}", String::from_utf8_lossy(&out.stdout));
    place.is_clean();
    succeeds(ondol().arg("check").arg(place.image()));
}
