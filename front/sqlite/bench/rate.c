/* Transactions per second: `rate URI JOURNAL_MODE COUNT [LIBRARY]`. Each is one autocommit of an INSERT or an UPDATE of a row of 200 bytes, with synchronous=FULL. */

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sqlite3 *db;

static void check(int code, const char *what)
{
    if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW)
        return;
    fprintf(stderr, "%s: %s\n", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
    exit(1);
}

static void run(const char *sql)
{
    check(sqlite3_exec(db, sql, NULL, NULL, NULL), sql);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "rate URI JOURNAL_MODE COUNT [LIBRARY]\n");
        return 2;
    }
    if (argc > 4) {
        check(sqlite3_open(":memory:", &db), "open");
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
        check(sqlite3_load_extension(db, argv[4], NULL, NULL), argv[4]);
        sqlite3_close(db);
        db = NULL;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    check(sqlite3_open_v2(argv[1], &db, flags, NULL), argv[1]);
    char sql[200];
    snprintf(sql, sizeof sql, "PRAGMA journal_mode = %s", argv[2]);
    run(sql);
    run("PRAGMA synchronous = FULL");
    run("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, pad BLOB)");
    run("BEGIN; WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)"
        " INSERT OR IGNORE INTO t SELECT x, randomblob(200) FROM c; COMMIT");
    sqlite3_stmt *insert, *update;
    check(sqlite3_prepare_v2(db, "INSERT INTO t(pad) VALUES(randomblob(200))", -1, &insert, NULL), "insert");
    check(sqlite3_prepare_v2(db, "UPDATE t SET pad = randomblob(200) WHERE id = ?", -1, &update, NULL), "update");
    long count = atol(argv[3]);
    unsigned long seed = 7;
    double begun = now();
    for (long n = 0; n < count; n++) {
        sqlite3_stmt *statement = n % 2 ? insert : update;
        seed = seed * 6364136223846793005UL + 1442695040888963407UL;
        if (statement == update)
            sqlite3_bind_int64(update, 1, (sqlite3_int64)(1 + (seed >> 33) % 20000));
        check(sqlite3_step(statement), "step");
        check(sqlite3_reset(statement), "reset");
    }
    printf("%.0f\n", (double)count / (now() - begun));
    sqlite3_finalize(insert);
    sqlite3_finalize(update);
    check(sqlite3_close(db), "close");
    return 0;
}
