//! The mount options, as help and manual have them.

/// What `-o` takes, with what only some builds have.
macro_rules! mount_options {
    ($of_buckets:literal, $targets:literal) => {
        concat!(
            "Mount options:
  data=writeback|ordered|journal  how file data is protected; as the image says, or ordered
  journal=classic|compressed|swap|scalable|remap|batch  the journal engine; as the image says, or classic; swap and \
             remap (the default) in a pool, scalable with nvm=, batch on a home that takes batches
  nvm=POOL                        the NVM pool that fsync ends in (`ondol pool create` makes one)
  journal_size=SIZE               the journal's size; a clean image's is changed to it before the mount
  zeroing, nozeroing              zero journal blocks whose transactions are home (nothing depends on it): nozeroing
  errors=remount-ro|continue      what to do when corruption is found; as the image says
  fsync=prefix|file               what an fsync makes durable: all earlier operations, or those up to its file's \
             last: prefix
  commit=SECONDS                  how long unsynced operations may wait for a commit: 5
  dirty=SIZE                      data that may wait to be written, at most 32M, and 12M on a disk: a quarter of cache=
  device=memory|ssd|disk          the class of the device below the image: as the system says, or ssd
  cache=SIZE                      memory for blocks, inodes, images and large requests: 128M
  buffer=SIZE                     of a new NVM pool for file data: half of it, at most 256M
  checkpoint_threads=N            threads that write blocks home at a checkpoint: 1, or 4 if it is large and
                                  there are several processors
  partition=N                     the image is this partition of a disk or its image, by GPT or MBR; logical ones \
             count from 5
  offset=SIZE, sizelimit=SIZE     the image begins with this byte of the file or device, and has so many
  norecovery, noload              with ro: do not replay the journal
  ro, rw, noatime, relatime, suid, dev, exec, sync, dirsync: as for mount(8), which has more
  allow_other, allow_root, default_permissions, auto_unmount, fsname=, max_read=, max_threads=
                                  as for mount.fuse3(8)
  uid=N, gid=N, umask=022         owner, group and mode that all files are shown with; permissions are checked by these
  fakeroot                        nobody checks permissions; with nosuid and nodev
  minixdf, bsddf                  whether df(1) counts the file system's own blocks: bsddf
  writeback_cache                 the kernel collects writes; fsync covers its file and what it has handed over
  log_level=LEVEL                 how much a server logs: error, warn, info, debug or trace
  metrics=PORT|HOST:PORT|unix:PATH|FILE.prom
                                  what the mount does, for Prometheus: by HTTP, or in a file for node_exporter
  log=FILE                        where a server in the background writes its messages, instead of the system's log
Options of ext4 and FUSE that mean nothing here are taken; others are refused with what to write instead.
",
            $of_buckets,
            "
",
            $targets,
            "The target may be an open file, /dev/fd/N, and the directory an opened and mounted /dev/fuse, /dev/fd/N.
Exit codes are mount(8)'s: 1 wrong call, 2 system error, 8 interrupted, 32 not mounted."
        )
    };
}

/// What `-o` takes, for help and manual.
pub(super) const MOUNT_OPTIONS: &str = if ondol::HAS_BUCKETS {
    mount_options!(
        "  take_over                       of a volume in object storage: take it from whoever has it mounted
  lease=SECONDS                   of the same: how long others keep away when nothing is heard from here: 60
  store_timeout=SECONDS           of the same: give up when the store has not answered for so long, 0 for never: 600
  store_cache=SIZE                of the same: memory for indexes of the store: 64M
  durable=remote|local            of the same: an fsync ends in the bucket, or in a log on this machine: remote
  redo=FILE, nvm=POOL             with durable=local: where that log is; a file is made
  redo_size=SIZE                  how large a new log is: 256M
  lag=SIZE, lag_seconds=SECONDS   how far the bucket may be behind it: three quarters of it and at most 64M, 30
  give_up=UUID                    of a log that is lost or out of date: what is in it and not in the bucket does not \
         matter
  disk_cache=DIR                  of the same: keep what is read in a directory on the local disk
  disk_cache_size=SIZE            how large that is: 1G
",
        "The target may be in object storage: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or \
         file:///DIR, and with ?snapshot=NAME behind it a snapshot, for reading. Credentials are taken from the \
         environment.
"
    )
} else {
    mount_options!("", "")
};

#[cfg(test)]
mod tests {
    use super::MOUNT_OPTIONS;

    /// Every option that the help of `-o` names is taken, with each of the values that it names.
    #[test]
    fn help_names_mount_options_that_are_taken() {
        let mut count = 0;
        for line in MOUNT_OPTIONS.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            let names = line.trim_start().split(if line.contains(": as for mount(8)") { ": " } else { "  " }).next();
            for name in names.unwrap_or_default().split([',', ' ']).filter(|name| !name.is_empty()) {
                let (name, values) = name.split_once('=').map_or((name, None), |(name, values)| (name, Some(values)));
                let words: Vec<String> = match values {
                    None => vec![name.to_owned()],
                    Some("SIZE") => vec![format!("{name}=64M")],
                    Some("SECONDS" | "N" | "") => vec![format!("{name}=7")],
                    Some("FILE" | "POOL") => vec![format!("{name}=/x")],
                    Some("UUID") => vec![format!("{name}=00112233-4455-6677-8899-aabbccddeeff")],
                    Some("LEVEL") => vec![format!("{name}=info")],
                    Some("PORT|HOST:PORT|unix:PATH|FILE.prom") => {
                        ["9090", "localhost:9090", "unix:/x", "/x.prom"].map(|v| format!("{name}={v}")).to_vec()
                    }
                    Some(values) => values.split('|').map(|value| format!("{name}={value}")).collect(),
                };
                count += words.len();
                for word in words {
                    crate::options::Wishes::read(std::slice::from_ref(&word), false)
                        .unwrap_or_else(|e| panic!("{word}: {}", e.message));
                }
            }
        }
        assert!(count > 25, "only {count} options were found");
    }
}
