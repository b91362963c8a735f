#!/usr/bin/env bash
#: about xfstests' quick group as it is for FUSE; XFSTESTS names the directory in which it was built
#: needs xfs_io=xfsprogs gawk=gawk bc=bc setfacl=acl setfattr=attr quota=quota unshare=util-linux
#: version test -n "$XFSTESTS" && git -C "$XFSTESTS" describe --always 2>/dev/null; true
#: size 2G
#: seconds 10800
#: root
#: mounts
. "$COMMON"

[ -n "${XFSTESTS:-}" ] || skip 'XFSTESTS does not name a directory with xfstests: git clone https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git, and make there'
[ -x "$XFSTESTS/src/lstat64" ] || skip "$XFSTESTS has no xfstests that were built"
for user in fsgqa fsgqa2 123456-fsgqa; do
    id "$user" >/dev/null 2>&1 || skip "no user $user: useradd --badname -m $user"
done
# The helpers of mount(8) and umount(8) are there for these mounts alone.
[ -n "${APART:-}" ] || APART=yes exec unshare -m bash -euo pipefail "$0"

# What a rule of the kernel's FUSE or of this machine makes impossible; docs/programs.md has the reasons, row by row.
unable='generic/003 generic/020 generic/079 generic/424 generic/633 generic/683 generic/684 generic/685 generic/696 generic/697'
# Root needs CAP_SYS_RESOURCE for these, on every file system.
[ $((0x$(awk '/^CapEff/ {print $2}' /proc/self/status) >> 24 & 1)) = 1 ] || unable="$unable generic/394 generic/531 generic/564"

mkdir sbin helpers test scratch results
mount --bind /usr/sbin sbin
ln -s "$HOST"/sbin/* helpers/
for helper in mount.fuse.ondol umount.fuse.ondol; do
    ln -sf "$ONDOL" "helpers/$helper"
done
mount --bind helpers /usr/sbin
# It knows the type without what comes after the point.
mkdir bin
printf '#!/bin/sh\n%s "$@" | sed "s/fuse[.]ondol/fuse      /"\n' "$(command -v df)" >bin/df
chmod +x bin/df
export PATH="$HOST/bin:$PATH"

# place NAME: a volume of 2 GiB, as mount(8) names it, in `place`, with what its options need in `more`.
place() {
    more=
    case $TARGET in
    remap)
        "$ONDOL" pool create --size 2500M "$HOST/$1.pool" >/dev/null
        place="nvm:$HOST/$1.pool"
        "$ONDOL" mkfs "$place" >/dev/null
        return ;;
    scalable)
        "$ONDOL" pool create --size 256M "$HOST/$1.pool" >/dev/null
        more=",nvm=$HOST/$1.pool" ;;
    esac
    mke2fs -q -F -t ext4 "$HOST/$1.img" 2G
    place="$HOST/$1.img"
}
for name in test scratch; do
    place $name
    if [ "$TARGET" = kernel ]; then
        place=$(losetup --show -f "$place")
    fi
    declare "${name}_dev=$place" "${name}_more=$more"
done
ended() {
    for mounted in "$HOST/scratch" "$HOST/test"; do
        ! mountpoint -q "$mounted" || umount "$mounted" || umount -l "$mounted"
    done
    [ "$TARGET" != kernel ] || losetup -d "$test_dev" "$scratch_dev"
}
trap ended EXIT

# The pool of each volume is its own; what else is asked for is the same.
common=$(sed -E 's/(^|,)nvm=[^,]*//' <<<"$OPTIONS")
cat >config <<CONFIG
export TEST_DEV=$test_dev TEST_DIR=$HOST/test SCRATCH_DEV=$scratch_dev SCRATCH_MNT=$HOST/scratch RESULT_BASE=$HOST/results
CONFIG
if [ "$TARGET" = kernel ]; then
    echo 'export FSTYP=ext4' >>config
else
    cat >>config <<CONFIG
export FSTYP=fuse FUSE_SUBTYP=.ondol
export MOUNT_OPTIONS="-o$common$scratch_more" TEST_FS_MOUNT_OPTS="-o$common$test_more"
CONFIG
fi
export HOST_OPTIONS="$HOST/config"
which=(-g quick)
[ -z "$SHORT" ] || which=(generic/001 generic/005 generic/013 generic/128 generic/306 generic/363 generic/732)
cd "$XFSTESTS"
./check "${which[@]}" 2>&1 | tee "$HOST/said" || true
for mounted in "$HOST/scratch" "$HOST/test"; do
    ! mountpoint -q "$mounted" || umount "$mounted"
done
if [ "$TARGET" != remap ]; then
    for name in test scratch; do
        e2fsck -fn "$HOST/$name.img"
    done
fi
failed=$(sed -n 's/^Failures: //p' "$HOST/said" | tail -n 1)
count() { sed -n "s/^$1: //p" "$HOST/said" | tail -n 1 | wc -w; }
[ "$(count Ran)" -gt 0 ] || { echo 'nothing ran'; exit 1; }
wrong=
for name in $failed; do
    [[ " $unable " == *" $name "* ]] || wrong="$wrong $name"
done
[ -z "$wrong" ] || { echo "failed:$wrong"; exit 1; }
echo "$(($(count Ran) - $(count 'Not run') - $(wc -w <<<"$failed"))) passed, $(count 'Not run') not run, failed as said:${failed:+ $failed}"
