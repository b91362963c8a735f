//! Servers with little: in a user namespace, with open descriptors only, under a service manager.

use crate::namespace::{place, run};
use crate::place::{Place, eventually};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

#[test]
fn a_user_mounts_in_a_namespace_of_its_own() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
as_nobody unshare --user --map-root-user true || { echo 'skipped: no user namespaces for users'; exit 0; }
if fusermount=$(command -v fusermount3); then mount --bind /dev/null "$fusermount"; fi
cat > "$D/user.sh" <<'USER'
cd "$D"
for access in rw allow_other; do
    ./ondol mount -o $access disk.img mnt
    grep " $D/mnt .* - fuse.ondol $D/disk.img .*user_id=0,group_id=0" /proc/self/mountinfo
    grep " $D/mnt " /proc/self/mountinfo | grep -q allow_other || [ $access = rw ]
    echo text > mnt/$access
    [ "$(stat -c %u:%g mnt/$access)" = 0:0 ]
    ! sh -c 'echo more >> mnt/other'
    ! chown 1234 mnt/$access
    ./ondol sync mnt
    ./ondol umount mnt
    flock -n disk.img true
done
USER
echo other > "$D/other"
debugfs -w -R "write $D/other other" "$I"; debugfs -w -R 'sif other uid 1234' "$I"
as_nobody unshare --user --map-root-user --mount sh -eux "$D/user.sh"
! mounted
[ "$(debugfs -R 'cat rw' "$I" 2>/dev/null)" = text ]
"#,
    );
    place.is_clean();
}

#[test]
fn descriptors_are_all_that_a_server_needs() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
root=$D/root; mkdir "$root"; cp "$D/ondol" "$root/"
for library in $(ldd "$D/ondol" | grep -o '/[^ ]*'); do
    mkdir -p "$root$(dirname $library)"; cp "$library" "$root$library"
done
exec 3<>"$I" 4<>/dev/fuse
rm "$I"
mount -i -t fuse.ondol -o fd=4,rootmode=40000,user_id=0,group_id=0 image "$M"
chroot --userspec=65534:65534 "$root" /ondol mount -f /dev/fd/3 /dev/fd/4 & started=$!
exec 4>&-
echo text > "$M/file"
sync "$M/file"
[ "$(stat -c %u "$M/file")" = 0 ]
umount -i "$M"
wait $started
cp /dev/fd/3 "$I"
[ "$(debugfs -R 'cat file' "$I" 2>/dev/null)" = text ]
# The same descriptor again, by a path to it, in the background; the table shows where the file can be opened.
"$D/ondol" mount /proc/self/fd/3 "$M"
[ "$(cat "$M/file")" = text ]
findmnt -n -o SOURCE "$M" | grep -q '^/proc/[0-9]*/fd/3$'
"$D/ondol" info "$M" > /dev/null
"$D/ondol" umount "$M"
exec 3>&-
"#,
    );
    place.is_clean();
}

#[test]
fn descriptors_that_do_not_fit_are_refused() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
before=$(sha256sum < "$I")
exec 3<"$I"
"$D/ondol" mount /dev/fd/3 "$M"
[ "$(findmnt -n -o SOURCE "$M")" = "$I" ]
fails 1 touch "$M/file"; says 'Read-only'
"$D/ondol" umount "$M"
fails 1 "$D/ondol" recover /dev/fd/3; says 'read-only'
"$D/ondol" check -n /dev/fd/3
exec 3>>"$I"
fails 32 "$D/ondol" mount /dev/fd/3 "$M"; says 'O_APPEND'
exec 3>&-
fails 32 "$D/ondol" mount /dev/fd/3 "$M"; says '/dev/fd/3'
fails 32 "$D/ondol" mount "$I" /dev/fd/9
exec 4<>/dev/fuse
fails 32 "$D/ondol" mount "$I" /dev/fd/4
exec 4>&-
[ "$(sha256sum < "$I")" = "$before" ] || "$D/ondol" check -n "$I"
"#,
    );
    place.is_clean();
}

#[test]
fn a_service_manager_is_told() {
    let Some(place) = Place::new() else { return };
    let socket = place.image().with_file_name("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut server = place.mount_command().arg("-f").env("NOTIFY_SOCKET", &socket).spawn().unwrap();
    let mut heard = [0; 256];
    let mut hear = || {
        let n = manager.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..n]).into_owned()
    };
    let first = hear();
    assert!(first.contains("READY=1") && place.is_mounted(), "{first}");
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert!(hear().contains("STOPPING=1"));
    assert!(server.wait().unwrap().success());
    assert!(eventually(|| place.is_unlocked()));
    place.is_clean();
}
