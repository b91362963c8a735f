#!/usr/bin/env bash
#: about a C library and program, built by make -j, cleaned, built again
#: needs make=make cc=gcc ar=binutils
#: version cc --version
. "$COMMON"

cd "$MNT"
parts=$((30 * SCALE))
objects='' calls='0' sum=0
for i in $(seq $parts); do
    echo "int part$i(void) { return $i; }" >"part$i.c"
    echo "int part$i(void);" >>parts.h
    objects+=" part$i.o" calls+=" + part$i()" sum=$((sum + i))
done
printf '#include "parts.h"\nint main(void) { return (%s) == %s ? 0 : 1; }\n' "$calls" "$sum" >main.c
printf 'all: prog\n\t./prog\nlib.a:%s\n\tar rcs $@ $^\nprog: main.o lib.a\n\tcc -o $@ main.o lib.a\nclean:\n\trm -f *.o lib.a prog\n' \
    "$objects" >Makefile
make -sj2
make -s clean
make -sj2 all
echo "$parts objects, twice"
