//! The helpers, called by mount(8) and umount(8) as the command line and fstab(5) have them.

use crate::namespace::{place, run};

#[test]
fn mount_8_mounts_and_umount_8_waits_for_a_clean_image() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
for type in fuse.ondol ondol; do
    mount -v -t $type -o data=journal,uhelper=ondol "$I" "$M"
    [ "$(findmnt -n -o SOURCE,FSTYPE "$M" | tr -s ' ')" = "$I fuse.ondol" ]
    [ "$(df --output=source,fstype "$M" | tail -1 | tr -s ' ')" = "$I fuse.ondol" ]
    [ "$(findmnt -n -o VFS-OPTIONS "$M")" = rw,relatime ]
    echo text > "$M/$type"
    umount "$M"
    flock -n "$I" true
done
mount -t ondol -o ro,nosuid,nodev,noexec,noatime,sync,dirsync,nofail,_netdev,x-a.b=c,X-d,comment=e "$I" "$M"
findmnt -n -o OPTIONS "$M"
for word in ro nosuid nodev noexec noatime sync dirsync; do
    findmnt -n -o OPTIONS "$M" | tr , '\n' | grep -qx $word
done
[ "$(cat "$M/fuse.ondol")" = text ]
umount "$I"
flock -w 60 "$I" true
mount -f -t ondol "$I" "$M"
! mounted
cd "$M"; mount -t ondol ../disk.img .; cd /
fails 32 umount -i "$M/nothing"
sh -c 'cd "$1"; exec sleep 1000' - "$M" & started=$!
while [ "$(readlink /proc/$started/cwd)" != "$M" ]; do sleep 0.05; done
fails 32 umount "$M"; says 'busy'
fails 32 umount.ondol "$M"; says 'in use'
umount -l "$M"
! mounted
kill $started; wait $started || :
flock "$I" true
"#,
    );
    place.is_clean();
}

/// On a machine where the links of docs/commands.md are installed, to another program here.
#[test]
fn names_that_are_installed_are_left_alone_and_not_used() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
names /bin/false
install machine
[ "$(readlink "$S/mount.ondol")" = "$D/ondol" ]
[ "$(readlink "$D/machine/mount.ondol")" = /bin/false ]
mount -t ondol "$I" "$M"
umount.ondol "$M"
"#,
    );
    place.is_clean();
}

#[test]
fn exit_codes_are_those_of_mount_8() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
fails 1 mount.ondol "$I"
fails 1 mount.ondol --sparkle "$I" "$M"
fails 1 mount.fuse.ondol "$I" "$M" -o sparkle; says 'sparkle'
fails 1 mount.ondol "$I" "$M" -o rw,comit=5; says 'commit='
fails 1 mount.ondol "$I" "$M" -o strictatime; says 'strictatime is not possible through FUSE'
fails 1 mount -t ondol -o strictatime "$I" "$M"; says 'strictatime is not possible through FUSE'
fails 32 mount.ondol "$D/absent" "$M"; says 'absent'
fails 32 mount.ondol "$I" "$D/absent"
fails 1 umount.ondol
fails 32 umount.ondol "$M"
! mounted
mount.ondol "$I" "$M" -s -n -v -o rw,sparkle,k=v -t fuse.ondol > "$D/said"
says "mounted on $M"
fails 32 mount.ondol "$I" "$M"; says 'in use'
umount.fuse.ondol -v "$M"
mount.ondol --help | grep -q 'data=writeback'
mkfs -t ondol -F -L new "$I"
[ "$(dumpe2fs -h "$I" 2>/dev/null | sed -n 's/^Filesystem volume name: *//p')" = new ]
# A signal while the journal is waited for: another holds the pipe that is to be the log.
mkfifo "$D/log"
mount.ondol "$I" "$M" -o "log=$D/log" 2> "$D/said" & helper=$!; started=$helper
while ! pgrep -P $helper > "$D/child"; do sleep 0.05; done
kill -TERM $helper
set +e; wait $helper; code=$?; set -e
[ $code = 8 ]
! mounted
"#,
    );
    place.is_clean();
}

#[test]
fn lines_of_fstab_mount() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
mkdir "$D/mnt2"; cp "$I" "$D/second.img"; cp "$I" "$D/third.img"
cat > "$D/fstab" <<LINES
$I $M fuse.ondol noauto,user,x-foo,nofail,_netdev,comment=c 0 0
$D/second.img $D/mnt2 ondol defaults,data=journal,x-systemd.requires=foo 0 2
LINES
mount "$M"
for word in nosuid nodev noexec; do findmnt -n -o OPTIONS "$M" | tr , '\n' | grep -qx $word; done
umount "$M"
flock -w 60 "$I" true
mount -a -t ondol,fuse.ondol
! mounted
mounted "$D/mnt2"
mount -a
[ "$(grep -c " $D/mnt2 " /proc/self/mountinfo)" = 1 ]
umount "$D/mnt2"
mount "$M"; chmod 777 "$M"; umount.ondol "$M"
as_nobody mount "$M"
findmnt -n -o OPTIONS "$M" | grep -q user_id=65534
as_nobody touch "$M/own"
fails 32 setpriv --reuid 65533 --regid 65533 --clear-groups umount "$M"
as_nobody umount "$M"
! mounted
flock -n "$I" true
"#,
    );
    place.is_clean();
}

#[test]
fn remounting_changes_flags_and_nothing_else() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
echo "$I $M ondol noauto,data=journal,commit=7 0 0" > "$D/fstab"
mount "$M"
echo text > "$M/file"
mount -o remount,ro "$M"
fails 1 touch "$M/new"; says 'Read-only'
findmnt -n -o OPTIONS "$M" | tr , '\n' | grep -qx ro
mount -o remount,rw,noexec,noatime "$M"
touch "$M/new"
for word in rw noexec noatime; do findmnt -n -o OPTIONS "$M" | tr , '\n' | grep -qx $word; done
for change in commit=8 data=ordered cache=8M allow_other max_read=8192 fsname=x; do
    fails 1 mount -o remount,$change "$M"; says 'cannot be changed by a remount'
done
fails 1 mount -o remount,sparkle "$M"; says sparkle
fails 32 mount.ondol "$I" "$D" -o remount,ro
umount.ondol "$M"
# What its server took itself stays as it is; a name in it is not asked for.
served="log=$D/log,log_level=debug,metrics=unix:$D/socket"
echo "$I $M ondol noauto,$served 0 0" > "$D/fstab"
mount "$M"
mount -o remount,ro "$M"
for change in log_level=info metrics=0 metrics=no.such.host.invalid:9464 log=/else; do
    fails 1 mount -o remount,$change "$M"; says 'cannot be changed by a remount'
done
"$D/ondol" info "$M" | grep -q "^  served with *$served\$"
umount.ondol "$M"
# Without a line in fstab the table of mounts says what there was.
: > "$D/fstab"
mount -t ondol -o allow_other,max_read=65536,data=journal "$I" "$M"
mount -o remount,ro "$M"
mount -o remount,rw "$M"
touch "$M/newer"
umount.ondol "$M"
# Flags become what they become on a file system of the kernel's own.
flags() { findmnt -n -o VFS-OPTIONS "$1"; }
mkdir "$D/peer"
for given in suid,dev nosuid,nodev,noexec nosuid,noatime suid,nodev,nodiratime; do
    mount -t ondol -o $given "$I" "$M"
    mount -t tmpfs -o $given none "$D/peer"
    for change in ro rw noexec exec,nosuid suid,nodev noatime,ro relatime dev,suid,rw; do
        for dir in "$M" "$D/peer"; do mount -o remount,$change "$dir"; done
        [ "$(flags "$M")" = "$(flags "$D/peer")" ] || { flags "$M"; flags "$D/peer"; exit 1; }
    done
    umount "$D/peer"
    mount -o remount,$given "$M"; before=$(flags "$M" | sed 's/^rw//')
    sh -c 'cd "$1"; exec sleep 1000' - "$M" & started=$!
    while [ "$(readlink /proc/$started/cwd)" != "$M" ]; do sleep 0.05; done
    umount.ondol -r "$M"; [ "$(flags "$M")" = "ro$before" ]
    kill $started; wait $started || :
    umount.ondol "$M"
done
mount -t ondol -o ro "$I" "$M"
fails 32 mount -o remount,rw "$M"; says 'opened for reading only'
mount -o remount,ro,noexec "$M"
umount.ondol "$M"
"#,
    );
    place.is_clean();
}

#[test]
fn a_volume_is_mounted_in_another_namespace() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
unshare --mount --propagation private \
    sh -c 'mount -t tmpfs none /media; : > "$1/ready"; exec sleep 1000' - "$D" & there=$!
started=$there
while [ ! -e "$D/ready" ]; do sleep 0.05; done
cp "$I" /media/here.img || :
mount -t tmpfs none /media
cp "$I" /media/only-here.img
mount -N $there -t ondol /media/only-here.img "$M"
! mounted
nsenter --mount=/proc/$there/ns/mnt touch "$M/there"
nsenter --mount=/proc/$there/ns/mnt sh -c "grep ' $M ' /proc/self/mountinfo" |
    grep -q ' - fuse.ondol /media/only-here.img '
umount.ondol "$M" -N $there
flock -n /media/only-here.img true
debugfs -R 'stat there' /media/only-here.img 2>/dev/null | grep -q regular
kill $there
"#,
    );
}

#[test]
fn mount_fuse_finds_the_helper_as_a_program() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
[ -e "$S/mount.fuse3" ] || { echo 'skipped: mount.fuse3 is not installed'; exit 0; }
mount -t fuse.mount.ondol -o data=journal "$I" "$M" 2> "$D/said" || mount -t fuse -o data=journal "mount.ondol#$I" "$M"
touch "$M/file"
umount.ondol "$M"
"#,
    );
    place.is_clean();
}
