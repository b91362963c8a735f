/* Writes and syncs at random, and says on standard output what it is about to write ("W process file offset length value", "R ..." by a raw system call), to truncate ("T ..."), has synced ("S process file") and has
   written durably ("A process file offset length"). Two processes; file 2 is both's, in turns of 4 KiB. A write by a raw system call is not seen by the library; to file 2 it never comes in the middle
   of a write of the other process, which is what `docs/design/run.md` leaves to chance. With an odd seed nearly all writes are durable by themselves. Until it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void say(const char *form, int a, int b, long c, long d, int e) {
    char line[100];
    int n = snprintf(line, sizeof line, form, a, b, c, d, e);
    if (write(1, line, n) != n) _exit(1);
}

/* A write that is durable when it returns, in one of the ways that there are. */
static int durable(int plain, int sync, int how, void *buf, long len, long at) {
    struct iovec part = {buf, len};
    if (how == 0) return pwrite(sync, buf, len, at) == len;
    if (how == 1) return pwritev2(plain, &part, 1, at, RWF_DSYNC) == len;
    return lseek(sync, at, SEEK_SET) == at && write(sync, buf, len) == len && lseek(sync, 0, SEEK_CUR) == at + len;
}

/* Writes to file 2 that the library sees, under way; -1: one that it does not see. */
static atomic_int *turn;

static void take(int f, int raw) {
    for (int now = atomic_load(turn); f == 2;) {
        int next = raw ? -1 : now + 1;
        if ((raw ? now == 0 : now >= 0) && atomic_compare_exchange_weak(turn, &now, next)) return;
        if (raw ? now != 0 : now < 0) usleep(10), now = atomic_load(turn);
    }
}

static void give(int f, int raw) {
    if (f == 2) atomic_fetch_add(turn, raw ? 1 : -1);
}

int main(int argc, char **argv) {
    char path[600], buf[9000];
    int fds[3], syncs[3], process = 0, odd = atoi(argv[2]) % 2;
    long n = 0;
    (void)argc;
    turn = mmap(0, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    srand(atoi(argv[2]));
    if (!fork()) process = 1, srand(atoi(argv[2]) + 1);
    for (int f = 0; f < 3; f++) {
        snprintf(path, sizeof path, "%s/f%d", argv[1], f);
        fds[f] = open(path, O_RDWR | O_CREAT, 0644);
        syncs[f] = open(path, O_RDWR | (f ? O_SYNC : O_DSYNC) | (process ? O_CLOEXEC : 0));
    }
    for (;;) {
        int f = rand() % 3 ? process : 2, kind = rand() % 100, value = 1 + (int)(n++ % 250);
        long len = 1 + rand() % 8000, at = rand() % 120000;
        if (f == 2) at = (at / 8192 * 2 + process) * 4096, len = len % 4096 + 1;
        memset(buf, value, len);
        if (kind < (odd ? 90 : 20)) {
            say("W %d %d %ld %ld %d\n", process, f, at, len, value);
            take(f, 0);
            if (!durable(fds[f], syncs[f], rand() % 3, buf, len, at)) return 5;
            give(f, 0);
            say("A %d %d %ld %ld %d\n", process, f, at, len, 0);
        } else if (kind < 65) {
            say("W %d %d %ld %ld %d\n", process, f, at, len, value);
            take(f, 0);
            if (pwrite(fds[f], buf, len, at) != len) return 2;
            give(f, 0);
        } else if (kind < 68) {
            say("R %d %d %ld %ld %d\n", process, f, at, len, value);
            take(f, 1);
            if (syscall(SYS_pwrite64, fds[f], buf, len, at) != len) return 2;
            give(f, 1);
        } else if (kind < 97) {
            if (kind % 2 ? fsync(fds[f]) : fdatasync(fds[f])) return 3;
            say("S %d %d %ld %ld %d\n", process, f, 0, 0, 0);
        } else if (kind < 98 && f != 2) {
            say("T %d %d %ld %ld %d\n", process, f, at, 0, 0);
            if (ftruncate(fds[f], at) || fsync(fds[f])) return 4;
            say("S %d %d %ld %ld %d\n", process, f, 0, 0, 0);
        } else {
            usleep(rand() % 3000);
        }
    }
}
