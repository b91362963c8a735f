/* What a program does with databases in an image: `program LIBRARY WHAT ARGUMENT...`. Fails with a line that says where. */

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 500

static int checks;

static void fail(int line, const char *what, sqlite3 *db)
{
    fprintf(stderr, "line %d: %s: %s\n", line, what, db ? sqlite3_errmsg(db) : "");
    exit(1);
}

#define CHECK(db, condition) ((condition) ? (void)checks++ : fail(__LINE__, #condition, db))
#define RUN(db, sql) CHECK(db, sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
#define SAYS(db, sql, expected) says(__LINE__, db, sql, expected)

static sqlite3 *opened(const char *uri)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    CHECK(db, sqlite3_open_v2(uri, &db, flags, "ondol") == SQLITE_OK);
    return db;
}

static void closed(sqlite3 *db)
{
    CHECK(db, sqlite3_close(db) == SQLITE_OK);
}

/* The first column of the first row. */
static void says(int line, sqlite3 *db, const char *sql, const char *expected)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        fail(line, sql, db);
    const char *found = (const char *)sqlite3_column_text(statement, 0);
    if (!found || strcmp(found, expected)) {
        fprintf(stderr, "line %d: %s: %s, not %s\n", line, sql, found ? found : "NULL", expected);
        exit(1);
    }
    checks++;
    sqlite3_finalize(statement);
}

static long number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    CHECK(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
    CHECK(db, sqlite3_step(statement) == SQLITE_ROW);
    long found = (long)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return found;
}

/* A table whose rows fill about a page each; what a transaction keeps is that `n` adds up to 0. */
static const char *const TABLE =
    "CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, n INT, pad BLOB);"
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 500)"
    " INSERT OR IGNORE INTO t SELECT x, 0, randomblob(1500) FROM c;";

/* Moves a unit between rows, with a cache that is much too small. */
static const char *const MOVE =
    "UPDATE t SET n = n + 1, pad = randomblob(1400 + abs(random() % 200)) WHERE id % 2 = 0;"
    "UPDATE t SET n = n - 1, pad = randomblob(1400 + abs(random() % 200)) WHERE id % 2 = 1;";

static void modes(const char *uri)
{
    static const char *const MODES[] = {"delete", "truncate", "persist", "memory", "wal", "delete"};
    static const char *const LEVELS[] = {"FULL", "NORMAL", "OFF", "EXTRA"};
    sqlite3 *db = opened(uri);
    RUN(db, "PRAGMA cache_size = 10");
    RUN(db, TABLE);
    for (size_t mode = 0; mode < sizeof MODES / sizeof *MODES; mode++) {
        char sql[100];
        snprintf(sql, sizeof sql, "PRAGMA journal_mode = %s", MODES[mode]);
        SAYS(db, sql, MODES[mode]);
        for (int level = 0; level < 8; level++) {
            snprintf(sql, sizeof sql, "PRAGMA synchronous = %s", LEVELS[level % 4]);
            RUN(db, sql);
            RUN(db, level < 4 ? "PRAGMA locking_mode = NORMAL" : "PRAGMA locking_mode = EXCLUSIVE");
            long before = number(db, "SELECT n FROM t WHERE id = 2");
            RUN(db, "BEGIN");
            RUN(db, MOVE);
            RUN(db, "SAVEPOINT s");
            RUN(db, MOVE);
            RUN(db, "ROLLBACK TO s");
            RUN(db, "COMMIT");
            CHECK(db, number(db, "SELECT n FROM t WHERE id = 2") == before + 1);
            RUN(db, "BEGIN");
            RUN(db, MOVE);
            RUN(db, "DELETE FROM t WHERE id > 100");
            RUN(db, "ROLLBACK");
            CHECK(db, number(db, "SELECT n FROM t WHERE id = 2") == before + 1);
            SAYS(db, "SELECT sum(n) || ' ' || count(*) FROM t", "0 500");
            SAYS(db, "PRAGMA integrity_check", "ok");
        }
        RUN(db, "PRAGMA locking_mode = NORMAL");
        SAYS(db, "SELECT count(*) FROM t", "500");
    }
    RUN(db, "PRAGMA auto_vacuum = FULL; VACUUM; DELETE FROM t WHERE id > 250; PRAGMA page_size = 1024; VACUUM;");
    SAYS(db, "SELECT sum(n) || ' ' || count(*) FROM t", "0 250");
    SAYS(db, "PRAGMA integrity_check", "ok");
    closed(db);
    db = opened(uri);
    SAYS(db, "SELECT sum(n) || ' ' || count(*) FROM t", "0 250");
    closed(db);
}

/* Two connections of one process, and SQLite's rules of who waits for whom. */
static void two(const char *uri)
{
    sqlite3 *a = opened(uri), *b = opened(uri);
    RUN(a, "PRAGMA cache_size = 10");
    RUN(a, TABLE);
    RUN(a, "BEGIN IMMEDIATE");
    CHECK(b, sqlite3_exec(b, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_BUSY);
    SAYS(b, "SELECT sum(n) FROM t", "0");
    RUN(a, "UPDATE t SET n = 1 WHERE id = 1");
    SAYS(b, "SELECT sum(n) FROM t", "0");
    RUN(b, "BEGIN");
    SAYS(b, "SELECT sum(n) FROM t", "0");
    CHECK(a, sqlite3_exec(a, "COMMIT", NULL, NULL, NULL) == SQLITE_BUSY);
    RUN(b, "COMMIT");
    RUN(a, "COMMIT");
    SAYS(b, "SELECT sum(n) FROM t", "1");
    /* The cache spills: the writer has the database alone before its commit. */
    RUN(a, "BEGIN");
    RUN(a, MOVE);
    CHECK(b, sqlite3_exec(b, "SELECT count(*) FROM t", NULL, NULL, NULL) == SQLITE_BUSY);
    /* A connection that is given up in a transaction. */
    closed(a);
    SAYS(b, "SELECT sum(n) FROM t", "1");
    SAYS(b, "PRAGMA integrity_check", "ok");
    closed(b);
}

/* Readers of a write-ahead log beside a writer. */
static void wal(const char *uri)
{
    sqlite3 *a = opened(uri), *b = opened(uri);
    SAYS(a, "PRAGMA journal_mode = WAL", "wal");
    RUN(a, TABLE);
    RUN(b, "BEGIN");
    SAYS(b, "SELECT sum(n * id) FROM t", "0");
    RUN(a, "UPDATE t SET n = 1 WHERE id = 7");
    SAYS(b, "SELECT sum(n * id) FROM t", "0");
    RUN(b, "COMMIT");
    SAYS(b, "SELECT sum(n * id) FROM t", "7");
    SAYS(a, "PRAGMA wal_checkpoint(TRUNCATE)", "0");
    SAYS(b, "SELECT sum(n * id) FROM t", "7");
    RUN(b, "UPDATE t SET n = 0");
    closed(b);
    SAYS(a, "PRAGMA integrity_check", "ok");
    closed(a);
    a = opened(uri);
    SAYS(a, "SELECT sum(n) || ' ' || count(*) FROM t", "0 500");
    closed(a);
}

static const char *thread_uri;

static void *move_some(void *unused)
{
    (void)unused;
    sqlite3 *db = opened(thread_uri);
    sqlite3_busy_timeout(db, 120000);
    RUN(db, "PRAGMA cache_size = 10");
    for (int n = 0; n < 15; n++) {
        RUN(db, "BEGIN IMMEDIATE");
        RUN(db, MOVE);
        RUN(db, n % 3 ? "COMMIT" : "ROLLBACK");
        SAYS(db, "SELECT sum(n) FROM t", "0");
    }
    closed(db);
    return NULL;
}

/* Threads with a connection each, some of which give up. */
static void threads(const char *uri)
{
    sqlite3 *db = opened(uri);
    RUN(db, TABLE);
    pthread_t all[4];
    thread_uri = uri;
    for (int n = 0; n < 4; n++)
        CHECK(NULL, pthread_create(&all[n], NULL, move_some, NULL) == 0);
    for (int n = 0; n < 4; n++)
        CHECK(NULL, pthread_join(all[n], NULL) == 0);
    SAYS(db, "SELECT n FROM t WHERE id = 2", "40");
    SAYS(db, "PRAGMA integrity_check", "ok");
    closed(db);
}

/* Commits of two databases, of which a kill leaves both or none: the second is the first with another name. */
static void both(const char *uri, const char *other)
{
    sqlite3 *db = opened(uri);
    char *attach = sqlite3_mprintf("ATTACH %Q AS other", other);
    RUN(db, attach);
    sqlite3_free(attach);
    RUN(db, "PRAGMA cache_size = 10; PRAGMA other.cache_size = 10");
    RUN(db, TABLE);
    RUN(db, "CREATE TABLE IF NOT EXISTS other.u(id INTEGER PRIMARY KEY, n INT, pad BLOB)");
    RUN(db, "INSERT OR IGNORE INTO other.u SELECT * FROM main.t");
    for (long n = number(db, "SELECT n FROM t WHERE id = 2");; n++) {
        CHECK(db, number(db, "SELECT n FROM u WHERE id = 2") == n);
        SAYS(db, "SELECT (SELECT sum(n) FROM t) || ' ' || (SELECT sum(n) FROM u)", "0 0");
        printf("%ld\n", n);
        fflush(stdout);
        RUN(db, "BEGIN");
        RUN(db, MOVE);
        RUN(db, "UPDATE u SET n = (SELECT n FROM t WHERE t.id = u.id), pad = randomblob(1500)");
        RUN(db, "COMMIT");
    }
}

/* Commits until it is killed. */
static void forever(const char *uri, const char *pragma)
{
    sqlite3 *db = opened(uri);
    RUN(db, "PRAGMA cache_size = 10");
    RUN(db, pragma);
    RUN(db, TABLE);
    for (;;) {
        SAYS(db, "SELECT sum(n) FROM t", "0");
        printf("%ld\n", number(db, "SELECT n FROM t WHERE id = 2"));
        fflush(stdout);
        RUN(db, "BEGIN");
        RUN(db, MOVE);
        RUN(db, "COMMIT");
        RUN(db, "BEGIN");
        RUN(db, MOVE);
        RUN(db, "ROLLBACK");
    }
}

/* How many moves there were. */
static void count(const char *uri)
{
    sqlite3 *db = opened(uri);
    SAYS(db, "PRAGMA integrity_check", "ok");
    SAYS(db, "SELECT sum(n) || ' ' || count(*) FROM t", "0 500");
    printf("%ld\n", number(db, "SELECT n FROM t WHERE id = 2"));
    closed(db);
}

/* Ends in the midst of a transaction whose cache has spilled, without closing anything. */
static void half(const char *uri)
{
    sqlite3 *db = opened(uri);
    RUN(db, "PRAGMA cache_size = 10");
    RUN(db, TABLE);
    RUN(db, "BEGIN");
    RUN(db, MOVE);
    printf("%d\n", checks);
    fflush(stdout);
    _exit(0);
}

/* More than the volume can hold: nothing has changed, and the next transaction is as good as any. */
static void full(const char *uri)
{
    sqlite3 *db = opened(uri);
    RUN(db, "PRAGMA cache_size = 10");
    RUN(db, TABLE);
    for (int n = 0; n < 2; n++) {
        RUN(db, n ? "PRAGMA locking_mode = EXCLUSIVE" : "PRAGMA locking_mode = NORMAL");
        RUN(db, "BEGIN");
        RUN(db, MOVE);
        RUN(db, "CREATE TABLE large(b)");
        RUN(db, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 60)"
                " INSERT INTO large SELECT zeroblob(1000000) FROM c");
        CHECK(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_FULL);
        CHECK(db, sqlite3_get_autocommit(db));
        CHECK(db, number(db, "SELECT n FROM t WHERE id = 2") == n);
        SAYS(db, "SELECT count(*) FROM sqlite_schema", "1");
        RUN(db, MOVE);
        SAYS(db, "PRAGMA integrity_check", "ok");
    }
    closed(db);
}

static void attach(sqlite3 *db, const char *uri, const char *as)
{
    char *sql = sqlite3_mprintf("ATTACH %Q AS %s", uri, as);
    RUN(db, sql);
    sqlite3_free(sql);
}

/* A commit of two databases of one image that is more than the volume makes as one: neither has changed, whatever is open, and the next transactions are as good as any. */
static void several(const char *uri, const char *other)
{
    for (int n = 0; n < 4; n++) {
        sqlite3 *db = opened(uri);
        sqlite3_stmt *reader = NULL;
        attach(db, other, "o");
        if (n & 1)
            RUN(db, "PRAGMA main.locking_mode = EXCLUSIVE; PRAGMA o.locking_mode = EXCLUSIVE");
        RUN(db, TABLE);
        RUN(db, "CREATE TABLE IF NOT EXISTS o.u(id INTEGER PRIMARY KEY, n INT, pad BLOB)");
        RUN(db, "INSERT OR IGNORE INTO o.u SELECT * FROM t");
        if (n & 2) {
            CHECK(db, sqlite3_prepare_v2(db, "SELECT id FROM t", -1, &reader, NULL) == SQLITE_OK);
            CHECK(db, sqlite3_step(reader) == SQLITE_ROW);
        }
        RUN(db, "BEGIN");
        RUN(db, "UPDATE t SET n = n + 100; UPDATE o.u SET n = n + 100; CREATE INDEX ix ON t(n, id)");
        RUN(db, "CREATE TABLE large(b); CREATE TABLE o.large2(b)");
        RUN(db, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 8)"
                " INSERT INTO large SELECT zeroblob(1000000) FROM c");
        RUN(db, "INSERT INTO o.large2 SELECT b FROM large");
        CHECK(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_FULL);
        CHECK(db, sqlite3_get_autocommit(db));
        sqlite3_finalize(reader);
        for (int again = 0; again < 2; again++) {
            CHECK(db, number(db, "SELECT n FROM t WHERE id = 2") == n);
            CHECK(db, number(db, "SELECT n FROM o.u WHERE id = 2") == n);
            SAYS(db, "SELECT (SELECT count(*) FROM sqlite_schema) || ' ' || (SELECT count(*) FROM o.sqlite_schema)", "1 1");
            SAYS(db, "PRAGMA main.integrity_check", "ok");
            SAYS(db, "PRAGMA o.integrity_check", "ok");
            if (again)
                break;
            RUN(db, "UPDATE t SET n = n + 5 WHERE id = 3; UPDATE o.u SET n = n + 5 WHERE id = 3");
            SAYS(db, "SELECT (SELECT n FROM t WHERE id = 3) - (SELECT n FROM o.u WHERE id = 3)", "0");
            closed(db);
            db = opened(uri);
            attach(db, other, "o");
        }
        /* What is no failure is made in both. */
        RUN(db, "BEGIN; UPDATE t SET n = n + 1 WHERE id < 9; UPDATE o.u SET n = n + 1 WHERE id < 9; COMMIT");
        RUN(db, "BEGIN IMMEDIATE; COMMIT");
        closed(db);
    }
}

/* The second image is too small for its part of a commit: the first one is rolled back too, and both take what is committed then. */
static void images(const char *uri, const char *small, const char *mode)
{
    sqlite3 *db = opened(small);
    char *sql = sqlite3_mprintf("PRAGMA main.locking_mode = %s; PRAGMA o.locking_mode = %s", mode, mode);
    attach(db, uri, "o");
    RUN(db, sql);
    RUN(db, "CREATE TABLE t(x); CREATE TABLE o.u(x); INSERT INTO o.u VALUES (1)");
    for (int n = 0; n < 2; n++) {
        RUN(db, "BEGIN; INSERT INTO t SELECT zeroblob(40000000); INSERT INTO o.u VALUES (2)");
        CHECK(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_FULL);
        SAYS(db, "SELECT group_concat(x) || ' ' || (SELECT count(*) FROM t) FROM o.u", n ? "1,10,11 0" : "1 0");
        if (!n)
            RUN(db, "INSERT INTO o.u VALUES (10); INSERT INTO o.u VALUES (11)");
    }
    closed(db);
    /* The other way round: the first image has made its part when the second fails. */
    db = opened(uri);
    attach(db, small, "o");
    RUN(db, sql);
    sqlite3_free(sql);
    RUN(db, "BEGIN; INSERT INTO u VALUES (2); INSERT INTO o.t SELECT zeroblob(40000000)");
    CHECK(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_FULL);
    SAYS(db, "SELECT group_concat(x) FROM u", "1,10,11");
    closed(db);
    db = opened(uri);
    SAYS(db, "SELECT group_concat(x) FROM u", "1,10,11");
    SAYS(db, "PRAGMA integrity_check", "ok");
    closed(db);
}

/* Databases of another VFS beside those in images. */
static void mixed(const char *uri, const char *small, const char *elsewhere)
{
    /* Theirs could not be rolled back after a crash. */
    sqlite3 *db = opened(uri);
    attach(db, elsewhere, "e");
    RUN(db, "CREATE TABLE t(x); INSERT INTO t VALUES (1); CREATE TABLE e.v(x); INSERT INTO e.v VALUES (1)");
    RUN(db, "BEGIN; UPDATE t SET x = 2; UPDATE e.v SET x = 2");
    CHECK(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_ERROR);
    CHECK(db, sqlite3_get_autocommit(db));
    SAYS(db, "SELECT t.x || v.x FROM t, e.v", "11");
    RUN(db, "UPDATE t SET x = 3; UPDATE e.v SET x = 3");
    closed(db);
    /* The main one is theirs; the third fails. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    CHECK(db, sqlite3_open_v2(elsewhere, &db, flags, "unix") == SQLITE_OK);
    attach(db, uri, "o");
    attach(db, small, "s");
    RUN(db, "CREATE TABLE s.w(x)");
    for (int n = 0; n < 2; n++) {
        if (n)
            RUN(db, "PRAGMA main.locking_mode = EXCLUSIVE; PRAGMA o.locking_mode = EXCLUSIVE");
        RUN(db, "BEGIN; UPDATE v SET x = 4; UPDATE o.t SET x = 4; INSERT INTO s.w SELECT zeroblob(40000000)");
        CHECK(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_FULL);
        SAYS(db, "SELECT t.x || v.x || (SELECT count(*) FROM s.w) FROM v, o.t", "330");
    }
    RUN(db, "BEGIN; UPDATE v SET x = 5; UPDATE o.t SET x = 5; COMMIT");
    closed(db);
    db = opened(uri);
    attach(db, elsewhere, "e");
    SAYS(db, "SELECT t.x || v.x FROM t, e.v", "55");
    closed(db);
}

/* A database has one name, which is short enough for SQLite's buffers; `link` is a symbolic link to it. */
static void names(const char *uri, const char *link)
{
    closed(opened(uri));
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    CHECK(NULL, sqlite3_open_v2(link, &db, flags, "ondol") == SQLITE_CANTOPEN);
    CHECK(NULL, sqlite3_extended_errcode(db) == SQLITE_CANTOPEN_SYMLINK);
    closed(db);
    CHECK(NULL, sqlite3_vfs_find("ondol")->mxPathname == 512);
    char *sql = sqlite3_mprintf("file:/%0500d%s", 7, strchr(uri, '?'));
    CHECK(NULL, sqlite3_open_v2(sql, &db, flags, "ondol") == SQLITE_CANTOPEN);
    sqlite3_free(sql);
    closed(db);
}

/* The rollback of a spilled transaction needs no space, and a query that is open lives on. */
static void back(const char *uri)
{
    sqlite3 *db = opened(uri);
    sqlite3_stmt *reader;
    int rows = 0, code;
    RUN(db, "PRAGMA cache_size = 10; CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, pad BLOB)");
    RUN(db, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000)"
            " INSERT INTO t SELECT x, 0, zeroblob(3000) FROM c");
    CHECK(db, sqlite3_prepare_v2(db, "SELECT n FROM t", -1, &reader, NULL) == SQLITE_OK);
    CHECK(db, sqlite3_step(reader) == SQLITE_ROW);
    RUN(db, "BEGIN; UPDATE t SET n = n + 1; ROLLBACK");
    while ((code = sqlite3_step(reader)) == SQLITE_ROW)
        rows += !sqlite3_column_int(reader, 0);
    CHECK(db, code == SQLITE_DONE && rows == 4999);
    sqlite3_finalize(reader);
    RUN(db, "UPDATE t SET n = 1 WHERE id < 9");
    SAYS(db, "SELECT sum(n) || ' ' || count(*) FROM t", "8 5000");
    SAYS(db, "PRAGMA integrity_check", "ok");
    closed(db);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fail(__LINE__, "LIBRARY WHAT URI", NULL);
    sqlite3 *loader;
    char *why = NULL;
    CHECK(NULL, sqlite3_open(":memory:", &loader) == SQLITE_OK);
    sqlite3_db_config(loader, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
    if (sqlite3_load_extension(loader, argv[1], NULL, &why) != SQLITE_OK)
        fail(__LINE__, why, NULL);
    closed(loader);
    const char *what = argv[2], *uri = argv[3];
    if (!strcmp(what, "modes"))
        modes(uri);
    else if (!strcmp(what, "two"))
        two(uri);
    else if (!strcmp(what, "wal"))
        wal(uri);
    else if (!strcmp(what, "threads"))
        threads(uri);
    else if (!strcmp(what, "full"))
        full(uri);
    else if (!strcmp(what, "half"))
        half(uri);
    else if (!strcmp(what, "both"))
        both(uri, argv[4]);
    else if (!strcmp(what, "forever"))
        forever(uri, argv[4]);
    else if (!strcmp(what, "several"))
        several(uri, argv[4]);
    else if (!strcmp(what, "images"))
        images(uri, argv[4], argv[5]);
    else if (!strcmp(what, "mixed"))
        mixed(uri, argv[4], argv[5]);
    else if (!strcmp(what, "names"))
        names(uri, argv[4]);
    else if (!strcmp(what, "back"))
        back(uri);
    else if (!strcmp(what, "count"))
        return count(uri), 0;
    else
        fail(__LINE__, what, NULL);
    printf("%d checks\n", checks);
    return 0;
}
