#!/usr/bin/env bash
#: about POSIX calls and their errors, 398 cases, by Soleil and Somers after Dawidek
#: needs pjdfstest=cargo:pjdfstest
#: version pjdfstest --version
#: size 256M
#: seconds 300
#: root
#: compared
. "$COMMON"

# Longer than the steps of the times that this image keeps.
touch "$MNT/probe"
case $(stat -c %y "$MNT/probe") in *.000000000*) nap=1.05 ;; *) nap=0.01 ;; esac
cat >config.toml <<TOML
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = $nap
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
TOML
mkdir -m 777 "$MNT/work" other
pjdfstest -c config.toml -p "$MNT/work" -s "$HOST/other" >said 2>&1 || true
cat said
# glibc knows the limit of links by the type of the file system, and has no row for FUSE.
sed -nE 's/^([a-z_0-9:]+) +(ok|FAILED|skipped)$/\1 \2/p' said | grep -v '^link::link_count_max ' >"$LIST"
# On old forms of images some cases fail in the kernel too.
[ -n "$COMPARED" ] || ! grep ' FAILED$' "$LIST"
grep '^Summary:' said
