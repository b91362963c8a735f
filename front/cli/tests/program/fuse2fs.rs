//! The program in the place of fuse2fs, called as others call that, and compared with it where it is installed.

use crate::namespace::{place, run};
use ondol_skips::skip;
use std::path::Path;

/// `serve` serves in the foreground until `unserve`; what was said is in `$D/said`. `image FILE TYPE` makes an image
/// with files of root's.
const BEGIN: &str = r#"
N="setpriv --reuid 65534 --regid 65534 --clear-groups"
F=$D/fuse2fs; ln -s "$D/ondol" "$F"
serve() {
    "$@" > "$D/said" 2>&1 & started=$!
    until mounted; do kill -0 $started; sleep 0.05; done
}
unserve() { "$@" "$M"; wait $started; started=; }
image() {
    if ! [ -e "$D/root" ]; then
        mkdir -p "$D/root/dir" "$D/root/upper"; echo secret > "$D/root/file"
        chmod 600 "$D/root/file"; chmod 700 "$D/root/dir"; chown 65534:65534 "$D/root/upper"
    fi
    truncate -s 32M "$1"; mke2fs -q -F -t "$2" -d "$D/root" "$1"; chmod 666 "$1"
}
"#;

fn try_it(script: &str) {
    let Some(place) = place() else { return };
    run(&place, &format!("{BEGIN}{script}"));
}

/// The same beside the other program, `$R`.
fn compare(script: &str) {
    const OTHER: &str = "/usr/bin/fuse2fs";
    if Path::new(OTHER).exists() {
        try_it(&format!("R={OTHER}\n{script}"));
    } else {
        skip("fuse2fs is not installed");
    }
}

/// It has the capability to mount in a user namespace of its own, and takes all on standard error for what went wrong.
#[test]
fn apptainer_mounts_an_overlay_in_its_user_namespace() {
    try_it(
        r#"
image "$D/overlay.img" ext3
export F D M
as_nobody unshare --user --map-current-user --keep-caps --mount sh -ec '
    stdbuf -oL "$F" -f -o allow_other,fakeroot "$D/overlay.img" "$M" > "$D/said" 2>&1 & server=$!
    until grep -q " $M " /proc/self/mountinfo; do kill -0 $server; sleep 0.05; done
    cd "$M"
    setpriv --inh-caps=-all --ambient-caps=-all sh -ec "cat file dir/../file; mkdir upper/new"
    cd /
    umount -i "$M"; wait $server'
[ ! -s "$D/said" ]
e2fsck -fn "$D/overlay.img"
"$D/ondol" ls "$D/overlay.img" /upper | grep -q new
"#,
    );
}

/// Where it is set-uid, it hands over the image and a FUSE device that it has mounted itself.
#[test]
fn apptainer_hands_over_descriptors() {
    try_it(
        r#"
image "$D/overlay.img" ext3
exec 3<>"$D/overlay.img" 4<>/dev/fuse
mount -i -t fuse.fuse2fs -o fd=4,rootmode=40000,user_id=65534,group_id=65534,allow_other none "$M"
serve $N "$F" -f -o allow_other,ro,fakeroot /proc/self/fd/3 /dev/fd/4
exec 3>&- 4>&-
[ "$(as_nobody cat "$M/file")" = secret ]
unserve umount -i
[ ! -s "$D/said" ]
"#,
    );
}

/// It names the offset to a library that it puts before libc.
#[test]
fn apptainer_names_an_offset_by_its_library() {
    try_it(
        r#"
image "$D/part.img" ext3
truncate -s 1M "$D/sif"; cat "$D/part.img" >> "$D/sif"
serve env LD_PRELOAD=/nowhere/offsetpreload.so OFFSETPRELOAD_FILE="$D/sif" OFFSETPRELOAD_OFFSET=1048576 \
    stdbuf -oL "$F" -f -o allow_other "$D/sif" "$M"
[ "$(cat "$M/file")" = secret ]
[ -z "$(tr '\0' '\n' < /proc/$started/environ | grep -E '^(LD_PRELOAD|OFFSETPRELOAD)')" ]
unserve umount -i
"#,
    );
}

/// It shows files as the caller's, who may change them then.
#[test]
fn singularity_mounts_as_its_user() {
    try_it(
        r#"
image "$D/overlay.img" ext3
as_nobody "$F" -o uid=65534,gid=65534,ro "$D/overlay.img" "$M"
[ "$(as_nobody stat -c '%u %g %a' "$M/file" "$M/dir" | tr '\n' ' ')" = '65534 65534 600 65534 65534 700 ' ]
[ "$(as_nobody cat "$M/file")" = secret ]
fails 1 as_nobody touch "$M/new"
as_nobody fusermount3 -u "$M"; flock -w 60 "$D/overlay.img" true
as_nobody "$F" -o uid=65534,gid=65534,umask=027 "$D/overlay.img" "$M"
as_nobody sh -c 'echo more >> "$1/file"; mkdir "$1/dir/new"' sh "$M"
[ "$(as_nobody ls -ln "$M" | grep -c '^[d-]rwxr-x--- .* 65534 *65534 ')" = 4 ]
as_nobody fusermount3 -u "$M"; flock -w 60 "$D/overlay.img" true
[ "$("$D/ondol" cat "$D/overlay.img" /file | tail -1)" = more ]
debugfs -R 'stat /file' "$D/overlay.img" | grep -qE 'User: +0 +Group: +0 '
"#,
    );
}

#[test]
fn its_options_are_taken() {
    try_it(
        r#"
image "$D/a.img" ext4
truncate -s 1M "$D/disk"; cat "$D/a.img" >> "$D/disk"
all=rw,acl,noacl,user_xattr,nodelalloc,noblock_validity,bsddf,errors=panic,cache_size=1M,directio
all=$all,no_default_opts,subtype=ext4,direct_io,kernel_cache,attr_timeout=0,entry_timeout=1,max_write=4096
all=$all,nonempty,intr,big_writes,fsname=it
serve "$F" -f "$D/disk" "$M" -o "$all" -ooffset=1048576,oom_score_adj=-500 -s -f
[ "$(cat "$M/file")" = secret ]; touch "$M/new"
[ "$(findmnt -n -o SOURCE "$M")" = it ]
unserve umount -i
serve "$F" -o kernel,nosuid,lockfile="$D/lock" -f "$D/a.img" "$M"
findmnt -n -o OPTIONS "$M" | tr , '\n' > "$D/shown"
for word in rw nosuid default_permissions allow_other; do grep -qx $word "$D/shown"; done
[ "$(stat -c %a "$D/lock")" = 400 ]
fails 1 as_nobody cat "$M/file"
unserve umount -i
[ ! -e "$D/lock" ]; : > "$D/lock"
fails 32 "$F" -o lockfile="$D/lock" "$D/a.img" "$M"; says 'lock file'
serve "$F" -o suid,dev,fakeroot -f "$D/a.img" "$M"
findmnt -n -o OPTIONS "$M" | grep -q nosuid,nodev
unserve umount -i
rm "$D/lock"; cd "$D"
"$F" -o lockfile=lock a.img mnt
[ -e lock ]; umount -i "$M"; flock -w 60 a.img true
n=0; while [ -e lock ]; do n=$((n + 1)); [ $n -lt 100 ]; sleep 0.05; done
for word in -d -odebug -ofuse2fs_debug; do
    serve "$F" -f $word -r a.img "$M"
    findmnt -n -o OPTIONS "$M" | grep -q '^ro,'
    unserve umount -i
    says DEBUG
done
serve "$F" -d a.img "$M"
unserve umount -i
fails 1 "$F" -o sparkle a.img "$M"
fails 1 "$F" -o cache_size=2G a.img "$M"
fails 1 "$F" a.img "$D/absent"
fails 1 "$F" a.img
truncate -s 32M encrypted.img; mke2fs -q -F -t ext4 -O encrypt encrypted.img
fails 2 "$F" encrypted.img "$M"; says encrypt
"$F" -V 2>&1 | grep -qE '^fuse2fs [0-9]\.[0-9]{2}\.[0-9] '
"#,
    );
}

#[test]
fn exit_codes_are_those_of_fuse2fs() {
    compare(
        r#"
cd "$D"; image a.img ext4; head -c 1M /dev/zero > zeros; : > empty
same() {
    set +e; "$R" "$@" > /dev/null 2>&1; code=$?; set -e
    fails $code "$F" "$@"
    ! mounted
}
same; same -h; same --help; same --helpfull; same -V; same --version
same absent "$M"; same zeros "$M"; same empty "$M"; same a.img "$M" -o offset=4096
"#,
    );
}

#[test]
fn a_journal_that_is_not_replayed_is_mounted_for_reading() {
    compare(
        r#"
image "$D/dirty.img" ext4; debugfs -w -R 'feature needs_recovery' "$D/dirty.img"
for program in "$R" "$F"; do
    cp "$D/dirty.img" "$D/a.img"
    serve "$program" -f -o norecovery "$D/a.img" "$M"
    fails 1 touch "$M/new"
    unserve umount -i
    dumpe2fs -h "$D/a.img" | grep -q needs_recovery
done
"#,
    );
}

/// But for the journal, which counts as overhead for the kernel's ext4 and so for Ondol.
#[test]
fn df_shows_what_it_shows_under_fuse2fs() {
    compare(
        r#"
image "$D/a.img" ext4; cp "$D/a.img" "$D/b.img"
for options in ro ro,minixdf; do
    serve "$R" -f -o $options "$D/a.img" "$M"
    theirs=$(stat -f -c '%f %a %c %d %S %l' "$M") blocks=$(stat -f -c %b "$M")
    unserve umount -i
    serve "$F" -f -o $options "$D/b.img" "$M"
    [ "$(stat -f -c '%f %a %c %d %S %l' "$M")" = "$theirs" ]
    ours=$(stat -f -c %b "$M")
    unserve umount -i
done
[ "$ours" = "$blocks" ]
serve "$F" -f -o minixdf,bsddf "$D/b.img" "$M"
[ "$(stat -f -c %b "$M")" -lt "$blocks" ]
unserve umount -i
"#,
    );
}

#[test]
fn fakeroot_lets_a_user_do_what_fuse2fs_lets_him_do() {
    compare(
        r#"
image "$D/root.img" ext3
cat > "$D/acts" <<'END'
exec 2>&1; umask 022; cd "$1"
act() { "$@"; echo "$*: $?"; }
act cat file; act sh -c 'echo more >> file'; act mkdir dir/new; act sh -c 'echo x > dir/new/x'
act chown 1:2 file; act chmod 4711 file; act chown 5 dir; act mv dir/new/x upper/x; act rm -r dir/new
act ln upper/x upper/y; act setfattr -n user.a -v b file; act touch -d @1000 dir; act test -x file; act test -w upper
echo made > made; mkdir made.dir; ln -s made link
stat -c '%n %A %u %g %h' . * upper/*
END
for program in "$R" "$F"; do
    cp "$D/root.img" "$D/a.img"; chmod 666 "$D/a.img"
    serve $N "$program" -f -o fakeroot "$D/a.img" "$M"
    as_nobody sh "$D/acts" "$M" > "$D/of.${program##*/}.$((n = ${n:-0} + 1))"
    unserve as_nobody fusermount3 -u
done
diff "$D"/of.*
grep -q 'made.dir drwxr-xr-x 65534 65534 2' "$D/of.fuse2fs.2"
e2fsck -fn "$D/a.img"
serve $N "$F" -f "$D/root.img" "$M"
fails 1 as_nobody cat "$M/file"
unserve as_nobody fusermount3 -u
"#,
    );
}
