#!/usr/bin/env bash
#: about tar both ways, with holes, links and pipes
#: needs tar=tar diff=diffutils
#: version tar --version
. "$COMMON"

mkdir tree back
tree tree
tar cSf tree.tar tree
for number in $(seq $((3 * SCALE))); do
    mkdir "$MNT/$number"
    tar xf tree.tar -C "$MNT/$number"
    # Once it is read, its pages may be changed through mappings, and count.
    [ "$(stat -c %b "$MNT/$number/tree/directory 1/hole")" = 0 ]
    diff -r --no-dereference tree "$MNT/$number/tree" 2>&1 | grep -v 'is a fifo' && exit 1
done
tar cSf "$MNT/again.tar" -C "$MNT/1" tree
tar xf "$MNT/again.tar" -C back
diff -r --no-dereference tree back/tree 2>&1 | grep -v 'is a fifo' && exit 1
rm -r "$MNT/1"
echo "$((3 * SCALE)) times $(find tree | wc -l) files"
