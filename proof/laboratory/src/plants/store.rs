//! Defects of volumes in object storage, and scenes of these.

use super::{Planted, simple};
use crate::workload::{Mount, Workload};
use ondol::{Durable, JournalEngine};
use ondol_faults::Defect;
use ondol_testkit::op::text;

/// A defect that shows when the volume is in object storage.
#[derive(Clone, Copy, Debug)]
pub struct InStore {
    /// Where a sync ends.
    pub durable: Durable,
    /// The rest.
    pub planted: Planted,
}

/// The defects of volumes in object storage, and of the log before them.
pub const IN_STORE: &[InStore] = &[
    remote(Defect::HomeUnflushed, "create /a 0644", ONE),
    remote(Defect::HomeLeftOut, "create /a 0644", LARGE),
    remote(Defect::UnsettledBatch, "create /a 0644", ONE),
    local(Defect::HomeUnnumbered, "create /a 0644", EIGHT),
    local(Defect::RedoUnflushed, "create /a 0644", ONE),
    local(Defect::RedoEarlyRelease, "create /a 0644", EIGHT),
    local(Defect::RedoBackwards, "create /a 0644", "write /a 0 3000 #1\nfsync /a\nwrite /a 0 3000 #2\nfsync /a"),
    local(Defect::RedoEarlyEpoch, "create /a 0644", ONE),
];

/// One sync.
const ONE: &str = "write /a 0 3000 #1\nfsync /a";

/// More than goes through the database's log, and too little to become a sorted object by itself.
const LARGE: &str = "write /a 0 110K #1\nfsync /a";

/// More syncs than a short log has room for, each much less than that.
const EIGHT: &str = "write /a 0 16000 #1\nfsync /a\nwrite /a 0 16000 #2\nfsync /a\nwrite /a 0 16000 #3\nfsync /a\n\
    write /a 0 16000 #4\nfsync /a\nwrite /a 0 16000 #5\nfsync /a\nwrite /a 0 16000 #6\nfsync /a\n\
    write /a 0 16000 #7\nfsync /a\nwrite /a 0 16000 #8\nfsync /a";

/// What comes to all places of a store and of a log: blocks of all kinds are changed, freed and used by others; a
/// transaction is more than the log takes; there are snapshots, and the volume is closed.
const LIFE: &str = "write /a 0 9000 #1\nfsync /a\nwrite /a 4096 9000 #2\nmkdir /d 0755\ncreate /d/b 0644\nsync\n\
                    write /d/b 0 8192 #3\nfsync /d/b\nwrite /d/b 0 8192 #4\nbring-home\nfsync /d/b\nremount\n\
                    unlink /a\nsync\ncreate /c 0644\nwrite /c 0 60K #5\nwrite /c 60K 60K #6\nfsync /c\n\
                    rename /c /d/c\ntruncate /d/b 100\nsync\ncheckpoint\nwrite /d/c 100 100 #7\nchmod /d/c 0600\n\
                    sync\nunlink /d/c\ncreate /e 0644\nwrite /e 0 40K #8\nfsync /e\nwrite /e 0 40K #9\nfsync /e\n\
                    write /e 0 40K #10\nfsync /e\nwrite /e 0 200K #11\nfsync /e\nwrite /e 0 100 #12\nfsync /e\nremount";

const fn remote(defect: Defect, before: &'static str, calls: &'static str) -> InStore {
    let planted = Planted { engine: JournalEngine::Batch, ..simple(defect, before, calls) };
    InStore { durable: Durable::Remote, planted }
}

const fn local(defect: Defect, before: &'static str, calls: &'static str) -> InStore {
    InStore { durable: Durable::Local, ..remote(defect, before, calls) }
}

/// What shows the defects, and a life of such a volume mounted in some ways.
///
/// # Panics
/// A text of this module is no workload, which a test would find.
pub fn in_store() -> impl Iterator<Item = Workload> + Send {
    let showing =
        IN_STORE.iter().map(|one| one.planted.workload().unwrap_or_else(|e| panic!("{}: {e}", one.planted.defect)));
    showing.chain([Mount::Tight, Mount::Roomy, Mount::Dirty].map(life))
}

/// See [`in_store`].
///
/// # Panics
/// As that.
pub fn life(mount: Mount) -> Workload {
    let parse = |lines| text::parse(lines).unwrap_or_else(|e| panic!("{e}: {lines}"));
    Workload {
        name: format!("a life in object storage, mounted {mount}"),
        image: super::Kind::Small,
        mount,
        before: parse("create /a 0644"),
        remount: false,
        calls: parse(LIFE),
        others: None,
    }
}
