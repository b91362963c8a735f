#!/usr/bin/env bash
#: about SQLite in each journal mode, with concurrent writers and integrity checks
#: needs sqlite3=sqlite3
#: version sqlite3 --version | cut -c1-6
. "$COMMON"

for mode in DELETE TRUNCATE PERSIST WAL; do
    base="$MNT/$mode.db"
    sqlite3 "$base" "PRAGMA journal_mode=$mode; CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < $((5000 * SCALE)))
        INSERT INTO t SELECT i, hex(randomblob(100)) FROM n;
        CREATE INDEX x ON t(v); UPDATE t SET v = v || k WHERE k % 3 = 0; DELETE FROM t WHERE k % 5 = 0; VACUUM;"
    writers=()
    for w in 1 2; do
        (for i in $(seq $((20 * SCALE))); do
            sqlite3 -cmd '.timeout 60000' "$base" "INSERT INTO t(v) VALUES('writer $w, $i');"
        done) &
        writers+=($!)
    done
    for writer in "${writers[@]}"; do wait "$writer"; done
    said=$(sqlite3 "$base" 'PRAGMA integrity_check; SELECT count(*) FROM t;' | paste -sd' ')
    [ "$said" = "ok $((4000 * SCALE + 40 * SCALE))" ] || { echo "$mode: $said"; exit 1; }
done
echo "4 journal modes, $((4040 * SCALE)) rows in each"
