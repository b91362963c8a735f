/* Makes msync(2) of a file's first SLOW_BELOW bytes wait first, SLOW_US microseconds at most, as a slow disk would: what was stored is seen by then, and not durable. With SLOW_IN in a program of that name only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long (*Call)(long, long, long, long, long, long, long);

static long number_of(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

/* Where an address lies in its file. */
static long offset(unsigned long at) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[900];
    unsigned long from, to, first;
    long found = -1;
    while (maps && found < 0 && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &first) == 3 && at >= from && at < to) found = at - from + first;
    if (maps) fclose(maps);
    return found;
}

// The header has it with any number of words.
long slow_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");

long slow_syscall(long number, long a, long b, long c, long d, long e, long f) {
    static Call real;
    static int calls;
    if (!real) real = (Call)dlsym(RTLD_NEXT, "syscall");
    const char *in = getenv("SLOW_IN");
    int here = !in || !strcmp(in, program_invocation_short_name);
    // Not while the pool is made.
    if (number == SYS_msync && here && number_of("SLOW_US") && ++calls > 20 && offset(a) < number_of("SLOW_BELOW"))
        usleep(1 + random() % number_of("SLOW_US"));
    return real(number, a, b, c, d, e, f);
}

int msync(void *at, size_t len, int flags) {
    return (int)slow_syscall(SYS_msync, (long)at, (long)len, flags, 0, 0, 0);
}
