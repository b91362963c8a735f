#!/usr/bin/env bash
#: about fs_mark: files made, written, synced in each of its ways, in many directories by threads
#: needs fs_mark=fsmark
#: version dpkg-query -W -f '${Version}' fsmark 2>/dev/null
#: size 1G
. "$COMMON"

# It has room for short paths only.
cd "$MNT"
files=0
for method in 0 1 3 5; do
    mkdir $method-a $method-b
    fs_mark -d $method-a -d $method-b -D 50 -N 20 -n $((1000 * SCALE)) -s 5000 -w 1000 -S $method -t 2 -L 2 -k
    found=$(find $method-a $method-b -type f -size 5000c | wc -l)
    [ "$found" = $((4000 * SCALE)) ] || { echo "method $method: $found files"; exit 1; }
    files=$((files + found))
done
echo "$files files"
