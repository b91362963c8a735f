#!/usr/bin/env bash
#: about SQLite and RocksDB while the mount is killed: no commit that returned is lost, both find themselves whole
#: needs python3=python3 db_bench=rocksdb-tools ldb=rocksdb-tools e2fsck=e2fsprogs
#: version python3 -c 'import sqlite3; print("SQLite", sqlite3.sqlite_version)'; true
#: size 512M
#: seconds 300
#: kills
. "$COMMON"

trap 'kill -9 $SERVER 2>/dev/null; umount -l "$MNT" 2>/dev/null || true' EXIT

# Commits numbered rows until the mount is gone, and says each number on the host when its commit has returned.
cat >commit.py <<'PY'
import os, sqlite3, sys
base, mode, acked = sys.argv[1], sys.argv[2], open(sys.argv[3], 'a', buffering=1)
c = sqlite3.connect(base, isolation_level=None)
c.execute('PRAGMA journal_mode=' + mode)
# FULL does not sync the directory after the removal of the journal, which is the commit.
c.execute('PRAGMA synchronous=EXTRA')
c.execute('PRAGMA wal_autocheckpoint=50')
c.execute('CREATE TABLE IF NOT EXISTS t(k INTEGER PRIMARY KEY, v TEXT)')
k = c.execute('SELECT coalesce(max(k), 0) FROM t').fetchone()[0]
while True:
    k += 1
    try:
        c.execute('BEGIN')
        c.execute('INSERT INTO t VALUES(?, hex(randomblob(300)))', (k,))
        c.execute('UPDATE t SET v = v || k WHERE k = ?', (k // 2,))
        c.execute('COMMIT')
        # A directory that cannot be opened for its sync any more is no error to SQLite: is the mount still there?
        os.statvfs(os.path.dirname(base))
    except (sqlite3.Error, OSError):
        sys.exit(0)
    print(k, file=acked)
PY
cat >judge.py <<'PY'
import sqlite3, sys
acked = [int(line) for line in open(sys.argv[2]) if line.endswith('\n')]
last = acked[-1] if acked else 0
c = sqlite3.connect(sys.argv[1])
assert c.execute('PRAGMA integrity_check').fetchone()[0] == 'ok'
n, top = c.execute('SELECT count(*), coalesce(max(k), 0) FROM t').fetchone()
assert n == top, (n, top)
assert last <= top <= last + 1, (sys.argv[1], 'committed', last, 'found', top)
print(last)
PY
kills=$((6 * SCALE)) commits=0
# Whoever is late must not find a directory without the mount.
work="$MNT/work"
serve
mkdir "$work"
"$ONDOL" sync "$MNT"
for round in $(seq "$kills"); do
    jobs=()
    for mode in DELETE WAL; do
        python3 commit.py "$work/$mode.db" $mode acked-$mode >>clients.log 2>&1 &
        jobs+=($!)
    done
    db_bench --db="$work/rocks" --benchmarks=fillrandom --num=2000000 --value_size=300 --sync=$((round % 2)) --duration=60 \
        --use_existing_db=$((round > 1)) --write_buffer_size=500000 --target_file_size_base=500000 >>rocks.log 2>&1 &
    jobs+=($!)
    sleep $((1 + RANDOM % 2)).$((RANDOM % 10))
    kill_server
    for job in "${jobs[@]}"; do
        # RocksDB may wait for a space that never comes back.
        kill -9 "$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
    done
    serve
    for mode in DELETE WAL; do
        [ ! -s acked-$mode ] || last=$(python3 judge.py "$work/$mode.db" acked-$mode)
    done
    commits=$((commits + ${last:-0}))
    if [ -e "$work/rocks/CURRENT" ]; then
        ldb --db="$work/rocks" checkconsistency >rocks.log 2>&1 || { cat rocks.log; exit 1; }
        ldb --db="$work/rocks" scan --no_value >rocks.log 2>&1 || { tail -5 rocks.log; exit 1; }
    fi
done
[ "$commits" -gt 0 ]
trap - EXIT
unserve
echo "$kills kills, $(wc -l <acked-DELETE) and $(wc -l <acked-WAL) commits kept"
