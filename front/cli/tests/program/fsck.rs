//! The checker, called by fsck(8).

use crate::namespace::{place, run};

#[test]
fn fsck_8_checks() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
# Leaves transactions in the journal of $I.
dirty() {
    "$D/ondol" mount -f "$I" "$M" & server=$!; started=$server
    while ! mounted; do sleep 0.05; done
    echo text > "$M/file"; "$D/ondol" sync "$M"; echo more >> "$M/file"
    kill -9 $server; wait $server || :
    umount -i "$M"
}
# fsck(8) goes by the type in fstab, and only without a line there by what lies on the medium.
echo "$I $M ondol noauto 0 0" > "$D/fstab"
fsck -t ondol -a "$I" > "$D/said"; says 'clean, .* files, .* blocks'
for option in -p -a -y -n -f -fp -fy -fn -v -C0 -r; do fsck.ondol $option "$I"; done
fsck -t ondol -V "$I" -- -f > "$D/said"; says '/fsck.ondol '; says 'inodes and'
fails 16 fsck.ondol --sparkle "$I"
fails 16 fsck.ondol -Q "$I"
fails 16 fsck.ondol
fails 16 fsck.ondol -p -n "$I"
fails 8 fsck.ondol "$D/absent"
dirty
fails 4 fsck -t ondol -n "$I"; says 'holds transactions'
fails 0 fsck -t ondol -a "$I"; says 'replayed'
fails 0 fsck -t ondol -a "$I"
e2fsck -fn "$I"
dirty
fails 1 fsck -t ondol -f -y "$I"; says 'replayed'
fails 0 fsck -t ondol -f -y "$I"
dirty
fails 1 "$D/ondol" check "$I"
fails 0 "$D/ondol" check "$I"
debugfs -w -R 'ssv state 2' "$I"
fails 0 fsck -t ondol -n "$I"
fails 1 fsck -t ondol -a "$I"; says 'marked as checked'
fails 0 fsck -t ondol -a "$I"
dumpe2fs -h "$I" 2>/dev/null | grep -q 'Filesystem state: *clean'
e2fsck -fn "$I"
debugfs -w -R 'sif <2> links_count 9' "$I"
fails 0 fsck -t ondol -a "$I"
fails 4 fsck -t ondol -f -a "$I"; says 'e2fsck -f'
e2fsck -fy "$I" || :
mount -t ondol "$I" "$M"
fails 8 fsck -t ondol -a "$I"; says 'in use'
umount.ondol "$M"
"#,
    );
    place.is_clean();
}
