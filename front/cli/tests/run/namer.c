/* Makes, writes, syncs, renames, links and removes files of two directories (names from 6 on are in the second) at random, and says on standard output what it is about to do: "C process name id" makes a file, "W process id record" appends a
   record of 64 bytes to it, "U process name" removes, "R process old new" renames, "L process old new" links; and what it has synced: "F process id" a file, "D process directory" a directory. Two processes, each with
   names of its own. With an even seed a tenth of the changes are made by raw system calls, which the library does not see; they never come in the midst of a change of the other process, which is what
   `docs/design/run.md` leaves to chance. Until it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HALF = 6, NAMES = 2 * HALF };
static struct { int fd, id; long records; } files[NAMES * 1000];
static int bound[NAMES], process, made, dirs[2];
static char *place;

static void say(const char *form, int a, int b, long c) {
    char line[100];
    int n = snprintf(line, sizeof line, form, process, a, b, c);
    if (write(1, line, n) != n) _exit(1);
}

/* Changes of names that the library sees, under way; -1: one that it does not see. */
static atomic_int *turn;

static void take(int raw) {
    for (int now = atomic_load(turn);;) {
        if ((raw ? now == 0 : now >= 0) && atomic_compare_exchange_weak(turn, &now, raw ? -1 : now + 1)) return;
        if (raw ? now != 0 : now < 0) usleep(10), now = atomic_load(turn);
    }
}

static void give(int raw) { atomic_fetch_add(turn, raw ? 1 : -1); }

static char *path(int name, char *to) {
    sprintf(to, "%s/%sp%d-%d", place, name < HALF ? "" : "sub/", process, name);
    return to;
}

static void append(int file, int count) {
    for (; count > 0; count--) {
        char record[65];
        say("W %d %d %d\n", files[file].id, (int)files[file].records, 0);
        snprintf(record, sizeof record, "%031d:%031ld\n", files[file].id, files[file].records++);
        if (write(files[file].fd, record, 64) != 64) _exit(2);
    }
}

static void sync_file(int file) {
    if (rand() % 2 ? fsync(files[file].fd) : fdatasync(files[file].fd)) _exit(3);
    say("F %d %d\n", files[file].id, 0, 0);
}

static void sync_dir(int which) {
    char path[600];
    sprintf(path, "%s/%s", place, which ? "sub" : "");
    int fd = rand() % 2 ? dirs[which] : open(path, O_RDONLY | O_DIRECTORY);
    if (fsync(fd)) _exit(4);
    say("D %d %d\n", which, 0, 0);
    if (fd != dirs[which]) close(fd);
}

static int create(int name) {
    char to[600];
    int file = made++;
    if (file == NAMES * 1000) _exit(0);
    files[file].id = file * 2 + process;
    say("C %d %d %d\n", name, files[file].id, 0);
    take(0);
    files[file].fd = open(path(name, to), O_RDWR | O_CREAT | O_APPEND | (rand() % 2 ? O_EXCL : 0), 0640);
    give(0);
    if (files[file].fd < 0) _exit(5);
    bound[name] = file;
    return file;
}

static void change(int kind, int name, int other, int raw) {
    char one[600], two[600];
    int failed;
    path(name, one), path(other, two);
    say(kind == 'U' ? "U %d %d\n" : kind == 'R' ? "R %d %d %d\n" : "L %d %d %d\n", name, other, 0);
    take(raw);
    if (kind == 'U') failed = raw ? syscall(SYS_unlink, one) : rand() % 2 ? remove(one) : unlink(one);
    else if (kind == 'R') failed = raw ? syscall(SYS_rename, one, two) : rename(one, two);
    else failed = raw ? syscall(SYS_link, one, two) : link(one, two);
    give(raw);
    if (failed) _exit(6);
    int file = bound[name], over = bound[other], left = 0;
    if (kind != 'L') bound[name] = -1;
    if (kind != 'U') bound[other] = file;
    if (kind == 'L') return;
    int gone = kind == 'U' ? file : over;
    for (int n = 0; n < NAMES; n++) left += bound[n] == gone;
    if (gone >= 0 && !left) close(files[gone].fd);
}

int main(int argc, char **argv) {
    int odd = atoi(argv[2]) % 2;
    (void)argc;
    place = argv[1];
    turn = mmap(0, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    srand(atoi(argv[2]));
    char sub[600];
    sprintf(sub, "%s/sub", place);
    if (mkdir(sub, 0755)) return 7;
    dirs[0] = open(place, O_RDONLY | O_DIRECTORY), dirs[1] = open(sub, O_RDONLY | O_DIRECTORY);
    if (fsync(dirs[0]) || fsync(dirs[1])) return 8;
    if (!fork()) process = 1, srand(atoi(argv[2]) + 1);
    memset(bound, -1, sizeof bound);
    for (;;) {
        int name = rand() % NAMES, other = rand() % NAMES, kind = rand() % 100, raw = rand() % 10 == 0 && !odd;
        int file = bound[name];
        if (rand() % 2) other = name / HALF * HALF + other % HALF;
        if (file < 0) {
            file = create(name);
            if (kind < 60) append(file, 1 + rand() % 4);
            if (kind < 30) sync_file(file);
            if (kind < 10 && name != other) change('R', name, other, 0);
        } else if (kind < 30) {
            append(file, 1 + rand() % 20);
        } else if (kind < 60) {
            sync_file(file);
        } else if (kind < 72) {
            sync_dir(rand() % 2);
        } else if (kind < 84) {
            change('U', name, name, raw);
        } else if (kind < 92) {
            if (name != other && bound[other] != file) change('R', name, other, raw);
        } else if (kind < 96) {
            if (bound[other] < 0) {
                change('L', name, other, raw);
                /* As a maildir gets its letters. */
                if (rand() % 2) change('U', name, name, raw);
            }
        } else {
            usleep(rand() % 3000);
        }
    }
}
