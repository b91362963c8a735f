#!/usr/bin/env bash
#: about asynchronous direct writes beside buffered reads and stat(2): once a write is done nobody sees old bytes, and no old time stays
#: needs cc=gcc
#: version cc --version
#: size 64M
. "$COMMON"

# The kernel says that the attributes which it keeps hold again before it has put into them what an answer says, and stat(2) looks without its
# lock. So whoever looks while another's answer comes may see old times once, however they were answered. An old time that a server is to blame
# for stays until the next write.
cat >aio.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 640 << 10, PARTS = 5, READERS = 2 };

static void must(int ok, const char *what) { if (!ok) { perror(what); exit(2); } }

static int is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static struct timespec now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time;
}

static void show(const char *what, struct timespec time)
{
    printf("  %-26s %lld.%09ld\n", what, (long long)time.tv_sec, time.tv_nsec);
}

static struct timespec mtime(int fd, int flags)
{
    struct statx st;
    must(statx(fd, "", AT_EMPTY_PATH | flags, STATX_BASIC_STATS, &st) == 0, "statx");
    return (struct timespec){st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec};
}

/* Whether a time is older than `before` and stays so for a second, with all that tells why. */
static int stays_old(int fd, const struct stat *first, struct timespec before, struct timespec began)
{
    struct timespec seen = first->st_mtim, again, cached, asked;
    int looks = 0;
    do {
        usleep(looks > 0 ? 1000 : 0);
        again = mtime(fd, AT_STATX_SYNC_AS_STAT);
        looks++;
    } while (is_before(again, before) && looks < 1000);
    cached = mtime(fd, AT_STATX_DONT_SYNC);
    asked = mtime(fd, AT_STATX_FORCE_SYNC);
    printf("an old time, seen %d times:\n", looks);
    show("before the writes", before);
    show("mtime at first", seen);
    show("ctime at first", first->st_ctim);
    show("mtime at last", again);
    show("mtime that the kernel has", cached);
    show("mtime that the server has", asked);
    show("coarse clock now", now(CLOCK_REALTIME_COARSE));
    show("clock now", now(CLOCK_REALTIME));
    show("monotonic before, and now", began);
    show("", now(CLOCK_MONOTONIC));
    return is_before(again, before);
}

static void read_on(const char *path, char *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    must(fd >= 0, "open to read");
    for (;;) {
        must(pread(fd, bytes, SIZE, 0) == SIZE, "read");
        must(fstat(fd, &st) == 0, "fstat");
    }
}

int main(int argc, char **argv)
{
    const char *path = argv[1];
    int rounds = atoi(argv[2]), parts = atoi(argv[3]), stale = 0, once = 0, old = 0;
    char *bytes = NULL, *seen = malloc(SIZE);
    aio_context_t context = 0;
    struct iocb cb[PARTS] = {{0}}, *list[PARTS];
    struct io_event done[PARTS];
    pid_t readers[READERS];

    must(argc == 4 && seen && !posix_memalign((void **)&bytes, 4096, SIZE), "memory");
    int fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600), cached = open(path, O_RDONLY);
    must(fd >= 0 && cached >= 0, "open");
    memset(bytes, 0, SIZE);
    must(pwrite(fd, bytes, SIZE, 0) == SIZE, "pwrite");
    for (int i = 0; i < READERS; i++) {
        readers[i] = fork();
        if (readers[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            read_on(path, seen);
        }
    }
    must(syscall(SYS_io_setup, PARTS, &context) == 0, "io_setup");
    for (int round = 1; round <= rounds; round++) {
        struct timespec began = now(CLOCK_MONOTONIC), before = now(CLOCK_REALTIME_COARSE);
        struct stat st;
        memset(bytes, round, SIZE);
        for (int i = 0; i < parts; i++) {
            cb[i] = (struct iocb){.aio_fildes = fd, .aio_lio_opcode = IOCB_CMD_PWRITE};
            cb[i].aio_buf = (unsigned long)(bytes + i * (SIZE / parts));
            cb[i].aio_nbytes = SIZE / parts;
            cb[i].aio_offset = i * (SIZE / parts);
            list[i] = &cb[i];
        }
        must(syscall(SYS_io_submit, context, parts, list) == parts, "io_submit");
        must(syscall(SYS_io_getevents, context, parts, parts, done, NULL) == parts, "io_getevents");
        for (int i = 0; i < parts; i++)
            must(done[i].res == SIZE / parts, "a write is short");
        must(pread(cached, seen, SIZE, 0) == SIZE, "read");
        if (memcmp(seen, bytes, SIZE) != 0) {
            printf("round %d of %d writes: old bytes\n", round, parts);
            stale++;
        }
        must(fstat(cached, &st) == 0, "fstat");
        if (is_before(st.st_mtim, before)) {
            printf("round %d of %d writes: ", round, parts);
            once++;
            old += stays_old(cached, &st, before, began);
        }
    }
    for (int i = 0; i < READERS; i++) {
        kill(readers[i], SIGKILL);
        waitpid(readers[i], NULL, 0);
    }
    printf("%d rounds of %d writes: %d with old bytes, %d with an old time, which stayed in %d\n", rounds, parts, stale, once, old);
    return stale || old;
}
C
cc -O1 -Wall -o aio aio.c
rounds=$((400 * SCALE))
[ -z "$SHORT" ] || rounds=150
for parts in 1 5; do
    ./aio "$MNT/file" "$rounds" "$parts" || exit 1
done
echo "$((2 * rounds)) rounds beside two readers, nothing old that stays"
