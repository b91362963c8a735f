//! Volumes that are mounted more than once: by bind mounts, in other mount namespaces, and by mount(8) on several
//! directories.

use crate::namespace::{place, roots_place, run};

/// umount(2) returns when its mount is gone, and so does this; who has the volume still is said, by whoever wants it.
#[test]
fn an_unmount_ends_with_its_own_mount_and_says_who_goes_on() {
    let Some(place) = roots_place() else { return };
    run(
        &place,
        r#"
within() { timeout 60 "$@"; }; saying() { "$@" > "$D/said"; }
silent() { [ ! -s "$D/said" ] || { cat "$D/said" >&2; exit 1; }; }
# Of umount(8) nothing is expected.
tells() { case $umount in *'ondol umount') says "$1" ;; *) silent ;; esac; }
mkdir "$D/mnt-b"; : > "$D/f"
for umount in "$D/ondol umount" umount.ondol umount.fuse.ondol; do
    "$D/ondol" mount "$I" "$M"; mkdir -p "$M/sub"; echo text > "$M/file"
    mount --bind "$M/sub" "$D/mnt-b"; "$D/ondol" info "$D/mnt-b" > "$D/said"; says 'state .*mounted'
    saying within $umount "$D/mnt-b"
    ! mounted "$D/mnt-b"; mounted
    tells "^$D/mnt-b is unmounted; $I is in use still by process [0-9]* (ondol), which serves it on $M\$"
    mount --bind "$M/file" "$D/f"; saying within $umount "$D/f"
    ! mounted "$D/f"; tells "^$D/f is unmounted.* on $M\$"
    [ "$(cat "$M/file")" = text ]
    mount --bind "$M" "$D/mnt-b"; saying within $umount "$M"
    ! mounted; tells "^$M is unmounted.* on $D/mnt-b\$"; [ "$(cat "$D/mnt-b/file")" = text ]
    fails 8 within "$D/ondol" check "$I"; says "in use by process [0-9]* (ondol), which serves it on $D/mnt-b\$"
    # The last one waits for a clean image, and has nothing to say.
    saying within $umount "$D/mnt-b"; silent
    flock -n "$I" true
done
# By force all of them have lost it.
"$D/ondol" mount "$I" "$M"; mount --bind "$M" "$D/mnt-b"
saying within "$D/ondol" umount --force "$D/mnt-b"; silent
flock -n "$I" true
umount -i -l "$M" || ! mounted # A server that has lost it may have done so.
# A signal ends a server, whatever is mounted still.
"$D/ondol" mount -f "$I" "$M" & server=$!; started=$server
while ! mounted; do sleep 0.05; done
mount --bind "$M" "$D/mnt-b"
kill -TERM $server; within tail --pid=$server -f /dev/null; wait $server
flock -n "$I" true
umount -i -l "$D/mnt-b"
# Another mount namespace has a copy.
copy() {
    rm -f "$D/ready"
    unshare --mount --propagation private sh -c ': > "$1/ready"; exec sleep 1000' - "$D" & there=$!
    started="$started $there"
    while [ ! -e "$D/ready" ] || [ "$(cat /proc/$there/comm)" != sleep ]; do sleep 0.05; done
}
elsewhere="which serves it on $M in the mount namespace of process"
for umount in "$D/ondol umount" umount.ondol; do
    "$D/ondol" mount "$I" "$M"; copy
    saying within $umount "$M"
    ! mounted; tells "^$M is unmounted; $I is in use still by process [0-9]* (ondol), $elsewhere $there (sleep)\$"
    for call in "8 check $I" "8 check -n $I" "32 mount $I $M" "1 info $I" \
        "1 tune --data ordered $I" "1 resize $I 96M"; do
        code=${call%% *}; fails $code within "$D/ondol" ${call#* }; says "$elsewhere $there (sleep)"
    done
    fails 32 within "$D/ondol" umount "$M"; says 'is not on a volume'
    kill $there; wait $there || :
    flock -w 60 "$I" true
done
# Who wants the image waits.
"$D/ondol" mount "$I" "$M"; copy
"$D/ondol" umount --wait "$M" > "$D/said" & waiting=$!; started="$started $waiting"
while mounted; do sleep 0.05; done
sleep 0.5; kill -0 $waiting
kill $there; wait $there || :
wait $waiting
silent; flock -n "$I" true
# The type is how mounts are known.
fails 1 "$D/ondol" mount -o subtype=other "$I" "$M"; says '`subtype=other` is not taken'
"$D/ondol" mount -o subtype=ondol "$I" "$M"; "$D/ondol" umount "$M"
"#,
    );
    place.is_clean();
}

/// Namespaces of others are not seen; that the file system is there is.
#[test]
fn a_user_is_told_that_somebody_has_it() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
as_nobody "$D/ondol" mount "$I" "$M"
unshare --mount --propagation private sh -c ': > "$1/ready"; exec sleep 1000' - "$D" & there=$!; started=$there
while [ ! -e "$D/ready" ]; do sleep 0.05; done
as_nobody timeout 60 "$D/ondol" umount "$M" > "$D/said"
! mounted; says 'is in use still by process [0-9]* (ondol), which serves it where this user does not see it'
kill $there; wait $there || :
flock -w 60 "$I" true
"#,
    );
    place.is_clean();
}

/// mount(8) may mount a file system of the kernel on several directories.
#[test]
fn mount_8_mounts_what_root_has_mounted_once_more() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
flags() { findmnt -n -o VFS-OPTIONS "$1"; }
mkdir "$D/mnt2" "$D/mnt3"
mount -t ondol -o data=journal,commit=7,allow_other "$I" "$M"
echo text > "$M/file"
mount -v -t ondol -o nosuid,nodev,noexec,noatime "$I" "$D/mnt2"
[ "$(cat "$D/mnt2/file")" = text ]; [ "$(stat -c %d "$M")" = "$(stat -c %d "$D/mnt2")" ]
[ "$(flags "$M")" = rw,relatime ]; [ "$(flags "$D/mnt2")" = rw,nosuid,nodev,noexec,noatime ]
# Flags are each mount's own, also where the first has more of them.
mount -t ondol -o ro,nosuid "$D/disk.img" "$D/mnt3"
fails 1 touch "$D/mnt3/new"; says 'Read-only'; touch "$M/new"
umount "$D/mnt3"
mount -i -o remount,bind,ro,nosuid,nodev "$M"
mount -t ondol -o data=journal,commit=7 "$I" "$D/mnt3"; [ "$(flags "$D/mnt3")" = rw,relatime ]; touch "$D/mnt3/newer"
umount "$D/mnt3"
mount -i -o remount,bind,rw "$M"
for other in data=ordered commit=8 cache=8M max_read=8192 log=/else sync; do
    fails 1 mount -t ondol -o $other "$I" "$D/mnt3"; says "option .$other. cannot be another"
    ! mounted "$D/mnt3"
done
fails 1 mount -t ondol -o sparkle "$I" "$D/mnt3"; says sparkle
# Not twice on one directory, and not by who names no helper.
fails 32 mount -t ondol "$I" "$M"; says 'in use'
fails 32 "$D/ondol" mount "$I" "$D/mnt3"; says 'in use'
# Each goes by itself.
umount.ondol -v "$M" > "$D/said"; says "on $D/mnt2"
[ "$(cat "$D/mnt2/file")" = text ]
umount.ondol "$D/mnt2"; flock -n "$I" true
# What was opened for reading is for reading.
mount -t ondol -o ro "$I" "$M"
fails 32 mount -t ondol "$I" "$D/mnt2"; says 'opened for reading only'
mount -t ondol -o ro "$I" "$D/mnt2"; umount -i "$M"; umount.ondol "$D/mnt2"; flock -n "$I" true
# A user's server is none for root.
as_nobody "$D/ondol" mount "$I" "$M"
fails 32 mount -t ondol "$I" "$D/mnt2"; says 'in use'
! mounted "$D/mnt2"
as_nobody "$D/ondol" umount "$M"
"#,
    );
    place.is_clean();
}
