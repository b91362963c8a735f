# Shared by the scripts beside it. They run in $HOST (a directory outside) with `set -euo pipefail`; $MNT is the mount,
# $COMPARED not empty where the cases in $LIST are compared with the kernel's,
# $SCALE how much longer than usual, $SHORT not empty for a glance only, $SEED what random choices begin from. Exit code 77: not possible here.

# skip WHY: nothing to do here.
skip() { echo "$*"; exit 77; }

# serve: mounts $IMAGE on $MNT by a server that this script may kill.
serve() {
    "$ONDOL" mount -f -o "$OPTIONS" "$IMAGE" "$MNT" >>"$HOST/server.log" 2>&1 &
    SERVER=$!
    for _ in $(seq 600); do
        mountpoint -q "$MNT" && return
        kill -0 "$SERVER" 2>/dev/null || break
        sleep 0.1
    done
    tail -5 "$HOST/server.log"
    echo "the image cannot be mounted"
    return 1
}

# unserve: unmounts; the image is clean then.
unserve() {
    "$ONDOL" umount "$MNT"
    wait "$SERVER"
}

# kill_server: kill -9, and what is left must be sound after e2fsck's own replay; where that refuses a compressed journal, after ours.
kill_server() {
    kill -9 "$SERVER"
    wait "$SERVER" 2>/dev/null || true
    umount -l "$MNT"
    cp --sparse=always "$IMAGE" "$HOST/crashed"
    local code=0
    e2fsck -fy "$HOST/crashed" >"$HOST/e2fsck" 2>&1 </dev/null || code=$?
    if [ "$code" = 8 ] && grep -q FEATURE_I30 "$HOST/e2fsck"; then
        code=0
        "$ONDOL" recover "$HOST/crashed" >"$HOST/e2fsck" 2>&1 || code=9
    fi
    if [ "$code" -gt 1 ] || ! e2fsck -fn "$HOST/crashed" >>"$HOST/e2fsck" 2>&1 </dev/null; then
        cat "$HOST/e2fsck"
        echo "e2fsck finds more than a crash leaves"
        return 1
    fi
    rm "$HOST/crashed"
}

# tree DIR: a tree with some hundred files of all sizes, names and kinds.
tree() {
    local d f
    for d in $(seq 12); do
        mkdir -p "$1/directory $d/sub-$d"
        for f in $(seq 25); do
            head -c $((f * f * 37)) /dev/urandom >"$1/directory $d/sub-$d/file $f.txt"
        done
        ln -s "sub-$d/file 3.txt" "$1/directory $d/link"
        ln "$1/directory $d/sub-$d/file 7.txt" "$1/directory $d/sub-$d/hard"
        mkfifo "$1/directory $d/pipe"
        truncate -s 1M "$1/directory $d/hole"
    done
}
