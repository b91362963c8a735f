#!/usr/bin/env bash
#: about dbench: the load of a file server, buffered and synchronous
#: needs dbench=dbench
#: version dpkg-query -W -f '${Version}' dbench 2>/dev/null
#: size 1G
. "$COMMON"

dbench -t $((8 * SCALE)) -D "$MNT" 4
dbench -t $((4 * SCALE)) -s -S -D "$MNT" 2
echo "4 clients, 2 synchronous ones"
