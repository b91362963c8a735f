/* Every call of libondol, and how each of them fails. The first argument is an image to be made. */
#include <errno.h>
#include <fcntl.h>
#include <ondol.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static int checks;

#define CHECK(what)                                                                                       \
    do {                                                                                                  \
        checks++;                                                                                         \
        if (!(what)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #what, ondol_error());                 \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

/* The call fails with this number, and the words have these in them. */
#define FAILS(call, number, words)                                                                        \
    do {                                                                                                  \
        CHECK((call) == -(number));                                                                       \
        CHECK(strstr(ondol_error(), words) != NULL);                                                      \
    } while (0)

static void files(struct ondol_volume *volume)
{
    struct ondol_file *file, *again;
    struct ondol_attr attr;
    char back[16];

    FAILS(ondol_file_open(volume, "/f", O_RDONLY, 0, &file), ENOENT, "/f: no such file");
    FAILS(ondol_file_open(volume, "/f", O_WRONLY | O_DIRECTORY, 0, &file), EINVAL, "flags");
    FAILS(ondol_file_open(volume, NULL, O_RDONLY, 0, &file), EINVAL, "path is NULL");
    FAILS(ondol_file_open(NULL, "/f", O_RDONLY, 0, &file), EINVAL, "volume is NULL");
    FAILS(ondol_file_open(volume, "/f", O_RDONLY, 0, NULL), EINVAL, "file is NULL");
    CHECK(ondol_file_open(volume, "/f", O_RDWR | O_CREAT | O_EXCL, 0600, &file) == 0);
    FAILS(ondol_file_open(volume, "/f", O_RDWR | O_CREAT | O_EXCL, 0600, &again), EEXIST, "exists");
    CHECK(ondol_file_write(file, "0123456789", 10) == 10);
    CHECK(ondol_file_pwrite(file, "ab", 2, 4) == 2);
    CHECK(ondol_file_seek(file, -8, SEEK_CUR) == 2);
    CHECK(ondol_file_read(file, back, 4) == 4 && memcmp(back, "23ab", 4) == 0);
    CHECK(ondol_file_read(file, back, sizeof back) == 4 && memcmp(back, "6789", 4) == 0);
    CHECK(ondol_file_read(file, back, sizeof back) == 0);
    CHECK(ondol_file_pread(file, back, sizeof back, 8) == 2 && memcmp(back, "89", 2) == 0);
    CHECK(ondol_file_read(file, NULL, 0) == 0);
    FAILS(ondol_file_read(file, NULL, 1), EFAULT, "NULL");
    FAILS(ondol_file_pwrite(file, "x", SIZE_MAX, 0), EINVAL, "longer");
    FAILS(ondol_file_read(NULL, back, 1), EINVAL, "file is NULL");
    FAILS(ondol_file_seek(file, -1, SEEK_SET), EINVAL, "before the start");
    FAILS(ondol_file_seek(file, -100, SEEK_CUR), EINVAL, "before the start");
    FAILS(ondol_file_seek(file, 0, 77), EINVAL, "whence");
    CHECK(ondol_file_seek(file, 0, SEEK_HOLE) == 10);
    CHECK(ondol_file_seek(file, 3, SEEK_DATA) == 3);
    FAILS(ondol_file_seek(file, 10, SEEK_DATA), ENXIO, "/f");
    CHECK(ondol_file_seek(file, 0, SEEK_END) == 10);
    CHECK(ondol_file_allocate(file, 0, 0, 8192) == 0 && ondol_file_stat(file, &attr) == 0 && attr.size == 8192);
    CHECK(ondol_file_allocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1024, 1024) == 0);
    CHECK(ondol_file_pread(file, back, 2, 1023) == 2 && back[1] == 0);
    FAILS(ondol_file_allocate(file, FALLOC_FL_PUNCH_HOLE, 0, 1024), EOPNOTSUPP, "flags 0x2");
    FAILS(ondol_file_allocate(file, 0, 0, 0), EINVAL, "/f");
    CHECK(ondol_file_set_len(file, 10) == 0);
    CHECK(ondol_file_set_len(file, 5000) == 0);
    CHECK(ondol_file_stat(file, &attr) == 0);
    CHECK(attr.size == 5000 && attr.mode == (S_IFREG | 0600) && attr.nlink == 1 && attr.created.sec > 0);
    CHECK(ondol_file_sync(file) == 0);
    CHECK(ondol_file_open(volume, "/f", O_WRONLY | O_APPEND, 0, &again) == 0);
    CHECK(ondol_file_write(again, "end", 3) == 3);
    FAILS(ondol_file_read(again, back, 1), EINVAL, "not open for reading");
    CHECK(ondol_unlink(volume, "/f") == 0);
    CHECK(ondol_file_pread(file, back, sizeof back, 5000) == 3 && memcmp(back, "end", 3) == 0);
    CHECK(ondol_file_close(again) == 0 && ondol_file_close(file) == 0 && ondol_file_close(NULL) == 0);
}

static void names(struct ondol_volume *volume)
{
    struct ondol_time early = { -5, 999999999 }, wrong = { 0, 1000000000 };
    struct ondol_attr attr, other;
    struct ondol_entry entry;
    struct ondol_dir *dir;
    struct ondol_file *file;
    char target[4];
    int more, found = 0;

    CHECK(ondol_mkdir(volume, "/d", 0710) == 0);
    FAILS(ondol_mkdir(volume, "/d", 0710), EEXIST, "/d");
    FAILS(ondol_mkdir(volume, "/absent/d", 0710), ENOENT, "/absent/d");
    CHECK(ondol_file_open(volume, "/d/a", O_WRONLY | O_CREAT, 0644, &file) == 0 && ondol_file_close(file) == 0);
    CHECK(ondol_link(volume, "/d/a", "/d/b") == 0);
    CHECK(ondol_symlink(volume, "d/somewhere", "/d/s") == 0);
    CHECK(ondol_readlink(volume, "/d/s", target, sizeof target) == 11 && memcmp(target, "d/so", 4) == 0);
    FAILS(ondol_readlink(volume, "/d/a", target, sizeof target), EINVAL, "/d/a");
    CHECK(ondol_stat(volume, "/d", &attr) == 0 && attr.mode == (S_IFDIR | 0710));
    CHECK(ondol_lstat(volume, "/d/s", &attr) == 0 && (attr.mode & S_IFMT) == S_IFLNK);
    FAILS(ondol_stat(volume, "/d/s", &attr), ENOENT, "/d/s");
    CHECK(ondol_stat(volume, "/d/a", &attr) == 0 && ondol_stat(volume, "d/b", &other) == 0);
    CHECK(attr.ino == other.ino && attr.nlink == 2);
    CHECK(ondol_chmod(volume, "/d/a", 04755) == 0 && ondol_chown(volume, "/d/b", 70000, UINT32_MAX) == 0);
    CHECK(ondol_set_times(volume, "/d/a", NULL, &early) == 0);
    FAILS(ondol_set_times(volume, "/d/a", &wrong, NULL), EINVAL, "no time");
    CHECK(ondol_stat(volume, "/d/a", &attr) == 0);
    CHECK(attr.uid == 70000 && attr.gid == other.gid && attr.mode == (S_IFREG | 0755));
    CHECK(attr.modified.sec == -5 && attr.modified.nsec == 999999999 && attr.accessed.sec > 0);

    CHECK(ondol_dir_open(volume, "/d", &dir) == 0);
    while ((more = ondol_dir_next(dir, &entry)) > 0) {
        CHECK(strlen(entry.name) == 1 && strchr("abs", entry.name[0]) != NULL);
        CHECK(entry.mode == (uint32_t)(entry.name[0] == 's' ? S_IFLNK : S_IFREG));
        found++;
    }
    CHECK(more == 0 && found == 3 && ondol_dir_next(dir, &entry) == 0);
    FAILS(ondol_dir_next(dir, NULL), EINVAL, "entry is NULL");
    CHECK(ondol_dir_close(dir) == 0 && ondol_dir_close(NULL) == 0);
    FAILS(ondol_dir_open(volume, "/d/a", &dir), ENOTDIR, "/d/a: not a directory");
    FAILS(ondol_rmdir(volume, "/d"), ENOTEMPTY, "not empty");
    FAILS(ondol_unlink(volume, "/d"), EISDIR, "directory");
    CHECK(ondol_rename(volume, "/d/a", "/d/b") == 0 && ondol_rename(volume, "/d/b", "/c") == 0);
    CHECK(ondol_unlink(volume, "/d/s") == 0);
    FAILS(ondol_rename(volume, "/absent", "/there"), ENOENT, "/absent");
}

static void users(struct ondol_volume *volume)
{
    struct ondol_file *before, *file;
    struct ondol_transaction *tx;
    struct ondol_attr attr;

    FAILS(ondol_act_as(NULL, 1, 1, 0), EINVAL, "volume is NULL");
    FAILS(ondol_act_as(volume, 1, 1, 01022), EINVAL, "umask 0o1022");
    FAILS(ondol_act_as(volume, 1, 1, UINT32_MAX), EINVAL, "umask");
    CHECK(ondol_file_open(volume, "/before", O_WRONLY | O_CREAT, 0666, &before) == 0);
    CHECK(ondol_act_as(volume, 70000, 70001, 027) == 0);
    CHECK(ondol_file_open(volume, "/whose", O_WRONLY | O_CREAT, 0666, &file) == 0 && ondol_file_close(file) == 0);
    CHECK(ondol_stat(volume, "/whose", &attr) == 0);
    CHECK(attr.uid == 70000 && attr.gid == 70001 && attr.mode == (S_IFREG | 0640));
    CHECK(ondol_mkdir(volume, "/theirs", 0777) == 0 && ondol_stat(volume, "/theirs", &attr) == 0);
    CHECK(attr.uid == 70000 && attr.gid == 70001 && attr.mode == (S_IFDIR | 0750));
    CHECK(ondol_tx_begin(volume, &tx) == 0 && ondol_tx_create(tx, "/theirs/f") == 0);
    FAILS(ondol_act_as(volume, 0, 0, 0), EBUSY, "transaction");
    CHECK(ondol_tx_commit(tx) == 0 && ondol_stat(volume, "/theirs/f", &attr) == 0);
    CHECK(attr.uid == 70000 && attr.gid == 70001 && attr.mode == (S_IFREG | 0640));
    /* Files that are open stay usable. */
    CHECK(ondol_file_write(before, "x", 1) == 1 && ondol_file_stat(before, &attr) == 0);
    CHECK(ondol_file_close(before) == 0 && ondol_act_as(volume, attr.uid, attr.gid, 0) == 0);
    CHECK(ondol_file_open(volume, "/mine", O_WRONLY | O_CREAT, 0666, &file) == 0);
    CHECK(ondol_file_stat(file, &attr) == 0 && attr.uid != 70000 && attr.mode == (S_IFREG | 0666));
    CHECK(ondol_file_close(file) == 0);
}

static void attributes(struct ondol_volume *volume)
{
    struct ondol_transaction *tx;
    char value[16];

    FAILS(ondol_getxattr(volume, "/c", "user.a", value, sizeof value), ENODATA, "/c");
    CHECK(ondol_setxattr(volume, "/c", "user.a", "12345", 5, XATTR_CREATE) == 0);
    FAILS(ondol_setxattr(volume, "/c", "user.a", "", 0, XATTR_CREATE), EEXIST, "/c");
    FAILS(ondol_setxattr(volume, "/c", "user.b", "", 0, XATTR_REPLACE), ENODATA, "/c");
    FAILS(ondol_setxattr(volume, "/c", "user.b", "", 0, 64), EINVAL, "flags 0x40");
    FAILS(ondol_setxattr(volume, "/c", NULL, "", 0, 0), EINVAL, "name is NULL");
    FAILS(ondol_setxattr(volume, "/c", "user.b", NULL, 1, 0), EFAULT, "NULL");
    CHECK(ondol_getxattr(volume, "/c", "user.a", NULL, 0) == 5);
    CHECK(ondol_getxattr(volume, "/c", "user.a", value, sizeof value) == 5 && memcmp(value, "12345", 5) == 0);
    FAILS(ondol_getxattr(volume, "/c", "user.a", value, 4), ERANGE, "5 bytes");
    CHECK(ondol_tx_begin(volume, &tx) == 0);
    CHECK(ondol_tx_setxattr(tx, "/c", "user.b", "6", 1, 0) == 0 && ondol_tx_removexattr(tx, "/c", "user.a") == 0);
    FAILS(ondol_tx_setxattr(tx, "/c", "user.c", "6", 1, 64), EINVAL, "flags");
    CHECK(ondol_tx_commit(tx) == 0);
    CHECK(ondol_listxattr(volume, "/c", NULL, 0) == 7);
    CHECK(ondol_listxattr(volume, "/c", value, sizeof value) == 7 && memcmp(value, "user.b", 7) == 0);
    CHECK(ondol_removexattr(volume, "/c", "user.b") == 0 && ondol_listxattr(volume, "/c", value, 1) == 0);
    FAILS(ondol_removexattr(volume, "/c", "user.b"), ENODATA, "/c");
}

static void transactions(struct ondol_volume *volume)
{
    struct ondol_transaction *tx;
    struct ondol_attr attr;
    struct ondol_file *file;
    char back[32];

    CHECK(ondol_tx_begin(volume, &tx) == 0);
    FAILS(ondol_close(volume), EBUSY, "transaction");
    CHECK(ondol_tx_mkdir(tx, "/t") == 0 && ondol_tx_create(tx, "/t/empty") == 0);
    CHECK(ondol_tx_write(tx, "/t/f", "0123", 4) == 0 && ondol_tx_append(tx, "/t/f", "45", 2) == 0);
    CHECK(ondol_tx_write_at(tx, "/t/f", "x", 1, 1) == 0 && ondol_tx_set_len(tx, "/t/f", 5) == 0);
    CHECK(ondol_tx_link(tx, "/t/f", "/t/g") == 0 && ondol_tx_symlink(tx, "g", "/t/s") == 0);
    CHECK(ondol_tx_rename(tx, "/t/empty", "/t/full") == 0 && ondol_tx_chmod(tx, "/t/f", 0600) == 0);
    CHECK(ondol_tx_mkdir(tx, "/t/d") == 0 && ondol_tx_rmdir(tx, "/t/d") == 0 && ondol_tx_unlink(tx, "/t/full") == 0);
    FAILS(ondol_tx_write(tx, NULL, "", 0), EINVAL, "path is NULL");
    FAILS(ondol_tx_write(NULL, "/t", "", 0), EINVAL, "tx is NULL");
    FAILS(ondol_tx_append(tx, "/t/f", NULL, 3), EFAULT, "NULL");
    FAILS(ondol_stat(volume, "/t", &attr), ENOENT, "/t");
    CHECK(ondol_tx_commit(tx) == 0);
    CHECK(ondol_file_open(volume, "/t/s", O_RDONLY, 0, &file) == 0);
    CHECK(ondol_file_read(file, back, sizeof back) == 5 && memcmp(back, "0x234", 5) == 0);
    CHECK(ondol_file_stat(file, &attr) == 0 && attr.nlink == 2 && attr.mode == (S_IFREG | 0600));
    CHECK(ondol_file_close(file) == 0);

    CHECK(ondol_tx_begin(volume, &tx) == 0);
    CHECK(ondol_tx_unlink(tx, "/t/s") == 0 && ondol_tx_rmdir(tx, "/t") == 0);
    FAILS(ondol_tx_commit(tx), ENOTEMPTY, "/t");
    CHECK(ondol_lstat(volume, "/t/s", &attr) == 0);
    CHECK(ondol_tx_begin(volume, &tx) == 0 && ondol_tx_unlink(tx, "/t/s") == 0 && ondol_tx_abort(tx) == 0);
    CHECK(ondol_lstat(volume, "/t/s", &attr) == 0 && ondol_tx_abort(NULL) == 0);
    FAILS(ondol_tx_commit(NULL), EINVAL, "tx is NULL");
}

/* A thread writes to a file of another one, and has a message of its own. */
static void *thread(void *argument)
{
    struct ondol_file *file = argument;

    CHECK(strcmp(ondol_error(), "") == 0);
    for (int n = 0; n < 50; n++)
        CHECK(ondol_file_write(file, "line\n", 5) == 5);
    return NULL;
}

static void threads(struct ondol_volume *volume)
{
    enum { THREADS = 4 };
    pthread_t ids[THREADS];
    struct ondol_file *file;
    struct ondol_attr attr;

    CHECK(ondol_file_open(volume, "/lines", O_WRONLY | O_CREAT | O_APPEND, 0644, &file) == 0);
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_create(&ids[n], NULL, thread, file) == 0);
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_join(ids[n], NULL) == 0);
    CHECK(ondol_file_stat(file, &attr) == 0 && attr.size == THREADS * 50 * 5);
    CHECK(ondol_file_close(file) == 0);
}

static struct ondol_volume *made(const char *image)
{
    struct ondol_mkfs_options options = { .size = 32u << 20, .label = "calls", .journal = "sparkle" };
    struct ondol_volume *volume;

    FAILS(ondol_mkfs(image, NULL), EINVAL, "how large");
    FAILS(ondol_mkfs(image, &options), EINVAL, "sparkle");
    options.journal = "classic";
    options.data = "ordered";
    options.features = "sparkle";
    FAILS(ondol_mkfs(image, &options), EINVAL, "sparkle");
    options.features = "^dir_index";
    options.block_size = 1024;
    options.inodes = 1984;
    options.journal_size = 4u << 20;
    CHECK(ondol_mkfs(image, &options) == 0);
    FAILS(ondol_mkfs(image, &options), EEXIST, "holds");
    options.force = true;
    CHECK(ondol_mkfs(image, &options) == 0);
    FAILS(ondol_open("/absent/image", NULL, &volume), ENOENT, "/absent/image");
    FAILS(ondol_open(image, "sparkle", &volume), EINVAL, "sparkle");
    FAILS(ondol_open(image, "\xff", &volume), EINVAL, "UTF-8");
    FAILS(ondol_open(image, NULL, NULL), EINVAL, "volume is NULL");
    CHECK(ondol_open(image, "data=journal", &volume) == 0);
    FAILS(ondol_open(image, NULL, &volume), EBUSY, "in use");
    return volume;
}

/* A buffer in front of the files of a directory, both beside the image. */
static void buffers(const char *image)
{
    struct ondol_buffer *buffer, *again;
    struct ondol_buffer_file *file, *other;
    char pool[4096], dir[4096], name[4200], back[16];
    struct stat st;
    int fd, status;

    snprintf(pool, sizeof pool, "%s.pool", image);
    snprintf(dir, sizeof dir, "%s.files", image);
    snprintf(name, sizeof name, "%s/log", dir);
    CHECK((unlink(pool) == 0 || errno == ENOENT) && (unlink(name) == 0 || errno == ENOENT));
    CHECK((mkdir(dir, 0700) == 0 || errno == EEXIST) && (umask(027), 1));
    FAILS(ondol_buffer_open(pool, 8u << 20, "/absent", false, &buffer), ENOENT, "/absent");
    FAILS(ondol_buffer_open(NULL, 8u << 20, dir, false, &buffer), EINVAL, "pool is NULL");
    FAILS(ondol_buffer_open(pool, 8u << 20, NULL, false, &buffer), EINVAL, "dir is NULL");
    FAILS(ondol_buffer_open(pool, 8u << 20, dir, false, NULL), EINVAL, "buffer is NULL");
    FAILS(ondol_buffer_open(pool, 64u << 10, dir, false, &buffer), ENOSPC, "8 blocks");
    CHECK(stat(pool, &st) == -1);

    /* A program that ends without closing: what it wrote is found. */
    if (fork() == 0) {
        CHECK(ondol_buffer_open(pool, 8u << 20, dir, false, &buffer) == 0);
        CHECK(ondol_buffer_file_open(buffer, "log", true, &file) == 0);
        CHECK(ondol_buffer_file_pwrite(file, "warm floor", 10, 0) == 10);
        CHECK(stat(name, &st) == 0 && st.st_size == 0);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(stat(pool, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(chmod(pool, 0644) == 0);
    FAILS(ondol_buffer_open(pool, 8u << 20, dir, false, &buffer), EPERM, pool);
    CHECK(chmod(pool, 0600) == 0);
    CHECK(ondol_buffer_open(pool, 8u << 20, dir, false, &buffer) == 0);
    CHECK(stat(name, &st) == 0 && st.st_size == 10 && (st.st_mode & 0777) == 0640);
    FAILS(ondol_buffer_open(pool, 8u << 20, dir, false, &again), EBUSY, "in use");

    FAILS(ondol_buffer_file_open(buffer, "absent", false, &file), ENOENT, "absent");
    FAILS(ondol_buffer_file_open(buffer, "../out", true, &file), EINVAL, "../out");
    FAILS(ondol_buffer_file_open(buffer, "", true, &file), EINVAL, "1 to 432");
    FAILS(ondol_buffer_file_open(NULL, "log", true, &file), EINVAL, "buffer is NULL");
    FAILS(ondol_buffer_file_open(buffer, "log", true, NULL), EINVAL, "file is NULL");
    CHECK(ondol_buffer_file_open(buffer, "log", false, &file) == 0 && ondol_buffer_file_size(file) == 10);
    CHECK(ondol_buffer_file_pread(file, back, sizeof back, 5) == 5 && memcmp(back, "floor", 5) == 0);
    CHECK(ondol_buffer_file_pwrite(file, "er floor", 8, 4) == 8 && ondol_buffer_file_set_len(file, 11) == 0);
    FAILS(ondol_buffer_file_pwrite(file, NULL, 1, 0), EFAULT, "NULL");
    FAILS(ondol_buffer_file_pwrite(file, "xy", 2, INT64_MAX), EFBIG, "log");
    FAILS(ondol_buffer_file_pread(NULL, back, 1, 0), EINVAL, "file is NULL");
    CHECK(ondol_buffer_file_sync(file) == 0 && ondol_buffer_settle(buffer) == 0);
    CHECK((fd = open(name, O_RDONLY)) >= 0 && read(fd, back, sizeof back) == 11 && close(fd) == 0);
    CHECK(memcmp(back, "warmer floo", 11) == 0);
    CHECK(ondol_buffer_file_open(buffer, "log", false, &other) == 0);
    FAILS(ondol_buffer_close(buffer), EBUSY, "2 files");
    CHECK(ondol_buffer_remove(buffer, "log") == 0);
    FAILS(ondol_buffer_remove(buffer, "log"), ENOENT, "log");
    FAILS(ondol_buffer_file_pwrite(file, "x", 1, 0), ESTALE, "removed");
    CHECK(ondol_buffer_file_close(file) == 0 && ondol_buffer_file_close(other) == 0);
    CHECK(ondol_buffer_file_close(NULL) == 0 && ondol_buffer_close(buffer) == 0 && ondol_buffer_close(NULL) == 0);
    FAILS(ondol_buffer_settle(NULL), EINVAL, "buffer is NULL");
    CHECK(stat(name, &st) == -1 && rmdir(dir) == 0);
}

int main(int argc, char **argv)
{
    struct ondol_volume *volume;
    struct ondol_space space;
    struct ondol_file *file;
    struct ondol_dir *dir;
    const char *image = argv[1];

    CHECK(argc == 2 && strcmp(ondol_error(), "") == 0 && strchr(ondol_version(), '.') != NULL);
    buffers(image);
    volume = made(image);
    CHECK(ondol_statfs(volume, &space) == 0);
    CHECK(space.block_size == 1024 && space.files == 1984 && space.free > 20000 && space.available <= space.free);
    files(volume);
    names(volume);
    users(volume);
    attributes(volume);
    transactions(volume);
    threads(volume);
    CHECK(ondol_sync(volume) == 0);

    CHECK(ondol_file_open(volume, "/held", O_WRONLY | O_CREAT, 0644, &file) == 0 && ondol_dir_open(volume, "/d", &dir) == 0);
    FAILS(ondol_close(volume), EBUSY, "the file /held, the directory /d");
    CHECK(ondol_file_close(file) == 0 && ondol_dir_close(dir) == 0 && ondol_close(volume) == 0);

    CHECK(ondol_open(image, "ro", &volume) == 0);
    FAILS(ondol_rmdir(volume, "/d"), EROFS, "read-only");
    CHECK(ondol_close(volume) == 0 && ondol_close(NULL) == 0);
    printf("%d checks\n", checks);
    return 0;
}
