//! What cannot be written is mounted read-only, and it is said why.

use crate::namespace::{place, run};

#[test]
fn a_write_protected_medium_is_mounted_read_only() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
mount -t ondol "$I" "$M"; echo text > "$M/file"; umount.ondol "$M"
sum=$(sha256sum < "$I")
read_only() {
    mounted
    [ "$(cat "$M/file")" = text ]
    fails 1 touch "$M/new"; says 'Read-only'
    umount.ondol "$M"
    [ "$sum" = "$(sha256sum < "$I")" ]
}
"$D/ondol" mount "$I" "$M" 2> "$D/said"; [ ! -s "$D/said" ]; touch "$M/file"; umount.ondol "$M"
sum=$(sha256sum < "$I")
# A loop device: the kernel opens it for writing all the same.
if L=$(losetup -f --show -r "$I" 2> /dev/null); then
    (
        trap 'losetup -d "$L"' EXIT
        "$D/ondol" mount "$L" "$M" 2> "$D/said"; says 'write-protected, mounted read-only'; read_only
        mount.ondol "$L" "$M" -N $$; read_only
        fails 1 "$D/ondol" mkfs -F "$L"; says 'read-only'
        fails 1 "$D/ondol" recover "$L"; says 'read-only'
        "$D/ondol" check -n "$L"
    )
else
    echo 'skipped: no loop devices'
fi
mkdir "$D/mnt-ro"; mount --bind "$D" "$D/mnt-ro"; mount -o remount,ro,bind "$D/mnt-ro"
"$D/ondol" mount "$D/mnt-ro/disk.img" "$M" 2> "$D/said"; says 'write-protected, mounted read-only'; read_only
chown 0 "$I"; chmod 444 "$I"; chmod 777 "$M"
as_nobody "$D/ondol" mount "$I" "$M" 2> "$D/said"; says 'write-protected, mounted read-only'
fails 1 as_nobody touch "$M/new"; says 'Read-only'
as_nobody "$D/ondol" umount "$M"
chmod 600 "$I"
fails 32 as_nobody "$D/ondol" mount "$I" "$M"; says 'ermission denied'
if chattr +i "$I" 2> /dev/null; then
    "$D/ondol" mount "$I" "$M" 2> "$D/said" || :
    chattr -i "$I"
    says 'write-protected, mounted read-only'; read_only
fi
# Without a journal nothing can be written safely.
truncate -s 32M "$D/plain.img"; mke2fs -q -O ^has_journal "$D/plain.img"
"$D/ondol" mount "$D/plain.img" "$M" 2> "$D/said"; says 'mounted read-only: .*no journal'
fails 1 touch "$M/new"; says 'Read-only'
umount.ondol "$M"
e2fsck -fn "$D/plain.img"
"#,
    );
}
