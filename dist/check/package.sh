#!/bin/sh
# Runs as root in a fresh root, with the package in /tmp/ondol.deb and the tarball's tree in /tmp/ondol. It installs each, tries
# what was installed, and takes it away again: afterwards every file is as before.
set -eu

what="nothing yet"
trying() { what=$1 && echo "  $what"; }
ended() { code=$? && { [ "$code" = 0 ] || echo "  this did not work: $what" >&2; }; }
trap ended EXIT

# What is on the system, but for what dpkg, man-db and this script keep for themselves.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/cache/man \
        -o -path /var/lib/dpkg -o -path /var/log -o -path /var/lib/systemd -o -path /var/lib/polkit-1 \) -prune -o -print | sort
}

# $1: where systemd's units are; $2: where the examples are.
volumes() {
    trying "mkfs(8), and fsck(8) by the line in fstab"
    mkdir /data
    truncate --size 64M /srv/data.img
    mkfs --type ondol /srv/data.img > /tmp/said
    cp /etc/fstab /tmp/fstab
    grep '^/srv/data.img' "$2/fstab" >> /etc/fstab
    fsck -A -t ondol -p
    trying "mount(8) by the line in fstab"
    mount -a -t ondol
    [ "$(findmnt --noheadings --output FSTYPE /data)" = fuse.ondol ]
    echo "warm floor" > /data/note
    umount /data
    trying "the image is clean after umount(8), and has what was written"
    fsck -f -p /data > /tmp/said
    e2fsck -fn /srv/data.img > /tmp/said 2>&1
    mount /data
    [ "$(cat /data/note)" = "warm floor" ]
    umount /data
    trying "what ondol@data.service starts, with the example of its file"
    mkdir -p /etc/ondol /etc/systemd/system
    cp "$2/data.conf" /etc/ondol/data.conf
    cp "$2/data.mount" /etc/systemd/system/data.mount
    unset NOTIFY_SOCKET
    # sh reads the file and the line as systemd does: they have no quotes.
    (. /etc/ondol/data.conf && eval "exec $(sed -n 's/^ExecStart=//p' "$1/ondol@.service")") 2> /tmp/said &
    # A server that has ended is no program any more.
    until mountpoint --quiet /data; do readlink "/proc/$!/exe" > /tmp/exe || { cat /tmp/said && exit 1; } && sleep 0.1; done
    [ "$(cat /data/note)" = "warm floor" ]
    kill -TERM $!
    wait $!
    e2fsck -fn /srv/data.img > /tmp/said 2>&1
    trying "systemd-analyze verify of the units"
    systemd-analyze verify "$1/ondol@.service" ondol@data.service /etc/systemd/system/data.mount > /tmp/said 2>&1 || { cat /tmp/said && exit 1; }
    [ ! -s /tmp/said ] || { cat /tmp/said && exit 1; }
    cp /tmp/fstab /etc/fstab
    rm -r /data /srv/data.img /etc/ondol /etc/systemd/system/data.mount
}

# $1: where the manual's pages are.
manual() {
    trying "man finds the pages and has nothing to say against them"
    [ "$(realpath "$(man -w ondol)")" = "$(echo "$1"/man1/ondol.1*)" ]
    man -w 1 ondol-mount ondol-run 8 mount.ondol umount.ondol fsck.ondol mkfs.ondol > /tmp/said
    for page in "$1"/man1/ondol*.1* "$1"/man8/*.ondol.8*; do
        MANROFFSEQ='' man --warnings -E UTF-8 -l "$page" > /tmp/page 2> /tmp/said
        [ -s /tmp/page ] && [ ! -s /tmp/said ] || { echo "$page" && cat /tmp/said && exit 1; }
    done
}

shells() {
    trying "bash completes"
    bash -c '. /usr/share/bash-completion/bash_completion && _completion_loader ondol || true
        COMP_WORDS=(ondol mou) COMP_CWORD=1 && _ondol ondol mou ondol && [ "${COMPREPLY[*]}" = mount ]'
    trying "zsh has the completions and can read them"
    zsh -fc 'autoload -U compinit && compinit -D && [ "$_comps[ondol]" = _ondol ] && autoload +X _ondol'
    trying "fish completes"
    # As sessions of a desktop have it: without it, fish looks below its own prefix alone.
    XDG_DATA_DIRS=/usr/local/share:/usr/share fish -c 'complete --do-complete "ondol mou"' > /tmp/said
    grep -q '^mount' /tmp/said
}

# The example in C, where it could be compiled; $1: the image that it makes.
notes() {
    [ -e "/tmp/notes-$1" ] || return 0
    trying "a program in C with the $1 library"
    rm -f "/tmp/$1.img"
    "/tmp/notes-$1" "/tmp/$1.img" > /tmp/said
    grep -q 'warm floor' /tmp/said
    e2fsck -fn "/tmp/$1.img" > /tmp/said 2>&1
}

# $1: what is tried.
database() {
    trying "$1: sqlite3 finds the extension, and keeps a database in an image"
    truncate --size 64M /tmp/database.img
    mke2fs -q -t ext4 -F /tmp/database.img
    sqlite3 -cmd '.load libondol_sqlite' -cmd ".open 'file:/notes.db?vfs=ondol&image=/tmp/database.img'" :memory: \
        "CREATE TABLE note(text); INSERT INTO note VALUES('warm floor'); SELECT text FROM note" > /tmp/said
    grep -q 'warm floor' /tmp/said
    e2fsck -fn /tmp/database.img > /tmp/said 2>&1
    debugfs -R 'stat /notes.db' /tmp/database.img 2> /tmp/said | grep -q 'Type: regular'
    rm /tmp/database.img
}

export HOME=/tmp LC_ALL=C.UTF-8
files > /tmp/before
trying "the package: installing"
dpkg --install /tmp/ondol.deb > /tmp/said
[ -z "$(dpkg --verify ondol)" ]
volumes /usr/lib/systemd/system /usr/share/doc/ondol/examples
manual /usr/share/man
shells
trying "the packages of the library: installing"
dpkg --install /tmp/libondol0.deb /tmp/libondol-dev.deb > /tmp/said
[ -z "$(dpkg --verify libondol0 libondol-dev)" ]
notes shared
notes static
trying "the package of the extension of SQLite: installing"
dpkg --install /tmp/libsqlite3-mod-ondol.deb > /tmp/said
[ -z "$(dpkg --verify libsqlite3-mod-ondol)" ]
database "the package"
trying "purging"
dpkg --purge ondol libondol-dev libondol0 libsqlite3-mod-ondol > /tmp/said
files > /tmp/after
diff /tmp/before /tmp/after

trying "the tarball: make install"
make -C /tmp/ondol install > /tmp/said
volumes /usr/local/lib/systemd/system /usr/local/share/doc/ondol/examples
manual /usr/local/share/man
shells
trying "the tarball: make install-library"
make -C /tmp/ondol install-library > /tmp/said
ldconfig
notes shared
trying "the tarball: make install-sqlite"
make -C /tmp/ondol install-sqlite > /tmp/said
ldconfig
database "the tarball"
trying "make uninstall"
make -C /tmp/ondol uninstall uninstall-library uninstall-sqlite > /tmp/said
ldconfig
# Directories may stay: nobody knows who else uses them.
find /usr/local -depth -type d -empty -delete
files > /tmp/after
if grep ondol /tmp/after; then exit 1; fi
