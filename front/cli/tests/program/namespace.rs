//! Scripts as root in a mount namespace of their own, where the program is installed under its other names.

use crate::place::{Place, needs_helper, needs_root, output};
use ondol_skips::{skip, skips};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

pub(crate) const NOBODY: u32 = 65534;

/// Links in the directory in which mount(8) and fsck(8) look; the FUSE device is open to all, as on ordinary systems.
const BEGIN: &str = r#"
set -e
S=$(readlink -f /sbin) started=
end() {
    for child in $started; do kill $child 2>/dev/null || :; done
    for dir in "$D"/mnt*; do umount -i -l "$dir" 2>/dev/null || :; done
    exit "$1"
}
trap 'end $?' EXIT
# timeout(1) ends what hangs: what was started and mounted is to go then, too.
trap 'exit 143' TERM
cp "$PROGRAM" "$D/ondol"
# Copies of the other tests' mounts would keep their servers alive; they go by themselves when such a test removes its
# directory.
sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse.ondol .*/\1/p' /proc/self/mountinfo |
    while read -r other; do umount -i -l "$other" 2>/dev/null || :; done
# Puts the other names of the program given into $S, in the place of those that are installed there.
names() {
    for type in ondol fuse.ondol; do
        for name in mount umount fsck mkfs; do ln -sf "$1" "$S/$name.$type"; done
    done
}
# The directory of names as this namespace alone sees it; what it holds on the machine is linked, and seen in $D/$1.
install() {
    mkdir "$D/$1"; mount --bind "$S" "$D/$1"
    mount -t tmpfs -o mode=755 none "$S"
    for program in "$D/$1"/*; do ln -s "$program" "$S/"; done
    names "$D/ondol"
}
install sbin
# Names that are installed elsewhere come later.
PATH=$S:$PATH
mkdir -p /run/mount; mount -t tmpfs -o mode=755 none /run/mount
mkdir "$D/dev"; mount -t tmpfs -o mode=755 none "$D/dev"; mknod -m 666 "$D/dev/fuse" c 10 229
mount --bind "$D/dev/fuse" /dev/fuse
: > "$D/fstab"; [ -e /etc/fstab ] || : > /etc/fstab; mount --bind "$D/fstab" /etc/fstab
I=$D/disk.img M=$D/mnt
mounted() { grep -q " ${1:-$M} " /proc/self/mountinfo; }
fails() {
    code=$1; shift
    set +e; "$@" > "$D/said" 2>&1; got=$?; set -e
    [ $got = "$code" ] || { echo "$*: exit code $got, not $code: $(cat "$D/said")" >&2; exit 1; }
}
says() { grep -q "$1" "$D/said" || { echo "not said: $1: $(cat "$D/said")" >&2; exit 1; }; }
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
set -x
"#;

/// Runs a script in such a namespace; image and mount point belong to nobody. `$D` is the place's directory, `$I` the
/// image, `$M` the mount point.
pub(crate) fn run(place: &Place, script: &str) {
    let dir = place.mount_point().parent().unwrap().to_owned();
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    for path in [dir.clone(), place.image(), place.mount_point()] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut command = Command::new("timeout");
    command
        .args(["120", "unshare", "--mount", "sh", "-c", &format!("{BEGIN}\n{script}")])
        .env("D", &dir)
        .env("PROGRAM", crate::program())
        .stdin(Stdio::null());
    let out = output(&mut command);
    let (told, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{told}\n{said}");
    for line in told.lines() {
        skips(line.strip_prefix("skipped: "));
    }
}

/// A place for such a script; `None`, noted as skipped, where there can be none.
pub(crate) fn place() -> Option<Place> {
    if skips(needs_helper()) { None } else { roots_place() }
}

/// The same for a script in which only root mounts.
pub(crate) fn roots_place() -> Option<Place> {
    if skips(needs_root()) {
        return None;
    }
    let tried = Command::new("unshare").args(["--mount", "setpriv", "--reuid", "0", "true"]).output();
    if !tried.is_ok_and(|out| out.status.success()) {
        skip("unshare(1) and setpriv(1) cannot make a mount namespace here");
        return None;
    }
    Place::new()
}
