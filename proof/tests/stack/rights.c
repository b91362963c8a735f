/* `rights TARGET OTHER` tries whatever may change a file through a mount. Most of it fails; what has changed the caller finds out.
   `rights DIR` has the volume grow, and ends with the error's number. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static char bytes[8192];

static uint32_t generation(int f) {
    uint32_t told[2] = {0, 0};
    ioctl(f, _IOR('v', 1, long), told);
    return told[0];
}

/* An exchange by numbers and generations, as an ioctl. */
static void by_number(int a, int b) {
    struct stat s;
    fstat(a, &s);
    struct { uint64_t ino; uint32_t generation, pad; uint64_t at, to, length, flags; } what = {s.st_ino, generation(a), 0, 0, 0, 0, 1};
    ioctl(b, 0x4030EF81, &what);
}

/* An exchange by a ticket. */
static void by_ticket(int a, int b, const char *what) {
    uint64_t ticket[2] = {0, 0};
    char name[200];
    snprintf(name, sizeof name, "ondol.exchange.%s", what);
    if (fgetxattr(b, name, ticket, sizeof ticket) < 0) return;
    snprintf(name, sizeof name, "ondol.exchange.%llu.%llu", (unsigned long long)ticket[0], (unsigned long long)ticket[1]);
    fgetxattr(a, name, bytes, sizeof bytes);
    for (int mode = 0; mode < 4; mode++) {
        fallocate(a, mode, ticket[0], ticket[1]);
        fallocate(b, mode, ticket[0], ticket[1]);
    }
}

static void commands(int f, int other) {
    uint32_t flags = 0x40; /* nodump */
    ioctl(f, _IOW('f', 2, long), &flags);
    flags = 0x20; /* append-only */
    ioctl(f, _IOW('f', 2, long), &flags);
    uint32_t fsx[7] = {0x80, 0, 0, 7, 0, 0, 0};
    ioctl(f, 0x401C5820, fsx);
    uint64_t blocks = 0;
    ioctl(f, 0x40086610, &blocks); /* EXT4_IOC_RESIZE_FS */
    struct { uint32_t what, length; char name[256]; } snapshot = {1, 3, "one"};
    ioctl(f, 0x4108EF82, &snapshot);
    struct { uint32_t reserved, fd; uint64_t from, to, len, moved; } move = {0, other, 0, 0, 1, 0};
    ioctl(f, 0xC028660F, &move); /* EXT4_IOC_MOVE_EXT */
    ioctl(f, 0x6611);            /* EXT4_IOC_SWAP_BOOT */
    ioctl(f, 0x40049409, other); /* FICLONE */
    char label[256] = "changed";
    ioctl(f, 0x41009432, label); /* FS_IOC_SETFSLABEL */
    ioctl(f, 0xF501);            /* F2FS's atomic writes */
    pwrite(f, "x", 1, 0);
    ioctl(f, 0xF502);
}

static void by_descriptor(const char *target, const char *other, int how) {
    int f = open(target, how), o = open(other, O_RDONLY), both = open(other, O_RDWR);
    if (f < 0) return;
    for (int mode = 0; mode < 0x40; mode++) fallocate(f, mode, 4096, 4096);
    loff_t at = 0, to = 4096;
    copy_file_range(o, &at, f, &to, 100, 0);
    sendfile(f, o, NULL, 100);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    if (map != MAP_FAILED) map[0] = 'm';
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, f, 0);
    if (map != MAP_FAILED && !mprotect(map, 4096, PROT_READ | PROT_WRITE)) map[1] = 'm';
    by_number(f, o);
    int others[] = {o, both};
    for (int n = 0; n < 2; n++) {
        by_ticket(f, others[n], "1.0.0.0");
        by_ticket(others[n], f, "0.0.0.4096");
    }
    commands(f, o);
    pwrite(f, "changed", 7, 0);
    ftruncate(f, 3);
    fsetxattr(f, "user.x", "x", 1, 0);
    fchmod(f, 0777);
    fchown(f, 9, 9);
    futimens(f, NULL);
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", f);
    int opened = open(again, O_RDWR | O_TRUNC);
    if (opened >= 0) pwrite(opened, "again", 5, 0);
}

static void by_name(const char *target, const char *other) {
    static const char list[] = {2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 6, 0, 255, 255, 255, 255, 32, 0, 6, 0, 255, 255, 255, 255};
    setxattr(target, "user.x", "x", 1, 0);
    setxattr(target, "trusted.x", "x", 1, 0);
    setxattr(target, "system.posix_acl_access", list, sizeof list, 0);
    setxattr(target, "ondol.exchange.1.0.0.0", "x", 1, 0);
    const char *names[] = {"system.ondol.resize", "system.ondol.snapshot.create", "system.ondol.snapshot.delete"};
    const char *where[] = {target, ".", ".."};
    for (int n = 0; n < 9; n++) {
        setxattr(where[n / 3], names[n % 3], "134217728", 9, 0);
        getxattr(where[n / 3], names[n % 3], bytes, sizeof bytes);
        removexattr(where[n / 3], names[n % 3]);
    }
    struct { struct file_handle head; char id[128]; } handle = {.head = {.handle_bytes = 128}};
    int id;
    if (!name_to_handle_at(AT_FDCWD, target, &handle.head, &id, 0)) {
        int here = open(".", O_RDONLY), f = open_by_handle_at(here, &handle.head, O_RDWR);
        if (f >= 0) pwrite(f, "handle", 6, 0);
    }
    int unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
    if (unnamed >= 0) linkat(unnamed, "", AT_FDCWD, "new", AT_EMPTY_PATH);
    chmod(target, 0777);
    chown(target, 9, 9);
    utimensat(AT_FDCWD, target, NULL, 0);
    truncate(target, 1);
    mkdir("made", 0777);
    mknod("device", S_IFCHR | 0666, 0x0103);
    symlink("x", "link");
    link(target, "second");
    renameat2(AT_FDCWD, target, AT_FDCWD, other, RENAME_EXCHANGE);
    rename(target, "moved");
    unlink(target);
}

int main(int argc, char **argv) {
    if (argc == 2) {
        int failed = setxattr(argv[1], "system.ondol.resize", "", 0, 0) < 0 || getxattr(argv[1], "system.ondol.resize", bytes, 1) < 0;
        return failed ? errno : 0;
    }
    if (argc != 3) return 255;
    by_descriptor(argv[1], argv[2], O_RDONLY);
    by_descriptor(argv[1], argv[2], O_RDWR);
    by_descriptor(argv[1], argv[2], O_WRONLY);
    by_name(argv[1], argv[2]);
    return 0;
}
