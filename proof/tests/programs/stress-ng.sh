#!/usr/bin/env bash
#: about stress-ng's file stressors, one by one with verification
#: needs stress-ng=stress-ng
#: version stress-ng --version
#: size 2G
#: seconds 1500
#: root
#: compared
. "$COMMON"

# Left out: what works on other file systems or none (bind-mount, binderfs, procfs, eventfd, ioprio).
stressors='access acl aio aiol chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup dynlib fallocate
    fanotify fcntl fiemap file-ioctl filename flock fpunch fsize fstat getdent handle hdd inode-flags inotify io io-uring
    iomix lease link locka lockf lockofd mknod mmapmany msync open readahead rename revio seek sendfile splice symlink
    sync-file touch utime verity xattr'
mkdir "$MNT/work"
: >"$LIST"
run() {
    local name="$1" code=0
    shift
    stress-ng --temp-path "$MNT/work" --verify --no-rand-seed --timeout $((4 * SCALE)) --oomable "$@" >said 2>&1 </dev/null || code=$?
    grep -q 'unknown option\|unrecognized option' said && return
    case $code in
        0) echo "$name ok" ;;
        3) echo "$name no-resource" ;;
        4) echo "$name not-here" ;;
        *) echo "$name FAILED" ; sed 's/^/    /' said >&2 ;;
    esac | tee -a "$LIST"
}
for name in $stressors; do
    run "$name" --"$name" 2 --"$name"-ops $((1500 * SCALE))
done
run hdd-direct --hdd 1 --hdd-ops 800 --hdd-opts direct,wr-rnd,rd-rnd
run hdd-sync --hdd 1 --hdd-ops 300 --hdd-opts dsync,wr-seq,rd-rnd
run hdd-fsync --hdd 1 --hdd-ops 400 --hdd-opts fsync,wr-rnd,utimes
run all-at-once --rename 1 --link 1 --symlink 1 --dir 1 --dentry 1 --hdd 1 --fallocate 1 --xattr 1
[ -z "$(ls -A "$MNT/work")" ] || { ls -lA "$MNT/work"; echo 'stressors left files behind'; rm -rf "$MNT/work"/*; }
echo "$(wc -l <"$LIST") stressors: $(cut -d' ' -f2 "$LIST" | sort | uniq -c | paste -sd' ' | tr -s ' ')"
