//! What follows in a page of the manual behind what the definitions say: examples, and where to read on.

/// The sections of one page.
pub(crate) struct Sections {
    /// What the page is called.
    pub(super) page: &'static str,
    /// A call, as a shell takes it, and what it does.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    /// Other pages.
    pub(super) see_also: &'static [&'static str],
}

const fn page(
    page: &'static str,
    examples: &'static [(&'static str, &'static str)],
    see_also: &'static [&'static str],
) -> Sections {
    Sections { page, examples, see_also }
}

/// The sections of a page.
pub(super) fn of(page: &str) -> Option<&'static Sections> {
    PAGES.iter().find(|sections| sections.page == page)
}

#[rustfmt::skip]
pub(crate) const PAGES: &[Sections] = &[
    page("ondol", &[
        ("ondol mount --create 1G disk.img mnt", "Make a volume in disk.img, if there is none, and mount it on mnt."),
        ("ondol umount mnt", "Unmount it; the image is clean when this returns."),
        ("ondol cp disk.img :/notes .", "Copy a file out of it without mounting it."),
    ], &["ondol-mount(1)", "ondol-mkfs(1)", "ondol-check(1)", "ondol-info(1)", "mount.ondol(8)", "fsck.ondol(8)", "ext4(5)"]),
    page("ondol-mkfs", &[
        ("ondol mkfs --size 1G -L data disk.img", "Make an image of 1 GiB with a label."),
        ("ondol mkfs --size 64M -d /srv/files -m 0 files.img", "Make one with the files of a directory in it, and nothing reserved for root."),
        ("ondol mkfs -F -T largefile 'disk.img?partition=2'", "Make a file system for few large files in the second partition of a disk's image, in place of what is there."),
        ("ondol mkfs --size 1G nvm:/mnt/pmem/pool", "Make an image in an NVM pool, which is made if it is not there."),
    ], &["ondol(1)", "ondol-tune(1)", "ondol-mount(1)", "mkfs.ondol(8)", "mke2fs(8)", "ext4(5)"]),
    page("ondol-mount", &[
        ("ondol mount -o data=journal,fsync=file disk.img mnt", "Mount an image, file data as safe as metadata, an fsync for its file alone."),
        ("ondol mount --partition 2 -o ro disk.img mnt", "Mount the second partition of a disk's image, for reading only."),
        ("ondol mount -o nvm=/mnt/pmem/pool disk.img mnt", "Let fsync end in an NVM pool."),
        ("ondol mount -f disk.img mnt", "Serve in the foreground, with messages on standard error."),
        ("ondol mount -o metrics=9464,log=/var/log/data.log disk.img mnt", "Let Prometheus scrape http://localhost:9464/metrics, and write messages to a file."),
    ], &["ondol(1)", "ondol-umount(1)", "ondol-sync(1)", "ondol-top(1)", "mount.ondol(8)", "mount(8)", "mount.fuse3(8)", "ext4(5)"]),
    page("ondol-umount", &[
        ("ondol umount mnt", "Unmount, and return when the image is clean."),
        ("ondol umount --lazy mnt", "Take it out of sight although somebody uses it."),
        ("ondol umount --force mnt", "Cut off whoever uses it; the image is clean all the same."),
    ], &["ondol(1)", "ondol-mount(1)", "ondol-sync(1)", "umount.ondol(8)", "umount(8)"]),
    page("ondol-sync", &[("ondol sync mnt", "Make durable everything that was done on the volume that is mounted on mnt.")],
        &["ondol(1)", "ondol-mount(1)", "sync(1)", "fsync(2)"]),
    page("ondol-exchange", &[
        ("ondol exchange --written --sync mnt/pages.new mnt/database", "Put what is written in a sparse file into its place in another, all of it or nothing."),
    ], &["ondol(1)", "ondol-sync(1)", "rename(2)"]),
    page("ondol-check", &[
        ("ondol check disk.img", "Replay the journal, and look at everything."),
        ("ondol check -n disk.img", "Look, and change nothing."),
        ("ondol check -n -b 32768 disk.img", "Go by a copy of a superblock that is damaged."),
    ], &["ondol(1)", "ondol-recover(1)", "fsck.ondol(8)", "e2fsck(8)"]),
    page("ondol-recover", &[
        ("ondol recover disk.img", "Replay the journal, so that any ext4 program can take the image."),
        ("ondol recover --nvm /mnt/pmem/pool disk.img", "The same of an image whose last changes lie in an NVM pool."),
        ("ondol recover --force disk.img", "Give up what is damaged in the journal; e2fsck mends the rest."),
    ], &["ondol(1)", "ondol-check(1)", "ondol-run(1)", "e2fsck(8)"]),
    page("ondol-info", &[
        ("ondol info disk.img", "Show what an image is."),
        ("ondol info --stats mnt", "Show what a mounted volume has done."),
        ("ondol info --json disk.img", "The same for programs."),
    ], &["ondol(1)", "ondol-check(1)", "ondol-top(1)", "ondol-pool-info(1)", "dumpe2fs(8)"]),
    page("ondol-top", &[
        ("ondol top mnt", "Watch what the volume that is mounted on mnt does; q ends it."),
        ("ondol top --sort p99 --interval 5 disk.img", "Watch by image, the slowest operations first, a new report every five seconds."),
        ("ondol top --once mnt", "Print one report, about a second."),
        ("ondol top --json -n 60 mnt > report.json", "Write a line of JSON each second, for a minute."),
    ], &["ondol(1)", "ondol-info(1)", "ondol-mount(1)", "top(1)"]),
    page("ondol-ls", &[
        ("ondol ls -l disk.img /etc", "List a directory of an image."),
        ("ondol ls -R --partition 1 disk.img", "List all of the first partition of a disk's image."),
    ], &["ondol(1)", "ondol-cat(1)", "ondol-cp(1)", "ls(1)"]),
    page("ondol-cat", &[
        ("ondol cat disk.img /etc/fstab", "Print a file of an image."),
        ("ondol cat -o nvm=/mnt/pmem/pool disk.img /log", "Print one whose last changes lie in an NVM pool."),
    ], &["ondol(1)", "ondol-cp(1)", "ondol-ls(1)", "cat(1)"]),
    page("ondol-cp", &[
        ("ondol cp disk.img :/etc/fstab .", "Copy a file out of an image."),
        ("ondol cp -a disk.img /srv/files :/", "Copy a directory into it, with everything that belongs to its files."),
        ("tar -c files | ondol cp disk.img - :/files.tar", "Write what a program prints into a file of it."),
    ], &["ondol(1)", "ondol-cat(1)", "ondol-ls(1)", "ondol-mkfs(1)", "cp(1)"]),
    page("ondol-tune", &[
        ("ondol tune --journal classic disk.img", "Have mounts use the kernel's own journal format."),
        ("ondol tune --journal-size 64M --data journal disk.img", "Give an image a journal of another size, and protect file data."),
    ], &["ondol(1)", "ondol-mkfs(1)", "ondol-info(1)", "tune2fs(8)"]),
    page("ondol-resize", &[
        ("ondol resize disk.img 2G", "Give a volume and its file 2 GiB, whether it is larger or smaller now."),
        ("ondol resize 'disk.img?partition=2'", "Let a volume have all of its partition."),
        ("ondol resize mnt 4G", "Let the volume that is mounted on mnt grow."),
        ("ondol resize -M disk.img", "Make a volume and its file as small as they can be."),
    ], &["ondol(1)", "ondol-tune(1)", "ondol-mkfs(1)", "resize2fs(8)"]),
    page("ondol-snapshot", &[
        ("ondol snapshot create mnt monday", "Keep the volume that is mounted on mnt as it is now."),
        ("ondol mount -o ro 's3://bucket/volume?snapshot=monday' old", "Mount it as it was."),
        ("ondol snapshot delete s3://bucket/volume monday", "Give up what only the snapshot needs."),
    ], &["ondol(1)", "ondol-snapshot-create(1)", "ondol-snapshot-list(1)", "ondol-snapshot-delete(1)", "ondol-mount(1)", "ondol-export(1)"]),
    page("ondol-snapshot-create", &[
        ("ondol snapshot create mnt monday", "Keep the volume that is mounted on mnt as it is now."),
        ("ondol snapshot create s3://bucket/volume monday", "The same of a volume that nobody has mounted."),
    ], &["ondol-snapshot(1)", "ondol-snapshot-list(1)", "ondol-snapshot-delete(1)"]),
    page("ondol-snapshot-list", &[("ondol snapshot list s3://bucket/volume", "List the snapshots of a volume, mounted or not.")],
        &["ondol-snapshot(1)", "ondol-snapshot-create(1)", "ondol-snapshot-delete(1)"]),
    page("ondol-snapshot-delete", &[("ondol snapshot delete mnt monday", "Delete a snapshot of the volume that is mounted on mnt.")],
        &["ondol-snapshot(1)", "ondol-snapshot-create(1)", "ondol-snapshot-list(1)"]),
    page("ondol-clone", &[
        ("ondol clone 's3://bucket/volume?snapshot=monday' s3://bucket/test", "Make a volume out of a snapshot, to try something."),
        ("ondol clone s3://bucket/volume s3://bucket/copy", "The same of what a volume holds now, which nobody has mounted."),
    ], &["ondol(1)", "ondol-snapshot(1)", "ondol-delete(1)"]),
    page("ondol-delete", &[("ondol delete --yes s3://bucket/test", "Delete a volume that nobody needs any more.")],
        &["ondol(1)", "ondol-clone(1)", "ondol-snapshot(1)"]),
    page("ondol-export", &[("ondol export nvm:/mnt/pmem/pool copy.img", "Write the image in a pool to a file that the kernel and e2fsck take.")],
        &["ondol(1)", "ondol-import(1)", "ondol-pool(1)"]),
    page("ondol-import", &[("ondol import disk.img nvm:/mnt/pmem/pool", "Bring an image into a pool.")],
        &["ondol(1)", "ondol-export(1)", "ondol-pool(1)"]),
    page("ondol-pool", &[
        ("ondol pool create --size 64M /mnt/pmem/pool", "Make a pool."),
        ("ondol pool info /mnt/pmem/pool", "Show what it holds."),
    ], &["ondol(1)", "ondol-pool-create(1)", "ondol-pool-info(1)", "ondol-mount(1)", "ondol-run(1)"]),
    page("ondol-pool-create", &[
        ("ondol pool create --size 64M /mnt/pmem/pool", "Make a pool in a file on a DAX file system."),
        ("ondol pool create -F /dev/dax0.0", "Make one of a whole DAX device, in place of what is there."),
    ], &["ondol-pool(1)", "ondol-mount(1)", "ondol-run(1)"]),
    page("ondol-pool-info", &[("ondol pool info /mnt/pmem/pool", "Show which crashes a pool survives, and what lies in it.")],
        &["ondol-pool(1)", "ondol-info(1)"]),
    page("ondol-pool-dump", &[
        ("ondol pool dump /mnt/pmem/pool", "Show the first bytes of each area."),
        ("ondol pool dump /var/lib/ondol/volume.log", "Show what a log of `durable=local` has, batch by batch."),
    ], &["ondol-pool(1)", "hexdump(1)"]),
    page("ondol-pool-flatten", &[("ondol pool flatten /mnt/pmem/pool", "Put the blocks of the image in a pool into their order.")],
        &["ondol-pool(1)", "ondol-info(1)"]),
    page("ondol-pool-measure", &[
        ("ondol pool measure --nvm-model read=300ns,write=100ns /mnt/pmem/pool", "Show what persisting would cost on a slower NVM."),
    ], &["ondol-pool(1)", "ondol-bench(1)"]),
    page("ondol-run", &[
        ("ondol run --buffer /mnt/pmem/pool --dir /srv/db -- sqlite3 /srv/db/x.db", "Run a program whose fsync ends in a pool."),
        ("ondol recover /mnt/pmem/pool", "After a crash: bring home what it has synced."),
    ], &["ondol(1)", "ondol-recover(1)", "ondol-pool-info(1)", "fsync(2)"]),
    page("ondol-crash", &[
        ("ondol crash --seconds 60", "Look for a power cut that breaks the contract, for a minute."),
        ("ondol crash --engine classic --data ordered", "The same of one engine in one data mode."),
        ("ondol crash --store local --seconds 60", "The same of a volume in object storage with a log on this machine."),
    ], &["ondol(1)", "ondol-lab(1)", "ondol-check(1)"]),
    page("ondol-bench", &[
        ("ondol bench list", "Show workloads and targets."),
        ("ondol bench run varmail --on dir:/tmp", "Measure a file system that is there."),
    ], &["ondol(1)", "ondol-lab(1)"]),
    page("ondol-completions", &[
        ("ondol completions bash > /usr/share/bash-completion/completions/ondol", "Have bash complete commands and options."),
    ], &["ondol(1)", "ondol-manual(1)", "bash(1)"]),
    page("ondol-manual", &[("ondol manual /usr/local/share/man", "Write all pages where man(1) finds them.")], &["ondol(1)", "ondol-completions(1)", "man(1)"]),
    page("mount.ondol", &[
        ("mount -t ondol -o data=journal /srv/data.img /data", "Mount an image."),
        ("mount -t ondol -o partition=2,ro /srv/disk.img /mnt", "Mount a partition of a disk's image."),
        ("mount -o remount,ro /data", "Let nobody write any more."),
    ], &["ondol-mount(1)", "umount.ondol(8)", "mount(8)", "fstab(5)"]),
    page("umount.ondol", &[("umount.ondol /data", "Unmount, and return when the image is clean.")],
        &["ondol-umount(1)", "mount.ondol(8)", "umount(8)", "fstab(5)"]),
    page("fsck.ondol", &[
        ("fsck.ondol -p /srv/data.img", "Replay the journal, and take an image as clean that says so."),
        ("fsck.ondol -f -n /srv/data.img", "Look at everything, and change nothing."),
    ], &["ondol-check(1)", "fsck(8)", "e2fsck(8)", "fstab(5)"]),
    page("mkfs.ondol", &[("mkfs.ondol -L data /dev/sdb1", "Make a file system on a device.")], &["ondol-mkfs(1)", "mkfs(8)", "mke2fs(8)"]),
];
