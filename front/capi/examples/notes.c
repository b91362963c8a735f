/*
 * Keeps notes in a volume of its own: makes the image, writes to it, changes two files as one, and lists what is there.
 *
 *     cc notes.c $(pkg-config --cflags --libs ondol) -o notes
 *     ./notes notes.img
 */
#include <fcntl.h>
#include <inttypes.h>
#include <ondol.h>
#include <stdio.h>
#include <string.h>

/* What failed, and why. */
static int failed(const char *what)
{
    fprintf(stderr, "notes: %s: %s\n", what, ondol_error());
    return 1;
}

static int list(struct ondol_volume *volume, const char *path)
{
    struct ondol_dir *dir;
    struct ondol_entry entry;
    int more;

    if (ondol_dir_open(volume, path, &dir) < 0)
        return failed("listing");
    while ((more = ondol_dir_next(dir, &entry)) > 0)
        printf("inode %" PRIu64 ": %s\n", entry.ino, entry.name);
    if (more < 0)
        failed("listing");
    ondol_dir_close(dir);
    return more < 0;
}

static int work(struct ondol_volume *volume)
{
    static const char text[] = "warm floor\n";
    char back[64];
    struct ondol_file *file;
    struct ondol_transaction *tx;
    int64_t length;

    if (ondol_mkdir(volume, "/notes", 0755) < 0)
        return failed("a directory");
    if (ondol_file_open(volume, "/notes/today", O_RDWR | O_CREAT, 0644, &file) < 0)
        return failed("a file");
    if (ondol_file_pwrite(file, text, strlen(text), 0) < 0 || ondol_file_sync(file) < 0) {
        ondol_file_close(file);
        return failed("writing");
    }
    length = ondol_file_pread(file, back, sizeof back, 0);
    ondol_file_close(file);
    if (length < 0)
        return failed("reading");
    printf("%.*s", (int)length, back);

    /* Both or none, also after a crash. */
    if (ondol_tx_begin(volume, &tx) < 0)
        return failed("a transaction");
    ondol_tx_rename(tx, "/notes/today", "/notes/yesterday");
    ondol_tx_write(tx, "/notes/today", "warmer floor\n", strlen("warmer floor\n"));
    if (ondol_tx_commit(tx) < 0 || ondol_sync(volume) < 0)
        return failed("a transaction");
    return list(volume, "/notes");
}

int main(int argc, char **argv)
{
    struct ondol_mkfs_options options = { .size = 64u << 20, .label = "notes" };
    struct ondol_volume *volume;
    int result;

    if (argc != 2) {
        fprintf(stderr, "usage: notes IMAGE\n");
        return 2;
    }
    if (ondol_mkfs(argv[1], &options) < 0)
        return failed(argv[1]);
    if (ondol_open(argv[1], NULL, &volume) < 0)
        return failed(argv[1]);
    result = work(volume);
    if (ondol_close(volume) < 0)
        return failed("closing");
    return result;
}
