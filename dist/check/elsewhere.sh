#!/bin/sh
# Runs as root in the root of another system, with the tarball in /tmp. Mounts as an ordinary user where there is fusermount3.
set -eu

what="nothing yet"
trying() { what=$1 && echo "  $what"; }
ended() { code=$? && { [ "$code" = 0 ] || echo "  this did not work: $what" >&2; }; }
trap ended EXIT
if [ -z "${1-}" ] && command -v fusermount3 > /dev/null; then
    # It is for everybody, as udev makes it; there may be no udev here.
    mknod -m 666 /tmp/fuse c 10 229
    mount --bind /tmp/fuse /dev/fuse
    echo 'user:x:1000:1000::/srv/user:/bin/sh' >> /etc/passwd
    [ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab
    install -d -o 1000 -g 1000 /srv/user
    cd /srv/user
    exec setpriv --reuid=1000 --regid=1000 --clear-groups sh "$0" again
fi
[ -d /srv/user ] || mkdir -p /srv/user
cd /srv/user
export HOME=/srv/user

trying "from the tarball to a mounted volume, as user $(id -u)"
mkdir mnt
began=$(date +%s)
tar -xJf /tmp/ondol.tar.xz
ondol-*/ondol mount --create 1G data.img mnt
seconds=$(($(date +%s) - began))
[ "$seconds" -lt 20 ]
echo "  seconds: $seconds"
ondol=$(echo "$PWD"/ondol-*/ondol)
echo "warm floor" > mnt/note
"$ondol" umount mnt
trying "the image is clean, and has what was written"
"$ondol" check -n data.img > said
[ "$("$ondol" cat data.img /note)" = "warm floor" ]

trying "ondol run"
if "$ondol" run --buffer pool -- grep preload- /proc/self/maps > said 2> words; then
    "$ondol" run --buffer pool -- dd if=/dev/zero of=file bs=4k count=64 oflag=dsync 2> words
    [ "$(stat -c %s file)" = 262144 ]
else
    # It says why the library is not loaded, and the program runs.
    sed 's/^/  /' words
    grep -q "as without this command" words
    [ "$("$ondol" run --quiet --buffer pool -- echo lives)" = lives ]
fi
