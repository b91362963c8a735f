#!/usr/bin/env bash
#: about asynchronous direct writes beside buffered reads and stat(2): nobody sees old bytes or times once a write is done
#: needs cc=gcc
#: version cc --version
#: size 64M
. "$COMMON"

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
    int rounds = atoi(argv[2]), parts = atoi(argv[3]), stale = 0, old = 0;
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
        struct timespec before;
        struct stat st;
        clock_gettime(CLOCK_REALTIME_COARSE, &before);
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
        stale += memcmp(seen, bytes, SIZE) != 0;
        must(fstat(cached, &st) == 0, "fstat");
        old += st.st_mtim.tv_sec < before.tv_sec
            || (st.st_mtim.tv_sec == before.tv_sec && st.st_mtim.tv_nsec < before.tv_nsec);
    }
    for (int i = 0; i < READERS; i++) {
        kill(readers[i], SIGKILL);
        waitpid(readers[i], NULL, 0);
    }
    printf("%d rounds of %d writes: %d with old bytes, %d with an old time\n", rounds, parts, stale, old);
    return stale || old;
}
C
cc -O1 -Wall -o aio aio.c
rounds=$((400 * SCALE))
[ -z "$SHORT" ] || rounds=150
for parts in 1 5; do
    ./aio "$MNT/file" "$rounds" "$parts" || exit 1
done
echo "$((2 * rounds)) rounds beside two readers, nothing old"
