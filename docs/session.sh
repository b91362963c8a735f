# Make a volume, and mount it.
ondol mkfs --size 1G demo.img
mkdir mnt && ondol mount demo.img mnt
# Write. The file is durable when `sync` returns.
echo "warm floor" > mnt/file && sync mnt/file
# Kill the server. SIGKILL leaves it no time to write or to unmount.
kill -KILL $(ondol info mnt | awk '/^pid/ { print $2 }'); sleep 1
cat mnt/file
# Mount again, and look.
ondol umount mnt && ondol mount demo.img mnt
cat mnt/file
# It is an ordinary ext4, in which e2fsck finds no error.
ondol umount mnt && e2fsck -fn demo.img > log 2>&1 && tail -n 1 log
