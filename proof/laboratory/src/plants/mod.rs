//! For each planted defect the smallest workload that shows it.
//!
//! A laboratory that finds nothing may be blind; one that finds every one of these, and nothing where nothing is
//! planted, is not.

mod store;
mod threads;

pub use store::{IN_STORE, InStore, in_store, life};
pub use threads::{Threaded, threaded};

use crate::image::Kind;
use crate::workload::{Mount, Workload, full};
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_testkit::op::text;

/// A planted defect and what makes it visible.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// What is planted.
    pub defect: Defect,
    /// Where it shows.
    pub shown: Shown,
    /// The fresh image.
    pub image: Kind,
    /// How it is mounted.
    pub engine: JournalEngine,
    /// And in which data mode.
    pub data: DataMode,
    /// And how else.
    pub mount: Mount,
    /// Unmount and mount again before the recording: it begins with an empty journal.
    pub remount: bool,
    /// Calls before the recording, as text.
    pub before: &'static str,
    /// The recorded calls, as text.
    pub calls: &'static str,
}

/// What it takes to see a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A crash of the calls.
    Crash,
    /// A crash of the calls, seen by e2fsck: our own recovery copes with what is wrong.
    Fsck,
    /// A crash of the recovery from a crash of the calls.
    RecoveryCrash,
    /// A bit of the log that has changed by itself: no crash alone does what is guarded against here, because flushes
    /// keep a commit block from being on the medium before what it commits.
    BitFlip,
}

/// The defects of volume and engine `classic` that one thread is enough for.
pub const CLASSIC: &[Planted] = &[
    simple(Defect::MissingFlushBeforeCommit, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    simple(Defect::MissingFlushAfterCommit, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    simple(Defect::MissingFlushBeforeTail, "create /a 0644", "remount"),
    Planted {
        image: Kind::WideLog,
        data: DataMode::Journal,
        before: FILLED_LOG,
        ..simple(Defect::MissingFlushAfterTail, "", MUCH)
    },
    Planted {
        shown: Shown::RecoveryCrash,
        ..simple(Defect::MissingFlushInRecovery, "", "create /a 0644\nwrite /a 0 3000 #1\nfsync /a")
    },
    Planted {
        image: Kind::WholeSeconds,
        ..simple(Defect::MissingDataFlush, "create /a 0644\nwrite /a 0 3000 #1", "write /a 0 3000 #2\nfsync /a")
    },
    Planted {
        image: Kind::JournalDevice,
        ..simple(Defect::UnflushedImage, "create /a 0644", "write /a 0 3000 #1\nfsync /a")
    },
    simple(Defect::KeptUnwritten, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    simple(Defect::KeptAfterCommitBlock, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    simple(Defect::KeptOverNewer, "create /a 0644", "write /a 0 3000 #1\nwrite /a 0 3000 #2\nfsync /a"),
    simple(Defect::CommitBeforeData, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    Planted { remount: true, ..simple(Defect::UnsetTail, "", "create /a 0644\nfsync /a") },
    Planted {
        image: Kind::WideLog,
        data: DataMode::Journal,
        before: FILLED_LOG,
        ..simple(Defect::TailTooFar, "", MUCH)
    },
    simple(Defect::LostHomeWrite, "create /a 0644", "remount"),
    Planted {
        image: Kind::WideLog,
        data: DataMode::Journal,
        before: FILLED_LOG,
        ..simple(Defect::RingOverrun, "", MUCH)
    },
    simple(Defect::SkippedRevoke, FULL, REVOKED),
    simple(Defect::UnreadRevoke, FULL, REVOKED),
    Planted {
        shown: Shown::BitFlip,
        data: DataMode::Journal,
        ..simple(Defect::UncheckedChecksum, "create /a 0644", "write /a 0 3000 #1\nfsync /a")
    },
    Planted {
        data: DataMode::Journal,
        ..simple(Defect::UnescapedImage, "create /a 0644", "write /a 0 1024 jbd2#1\nfsync /a")
    },
    simple(Defect::OldImageWins, "", "create /a 0644\nfsync /a\ncreate /b 0644\nfsync /b"),
    Planted {
        remount: true,
        ..simple(
            Defect::StaleRing,
            "create /a 0644\nremount\nchmod /a 0600\nsync\nchmod /a 0640\nsync",
            "chmod /a 0604\nsync",
        )
    },
    Planted {
        remount: true,
        ..simple(
            Defect::ReusedTid,
            "create /a 0644",
            "chmod /a 0600\nsync\nchmod /a 0640\nsync\nremount\nchmod /a 0604\nsync",
        )
    },
    Planted {
        // Our recovery and new kernels take a commit block by its beginning; e2fsck does not.
        shown: Shown::Fsck,
        data: DataMode::Journal,
        remount: true,
        ..simple(
            Defect::UnzeroedCommitPlace,
            "create /a 0644\nwrite /a 0 20000 #1\nremount\nwrite /a 0 20000 #2",
            "chmod /a 0600\nsync\nchmod /a 0604\nsync\nchmod /a 0606\nsync",
        )
    },
    simple(Defect::EarlyDiscard, "create /a 0644\nwrite /a 0 9000 #1", "unlink /a\nsync"),
    Planted { before: FULL_OF_DATA, ..simple(Defect::EarlyReuse, "", "unlink /hole\nwrite /b 0 8192 #2\nfsync /b") },
    simple(Defect::LiveDerived, "create /a 0644\nwrite /a 0 9000 #1", "unlink /a\nsync"),
    simple(Defect::FreedImage, FULL, FREED_AGAIN),
    simple(Defect::KeptOrphan, "create /a 0644\nopen @0 /a\nunlink /a", "close @0\nsync"),
    Planted { shown: Shown::Fsck, remount: true, ..simple(Defect::UnmarkedMount, "", "create /a 0644\nsync") },
    simple(Defect::LostOrphan, "create /a 0644\nopen @0 /a", "unlink /a\nsync"),
    Planted {
        image: Kind::ManyGroups,
        data: DataMode::Journal,
        ..simple(
            Defect::LostTruncate,
            "create /b 0644\nwrite /b 0 60K #1\nwrite /b 60K 60K #2\ncreate /a 0644\nfallocate /a 0 10M\n\
             fallocate /a 10M 8M\nwrite /a 17M 1K #3",
            "write /b 0 60K #3\nwrite /b 60K 60K #4\nwrite /b 120K 40K #4\ntruncate /a 0\nsync",
        )
    },
    Planted {
        image: Kind::OrphanFile,
        ..simple(Defect::UnannouncedOrphans, "create /a 0644\nopen @0 /a", "unlink /a\nsync")
    },
    Planted {
        data: DataMode::Journal,
        ..simple(
            Defect::SplitOperation,
            "create /a 0644",
            "write /a 0 60K #1\nwrite /a 60K 60K #2\nwrite /a 120K 60K #3\nwrite /a 180K 60K #4\nwrite /a 240K 60K #5",
        )
    },
    simple(Defect::SplitExchange, TWO, EXCHANGED),
    Planted { data: DataMode::Journal, ..simple(Defect::SplitExchange, TWO, EXCHANGED) },
    simple(Defect::SplitStores, TWO, COMMITTED),
    Planted { data: DataMode::Journal, ..simple(Defect::SplitStores, TWO, COMMITTED) },
    simple(Defect::StoredInPlace, TWO, COMMITTED),
    Planted { data: DataMode::Writeback, ..simple(Defect::StoredInPlace, TWO, COMMITTED) },
    Planted { shown: Shown::Fsck, ..simple(Defect::FlagClearedEarly, "create /a 0644", "remount") },
    Planted { mount: Mount::File, ..simple(Defect::UnnotedName, "create /a 0644", RENAMED) },
    Planted {
        image: Kind::WholeSeconds,
        data: DataMode::Journal,
        ..simple(Defect::UnsyncedContents, SYNCHRONOUS, "write /a 0 300 #2")
    },
];

const fn simple(defect: Defect, before: &'static str, calls: &'static str) -> Planted {
    let (image, engine, data) = (Kind::Small, JournalEngine::Classic, DataMode::Ordered);
    let (shown, mount) = (Shown::Crash, Mount::Tight);
    Planted { defect, shown, image, engine, data, mount, remount: false, before, calls }
}

/// The defects of engine `compressed`, and those of all block engines that show in it, too.
pub const COMPRESSED: &[Planted] = &[
    compressed(Defect::MissingFlushAfterCommit, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    Planted {
        data: DataMode::Ordered,
        ..compressed(Defect::MissingFlushBeforeCommit, LONG, "write /a 0 64K #3\nchmod /a 0600\nfsync /a")
    },
    compressed(Defect::MissingFlushBeforeTail, "create /a 0644", "remount"),
    Planted {
        shown: Shown::RecoveryCrash,
        ..compressed(Defect::MissingFlushInRecovery, "", "create /a 0644\nwrite /a 0 3000 #1\nfsync /a")
    },
    Planted { remount: true, ..compressed(Defect::UnsetTail, "", "create /a 0644\nfsync /a") },
    compressed(Defect::LostHomeWrite, "create /a 0644", "remount"),
    compressed(Defect::SkippedRevoke, WIDE, WIDELY_REVOKED),
    compressed(Defect::UnreadRevoke, WIDE, WIDELY_REVOKED),
    compressed(Defect::UncheckedStaging, "create /a 0644", LONG_NEW),
    compressed(Defect::UnnamedStaging, "create /a 0644", LONG_NEW),
    compressed(Defect::StaleHome, "create /a 0644", "write /a 0 60K #1\nwrite /a 100 100 #2\nfsync /a"),
    compressed(Defect::SplitExchange, TWO, EXCHANGED),
    compressed(Defect::SplitStores, TWO, COMMITTED),
    Planted { data: DataMode::Ordered, ..compressed(Defect::StoredInPlace, LONG, "map-commit /a 0 64K 64K 2 #3") },
    compressed(Defect::UncheckedUnit, "create /a 0644", "write /a 0 9000 #1\nfsync /a"),
    Planted {
        remount: true,
        ..compressed(Defect::EarlyDiscard, "create /a 0644\nwrite /a 0 9000 #1", "unlink /a\nsync")
    },
    Planted {
        remount: true,
        ..compressed(Defect::EarlyReuse, WIDE_OF_DATA, "unlink /hole\nwrite /b 0 64K #2\nfsync /b")
    },
    Planted { mount: Mount::File, ..compressed(Defect::UnnotedName, "create /a 0644", RENAMED) },
];

/// The defects that show in engine `scalable`, with data home before the commit where it goes home at all.
pub const SCALABLE: &[Planted] = &[
    scalable(Defect::MissingFlushBeforeTail, "create /a 0644", "remount"),
    scalable(Defect::MissingDataFlush, LONG, "write /a 0 64K #3\nfsync /a"),
    scalable(Defect::LostHomeWrite, "create /a 0644", "remount"),
    scalable(Defect::UnderivedValues, "create /a 0644", "remount"),
    scalable(
        Defect::UnfreshBase,
        "create /old 0644\nwrite /old 0 9000 #1\nremount\nunlink /old\nsync\ncreate /a 0644",
        "write /a 500 100 #2\nfsync /a",
    ),
    scalable(Defect::LogMissingWriteBack, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    // Short writes: their data is in the records, and nothing else is fenced by this thread before the commit.
    scalable(
        Defect::LogMissingFence,
        "create /a 0644",
        "write /a 0 200 #1\nwrite /a 100 200 #2\nwrite /a 300 200 #3\nwrite /a 500 200 #4\nfsync /a",
    ),
    scalable(Defect::LostOrphan, "create /a 0644\nopen @0 /a", "unlink /a\nsync"),
    scalable(Defect::SplitExchange, TWO, EXCHANGED),
    scalable(Defect::SplitStores, TWO, COMMITTED),
    scalable(Defect::StoredInPlace, LONG, "map-commit /a 0 64K 0 1 #3"),
    Planted { mount: Mount::File, ..scalable(Defect::UnnotedName, "create /a 0644", RENAMED) },
];

/// The defects that show in engine `swap`, data journaled.
pub const SWAP: &[Planted] = &[
    // Entries of the page table in more than one line: those of one line arrive in their order.
    swap(Defect::MissingFlushBeforeCommit, "create /a 0644", "write /a 0 60K #1\nfsync /a"),
    swap(Defect::MissingFlushAfterCommit, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    Planted { remount: true, ..swap(Defect::UnsetTail, "", "create /a 0644\nfsync /a") },
    swap(Defect::SplitStores, TWO, COMMITTED),
    Planted { data: DataMode::Ordered, ..swap(Defect::StoredInPlace, PAGES, "map-commit /a 500 1000 9000 2 #3") },
    swap(Defect::LostHomeWrite, "create /a 0644", "remount"),
    swap(Defect::SwappedBeforeTail, "create /a 0644", "write /a 0 3000 #1\nremount"),
    swap(Defect::SwappedEscaped, "create /a 0644", "write /a 0 4096 jbd2#1\nfsync /a\nremount"),
    // More than the log of the page table has room for: the youngest transaction stays, and has the newest images of
    // what all three change.
    Planted { mount: Mount::Roomy, ..swap(Defect::SwappedSuperseded, "create /a 0644", THREE) },
];

/// The defects that show in engine `remap`, data journaled.
pub const REMAP: &[Planted] = &[
    Planted { image: Kind::WholeSeconds, ..remap(Defect::UnsyncedContents, SYNCHRONOUS, "write /a 0 300 #2") },
    remap(Defect::MissingFlushBeforeTail, "create /a 0644", "write /a 0 9000 #1\nremount"),
    remap(Defect::SplitStores, TWO, COMMITTED),
    remap(Defect::LostHomeWrite, "create /a 0644", "remount"),
    remap(Defect::RemapSkipped, "create /a 0644", "write /a 0 9000 #1\nremount"),
    // There are not pages enough for the last write: a checkpoint of what was committed comes before the one before it
    // is.
    Planted {
        mount: Mount::Roomy,
        remount: true,
        ..remap(
            Defect::RemapUncommitted,
            "create /a 0644\nwrite /a 0 60K #1\ncreate /b 0644",
            "write /b 0 60K #2\nfsync /b\nwrite /a 32K 60K #3\nwrite /b 60K 60K #4\nwrite /b 120K 60K #5\nsync",
        )
    },
    // The first write is committed and goes home alone; two that are not have the block in pages.
    remap(
        Defect::ForgottenBase,
        "create /a 0644\nwrite /a 0 4096 #1\nremount",
        "write /a 100 100 #2\nfsync /a\nwrite /a 0 2000 #3\nwrite /a 0 2000 #4\nbring-home",
    ),
    remap(Defect::TornStart, "create /a 0644", "remount"),
    remap(Defect::RemapUnclaimed, "create /a 0644", "write /a 0 9000 #1\nfsync /a"),
    remap(Defect::UnfilledPage, "create /a 0644", "write /a 0 9000 #1\nfsync /a"),
];

/// The defects that show in engine `batch`, whatever the data mode is called.
pub const BATCH: &[Planted] = &[
    batch(Defect::UnsettledBatch, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    batch(Defect::SplitBatch, "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    Planted { remount: true, ..batch(Defect::EarlyDiscard, "create /a 0644\nwrite /a 0 9000 #1", "unlink /a\nsync") },
    Planted { before: FULL_OF_DATA, ..batch(Defect::EarlyReuse, "", "unlink /hole\nwrite /b 0 8192 #2\nfsync /b") },
    batch(Defect::SplitExchange, TWO, EXCHANGED),
    batch(Defect::SplitStores, TWO, COMMITTED),
    batch(Defect::LostOrphan, "create /a 0644\nopen @0 /a", "unlink /a\nsync"),
    Planted { mount: Mount::File, ..batch(Defect::UnnotedName, "create /a 0644", RENAMED) },
];

const fn batch(defect: Defect, before: &'static str, calls: &'static str) -> Planted {
    Planted { engine: JournalEngine::Batch, ..simple(defect, before, calls) }
}

const fn remap(defect: Defect, before: &'static str, calls: &'static str) -> Planted {
    Planted { engine: JournalEngine::Remap, ..swap(defect, before, calls) }
}

const fn swap(defect: Defect, before: &'static str, calls: &'static str) -> Planted {
    Planted { engine: JournalEngine::Swap, data: DataMode::Journal, image: Kind::Pool, ..simple(defect, before, calls) }
}

/// Three transactions of 50 blocks and more.
const THREE: &str = "write /a 0 200K #1\nsync\nwrite /a 200K 200K #2\nsync\nwrite /a 400K 200K #3\nremount";

const fn scalable(defect: Defect, before: &'static str, calls: &'static str) -> Planted {
    Planted { engine: JournalEngine::Scalable, ..simple(defect, before, calls) }
}

const fn compressed(defect: Defect, before: &'static str, calls: &'static str) -> Planted {
    Planted { engine: JournalEngine::Compressed, data: DataMode::Journal, ..simple(defect, before, calls) }
}

/// A file that is written synchronously, and within the second of its last change.
const SYNCHRONOUS: &str = "create /a 0644\nwrite /a 0 9000 #1\nchattr /a S";

/// A file's name changes, and nothing else of it.
const RENAMED: &str = "rename /a /b\nfsync /b";

/// Two files of two blocks and more.
const TWO: &str = "create /a 0644\nwrite /a 0 5000 #1\ncreate /b 0644\nwrite /b 0 4000 #2\nsync";

/// What they hold changes places.
const EXCHANGED: &str = "exchange /a 0 /b 0 3K\nsync\nexchange-ends /a 1K /b 0\nsync";

/// A file of five pages.
const PAGES: &str = "create /a 0644\nwrite /a 0 20000 #1\nsync";

/// Stores to a map in two blocks of a file.
const COMMITTED: &str = "map-commit /a 500 1000 2000 2 #3";

/// New data that is long enough to be written home before its transaction counts.
const LONG_NEW: &str = "write /a 0 60K #1\nwrite /a 60K 60K #2\nfsync /a";

/// A file of 128 KiB that is at home.
const LONG: &str = "create /a 0644\nwrite /a 0 64K #1\nwrite /a 64K 64K #2\nremount";

/// As [`FULL`], but whoever allocates 72 blocks gets what `/hole` had.
const WIDE: &str = full!("72K");

/// The same, and `/hole` has been written.
const WIDE_OF_DATA: &str = concat!(full!("72K"), "\nwrite /hole 0 64K #1");

/// A directory's block comes to hold data that goes home at once.
const WIDELY_REVOKED: &str = "unlink /hole\nsync\nmkdir /d 0755\nsync\nrmdir /d\nsync\nwrite /b 0 64K #2\nfsync /b";

/// The workloads that show the planted defects of an engine: the first that it has to pass without any. Those of
/// several threads in interleavings from number `seed` on.
///
/// # Panics
/// A text of this module is no workload, which a test would find.
pub fn workloads(engine: JournalEngine, seed: u64) -> impl Iterator<Item = Workload> + Send {
    let of_one = CLASSIC
        .iter()
        .chain(COMPRESSED)
        .chain(SWAP)
        .chain(REMAP)
        .chain(SCALABLE)
        .chain(BATCH)
        .filter(move |planted| planted.engine == engine);
    let of_two = threaded(engine).into_iter();
    let workloads = of_one.map(|planted| (planted.defect, planted.workload()));
    let workloads = workloads.chain(of_two.map(move |two| (two.defect, two.workload(seed, SCHEDULES))));
    workloads.map(|(defect, workload)| workload.unwrap_or_else(|e| panic!("{defect}: {e}")))
}

/// Interleavings of each workload of several threads.
const SCHEDULES: u32 = 30;

impl Planted {
    /// What shows the defect.
    ///
    /// # Errors
    /// The texts are no calls.
    pub fn workload(&self) -> Result<Workload, text::ParseError> {
        Ok(Workload {
            name: format!("what shows {}", self.defect),
            image: self.image,
            mount: self.mount,
            before: text::parse(self.before)?,
            remount: self.remount,
            calls: text::parse(self.calls)?,
            others: None,
        })
    }
}

/// About 1,900 of 2,000 blocks of the log hold images.
const FILLED_LOG: &str = "create /a 0644\nwrite /a 0 60K #1\nsync\nwrite /a 0 60K #2\nsync\nwrite /a 0 60K #3\nsync\n\
                          write /a 0 60K #4\nsync\nwrite /a 0 60K #5\nsync\nwrite /a 0 60K #6\nsync\n\
                          write /a 0 60K #7\nsync\nwrite /a 0 60K #8\nsync\nwrite /a 0 60K #9\nsync\n\
                          write /a 0 60K #10\nsync\nwrite /a 0 60K #11\nsync\nwrite /a 0 60K #12\nsync\n\
                          write /a 0 60K #13\nsync\nwrite /a 0 60K #14\nsync\nwrite /a 0 60K #15\nsync\n\
                          write /a 0 60K #16\nsync\nwrite /a 0 60K #17\nsync\nwrite /a 0 60K #18\nsync\n\
                          write /a 0 60K #19\nsync\nwrite /a 0 60K #20\nsync\nwrite /a 0 60K #21\nsync\n\
                          write /a 0 60K #22\nsync\nwrite /a 0 60K #23\nsync\nwrite /a 0 60K #24\nsync\n\
                          write /a 0 60K #25\nsync\nwrite /a 0 60K #26\nsync\nwrite /a 0 60K #27\nsync\n\
                          write /a 0 60K #28\nsync\nwrite /a 0 60K #29\nsync\nwrite /a 0 60K #30\nsync";

/// One transaction that is larger than what is left of such a log.
const MUCH: &str = "write /a 0 60K #31\nwrite /a 60K 60K #32\nwrite /a 120K 60K #33\nwrite /a 180K 60K #34\nsync";

/// Nothing is free. Once `/hole` is gone, whoever allocates eight blocks of 1 KiB gets every block that was freed.
const FULL: &str = full!();

/// The same, and `/hole` has been written.
const FULL_OF_DATA: &str = concat!(full!(), "\nwrite /hole 0 8K #1");

/// A directory's block comes to hold a file's data.
const REVOKED: &str = "unlink /hole\nsync\nmkdir /d 0755\nsync\nrmdir /d\nsync\nwrite /b 0 8192 #2\nfsync /b";

/// The same; the directory's block is changed and freed in one transaction, and a checkpoint comes after its new owner.
const FREED_AGAIN: &str = "unlink /hole\nsync\nmkdir /d 0755\nsync\ncreate /d/a 0644\nunlink /d/a\nrmdir /d\nsync\n\
    write /b 0 8192 #2\nfsync /b\nremount";
