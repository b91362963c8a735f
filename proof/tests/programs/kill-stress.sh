#!/usr/bin/env bash
#: about stress-ng's changes of names, ranges and attributes, fsx and Postmark at once while the mount is killed; e2fsck after each
#: needs stress-ng=stress-ng postmark=postmark e2fsck=e2fsprogs
#: version stress-ng --version
#: size 256M
#: seconds 300
#: root
#: kills
. "$COMMON"

trap 'kill -9 $SERVER 2>/dev/null; umount -l "$MNT" 2>/dev/null || true' EXIT
mixes=('--rename 1 --link 1 --symlink 1 --dentry 1 --xattr 1 --chown 1' '--fallocate 1 --fallocate-bytes 8M --fpunch 1 --hdd 1 --hdd-bytes 16M --copy-file 1'
    '--dir 1 --dirdeep 1 --dirdeep-inodes 2000 --mknod 1 --open 1 --utime 1' '--seek 1 --seek-size 8M --mmap 1 --mmap-file --mmap-bytes 8M --revio 1 --revio-bytes 8M --aio 1'
    '--filename 1 --filename-opts posix --chattr 1 --lease 1 --iomix 1 --iomix-bytes 8M --getdent 1')
killed=0
serve
for round in $(seq $((10 * SCALE))); do
    work="$MNT/round $round"
    mkdir "$work" 2>/dev/null || { rm -rf "$MNT"/round*; mkdir "$work"; }
    jobs=()
    touch on
    for i in 0 1; do
        read -ra mix <<<"${mixes[(round + i * 2) % ${#mixes[@]}]}"
        # What finds no room makes some and begins again.
        (while [ -e on ]; do
            stress-ng --temp-path "$work" --timeout 4 "${mix[@]}" || rm -rf "$work"/*
        done >"said$i" 2>&1 </dev/null) &
        jobs+=($!)
    done
    printf 'set location %s\nset subdirectories 50\nset number 1000\nset transactions 10000\nset seed %s\nrun\nquit\n' "$work" "$round" >config
    (while [ -e on ]; do postmark config; done >postmark.log 2>&1) &
    jobs+=($!)
    sleep 1.$((RANDOM % 10))
    # On a small image, pages of mappings may find no room, which sync reports.
    [ $((round % 3)) != 0 ] || "$ONDOL" sync "$MNT" 2>sync.err || grep 'No space left' sync.err
    rm on
    kill_server
    for job in "${jobs[@]}"; do wait "$job" || true; done
    serve
    killed=$((killed + 1))
    find "$MNT" >/dev/null
    [ $((round % 2)) = 0 ] || rm -rf "$MNT"/round*
done
trap - EXIT
unserve
echo "$killed kills"
