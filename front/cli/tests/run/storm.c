/* Eight threads that fill their lanes: each overwrites the cells of a file of its own, and saves files under a temporary name, with times and modes, renamed over older ones. What is durable it says: "C thread cell version"
   (a cell of 8 KiB) and "F thread file version" (a name, whose directory was synced). All words of a cell or file are its version, and a file of a version has a length of its own. Until it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 8, CELLS = 8, CELL = 8192, FILES = 6 };
static char *root;
static unsigned seed;

#define MUST(x) do { if ((x) < 0) { perror(#x); _exit(1); } } while (0)

static void say(char kind, int thread, int which, uint32_t version) {
    char line[60];
    int n = snprintf(line, sizeof line, "%c %d %d %u\n", kind, thread, which, version);
    if (write(1, line, n) != n) _exit(1);
}

static long length(uint32_t version) { return 4 * (1 + version * 2654435761u % 7000); }

static void *work(void *arg) {
    int thread = (int)(intptr_t)arg;
    unsigned random = seed * 8 + thread;
    uint32_t version = 1, *words = malloc(32768);
    char dir[500], tmp[600], name[600];
    snprintf(dir, sizeof dir, "%s/%d", root, thread / 2);
    mkdir(dir, 0700);
    int here = open(dir, O_RDONLY | O_DIRECTORY);
    snprintf(name, sizeof name, "%s/cells-%d", dir, thread);
    int cells = open(name, O_RDWR | O_CREAT, 0600), synced = open(name, O_RDWR | O_SYNC);
    MUST(here); MUST(cells); MUST(synced);
    for (;; version++) {
        int kind = rand_r(&random) % 10, which = rand_r(&random);
        long len = kind < 5 ? CELL : length(version);
        for (long n = 0; n < len / 4; n++) words[n] = version;
        if (kind < 4) {
            which %= CELLS;
            MUST(pwrite(cells, words, CELL, which * CELL));
            // The next one is durable with it.
            if (rand_r(&random) % 4 == 0) continue;
            MUST(fdatasync(cells));
            say('C', thread, which, version);
        } else if (kind < 5) {
            which %= CELLS;
            MUST(pwrite(synced, words, CELL, which * CELL));
            say('C', thread, which, version);
        } else {
            which %= FILES;
            snprintf(tmp, sizeof tmp, "%s/.tmp-%d", dir, thread);
            snprintf(name, sizeof name, "%s/file-%d-%d", dir, thread, which);
            int fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC, 0600);
            MUST(fd);
            if (write(fd, words, len) != len) _exit(2);
            MUST(fsync(fd));
            struct timespec times[2] = {{version, 0}, {version, 0}};
            switch (rand_r(&random) % 5) {
            case 0: MUST(futimens(fd, times)); break;
            case 1: MUST(utimensat(AT_FDCWD, tmp, times, 0)); break;
            case 2: MUST(fchmod(fd, 0640)); break;
            case 3: MUST(futimens(fd, times)); MUST(fsync(fd)); break;
            }
            MUST(close(fd));
            MUST(rename(tmp, name));
            if (rand_r(&random) % 3) continue;
            MUST(fsync(here));
            say('F', thread, which, version);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    root = argv[1], seed = argc > 2 ? atoi(argv[2]) : 0;
    for (intptr_t t = 0; t < THREADS; t++) pthread_create(&threads[t], 0, work, (void *)t);
    pause();
}
