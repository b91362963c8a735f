/* Writes and syncs at random, and says on standard output what it is about to write ("W process file offset length value"), to truncate ("T ...") and has synced ("S process file"). Two
   processes; file 2 is both's, in turns of 4 KiB. Until it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char *form, int a, int b, long c, long d, int e) {
    char line[100];
    int n = snprintf(line, sizeof line, form, a, b, c, d, e);
    if (write(1, line, n) != n) _exit(1);
}

int main(int argc, char **argv) {
    char path[600], buf[9000];
    int fds[3], process = 0;
    long n = 0;
    (void)argc;
    srand(atoi(argv[2]));
    if (!fork()) process = 1, srand(atoi(argv[2]) + 1);
    for (int f = 0; f < 3; f++) {
        snprintf(path, sizeof path, "%s/f%d", argv[1], f);
        fds[f] = open(path, O_RDWR | O_CREAT, 0644);
    }
    for (;;) {
        int f = rand() % 3 ? process : 2, kind = rand() % 100, value = 1 + (int)(n++ % 250);
        long len = 1 + rand() % 8000, at = rand() % 120000;
        if (f == 2) at = (at / 8192 * 2 + process) * 4096, len = len % 4096 + 1;
        memset(buf, value, len);
        if (kind < 65) {
            say("W %d %d %ld %ld %d\n", process, f, at, len, value);
            if (pwrite(fds[f], buf, len, at) != len) return 2;
        } else if (kind < 68) {
            say("W %d %d %ld %ld %d\n", process, f, at, len, value);
            if (syscall(SYS_pwrite64, fds[f], buf, len, at) != len) return 2;
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
