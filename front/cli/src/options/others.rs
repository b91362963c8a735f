//! Options of ext4, FUSE and fuse2fs that lines of fstab carry and that are none of Ondol's: each is taken, because it
//! means nothing here or says what Ondol does anyway, or refused by name, with what to write instead.

use Answer::{Refused, Taken};

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing has to be done for it.
    Taken,
    /// It is not taken; why, and what to write instead.
    Refused(&'static str),
}

/// All of them. A name that ends with `=` takes any value; one with a value takes that alone.
pub(super) const OTHERS: &[(&[&str], Answer)] = &[
    // What Ondol does anyway.
    (&["acl", "user_xattr", "barrier", "barrier=1", "delalloc", "auto_da_alloc", "block_validity"], Taken),
    (&["init_itable", "init_itable=", "journal_checksum", "data_err=abort", "i_version", "iversion", "noquota"], Taken),
    (&["dax=never", "dax=inode", "symfollow", "nomand", "seclabel", "loop", "no_default_opts", "subtype=ondol"], Taken),
    (
        &["kernel_cache", "auto_cache", "no_writeback_cache", "async_read", "async_dio", "big_writes", "large_read"],
        Taken,
    ),
    (&["use_ino", "readdir_ino", "hard_remove", "nonempty", "noforget", "nopath", "remember="], Taken),
    // How others do their work.
    (&["nodelalloc", "noauto_da_alloc", "noblock_validity", "noinit_itable", "noiversion", "noi_version"], Taken),
    (&["stripe=", "inode_readahead_blks=", "max_batch_time=", "min_batch_time=", "journal_ioprio="], Taken),
    (&["dioread_lock", "dioread_nolock", "nodioread_nolock", "mblk_io_submit", "nomblk_io_submit"], Taken),
    (&["mb_optimize_scan=", "prefetch_block_bitmaps", "no_prefetch_block_bitmaps", "mbcache", "nombcache"], Taken),
    (&["no_mbcache", "oldalloc", "orlov", "bh", "nobh", "nocheck", "check=none", "warn_on_error"], Taken),
    (&["nowarn_on_error", "noauto_cache", "sync_read", "max_readahead=", "max_background="], Taken),
    (&["congestion_threshold=", "clone_fd", "splice_read", "no_splice_read", "splice_write", "no_splice_write"], Taken),
    (&["splice_move", "no_splice_move", "no_remote_lock", "no_remote_posix_lock", "no_remote_flock"], Taken),
    (&["intr", "intr_signal=", "max_idle_threads=", "atomic_o_trunc", "blkdev", "blksize=", "directio"], Taken),
    (&["timing", "oom_score_adj=", "entry_timeout=", "negative_timeout=", "attr_timeout=", "ac_attr_timeout="], Taken),
    // What would not be as it says.
    (
        &["noacl", "nouser_xattr"],
        Refused("access control lists and attributes count wherever files have some; leave it out"),
    ),
    (
        &["nobarrier", "barrier=0"],
        Refused("an fsync is worth nothing before the disk has emptied its cache; leave it out"),
    ),
    (&["data_err=ignore"], Refused("after a failed write of data nothing is changed any more; leave it out")),
    (&["nojournal_checksum"], Refused("the journal always has checksums; leave it out")),
    (&["journal_async_commit"], Refused("`journal=compressed` commits with one flush")),
    (&["journal_dev="], Refused("`journal_path=DEVICE` names the device of the journal")),
    (
        &["quota", "usrquota", "grpquota", "prjquota", "usrquota=", "grpquota=", "usrjquota=", "grpjquota=", "jqfmt="],
        Refused("volumes with quota are for reading; leave it out"),
    ),
    (&["resuid=", "resgid="], Refused("`tune2fs -u USER` and `tune2fs -g GROUP` write it into the image")),
    (&["debug", "fuse2fs_debug"], Refused("`log_level=debug` says more")),
    (&["abort"], Refused("`ondol umount --force` cuts off whoever uses a mount")),
    (
        &["test_dummy_encryption", "test_dummy_encryption=", "inlinecrypt"],
        Refused("nothing is encrypted here; leave it out"),
    ),
    (&["dax", "dax=always"], Refused("files of a volume in a pool, `nvm:POOL`, are read in place")),
    (&["nouid32"], Refused("users and groups have 32 bits; leave it out")),
    (&["max_dir_size_kb="], Refused("directories may have any size; leave it out")),
    (&["fc_debug_force", "fc_debug_max_replay="], Refused("it is for tests of the kernel; leave it out")),
    (&["mand"], Refused("kernels have no mandatory locks any more; leave it out")),
    (&["nosymfollow"], Refused("`mount -o remount,bind,nosymfollow DIR` sets it afterwards")),
    (
        &["context=", "fscontext=", "defcontext=", "rootcontext="],
        Refused("SELinux labels a FUSE mount as its policy says; leave it out"),
    ),
    (&["fmask=", "dmask="], Refused("`umask=` says it of all files")),
    (&["direct_io"], Refused("a program asks for it with O_DIRECT; leave it out")),
    (&["max_write="], Refused("`max_read=` bounds reads; for writes leave it out")),
    (&["modules=", "subdir=", "from_code=", "to_code="], Refused("there are no modules; leave it out")),
    (
        &["fd=", "rootmode=", "user_id=", "group_id="],
        Refused("the kernel sets it; `/dev/fd/N` as the directory hands over a connection"),
    ),
    (&["drop_privileges", "setuid="], Refused("the user who runs `ondol mount` is the one who serves")),
    (&["subtype="], Refused("mounts are known by it; `fsname=` names the source")),
    (&["loop="], Refused("an image needs no loop device; leave it out")),
    (&["kernel"], Refused("`allow_other,default_permissions,suid,dev` says the same")),
    (&["lockfile="], Refused("images are locked themselves; leave it out")),
    (&["cache_size="], Refused("`cache=` says how much memory there is for blocks")),
];

/// What becomes of an option as it is written; `None` if it is not one of these.
pub(super) fn answer(word: &str) -> Option<Answer> {
    let with_any = word.find('=').and_then(|at| word.get(..=at));
    let find = |wanted: &str| OTHERS.iter().find(|(names, _)| names.contains(&wanted)).map(|(_, answer)| *answer);
    find(word).or_else(|| with_any.and_then(find))
}

/// Their names, for those who look for the one that was meant.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let bare = |name: &'static str| name.find('=').and_then(|at| name.get(..=at)).unwrap_or(name);
    OTHERS.iter().flat_map(|(names, _)| names.iter().copied()).map(bare)
}

/// The words of a list that are none of these.
///
/// # Errors
/// One is refused.
pub(super) fn without(list: &str) -> Result<Vec<&str>, String> {
    let mut rest = Vec::new();
    for word in list.split(',') {
        match answer(word) {
            Some(Taken) => {}
            Some(Refused(why)) => return Err(format!("mount option `{word}` is not taken: {why}")),
            None => rest.push(word),
        }
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn all() -> Vec<&'static str> {
        OTHERS.iter().flat_map(|(names, _)| names.iter().copied()).collect()
    }

    /// What the text of the documents has between backquotes.
    fn quoted(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }

    #[test]
    fn the_documents_have_the_same_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ext4.md");
        let text = std::fs::read_to_string(path).unwrap();
        let section = text.split("\n## ").find(|section| section.starts_with("Other options\n")).expect("a section");
        let (taken, refused) = section.split_once("\n| ").expect("a table of what is refused");
        let expected: BTreeSet<&str> =
            OTHERS.iter().filter(|(_, answer)| *answer == Taken).flat_map(|(names, _)| names.iter().copied()).collect();
        assert_eq!(quoted(taken).collect::<BTreeSet<_>>(), expected);
        let rows = OTHERS.iter().filter_map(|(names, answer)| match answer {
            Refused(why) => Some(format!("| `{}` | {why} |", names.join("`, `"))),
            Taken => None,
        });
        let lines: Vec<&str> = refused.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        assert_eq!(lines, rows.collect::<Vec<_>>());
    }

    #[test]
    fn each_is_answered_once_and_none_is_ondols_own() {
        let own: BTreeSet<&str> = ondol::OPTION_NAMES.into_iter().chain(ondol_fuse::OPTION_NAMES).collect();
        let mut known = BTreeSet::new();
        for name in all() {
            assert!(known.insert(name) && !own.contains(name), "{name}");
            let word = if name.ends_with('=') { format!("{name}x") } else { name.to_owned() };
            assert!(answer(&word).is_some(), "{word}");
        }
        assert!(known.len() > 110, "{}", known.len());
        assert_eq!((answer("barrier=1"), answer("barrier=2"), answer("x")), (Some(Taken), None, None));
        assert_eq!((answer("subtype=ondol"), answer("stripe=8")), (Some(Taken), Some(Taken)));
        assert_eq!(without("ro,noatime,delalloc,stripe=1").unwrap(), ["ro", "noatime"]);
        assert!(without("ro,noacl").unwrap_err().starts_with("mount option `noacl` is not taken: "));
    }
}
