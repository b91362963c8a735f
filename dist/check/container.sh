#!/bin/sh
# Runs as the container's user, without any capability, in a root as a container has it: of its own, for reading only but for
# /volume and /tmp, with /dev/fuse. $1 is the entry point.
set -eu

what="nothing yet"
trying() { what=$1 && echo "  $what"; }
ended() { code=$? && { [ "$code" = 0 ] || echo "  this did not work: $what" >&2; }; }
trap ended EXIT
clean() { /sbin/e2fsck -fn "$ONDOL_IMAGE" > /tmp/said 2>&1 || { cat /tmp/said && exit 1; }; }

trying "an ordinary user without capabilities"
[ "$(id -u)" = 1000 ]
[ "$(sed -n 's/^CapBnd:\t//p' /proc/self/status)" = 0000000000000000 ]
if mount -t tmpfs none /data 2> /tmp/said; then exit 1; fi

trying "mounts, writes and unmounts"
"$1" sh -euc 'findmnt --types fuse.ondol /data > /tmp/said && cat > /data/note' << END
warm floor
END
if mountpoint --quiet /data; then exit 1; fi
clean

trying "the next one finds it"
[ "$("$1" cat /data/note)" = "warm floor" ]
clean

trying "the command's exit code"
code=0 && "$1" sh -c 'exit 7' || code=$?
[ "$code" = 7 ]

trying "nothing to mount, and no command"
code=0 && ONDOL_IMAGE=/etc/passwd "$1" true 2> /tmp/said || code=$?
[ "$code" = 32 ]
grep -q /etc/passwd /tmp/said
code=0 && "$1" 2> /tmp/said || code=$?
[ "$code" = 1 ]

trying "a signal ends the command, and the image is clean"
mkfifo /tmp/ready
"$1" sh -c 'echo late > /data/late && echo > /tmp/ready && exec sleep infinity' &
read -r _ < /tmp/ready
kill -TERM $!
code=0 && wait $! || code=$?
[ "$code" = 143 ]
clean
[ "$("$1" cat /data/late)" = late ]
