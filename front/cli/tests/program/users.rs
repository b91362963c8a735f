//! Users: who may do what on a mount, and mounting without privilege.

use crate::place::{Place, needs_helper, needs_root, ondol, output, succeeds};
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

/// Under HANDLE_KILLPRIV_V2 the server takes setuid and setgid away with every kind of change; what a program may do
/// beyond its user's rights the kernel takes away itself.
#[test]
fn what_a_program_could_do_ends_with_its_change() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("allow_other,suid") else { return };
    open_to_all(&place);
    let (path, source) = (place.on("program"), place.on("source"));
    fs::write(&source, [2; 9000]).unwrap();
    fs::set_permissions(&source, Permissions::from_mode(0o644)).unwrap();
    let shown = path.display();
    // cap_net_raw, in the second version of its attribute.
    let capability = [0u32.to_le_bytes(), (1u32 << 13).to_le_bytes(), [0; 4], [0; 4], [0; 4]].concat();
    let capability = [&0x0200_0001u32.to_le_bytes(), &capability[4..]].concat();
    let name = "security.capability";
    let python = |call: &str| {
        format!(
            "python3 -c \"import os; f = os.open('{shown}', os.O_RDWR); g = os.open('{}', 0); {call}\"",
            source.display()
        )
    };
    let lines = [
        python("os.posix_fallocate(f, 0, 9000)"),
        python("os.copy_file_range(g, f, 100, 0, 0)"),
        format!("fallocate -p -l 4096 {shown}"),
        format!("echo x >> {shown}"),
        format!("truncate -s 3 {shown}"),
    ];
    for line in lines {
        fs::write(&path, [1; 9000]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        rustix::fs::setxattr(&path, name, &capability, rustix::fs::XattrFlags::empty()).unwrap();
        let out = as_nobody(&line);
        let said = String::from_utf8_lossy(&out.stderr);
        if said.contains("not found") {
            ondol_skips::skip(said);
            continue;
        }
        assert!(out.status.success(), "{line}: {said}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777, "{line}");
        let left = rustix::fs::getxattr(&path, name, &mut [0; 64]);
        assert_eq!(left, Err(rustix::io::Errno::NODATA), "{line}");
    }
    place.umount();
    place.is_clean();
}

/// The kernel asks the server to take setgid away with a new access control list (SETXATTR_EXT).
#[test]
fn a_list_by_who_is_not_in_the_group_takes_setgid_away() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("allow_other,suid") else { return };
    open_to_all(&place);
    let path = place.on("f");
    fs::write(&path, b"x").unwrap();
    chown(&path, Some(NOBODY), Some(1)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o2775)).unwrap();
    let hex: String = crate::kinds::list().iter().map(|byte| format!("{byte:02x}")).collect();
    let call = format!("os.setxattr('{}', 'system.posix_acl_access', bytes.fromhex('{hex}'))", path.display());
    let out = as_nobody(&format!("python3 -c \"import os; {call}\""));
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("not found") {
        return ondol_skips::skip(said);
    }
    assert!(out.status.success(), "{said}");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o770);
    place.umount();
    place.is_clean();
}

/// User 0 is not everybody's master where its capabilities are gone, and others are where they have some: as far as
/// FUSE or the kernel's table of processes tells.
#[test]
fn capabilities_count_and_not_the_users_number() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("allow_other,default_permissions,suid") else { return };
    open_to_all(&place);
    let top = place.mount_point();
    let sh = |line: &str, how: &[&str]| {
        let mut command = Command::new(how[0]);
        output(command.args(&how[1..]).args(["sh", "-c", line]).current_dir(&top).env("LC_ALL", "C"))
    };
    let without = |capability: &str| format!("-{capability}");
    let tried = sh("true", &["setpriv", "--bounding-set", "-fsetid"]);
    if !tried.status.success() {
        return ondol_skips::skip(String::from_utf8_lossy(&tried.stderr));
    }
    let spaces = sh("true", &["unshare", "--user", "--map-root-user"]).status.success();
    fs::write(place.on("f"), [1; 9000]).unwrap();
    rustix::fs::setxattr(place.on("f"), "trusted.t", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    let arm = || fs::set_permissions(place.on("f"), Permissions::from_mode(0o6777)).unwrap();
    let perm = || fs::metadata(place.on("f")).unwrap().mode() & 0o7777;
    // The capability, and a line that does something only with it.
    let trusted = "python3 -c \"import os, sys; sys.exit('trusted.t' not in os.listxattr('f'))\"";
    let lines = [
        ("sys_admin", "fstrim ."),
        ("sys_admin", trusted),
        ("sys_resource", "chattr +j f && chattr -j f"),
        ("linux_immutable", "chattr +a f && chattr -a f"),
        ("dac_override", "cat secret"),
    ];
    fs::write(place.on("secret"), b"s").unwrap();
    chown(place.on("secret"), Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(place.on("secret"), Permissions::from_mode(0o600)).unwrap();
    for (capability, line) in lines {
        let all = sh(line, &["env"]);
        if !all.status.success() {
            ondol_skips::skip(format!("{line}: {}", String::from_utf8_lossy(&all.stderr)));
            continue;
        }
        let less =
            if capability == "dac_override" { "-dac_override,-dac_read_search".into() } else { without(capability) };
        assert!(!sh(line, &["setpriv", "--bounding-set", &less]).status.success(), "{line} without {capability}");
        assert!(sh(line, &["setpriv", "--bounding-set", "-net_raw"]).status.success(), "{line} with {capability}");
        if spaces && capability != "linux_immutable" && capability != "dac_override" {
            assert!(!sh(line, &["unshare", "--user", "--map-root-user"]).status.success(), "{line} in a namespace");
        }
    }
    // These requests say nothing of CAP_FSETID.
    let punch = "fallocate -p -l 4096 f";
    for (how, left) in [(&["env"][..], 0o6777), (&["setpriv", "--bounding-set", "-fsetid"], 0o777)] {
        arm();
        assert!(sh(punch, how).status.success());
        assert_eq!(perm(), left, "{how:?}");
    }
    place.umount();
    place.is_clean();
}

/// Everything in a mount namespace of its own, where the FUSE device is open to all as it is on ordinary systems.
#[test]
fn an_unprivileged_user_mounts() {
    if ondol_skips::skips(needs_helper()) {
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
