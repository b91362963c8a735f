#!/bin/sh
# Runs as root in a mount namespace of its own. $1 is a root that has nothing but the program in it: no libc, no /etc.
set -eu

what="nothing yet"
trying() { what=$1 && echo "  $what"; }
ended() { code=$? && { [ "$code" = 0 ] || echo "  this did not work: $what" >&2; }; }
trap ended EXIT
root=$1
ondol() { chroot "$root" /ondol "$@"; }

trying "makes an image, copies into it, and checks it"
ondol mkfs --quiet --size 64M /data.img
echo "warm floor" > "$root/note"
ondol cp /data.img /note :/note
rm "$root/note"
[ "$(ondol cat /data.img /note)" = "warm floor" ]
ondol check -n /data.img > "$root/said"

if [ ! -e /dev/fuse ]; then
    echo "  skipped: it mounts nothing: there is no /dev/fuse"
    exit 0
fi
trying "mounts and unmounts, with /dev and /proc"
mkdir "$root/dev" "$root/mnt" "$root/proc"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
ondol mount /data.img /mnt
[ "$(cat "$root/mnt/note")" = "warm floor" ]
echo late > "$root/mnt/late"
ondol umount /mnt
[ "$(ondol cat /data.img /late)" = late ]
ondol check -n /data.img > "$root/said"
umount --recursive "$root/dev"
umount "$root/proc"
