#!/usr/bin/env bash
#: about Postmark with 25,000 subdirectories: the load of a mail server
#: needs postmark=postmark
#: version dpkg-query -W -f '${Version}' postmark 2>/dev/null
#: size 2G
#: mke2fs -N 400000
#: seconds 600
. "$COMMON"

printf 'set location %s\nset subdirectories 25000\nset number %s\nset transactions %s\nset size 500 20000\nset seed %s\nset bias read 5\nrun\nquit\n' \
    "$MNT" $((20000 * SCALE)) $((20000 * SCALE)) "$SEED" >config
postmark config
left=$(find "$MNT" -mindepth 1 ! -name lost+found | wc -l)
[ "$left" = 0 ] || { echo "$left names are left"; exit 1; }
echo "25,000 directories, $((20000 * SCALE)) files, $((20000 * SCALE)) transactions"
