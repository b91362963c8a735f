#!/usr/bin/env bash
#: about rsync -aHAX: ACLs, attributes, hard links, devices, there and back, and nothing to do afterwards
#: needs rsync=rsync setfacl=acl setfattr=attr
#: version rsync --version
#: root
. "$COMMON"

mkdir tree
tree tree
# Small inodes have whole seconds until 2038 only.
touch "$MNT/probe"
case $(stat -c %y "$MNT/probe") in *.000000000*) step=999999 part=0 ;; *) step=9999999 part= ;; esac
n=0
while read -r -d '' file; do
    n=$((n + 1))
    case $((n % 5)) in
        0) setfacl -m "u:daemon:rw,g:nogroup:r,m::rw" "$file" ;;
        1) setfattr -n user.note -v "$(seq "$n" | head -c 900)" "$file" ;;
        2) setfattr -n trusted.t -v "$n" "$file"; chown "$n:$n" "$file" ;;
        3) chmod $((n % 8))751 "$file"; touch -d "@$((n * step)).${part:-$n}" "$file" ;;
    esac
done < <(find tree -type f -print0)
find tree -type d -exec setfacl -m d:u:daemon:rwx,d:o::- {} +
mknod tree/null c 1 3
mknod tree/disk b 7 200
# What this script did not date has parts of seconds.
[ -z "$part" ] || find tree -newermt '2 days ago' -exec touch -hd '2020-02-02 02:02:02' {} +
for number in $(seq "$SCALE"); do
    rsync -aHAX --numeric-ids tree/ "$MNT/copy $number/"
    rsync -aHAX --numeric-ids "$MNT/copy $number/" "$MNT/second $number/"
    rsync -aHAX --numeric-ids --delete "$MNT/second $number/" back/
    left=$(rsync -aHAXc --numeric-ids --delete --itemize-changes tree/ back/)
    [ -z "$left" ] || { echo "$left"; exit 1; }
    left=$(rsync -aHAXc --numeric-ids --delete --itemize-changes tree/ "$MNT/second $number/")
    [ -z "$left" ] || { echo "$left"; exit 1; }
    mv "$MNT/second $number/directory 1" "$MNT/second $number/other"
    rsync -aHAX --numeric-ids --delete --inplace "$MNT/copy $number/" "$MNT/second $number/"
    [ -z "$(rsync -aHAXc --numeric-ids --delete --itemize-changes tree/ "$MNT/second $number/")" ]
done
attributes() {
    (cd "$1" && find . ! -type l -print0 | sort -z | xargs -0 getfacl -n && find . -type f -print0 | sort -z | xargs -0 getfattr -d -m - -e hex)
}
diff <(attributes tree) <(attributes "$MNT/copy 1")
echo "$((3 * SCALE)) copies of $(find tree | wc -l) files"
