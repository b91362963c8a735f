//! Mounts and paths that another user chose, servers that have gone or never answer, and disks that are full: every
//! command comes to an end, and says what is the matter.

use crate::namespace::{place, run};
use crate::place::{Place, fails, ondol, output, succeeds};

#[test]
fn another_users_mount_keeps_nobody_waiting() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
within() { timeout 60 "$@"; }
mkfifo "$D/pipe"; : > "$D/held"; chmod 666 "$D/held"
sh -c 'exec 9> "$1"; flock 9; exec sleep 1000' - "$D/held" & started=$!
# The source is whatever its user says: a pipe, a file that somebody has locked, a terminal, another's image.
cp "$I" "$D/root.img"; chown 0:0 "$D/root.img"; chmod 600 "$D/root.img"
for source in "$D/pipe" "$D/held" /dev/ptmx "$D/root.img"; do
    for umount in "$D/ondol umount" umount.fuse.ondol umount.ondol; do
        as_nobody "$D/ondol" mount -o "fsname=$source" "$I" "$M"
        within "$D/ondol" info "$D/root.img" > "$D/said"; says 'state .*clean'
        within $umount "$M"
        ! mounted
        flock -n "$I" true
    done
done
# A server that never answers, and never ends.
setpriv --reuid 65534 --regid 65534 --clear-groups "$D/ondol" mount -f -o "fsname=$D/root.img" "$I" "$M" & server=$!
started="$started $server"
while ! mounted; do sleep 0.05; done
kill -STOP $server
within "$D/ondol" info "$D/root.img" > "$D/said"; says 'state .*clean'
fails 2 within "$D/ondol" umount "$M"; says "is unmounted, but process $server (ondol) has not closed"
! mounted
kill -CONT $server; wait $server
"$D/ondol" mount -f "$I" "$M" & server=$!; started="$started $server"
while ! mounted; do sleep 0.05; done
kill -STOP $server
# All of them at once, since each waits.
unanswered() { D=$D/$1; mkdir "$D"; fails $2 within $3; says 'no answer'; }
unanswered one 1 "$D/ondol info $M" & one=$!
unanswered two 1 "$D/ondol info $I" & two=$!
unanswered three 32 "mount.ondol $I $M -o remount,noexec" & three=$!
wait $one; wait $two; wait $three
kill -CONT $server
"$D/ondol" umount "$M"; wait $server
# Nobody opens what is neither a file nor a block device.
for command in info check recover "tune --data ordered" "mkfs -F" fsck; do
    for path in "$D/pipe" /dev/ptmx; do
        code=1; case $command in check) code=8 ;; esac
        case $command in
            fsck) fails 8 within fsck.ondol "$path" ;;
            *) fails $code within "$D/ondol" $command "$path" ;;
        esac
        says 'neither a regular file nor a block device'
    done
done
fails 32 within "$D/ondol" mount "$D/pipe" "$M"; says 'neither a regular file nor a block device'
fails 32 within mount.ondol "$D/pipe" "$M"; says 'neither a regular file nor a block device'
"#,
    );
    place.is_clean();
}

/// The kernel gives the number of a connection again as soon as its mount is gone, which a server may outlive.
#[test]
fn a_server_that_outlives_its_mount_is_not_taken_for_the_next_one() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
cp "$I" "$D/late.img"; mkdir "$D/mnt2"
number() { sed -n "s|^[^ ]* [^ ]* \([^ ]*\) [^ ]* $1 .*|\1|p" /proc/self/mountinfo; }
"$D/ondol" mount -f "$D/late.img" "$D/mnt2" & server=$!; started=$server
while ! mounted "$D/mnt2"; do sleep 0.05; done
kill -STOP $server
late=$(number "$D/mnt2"); umount -i -c -l "$D/mnt2"
"$D/ondol" mount "$I" "$M"
# Other tests may have been given it instead.
[ "$(number "$M")" = "$late" ] || echo 'skipped: another test was given the number of the connection'
echo text > "$M/file"
timeout 60 "$D/ondol" info "$M" > "$D/said"; says "$I"
timeout 60 "$D/ondol" umount "$M"
flock -n "$I" true
kill -CONT $server; wait $server
"#,
    );
    place.is_clean();
}

/// What a server says of an image counts if it is root's, the asker's or the owner's: whoever may read an image can
/// lock it, and names his mount as he likes.
#[test]
fn another_users_server_does_not_speak_for_an_image() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
cp "$I" "$D/root.img"; chown 0:0 "$D/root.img"; chmod 644 "$D/root.img"
believed() { "$D/ondol" info "$1" > "$D/said" 2>&1; grep -q "^mount point *$M\$" "$D/said"; }
# It has root's image locked, and opened, besides its own.
spoof() {
    exec setpriv --reuid 65534 --regid 65534 --clear-groups flock "$1" "$D/ondol" mount -f -o "fsname=$1" "$I" "$M"
}
spoof "$D/root.img" & server=$!; started="$started $server"
while ! mounted; do sleep 0.05; done
! believed "$D/root.img"
says 'state .*clean' || says 'in use'
"$D/ondol" resize "$D/root.img" 96M > "$D/said" 2>&1 || says 'in use'
! grep -q 'for files' "$D/said"
"$D/ondol" ls "$D/root.img" > "$D/said" 2>&1 || :
! grep -q 'is mounted on' "$D/said"
umount.ondol "$M"; wait $server || :
# The owner's, the asker's and root's servers are believed; the kernel keeps root out of a user's mount.
as_nobody "$D/ondol" mount "$I" "$M"
fails 1 "$D/ondol" info "$I"; says "$M: Permission denied"
as_nobody "$D/ondol" info "$I" > "$D/said"; says "^mount point *$M\$"
as_nobody "$D/ondol" resize "$I" 80M > "$D/said"; says 'for files'
"$D/ondol" umount "$M"
"$D/ondol" mount "$D/root.img" "$M"; believed "$D/root.img"; "$D/ondol" umount "$M"
"#,
    );
    place.is_clean();
}

#[test]
fn a_server_that_was_killed_leaves_commands_that_help() {
    let Some(mut place) = Place::new() else { return };
    place.lose_server();
    let (image, dir) = (place.image(), place.mount_point());
    for target in [&image, &dir] {
        let out = output(ondol().args(["info", "--json"]).arg(target));
        let info: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((&info["state"], &info["journal"]["dirty"]), (&"dirty".into(), &true.into()), "{target:?}");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(said.contains("has lost its server"), target == &dir, "{said}");
    }
    let helps = format!("ondol umount {}", dir.display());
    let said = fails(ondol().arg("sync").arg(&dir), 1);
    assert!(said.contains("has lost its server") && said.contains(&helps), "{said}");
    for (words, code) in [(&["check"][..], 8), (&["recover"], 1), (&["tune", "--data", "ordered"], 1)] {
        let said = fails(ondol().args(words).arg(&dir), code);
        assert!(said.contains(&image.display().to_string()) && said.contains(&helps), "{said}");
    }
    assert!(fails(&mut place.mount_command(), 32).contains("`ondol umount` removes it"));
    assert_eq!(output(ondol().args(["check", "-n"]).arg(&image)).status.code(), Some(4));
    place.umount();
    succeeds(ondol().arg("recover").arg(&image));
    place.is_clean();
}

#[test]
fn a_full_disk_below_is_told_to_whoever_unmounts() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
mkdir "$D/small"
for umount in "$D/ondol umount" umount.ondol; do
    mount -t tmpfs -o size=24M none "$D/small"
    "$D/ondol" mount --create 64M -o data=journal,commit=1 "$D/small/x.img" "$M"
    echo text > "$M/early"; "$D/ondol" sync "$M"
    dd if=/dev/urandom of="$M/large" bs=64k count=400 || :
    # Whatever of it has room is written: the next commit, larger than any before, finds none for its journal blocks.
    ! dd if=/dev/zero of="$D/small/rest" bs=4k
    mkdir $(seq -f "$M/%g" 100) || :
    sleep 2
    fails 2 $umount "$M"; says "is unmounted, but $D/small/x.img is not clean"; says "ondol recover $D/small/x.img"
    ! mounted
    mount -o remount,size=200M "$D/small"
    "$D/ondol" recover "$D/small/x.img"
    e2fsck -fn "$D/small/x.img"
    [ "$(debugfs -R 'cat early' "$D/small/x.img" 2>/dev/null)" = text ]
    umount "$D/small"
done
"#,
    );
}
