/* Lists a directory as a program does that has positions of 32 bits: from beginning to end, and then from each position, backwards.
   Says how many names it has found. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 10000 };

static long position[MOST];
static char *name[MOST];

int main(int argc, char **argv)
{
    DIR *dir = opendir(argc > 1 ? argv[1] : ".");
    struct dirent *entry;
    int count = 0;

    if (!dir || sizeof(long) != 4 || sizeof(entry->d_off) != 4)
        return 2;
    for (;;) {
        position[count] = telldir(dir);
        errno = 0;
        entry = readdir(dir);
        if (!entry || count == MOST - 1)
            break;
        name[count++] = strdup(entry->d_name);
    }
    if (errno) {
        perror("readdir");
        return 1;
    }
    for (int i = count - 1; i >= 0; i--) {
        seekdir(dir, position[i]);
        entry = readdir(dir);
        if (!entry || strcmp(entry->d_name, name[i]) != 0) {
            printf("position %ld of %s leads to %s\n", position[i], name[i], entry ? entry->d_name : "the end");
            return 1;
        }
    }
    rewinddir(dir);
    entry = readdir(dir);
    if (!entry || strcmp(entry->d_name, name[0]) != 0)
        return 1;
    printf("%d\n", count);
    return 0;
}
