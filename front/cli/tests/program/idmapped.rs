//! Mounts that map users and groups, as containers have them: what the kernel's ext4 does there, this does.

use crate::namespace::{roots_place, run};
use ondol_skips::{missing, skips};

/// Defines `work PLAIN MAPPED`, which tells what users can do on MAPPED, where 0 to 999 of PLAIN are 5000 to 5999, and
/// what comes of it.
const WORK: &str = r#"
cc -O1 -o "$D/idmap" "$C" || { echo 'skipped: idmap.c cannot be compiled here'; exit 0; }
mkdir "$D/mnt2"; chmod 755 "$D/mnt2"
as() { user=$1; shift; setpriv --reuid $user --regid $user --clear-groups sh -c "$*"; }
# What comes of a line for the shell: nothing, or an error's words.
try() {
    user=$1; shift
    if as $user "$*" > /dev/null 2> "$D/error"; then echo "$user may: $*"
    else echo "$user: $*: $(sed 's/.*: //' "$D/error" | tail -1)"; fi
}
owners() { (cd "$1"; find . -path ./lost+found -prune -o -printf '%U:%G %m %y %p\n' | sort -k4); }
work() {
    (cd "$1"
    umask 022
    echo root > of-root; echo seven > of-7; chown 7:8 of-7; echo far > of-2000; chown 2000:2000 of-2000
    mkdir open handed; chmod 777 open; chown 0:9 handed; chmod 2777 handed
    # A program that its owner makes setuid.
    echo program > program; chown 3:3 program; chmod 777 program)
    cd "$2"
    owners .
    try 5000 'echo more >> of-root; cat of-root'
    try 5007 'echo more >> of-7; chmod 640 of-7'
    try 5006 'echo more >> of-7'
    try 5008 'cat of-7'
    try 2000 'echo more >> of-2000'
    for user in 5000 5007 0 6000 1000; do
        try $user "umask 002; : > open/file-$user"
        try $user "mkdir open/dir-$user handed/dir-$user"
        try $user "mkfifo open/pipe-$user"
        try $user "ln -s target open/link-$user"
        try $user "echo text > handed/file-$user"
        try $user "mv open/file-$user open/moved-$user; ln open/moved-$user open/hard-$user; rm open/pipe-$user"
    done
    try 5003 'chmod 4777 program'; stat -c %a program
    try 5004 'echo more >> program'; stat -c %a program
    try 5003 'chmod 6777 program'
    try 5004 'truncate -s 3 program'; stat -c %a program
    for owner in 5003:5004 0:0 5999:5999 6000:6000; do try 0 "chown $owner of-7"; stat -c %u:%g of-7; done
    try 5007 'chown 5001 open/moved-5007'
    try 5000 'rm open/hard-5007'
    try 6000 'rm open/hard-5000'
    if command -v setfacl > /dev/null; then
        try 5000 'setfacl -m u:5005:rwx,d:u:5006:rx open/dir-5000'
        try 5000 'getfacl -n open/dir-5000 | grep -q user:5005:rwx'
        try 5000 'mkdir open/dir-5000/below'
        getfacl -n "$1/open/dir-5000" "$1/open/dir-5000/below" 2>/dev/null | grep user:
    fi
    try 5000 'chattr +d of-root'
    try 5000 'chattr +i of-root'
    cd /
    owners "$2"; owners "$1"
}
"#;

const SCRIPT: &str = r#"
mke2fs -q -F -t ext4 -m 20 "$I"
cp "$I" "$D/kernels.img"
mount -o loop "$D/kernels.img" "$M"
if ! "$D/idmap" "$M" "$D/mnt2" '0 5000 1000' 2> "$D/said"; then
    umount "$M"; echo "skipped: no mapped mounts here: $(cat "$D/said")"; exit 0
fi
set +x
work "$M" "$D/mnt2" > "$D/kernels" 2>&1
umount "$D/mnt2"; umount "$M"
mount -t ondol -o allow_other,suid,dev "$I" "$M"
"$D/idmap" "$M" "$D/mnt2" '0 5000 1000'
work "$M" "$D/mnt2" > "$D/ours" 2>&1
diff "$D/kernels" "$D/ours" >&2
# What is kept back is root's, whose user the kernel does not tell: not that of who is 0 on the medium.
as 5000 "cat /dev/zero > '$D/mnt2/open/all'" 2> /dev/null || :
as 5000 "n=0; while mkdir '$D/mnt2/open/full'\$n 2> /dev/null; do n=\$((n + 1)); done"
try 5000 "head -c 200000 /dev/zero >> $D/mnt2/of-root" > "$D/said"; says 'No space left'
[ "$(stat -f -c %f "$M")" -gt 2500 ]
head -c 200000 /dev/zero >> "$D/mnt2/of-root"
head -c 200000 /dev/zero > "$M/of-root"
mkdir "$M/full"
umount "$D/mnt2"
umount "$M"
"#;

#[test]
fn users_that_a_mount_maps_may_do_what_they_may_on_the_kernels_ext4() {
    if skips(missing(&["mke2fs", "cc"])) {
        return;
    }
    let Some(place) = roots_place() else { return };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/idmap.c");
    run(&place, &format!("C={source}\n{WORK}\n{SCRIPT}"));
    place.is_clean();
}
