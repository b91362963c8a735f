#!/usr/bin/env bash
#: about PostgreSQL: pgbench while the server, or the mount, is killed; no commit is lost, amcheck and checksums agree
#: needs pgbench=postgresql-contrib runuser=util-linux
#: version pgbench --version
#: size 2G
#: seconds 400
#: root
#: kills
. "$COMMON"

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -x "$bin/initdb" ] || skip 'initdb is missing: apt install postgresql'
id postgres >/dev/null 2>&1 || skip 'there is no user postgres'
data="$MNT/data"
mkdir run
chown postgres run
as() { runuser -u postgres -- "$@"; }
sql() { as "$bin/psql" -h "$HOST/run" -XqAtd postgres -v ON_ERROR_STOP=1 "$@"; }

start() {
    as "$bin/postgres" -D "$data" -k "$HOST/run" -c listen_addresses= -c shared_buffers=32MB -c max_wal_size=64MB \
        -c checkpoint_timeout=30s -c full_page_writes=on -c restart_after_crash=off >>postgres.log 2>&1 &
    POSTGRES=$!
    for _ in $(seq 600); do
        "$bin/pg_isready" -qh "$HOST/run" && return
        kill -0 $POSTGRES 2>/dev/null || break
        sleep 0.1
    done
    tail -20 postgres.log
    echo 'PostgreSQL does not start'
    return 1
}

# Every process of the server, by its parent.
kill_postgres() {
    local master
    master=$(head -1 "$data/postmaster.pid" 2>/dev/null || echo "$MASTER")
    kill -9 "$master" $(pgrep -P "$master") 2>/dev/null || true
    wait $POSTGRES 2>/dev/null || true
}
trap 'kill_postgres; kill -9 $SERVER 2>/dev/null; umount -l "$MNT" 2>/dev/null || true' EXIT

# Each transaction that pgbench logs was committed: it must be there, and at most the one under way besides.
load() {
    rm -rf log
    mkdir log
    chown postgres log
    (cd log && as pgbench -n -h "$HOST/run" -c 4 -j 2 -T 600 -l -f "$HOST/load.sql" postgres >said 2>&1 || true) &
    LOAD=$!
}
judge() {
    local client acked found
    for client in 0 1 2 3; do
        acked=$(cat log/pgbench_log.* | awk -v c=$client '$1 == c' | wc -l)
        found=$(sql -c "SELECT count(*) FROM acked WHERE round = $round AND client = $client")
        if [ "$found" -lt "$acked" ] || [ "$found" -gt $((acked + 1)) ]; then
            echo "round $round, client $client: $acked commits returned, $found found"
            return 1
        fi
        commits=$((commits + acked))
    done
    local sums
    sums=$(sql -c "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
        AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)
        AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)")
    [ "$sums" = t ] || { echo "round $round: balances differ"; return 1; }
    as "$bin/pg_amcheck" -h "$HOST/run" --heapallindexed --parent-check -d postgres --install-missing
}

serve
mkdir "$data"
chown postgres "$data"
chmod 700 "$data"
as "$bin/initdb" -kD "$data" -A trust >initdb.log
start
sql -c 'CREATE TABLE acked(round int, client int, at timestamptz DEFAULT now())'
as pgbench -h "$HOST/run" -qis $((2 * SCALE)) postgres >/dev/null 2>&1
commits=0
for round in $(seq $((4 * SCALE))); do
    cat >load.sql <<SQL
\set aid random(1, 100000 * :scale)
\set bid random(1, :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
INSERT INTO acked VALUES ($round, :client_id);
END;
SQL
    sed -i "s/:scale/$((2 * SCALE))/" load.sql
    load
    sleep $((2 + RANDOM % 3)).$((RANDOM % 10))
    MASTER=$(head -1 "$data/postmaster.pid")
    if [ $((round % 2)) = 0 ]; then
        kill_postgres
        wait $LOAD
    else
        kill_server
        kill_postgres
        wait $LOAD
        serve
    fi
    start
    judge
done
as "$bin/pg_ctl" -sD "$data" -m fast stop
wait $POSTGRES || true
as "$bin/pg_checksums" -cD "$data" >checksums.log || { cat checksums.log; exit 1; }
trap - EXIT
unserve
echo "$((4 * SCALE)) kills, $commits commits kept"
