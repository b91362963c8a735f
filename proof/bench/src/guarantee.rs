//! What a target promises after a crash, in one line beside its figures: a rate without its guarantee says nothing.

#[cfg(any(feature = "peers", test))]
use crate::target::Fresh;
use ondol::machine::mountinfo::Entry;
use serde_json::Value;
use std::path::Path;

/// fuse2fs(1): "does not support using the journal".
pub(crate) const FUSE2FS: &str = "none: fuse2fs writes no journal, a crash needs e2fsck and may lose fsynced data";

/// How the guarantee of a target begins that is no peer.
pub(crate) const FLOOR: &str = "floor, no peer: ";

/// What the server of nothing promises.
pub(crate) fn of_null() -> String {
    format!("{FLOOR}names and sizes in memory only, contents are not kept, fsync does nothing")
}

/// What a directory promises that is handed on, which lies on `below`.
pub(crate) fn of_passthrough(below: &Entry) -> String {
    format!("{FLOOR}no journal of its own, all is handed on to {}: {}", below.fs_type, of_mount(below))
}

/// What another crate promises on a fresh image, by its documentation and its code.
#[cfg(any(feature = "peers", test))]
pub(crate) fn of_crate(image: &Fresh) -> &'static str {
    if image.features.iter().any(|feature| feature == "^has_journal") {
        return "none: no journal, a crash needs e2fsck";
    }
    // Each commit ends at home, by four flushes: `journal_writer`. Data blocks are in the transaction: `apply_pwrite`.
    "journal: each operation is whole or not at all, data included, and durable when it returns (a write that \
             the journal cannot take is several)"
}

/// What a mounted file system that is not ours promises.
pub(crate) fn of_mount(mount: &Entry) -> String {
    let text = match mount.fs_type.as_str() {
        "ext4" | "ext3" => of_ext4(mount),
        "xfs" => "metadata: a journaled prefix; unsynced data may be lost, never stale; fsync makes the file durable",
        "btrfs" => "copy on write: the last committed tree, every 30 s; fsync makes the file durable by its log tree",
        "tmpfs" | "ramfs" => "none: memory only, fsync does nothing",
        "fuse.fuse2fs" | "fuse2fs" => FUSE2FS,
        other => return format!("{other}: unknown to the bench, see its documentation"),
    };
    text.to_owned()
}

fn of_ext4(mount: &Entry) -> &'static str {
    if mount.has("norecovery") || mount.has("noload") || !has_journal(&mount.source) {
        "none: no journal, a crash needs e2fsck; fsync makes the file durable"
    } else if mount.has("data=journal") {
        "journal: metadata and data go through the journal; a write may be torn; fsync makes the file durable"
    } else if mount.has("data=writeback") {
        "writeback: metadata is a journaled prefix; unsynced data may be stale; fsync makes the file durable"
    } else {
        "ordered: metadata is a journaled prefix; data of a committed size is the file's own; fsync makes the file \
         durable"
    }
}

/// jbd2 shows every journal that is in use as `/proc/fs/jbd2/DEVICE-INODE`. True when that cannot be seen.
fn has_journal(device: &Path) -> bool {
    let name = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    let Some(name) = name.file_name().map(|name| format!("{}-", name.to_string_lossy())) else { return true };
    let Ok(journals) = std::fs::read_dir("/proc/fs/jbd2") else { return true };
    journals.flatten().any(|journal| journal.file_name().to_string_lossy().starts_with(&name))
}

/// What our own volume promises: the crash contract's row of its data mode.
pub(crate) fn of_ours(info: &Value) -> String {
    let word = |key: &str| info.get("mount").and_then(|mount| mount.get(key)).and_then(Value::as_str);
    // Engine `batch` protects data in every mode as with `journal`.
    let data = if word("engine") == Some("batch") { Some("journal") } else { word("data") };
    let contract = match data {
        Some("journal") => "journal: exactly a prefix of the operations, data included, each whole or not at all",
        Some("ordered") => {
            "ordered: metadata is a prefix of the operations; data of a committed size is the file's own"
        }
        Some("writeback") => "writeback: metadata is a prefix of the operations; unsynced data may be lost or stale",
        _ => return "as the volume's data mode says".to_owned(),
    };
    let covers = match word("fsync") {
        Some("file") => format!("{contract}; fsync makes the file durable"),
        _ => format!("{contract}; fsync makes all earlier operations durable"),
    };
    match info.get("bucket") {
        None | Some(Value::Null) => covers,
        Some(bucket) => format!("{covers}; {}", returned(bucket)),
    }
}

/// Where what an fsync has acknowledged is, of a volume in object storage.
fn returned(bucket: &Value) -> String {
    let Some(lag) = bucket.get("lag") else {
        return "returned means in the bucket: the loss of the machine takes nothing of it".to_owned();
    };
    let of = |name: &str| lag.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (seconds, bytes) = (of("most_seconds"), of("most_bytes"));
    format!(
        "returned means in a log on this machine, and in the bucket at most {seconds} s or {bytes} bytes later: so \
         much is lost with the machine"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mount(fs_type: &str, source: &str, options: &str) -> Entry {
        Entry {
            id: 1,
            parent: 0,
            device: "7:0".into(),
            root: "/".into(),
            point: "/m".into(),
            flags: "rw".into(),
            fs_type: fs_type.into(),
            source: source.into(),
            options: options.into(),
        }
    }

    #[test]
    fn every_peer_has_its_line() {
        assert!(of_mount(&mount("tmpfs", "tmpfs", "rw")).starts_with("none: memory only"));
        assert!(of_mount(&mount("xfs", "/dev/loop0", "rw")).starts_with("metadata: "));
        assert!(of_mount(&mount("btrfs", "/dev/loop0", "rw")).starts_with("copy on write"));
        assert!(of_mount(&mount("nilfs2", "/dev/loop0", "rw")).starts_with("nilfs2: unknown"));
        assert!(of_mount(&mount("ext4", "/dev/none", "rw,noload")).starts_with("none: no journal"));
    }

    #[test]
    fn crates_without_a_journal_promise_nothing() {
        let bare = Fresh { features: vec!["^has_journal".into()], ..Fresh::default() };
        assert!(of_crate(&bare).starts_with("none: no journal"));
        assert!(of_crate(&Fresh::default()).starts_with("journal: "));
    }

    #[test]
    fn floors_are_no_peers() {
        assert!(of_null().starts_with(FLOOR) && of_null().ends_with("fsync does nothing"));
        let over_memory = of_passthrough(&mount("tmpfs", "tmpfs", "rw"));
        assert!(over_memory.starts_with(FLOOR) && over_memory.contains("no journal"), "{over_memory}");
        assert!(over_memory.ends_with("tmpfs: none: memory only, fsync does nothing"), "{over_memory}");
    }

    #[test]
    fn ours_follows_the_data_mode() {
        let line = |data, fsync| of_ours(&json!({"mount": {"data": data, "fsync": fsync}}));
        assert!(line("journal", "prefix").starts_with("journal: exactly a prefix"));
        assert!(line("ordered", "prefix").ends_with("all earlier operations durable"));
        assert!(line("writeback", "file").ends_with("makes the file durable"));
        assert_eq!(of_ours(&json!({})), "as the volume's data mode says");
    }

    #[test]
    fn a_volume_in_object_storage_says_where_what_is_acknowledged_is() {
        let line = |bucket| of_ours(&json!({"mount": {"data": "ordered", "engine": "batch"}, "bucket": bucket}));
        let there = line(json!({"requests": {}}));
        assert!(there.starts_with("journal: exactly a prefix"), "{there}");
        assert!(there.contains("all earlier operations durable; returned means in the bucket: "), "{there}");
        let here = line(json!({"lag": {"most_seconds": 30, "most_bytes": 4096}}));
        assert!(
            here.contains("in a log on this machine, and in the bucket at most 30 s or 4096 bytes later"),
            "{here}"
        );
    }
}
