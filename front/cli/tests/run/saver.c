/* Saves files as programs do: a temporary name, write, fsync, then one call that changes what a file is known by, then the final name. Each way three times: `WAY-N` has 4096 bytes of the way's letter. Then somebody else's
   fsync commits the kernel's journal, in which no bytes of these files are; then it says "done" and waits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/fs.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#define MUST(x) do { if ((x) < 0) { perror(#x); exit(1); } } while (0)

static const struct timespec fine[2] = {{1000000001, 7000}, {1000000000, 5000}}, later[2] = {{4000000001, 0}, {4000000000, 0}};
static const struct timeval coarse[2] = {{1000000001, 7}, {1000000000, 5}};

static const char *ways[] = {"none", "utimensat", "futimens", "utimes", "futimes", "lutimes", "futimesat", "utime", "raw", "unseen", "future", "synced", "twice", "chmod", "fchmod",
    "chown", "installed", "xattr", "flags", "link", "renamed", "exchanged", "grown", "cut", "sent", "copied", "punched", 0};

static void change(const char *way, const char *tmp, int fd, int source) {
    char other[100];
    snprintf(other, sizeof other, "%s.other", tmp);
    #define IS(name) !strcmp(way, name)
    if (IS("utimensat")) MUST(utimensat(AT_FDCWD, tmp, fine, 0));
    if (IS("futimens")) MUST(futimens(fd, fine));
    if (IS("utimes")) MUST(utimes(tmp, coarse));
    if (IS("futimes")) MUST(futimes(fd, coarse));
    if (IS("lutimes")) MUST(lutimes(tmp, coarse));
    if (IS("futimesat")) MUST(futimesat(AT_FDCWD, tmp, coarse));
    if (IS("utime")) MUST(utime(tmp, &(struct utimbuf){1000000001, 1000000000}));
    if (IS("raw")) MUST(syscall(SYS_utimensat, AT_FDCWD, tmp, fine, 0));
    if (IS("unseen")) {
        long answer;
        register long r10 __asm__("r10") = 0;
        __asm__ volatile("syscall" : "=a"(answer) : "a"(SYS_utimensat), "D"(AT_FDCWD), "S"(tmp), "d"(fine), "r"(r10) : "rcx", "r11", "memory");
        MUST(answer);
    }
    if (IS("future")) MUST(futimens(fd, later));
    if (IS("synced")) { MUST(futimens(fd, fine)); MUST(fsync(fd)); }
    if (IS("twice")) { MUST(futimens(fd, later)); MUST(pwrite(fd, "t", 1, 5)); MUST(futimens(fd, fine)); MUST(fsync(fd)); }
    if (IS("chmod")) MUST(chmod(tmp, 0400));
    if (IS("fchmod")) MUST(fchmod(fd, 0444));
    if (IS("chown") && !geteuid()) MUST(chown(tmp, 7, 8));
    if (IS("installed")) { MUST(futimens(fd, fine)); MUST(fchmod(fd, 0444)); }
    if (IS("xattr")) MUST(setxattr(tmp, "user.a", "b", 1, 0));
    if (IS("flags")) { int flags; MUST(ioctl(fd, FS_IOC_GETFLAGS, &flags)); flags |= FS_NODUMP_FL; MUST(ioctl(fd, FS_IOC_SETFLAGS, &flags)); }
    if (IS("link")) MUST(link(tmp, other));
    if (IS("renamed")) { MUST(rename(tmp, other)); MUST(rename(other, tmp)); }
    if (IS("exchanged")) {
        int theirs = open(other, O_RDWR | O_CREAT, 0600);
        char bytes[4096];
        memset(bytes, 'e', sizeof bytes);
        MUST(theirs); MUST(pwrite(theirs, bytes, sizeof bytes, 0)); MUST(fsync(theirs)); MUST(close(theirs));
        MUST(renameat2(AT_FDCWD, tmp, AT_FDCWD, other, RENAME_EXCHANGE));
    }
    if (IS("grown")) MUST(ftruncate(fd, 10000));
    if (IS("cut")) { MUST(pwrite(fd, "behind", 6, 5000)); MUST(fsync(fd)); MUST(ftruncate(fd, 4096)); }
    if (IS("sent")) { off_t at = 0; MUST(lseek(fd, 4096, SEEK_SET)); MUST(sendfile(fd, source, &at, 100)); }
    if (IS("copied")) { off_t from = 0, to = 4096; MUST(copy_file_range(source, &from, fd, &to, 100, 0)); }
    if (IS("punched")) MUST(fallocate(fd, FALLOC_FL_KEEP_SIZE, 8192, 4096));
}

int main(int argc, char **argv) {
    char tmp[100], name[100], buf[4096];
    (void)argc;
    MUST(chdir(argv[1]));
    int source = open("source", O_RDWR | O_CREAT, 0600);
    MUST(source); MUST(write(source, buf, sizeof buf));
    for (int n = 0; n < 3; n++)
        for (int way = 0; ways[way]; way++) {
            snprintf(tmp, sizeof tmp, ".%s-%d.tmp", ways[way], n);
            snprintf(name, sizeof name, "%s-%d", ways[way], n);
            int fd = open(tmp, O_RDWR | O_CREAT | O_EXCL, 0600);
            MUST(fd);
            memset(buf, ways[way][0], sizeof buf);
            MUST(write(fd, buf, sizeof buf)); MUST(fsync(fd));
            change(ways[way], tmp, fd, source);
            MUST(close(fd)); MUST(rename(tmp, name));
        }
    MUST(mkdir("aside", 0700));
    int other = open("aside/other", O_RDWR | O_CREAT, 0600);
    MUST(other); MUST(write(other, buf, 1)); MUST(fsync(other));
    MUST(write(1, "done\n", 5));
    for (;;) pause();
}
