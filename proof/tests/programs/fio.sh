#!/usr/bin/env bash
#: about fio with verification: buffered, O_DIRECT, mmap, libaio, io_uring, several jobs, holes filled
#: needs fio=fio
#: version fio --version
#: size 1G
. "$COMMON"

jobs=0
verify() {
    local name="$1"
    shift
    fio --name="$name" --directory="$MNT" --size=$((24 * SCALE))M --randseed="$SEED" --verify=crc32c --verify_fatal=1 \
        --output-format=terse --output="$name.out" --numjobs=2 --group_reporting "$@" || { cat "$name.out"; exit 1; }
    jobs=$((jobs + 2))
}
verify buffered --ioengine=psync --rw=randwrite --bsrange=512-64k --bs_unaligned --norandommap=0
verify synced --ioengine=sync --rw=randwrite --bs=4k --fsync=64 --verify_backlog=512
verify dsync --ioengine=psync --sync=dsync --rw=write --bs=16k --io_size=4M
verify direct --ioengine=libaio --direct=1 --iodepth=16 --rw=randwrite --bs=4k
verify direct-mixed --ioengine=libaio --direct=1 --iodepth=8 --rw=randrw --bsrange=4k-128k --verify_backlog=64
verify mapped --ioengine=mmap --rw=randwrite --bs=4k --fsync=256
verify reserved --ioengine=psync --fallocate=keep --rw=randwrite --bs=8k
verify allocated --ioengine=libaio --fallocate=posix --iodepth=4 --rw=randwrite --bs=8k --direct=1
verify sparse --ioengine=psync --fallocate=none --rw=randwrite --bs=4k --io_size=4M --verify_backlog=128
if fio --name=probe --directory="$HOST" --size=4k --ioengine=io_uring --rw=write >/dev/null 2>&1; then
    verify ring --ioengine=io_uring --iodepth=32 --rw=randwrite --bs=4k
    verify ring-direct --ioengine=io_uring --iodepth=32 --direct=1 --rw=randwrite --bs=16k --verify_async=2
fi
# What was written is there when the pages are gone.
fio --name=again --filename="$MNT/again" --size=$((24 * SCALE))M --rw=randwrite --bs=4k --verify=crc32c --do_verify=0 \
    --end_fsync=1 --randseed="$SEED" --output-format=terse --output=again.out
dd of="$MNT/again" oflag=nocache conv=notrunc,fdatasync count=0 2>&1
fio --name=again --filename="$MNT/again" --size=$((24 * SCALE))M --rw=randwrite --bs=4k --verify=crc32c --verify_only=1 \
    --verify_fatal=1 --randseed="$SEED" --output-format=terse --output=again.out || { cat again.out; exit 1; }
echo "$((jobs + 1)) jobs of $((24 * SCALE)) MiB"
