//! Locks of users who can only read an image or a pool: they keep root from nothing, and root's own processes still see
//! each other.

use crate::namespace::{roots_place, run};

/// `hold` and `release`: a lock on a file by nobody, who opens it for reading only, in the process `$holder`.
const HOLDER: &str = r#"
# No function: what runs in the background is to be this very process.
nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
hold() {
    # It waits: the one that looks may have the lock just then.
    $nobody flock -F $1 "$2" sleep 1000 & holder=$!; started="$started $holder"
    while flock -n "$2" true; do sleep 0.05; done
    while [ "$(cat /proc/$holder/comm)" != sleep ]; do sleep 0.05; done
}
release() { kill $holder; wait $holder || :; }
chown 0:0 "$I"; chmod 644 "$I"
mkdir "$D/mnt2"
"#;

#[test]
fn a_reader_keeps_root_from_no_image() {
    let Some(place) = roots_place() else { return };
    let script = r#"
for how in -s -x; do
    hold $how "$I"
    "$D/ondol" info "$I" > "$D/said"; says 'state .*clean'
    "$D/ondol" ls "$I" / > /dev/null
    "$D/ondol" check "$I"
    "$D/ondol" recover "$I"
    "$D/ondol" tune --data ordered "$I"
    "$D/ondol" mount "$I" "$M" 2> "$D/said"; says "process $holder (sleep) of user 65534 is passed over"
    echo text > "$M/file"
    # With the reader and without him.
    for without in false true; do
        ! $without || release
        fails 32 "$D/ondol" mount "$I" "$D/mnt2"; says "(ondol), which serves it on $M"
        fails 8 "$D/ondol" check "$I"; says "(ondol), which serves it on $M"
    done
    # A user who may write has the lock for the asking, and sees root all the same.
    chmod 666 "$I"; flock -n "$I" true
    fails 8 as_nobody "$D/ondol" check "$I"; says "is in use by process [0-9]* (ondol)"
    chmod 644 "$I"
    "$D/ondol" umount "$M"
    flock -n "$I" true
    e2fsck -fn "$I"
done
# A mount for reading is in nobody's way, and is in the way of one for writing.
hold -x "$I"
"$D/ondol" mount -o ro "$I" "$M"
"$D/ondol" mount -o ro "$I" "$D/mnt2"; "$D/ondol" umount "$D/mnt2"
fails 32 "$D/ondol" mount "$I" "$D/mnt2"; says "(ondol), which serves it on $M"
release
fails 32 "$D/ondol" mount "$I" "$D/mnt2"; says "(ondol), which serves it on $M"
"$D/ondol" umount "$M"
# Without the reader, root's mount for reading has its lock, and a reader who comes later takes nothing away from it.
"$D/ondol" mount -o ro "$I" "$M"; hold -s "$I"
fails 32 "$D/ondol" mount "$I" "$D/mnt2"; says "(ondol), which serves it on $M"
"$D/ondol" umount "$M"; release
"#;
    run(&place, &format!("{HOLDER}{script}"));
    place.is_clean();
}

#[test]
fn a_writers_lock_counts_and_a_dead_process_has_none() {
    let Some(place) = roots_place() else { return };
    let script = r#"
# He has it open for writing, also when he may not open it again.
chmod 666 "$I"
$nobody sh -c 'exec 9<> "$1"; flock 9; exec sleep 1000' - "$I" & writer=$!; started="$started $writer"
while flock -n "$I" true; do sleep 0.05; done
for mode in 666 644; do
    chmod $mode "$I"
    fails 32 "$D/ondol" mount "$I" "$M"; says "is in use by"
    fails 8 "$D/ondol" check "$I"; says "is in use by"
done
kill $writer; wait $writer || :
# A writer without a lock beside a reader with one.
hold -s "$I"
exec 8<> "$I"
fails 32 "$D/ondol" mount "$I" "$M"; says "is in use by process $holder (sleep)"
exec 8>&-
# Root's mount dies, with the reader and without him.
for without in false true; do
    ! $without || release
    "$D/ondol" mount -f "$I" "$M" & server=$!; started="$started $server"
    while ! mounted; do sleep 0.05; done
    kill -KILL $server; wait $server || :
    umount -l "$M"
    "$D/ondol" recover "$I"
    "$D/ondol" mount "$I" "$M"; "$D/ondol" umount "$M"
done
"#;
    run(&place, &format!("{HOLDER}{script}"));
    place.is_clean();
}

#[test]
fn a_reader_keeps_root_from_no_pool_and_no_loop_device() {
    let Some(place) = roots_place() else { return };
    let script = r#"
P=$D/pool
"$D/ondol" pool create --size 16M "$P"; chmod 644 "$P"
for how in -s -x; do
    hold $how "$P"
    "$D/ondol" pool info "$P" > /dev/null
    "$D/ondol" recover "$I"
    "$D/ondol" mount -o "nvm=$P" "$I" "$M"
    echo text > "$M/$how"
    release
    fails 1 "$D/ondol" pool info "$P"; says "is in use by process"
    fails 1 "$D/ondol" pool create -F "$P"; says "is in use by process"
    "$D/ondol" umount "$M"
done
"$D/ondol" pool info "$P" > /dev/null
device=$(losetup -f --show "$I" 2> "$D/said") || { echo "skipped: no loop devices"; exit 0; }
for how in -s -x; do
    hold $how "$I"
    "$D/ondol" check "$device" || broken=1
    release
done
losetup -d "$device"
[ -z "$broken" ]
"#;
    run(&place, &format!("{HOLDER}{script}"));
    place.is_clean();
}
