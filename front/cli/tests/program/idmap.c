/* idmap SOURCE TARGET MAP: mounts what is mounted on SOURCE on TARGET too, with users and groups mapped as MAP says, which is a line for
   uid_map of user_namespaces(7). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    exit(1);
}

static void map(const char *kind, const char *line)
{
    char path[64];
    int file;

    snprintf(path, sizeof path, "/proc/%d/%s", child, kind);
    file = open(path, O_WRONLY);
    if (file < 0 || write(file, line, strlen(line)) < 0)
        fail(path);
    close(file);
}

int main(int argc, char **argv)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
    char path[64], byte;
    int ready[2], tree;

    if (argc != 4 || pipe(ready) < 0)
        return 2;
    child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        fail("a user namespace");
    map("uid_map", argv[3]);
    map("gid_map", argv[3]);
    snprintf(path, sizeof path, "/proc/%d/ns/user", child);
    attr.userns_fd = open(path, O_RDONLY);
    tree = syscall(SYS_open_tree, AT_FDCWD, argv[1], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        fail("open_tree");
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        fail("mount_setattr");
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, argv[2], MOVE_MOUNT_F_EMPTY_PATH) < 0)
        fail("move_mount");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
