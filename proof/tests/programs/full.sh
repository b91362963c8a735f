#!/usr/bin/env bash
#: about small images filled by dd, tar, git, SQLite, mappings and several writers at once, emptied, filled again
#: needs git=git sqlite3=sqlite3 tar=tar python3=python3 mke2fs=e2fsprogs
#: version mke2fs -V 2>&1
#: seconds 400
#: kills
. "$COMMON"

trap 'kill -9 $SERVER 2>/dev/null; umount -l "$MNT" 2>/dev/null || true' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
tree tree
rm -r tree/*/hole
tar cf tree.tar tree

# free: blocks and inodes that are free, after what waits for a commit is through. Where blocks are smaller than pages, SQLite
# maps pages that it allocated in part; through FUSE the rest finds no room at writeback only, which one sync reports.
free() {
    "$ONDOL" sync "$MNT" 2>sync.err || { grep -q 'No space left' sync.err && "$ONDOL" sync "$MNT" || return; }
    stat -f -c '%f %d' "$MNT"
}

# all_free: as much is free as there was ($before), soon: the kernel forgets what was removed a moment later, or more on a busy machine.
all_free() {
    local after
    for _ in $(seq 100); do
        after=$(free)
        [ "$before" != "$after" ] || return 0
        sleep 0.1
    done
    echo "free was $before, is $after"
    exit 1
}

# Writes numbered pages until there is no room; what write(2) accepted must be read back.
cat >pages.py <<'PY'
import errno, mmap, os, sys
where, how = sys.argv[1], sys.argv[2]
def page(i): return (b'%012d' % i) * 341 + b'page'
f = os.open(where + '/pages', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
n = 0
try:
    while True:
        if how == 'fallocate':
            os.posix_fallocate(f, n * 4096, 4096)
        put = os.pwrite(f, page(n), n * 4096)
        if put < 4096:
            break
        n += 1
        if how == 'fsync' and n % 64 == 0:
            os.fsync(f)
except OSError as e:
    assert e.errno == errno.ENOSPC, e
os.fsync(f)
if how == 'mapped' and n > 8:
    with mmap.mmap(f, n * 4096) as m:
        for i in range(0, n, 3):
            m[i * 4096:i * 4096 + 4096] = page(i + 7)
        m.flush()
    wanted = lambda i: page(i + 7) if i % 3 == 0 else page(i)
else:
    wanted = page
os.close(f)
with open(where + '/pages', 'rb') as f:
    for i in range(n):
        assert f.read(4096) == wanted(i), (i, n)
print(how, n, 'pages')
PY

# Whatever says that there is no room may fail; nothing may fail otherwise.
may_be_full() {
    if "$@" >said 2>&1; then return; fi
    if ! grep -qiE 'no space left|disk is full|disk full|out of memory \(ENOSPC\)' said; then
        cat said
        echo "$* failed otherwise than without room"
        exit 1
    fi
    refused=$((refused + 1))
}

refused=0
fill() {
    local before number
    before=$(free)
    for how in write fsync fallocate mapped; do
        python3 pages.py "$MNT" $how
        rm "$MNT/pages"
    done
    all_free
    for number in 1 2; do
        may_be_full tar xf tree.tar -C "$MNT"
        may_be_full cp -r tree "$MNT/copy"
        rm -rf "$MNT/tree/directory 1" "$MNT/copy/directory 2"
        may_be_full cp -r tree "$MNT/copy"
        rm -rf "$MNT/tree" "$MNT/copy"
    done
    # A directory in use keeps its blocks; the root's has grown by none.
    all_free
    mkdir "$MNT/many"
    may_be_full python3 -c 'import sys
for i in range(10**6): open(sys.argv[1] + "/%d-a-name-of-some-length" % i, "w").close()' "$MNT/many"
    may_be_full dd if=/dev/zero of="$MNT/fill" bs=64k
    find "$MNT/many" -name '*7-*' -delete
    may_be_full sh -c "for i in 1 2 3 4 5 6; do ln -s /nowhere \"$MNT/many/link-\$i\"; mv \"$MNT/many/link-\$i\" \"$MNT/many/renamed-\$i\"; done"
    rm -r "$MNT/many"
    rm -f "$MNT/fill"
    writers
    git_and_sqlite
    all_free
}

# Four at once, each with files that it removes and makes anew when it is refused.
writers() {
    local w jobs=()
    for w in 1 2 3 4; do
        (mkdir "$MNT/w$w"
        for i in $(seq $((40 * SCALE))); do
            if ! head -c $(((RANDOM % 40 + 1) * 8192)) /dev/zero 2>"err$w" >"$MNT/w$w/$i"; then
                grep -qi 'no space left' "err$w" || { cat "err$w"; exit 1; }
                rm -f "$MNT/w$w"/*[13579]
            fi
        done
        rm -r "$MNT/w$w") &
        jobs+=($!)
    done
    for w in "${jobs[@]}"; do wait "$w"; done
}

git_and_sqlite() {
    may_be_full git init -q "$MNT/repo"
    for i in 1 2 3; do
        may_be_full cp -r "tree/directory $i" "$MNT/repo/"
        may_be_full git -C "$MNT/repo" -c safe.directory='*' add -A
        may_be_full git -C "$MNT/repo" -c safe.directory='*' -c user.name=a -c user.email=a@b commit -qm x --allow-empty
    done
    rm -rf "$MNT/repo"
    for mode in DELETE WAL; do
        local base="$MNT/$mode.db"
        may_be_full sqlite3 "$base" "PRAGMA journal_mode=$mode; CREATE TABLE t(v);"
        for _ in $(seq 300); do
            refused=0
            may_be_full sqlite3 "$base" 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 200)
                INSERT INTO t SELECT hex(randomblob(1000)) FROM n;'
            [ "$refused" = 0 ] || break
        done
        [ "$(sqlite3 "$base" 'PRAGMA integrity_check')" = ok ]
        may_be_full sqlite3 "$base" 'DELETE FROM t WHERE rowid % 2 = 0; INSERT INTO t VALUES(1);'
        [ "$(sqlite3 "$base" 'PRAGMA integrity_check')" = ok ]
        rm "$base"*
    done
}

images=0
forms=('4M' '16M' '16M -b 4096' '32M -b 1024' '64M -I 128 -N 64')
[ -z "$SHORT" ] || forms=('4M')
for form in "${forms[@]}"; do
    read -r size args <<<"$form"
    rm -f "$IMAGE"
    # shellcheck disable=SC2086
    mke2fs -qFt ext4 $args "$IMAGE" "$size" 2>mke2fs.out || { cat mke2fs.out; exit 1; }
    serve
    echo "image $form: $(free) free"
    fill
    unserve
    e2fsck -fn "$IMAGE" >e2fsck.out 2>&1 </dev/null || { cat e2fsck.out; exit 1; }
    images=$((images + 1))
done
trap - EXIT
echo "$images images"
