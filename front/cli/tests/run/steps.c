/* Does what it is told on standard input, one call a line, and says "ok" or errno. Calls are as in any C program, but "raw" ones. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd = -1;
static FILE *stream;
static char name[512], *mapped;

static pthread_t thread;

/* A large write that the library does not see. */
static void *large(void *unused) {
    static char bytes[200 << 20];
    (void)unused;
    memset(bytes, 'L', sizeof bytes);
    return syscall(SYS_pwrite64, fd, bytes, sizeof bytes, 0L) == sizeof bytes ? NULL : stdout;
}

/* Many writes of 512 bytes: at the offset (w) or at places (p); in capitals with an fsync behind each. */
static long many(const char *buf, long count, int kind) {
    for (long n = 0; n < count; n++) {
        long wrote = strchr("wW", kind) ? write(fd, buf, 512) : pwrite(fd, buf, 512, n * 512);
        if (wrote != 512 || (strchr("WP", kind) && fsync(fd))) return -1;
    }
    return 0;
}

/* Files as SQLite's rollback journals are: made, synced twice, removed, which the library does not see. */
static long journals(const char *buf, long count) {
    for (long n = 0; n < count; n++) {
        char path[600];
        snprintf(path, sizeof path, "%s.%ld", name, n);
        int new = open(path, O_RDWR | O_CREAT, 0644);
        if (write(new, buf, 512) != 512 || fsync(new) || pwrite(new, buf, 12, 0) != 12 || fsync(new)) return -1;
        if (close(new) || syscall(SYS_unlink, path)) return -1;
    }
    return 0;
}

/* Files that nobody syncs, as tar makes them. */
static long plain(const char *buf, long count) {
    for (long n = 0; n < count; n++) {
        char path[600];
        snprintf(path, sizeof path, "%s.plain%ld", name, n);
        int new = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (write(new, buf, 512) != 512 || write(new, buf, 512) != 512) return -1;
        if (fchown(new, getuid(), getgid()) || fchmod(new, 0644) || close(new) || unlink(path)) return -1;
    }
    return 0;
}

/* The file gets the number of another one that was written to, of which one end was not seen: 0 by libc, then dup past it; else past it, then 1 dup, 2 fcntl. */
static int reused(int way) {
    char path[600];
    snprintf(path, sizeof path, "%s.other", name);
    int other = open(path, O_WRONLY | O_CREAT, 0644);
    if (write(other, "x", 1) != 1) return -1;
    if (way ? syscall(SYS_close, other) : fclose(fdopen(other, "w"))) return -1;
    int again = way == 0 ? (int)syscall(SYS_dup, fd) : way == 1 ? dup(fd) : fcntl(fd, F_DUPFD_CLOEXEC, other);
    if (again != other || close(fd)) return -1;
    return fd = again;
}

/* The file goes out of the directories, by another name: 0 it is moved there, else linked, and open by that name alone: 2 with O_DSYNC. */
static long out(int way) {
    if (!way) return rename(name, "../out");
    return link(name, "../out") || close(fd) ? -1 : (fd = open("../out", way == 2 ? O_RDWR | O_DSYNC : O_RDWR));
}

/* A child that has this memory makes the file's number another file's, and writes to that. */
static long vforks(void) {
    int status;
    pid_t child = vfork();
    if (!child) {
        close(fd);
        int null = open("/dev/null", O_WRONLY);
        _exit(null != fd || write(null, "x", 1) != 1);
    }
    return waitpid(child, &status, 0) == child && !status ? 0 : -1;
}

/* Another file gets the number that a call on the file's name has had for a while. */
static int null = -1;

static long nulls(long len) {
    return truncate(name, len) ? -1 : (null = open("/dev/null", O_WRONLY));
}

static struct iovec *parts;

static void *held(void *synced) {
    ssize_t wrote = synced ? writev(fd, parts, 1) : pwritev2(fd, parts, 1, 0, RWF_DSYNC);
    return wrote == 100 ? NULL : stdout;
}

/* A durable write by a name outside of the directories. The kernel waits for the words that say what to write, and
   meanwhile the file is synced by its name inside, and written to and synced once more. With `synced` the first one is
   durable by its descriptor, which has a large number. */
static long late(const char *buf, int synced) {
    struct uffdio_api api = {.api = UFFD_API};
    struct uffd_msg fault;
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) || (most.rlim_cur = most.rlim_max, setrlimit(RLIMIT_NOFILE, &most))) return -1;
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC), other = open(name, O_RDWR | O_CREAT, 0644);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return -1;
    parts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {{(unsigned long)parts, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (ioctl(faults, UFFDIO_REGISTER, &range) || link(name, "../out")) return -1;
    fd = open("../out", synced ? O_RDWR | O_DSYNC : O_RDWR);
    if (synced) fd = fcntl(fd, F_DUPFD, 1500);
    if (fd < 0 || pthread_create(&thread, NULL, held, synced ? (void *)buf : NULL)) return -1;
    if (read(faults, &fault, sizeof fault) != sizeof fault) return -1;
    for (int n = 0; n < 2; n++)
        if (pwrite(other, "older", 5, 0) != 5 || fsync(other)) return -1;
    static _Alignas(4096) char page[4096];
    *(struct iovec *)page = (struct iovec){(char *)buf, 100};
    struct uffdio_copy copy = {(unsigned long)parts, (unsigned long)page, 4096, 0, 0};
    void *failed;
    if (ioctl(faults, UFFDIO_COPY, &copy) || pthread_join(thread, &failed) || failed) return -1;
    return close(faults) || unlink("../out") ? -1 : 0;
}

/* A child that was not given the file, and says whether it has it: 0 closed as it is spawned, 1 by a child with this
   memory, 2 to be closed at exec, which is said late. */
static long heirs(int way) {
    char *words[] = {"sh", "-c", "for f in /proc/self/fd/*; do [ $f -ef \"$0\" ] && exit 3; done; exit 0", name, NULL};
    posix_spawn_file_actions_t closes;
    int status;
    pid_t child = 0;
    if (way == 0) {
        if (posix_spawn_file_actions_init(&closes) || posix_spawn_file_actions_addclose(&closes, fd)) return -1;
        if (posix_spawn(&child, "/bin/sh", &closes, NULL, words, environ)) return -1;
    } else {
        if (way == 2 && fcntl(fd, F_SETFD, FD_CLOEXEC)) return -1;
        child = way == 1 ? vfork() : fork();
        if (!child) {
            if (way == 1) close(fd);
            execv("/bin/sh", words);
            _exit(4);
        }
    }
    if (waitpid(child, &status, 0) != child) return -1;
    return errno = WEXITSTATUS(status), status ? -1 : 0;
}

/* Gives up rights, each way by another call. */
static long drops(long way) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog filter = {1, &all};
    struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_SOCK};
    gid_t group = 65534;
    switch (way) {
    case 0: return setuid(65534);
    case 1: return syscall(SYS_setuid, 65534);
    case 2: return syscall(SYS_capset, &head, none);
    case 3: return setgroups(1, &group);
    case 4: return initgroups("nobody", 65534);
    case 5: return setresgid(65534, 65534, 65534);
    case 6: return setegid(65534);
    case 7: return setreuid(-1, 65534);
    case 8: return setfsuid(65534);
    case 9: return chroot("/");
    case 10: return unshare(CLONE_NEWNS);
    case 11: return prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT, 0, 0, 0);
    case 12: return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
    case 13: return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    case 14: return syscall(SYS_landlock_restrict_self, syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0), 0);
    default: return errno = ENOSYS, -1;
    }
}

/* Calls of the same names that change nothing, or fail. */
static long drops_nothing(void) {
    return setuid(getuid()) || setgroups(0, NULL) || setresgid(-1, -1, -1) || unshare(CLONE_FILES) || !chroot("/none") ||
           !setns(-1, 0) || !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) ? -1 : 0;
}

/* This process has a file whose path ends so mapped, or open. */
static int has(const char *end) {
    char line[900];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = !maps;
    while (maps && fgets(line, sizeof line, maps)) {
        line[strcspn(line, "\n")] = 0;
        found |= strlen(line) >= strlen(end) && !strcmp(line + strlen(line) - strlen(end), end);
    }
    if (maps) fclose(maps);
    return found;
}

/* A child gives up its user: 0 of fork, 1 of vfork, 2 of a clone that libc does not see. Its parent has what it had. */
static long child_drops(const char *buf, int way) {
    int status;
    pid_t child = way == 0 ? fork() : way == 1 ? vfork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (!child) {
        if (setuid(65534)) _exit(1);
        if (way == 1) _exit(0);
        if (has("/pool")) _exit(2);
        _exit(pwrite(fd, buf, 100, 0) == 100 && !fsync(fd) ? 0 : 3);
    }
    if (waitpid(child, &status, 0) != child) return -1;
    return errno = WEXITSTATUS(status), status || !has("/pool") ? -1 : 0;
}

static volatile int stops;

/* Writes and syncs a file of its own; what is read at the end is what was written last. */
static void *works(void *number) {
    char path[600], bytes[64], read[64];
    long n = 0;
    snprintf(path, sizeof path, "%s.%ld", name, (long)number);
    int own = open(path, O_RDWR | O_CREAT, 0644);
    if (own < 0) return stdout;
    for (; !stops || n < 100; n++) {
        memset(bytes, (int)n, sizeof bytes);
        if (pwrite(own, bytes, sizeof bytes, n % 7 * 10) != sizeof bytes || (n % 3 && fsync(own))) return stdout;
        if (pread(own, read, sizeof read, n % 7 * 10) != sizeof read || memcmp(bytes, read, sizeof read)) return stdout;
    }
    return close(own) ? stdout : NULL;
}

/* Threads write and sync while this one gives up its user. */
static long crowd(void) {
    pthread_t all[6];
    long failed = 0;
    for (long n = 0; n < 6; n++)
        if (pthread_create(&all[n], NULL, works, (void *)n)) return -1;
    usleep(50000);
    failed |= setuid(65534) || has("/pool");
    stops = 1;
    for (int n = 0; n < 6; n++) {
        void *wrong;
        failed |= pthread_join(all[n], &wrong) || wrong;
    }
    return -failed;
}

static long aio(void) {
    struct aiocb block = {.aio_fildes = fd, .aio_sigevent.sigev_notify = SIGEV_NONE};
    const struct aiocb *one[] = {&block};
    while (aio_fsync(O_SYNC, &block) || aio_suspend(one, 1, NULL)) return -1;
    return aio_return(&block);
}

/* A child whose number means something else. */
static long newpid(const char *buf) {
    int status;
    if (unshare(CLONE_NEWPID)) return -1;
    pid_t child = fork();
    if (!child) _exit(pwrite(fd, buf, 100, 0) == 100 && !fsync(fd) ? 0 : 1);
    return waitpid(child, &status, 0) == child && !status ? 0 : -1;
}

static void *syncs(void *unused) {
    (void)unused;
    for (;;) fsync(fd), pthread_testcancel();
}

/* Threads that wait for each other in fsync are cancelled. */
static long cancel(void) {
    pthread_t all[8];
    for (int n = 0; n < 8; n++)
        if (pthread_create(&all[n], NULL, syncs, NULL)) return -1;
    usleep(50000);
    long failed = 0;
    for (int n = 0; n < 8; n++) failed |= pthread_cancel(all[n]) || pthread_join(all[n], NULL);
    return -failed;
}

static volatile int came;

static void comes(int signal) {
    (void)signal;
    if (pwrite(fd, "S", 1, 4096) == 1 && !fsync(fd)) came++;
}

/* A handler writes and syncs wherever the program is with its own writes and syncs. */
static long signals(const char *buf, long count) {
    struct sigaction act = {.sa_handler = comes, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    if (sigaction(SIGALRM, &act, NULL) || setitimer(ITIMER_REAL, &often, NULL)) return -1;
    long failed = 0;
    for (long n = 0; n < count || came < 20; n++) failed |= pwrite(fd, buf, 100, 0) != 100 || fsync(fd);
    return setitimer(ITIMER_REAL, &never, NULL) || failed ? -1 : 0;
}

static long step(const char *call, long a, long b) {
    char buf[65536];
    memset(buf, (int)b, sizeof buf);
    if (!strcmp(call, "open")) return fd = open(name, O_RDWR | O_CREAT, 0644);
    if (!strcmp(call, "quit")) return close(fd);
    if (!strcmp(call, "reopen")) return close(fd), fd = open(name, O_RDWR);
    if (!strcmp(call, "append")) return fd = open(name, O_RDWR | O_CREAT | O_APPEND, 0644);
    if (!strcmp(call, "osync")) return fd = open(name, O_RDWR | O_CREAT | O_SYNC, 0644);
    if (!strcmp(call, "odsync")) return fd = open(name, O_RDWR | O_CREAT | O_DSYNC | O_CLOEXEC, 0644);
    if (!strcmp(call, "oappend")) return fd = open(name, O_RDWR | O_CREAT | O_SYNC | O_APPEND, 0644);
    if (!strcmp(call, "other")) return open(name, O_RDWR);
    if (!strcmp(call, "otherappend")) return open(name, O_RDWR | O_APPEND);
    if (!strcmp(call, "flags")) return errno = fcntl(fd, F_GETFL), -1;
    if (!strcmp(call, "setfl")) return fcntl(fd, F_SETFL, a ? O_APPEND : 0);
    if (!strcmp(call, "offset")) return errno = (int)lseek(fd, 0, SEEK_CUR), -1;
    if (!strcmp(call, "seek")) return lseek(fd, a, SEEK_SET);
    if (!strcmp(call, "pwritev2")) return pwritev2(fd, &(struct iovec){buf, a}, 1, -1, b == 's' ? RWF_SYNC : RWF_DSYNC) == a ? 0 : -1;
    if (!strcmp(call, "range")) return sync_file_range(fd, 0, 0, (unsigned)a);
    if (!strcmp(call, "close")) return close((int)a);
    if (!strcmp(call, "next")) return errno = dup(1), close(errno), -1;
    if (!strcmp(call, "limit")) return setrlimit(RLIMIT_NOFILE, &(struct rlimit){a, a});
    if (!strcmp(call, "setuid")) return setuid(a);
    if (!strcmp(call, "lock")) return fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET});
    if (!strcmp(call, "trunc")) return close(fd), fd = open(name, O_RDWR | O_TRUNC);
    if (!strcmp(call, "fopenw")) return (stream = fopen(name, "w")) ? 0 : -1;
    if (!strcmp(call, "fopena")) return (stream = fopen(name, "a")) ? 0 : -1;
    if (!strcmp(call, "fprintf")) return fprintf(stream, "%.*s", (int)a, buf) < 0 || fflush(stream) ? -1 : 0;
    if (!strcmp(call, "fsyncs")) return fsync(fileno(stream));
    if (!strcmp(call, "write")) return write(fd, buf, a) == a ? 0 : -1;
    if (!strcmp(call, "writev")) return writev(fd, (struct iovec[]){{buf, a / 2}, {buf, a - a / 2}}, 2) == a ? 0 : -1;
    if (!strcmp(call, "pwrite")) return pwrite(fd, buf, 100, a) == 100 ? 0 : -1;
    if (!strcmp(call, "many")) return many(buf, a, (int)b);
    if (!strcmp(call, "journals")) return journals(buf, a);
    if (!strcmp(call, "reused")) return reused((int)a);
    if (!strcmp(call, "plain")) return plain(buf, a);
    if (!strcmp(call, "raw")) return syscall(SYS_pwrite64, fd, buf, 100L, a) == 100 ? 0 : -1;
    if (!strcmp(call, "fsync")) return fsync(fd);
    if (!strcmp(call, "fdatasync")) return fdatasync(fd);
    if (!strcmp(call, "ftruncate")) return ftruncate(fd, a);
    if (!strcmp(call, "fallocate")) return fallocate(fd, 0, 0, a);
    if (!strcmp(call, "truncate")) return truncate(name, a);
    if (!strcmp(call, "rename")) {
        char to[600];
        snprintf(to, sizeof to, "%s.new", name);
        return rename(name, to) || rename(to, name);
    }
    if (!strcmp(call, "dup")) return fd = dup(fd);
    if (!strcmp(call, "map")) return (mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ? -1 : 0;
    if (!strcmp(call, "store")) return mapped[a] = (char)b, 0;
    if (!strcmp(call, "begin")) return pthread_create(&thread, NULL, large, NULL);
    if (!strcmp(call, "join")) {
        void *failed;
        return pthread_join(thread, &failed) || failed ? -1 : 0;
    }
    if (!strcmp(call, "dirty")) {
        unsigned long range[2] = {0, 0}, pages[5] = {0};
        /* cachestat(2): dirty pages, and those on their way. */
        if (syscall(451, fd, range, pages, 0)) return -1;
        return errno = (int)(pages[1] + pages[2]), -1;
    }
    if (!strcmp(call, "drops")) return drops(a);
    if (!strcmp(call, "dropsnothing")) return drops_nothing();
    if (!strcmp(call, "childdrops")) return child_drops(buf, (int)a);
    if (!strcmp(call, "crowd")) return crowd();
    if (!strcmp(call, "late")) return late(buf, (int)a);
    if (!strcmp(call, "heirs")) return heirs((int)a);
    if (!strcmp(call, "badfd")) return fsync(a);
    if (!strcmp(call, "out")) return out((int)a);
    if (!strcmp(call, "vfork")) return vforks();
    if (!strcmp(call, "rawsync")) return syscall(SYS_fsync, fd);
    if (!strcmp(call, "aiosync")) return aio();
    if (!strcmp(call, "null")) return nulls(a);
    if (!strcmp(call, "nullwrite")) return write(null, buf, 100) == 100 ? 0 : -1;
    if (!strcmp(call, "newpid")) return newpid(buf);
    if (!strcmp(call, "cancel")) return cancel();
    if (!strcmp(call, "signals")) return signals(buf, a);
    if (!strcmp(call, "fork")) {
        int status;
        pid_t child = fork();
        if (!child) _exit(pwrite(fd, buf, 100, a) == 100 && !fsync(fd) ? 0 : 1);
        return waitpid(child, &status, 0) == child && !status ? 0 : -1;
    }
    errno = ENOSYS;
    return -1;
}

int main(int argc, char **argv) {
    char line[600], call[32];
    if (argc > 1) strncpy(name, argv[1], sizeof name - 1);
    while (fgets(line, sizeof line, stdin)) {
        long a = 0, b = 'x';
        sscanf(line, "%31s %ld %ld", call, &a, &b);
        errno = 0;
        if (step(call, a, b) >= 0) printf("ok\n");
        else printf("%d\n", errno);
        fflush(stdout);
    }
    return 0;
}
