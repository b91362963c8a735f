//! Planted defects: what the crash laboratory must find to be believed.
//!
//! Each names one rule of persistence that the product keeps. Where the rule is kept, the code asks [`is`] whether it is to
//! be broken. Without the cargo feature `plant`, which only dev-dependencies and whoever asks for it by name turn on, that is the constant `false`, and nothing
//! of it is left in the program. With it, a thread can break one rule with [`set`].

use std::fmt;
use std::str::FromStr;

/// Whether this build has the defects in it.
pub const AVAILABLE: bool = cfg!(feature = "plant");

/// What a defect is planted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The volume, or what all block engines share: it shows in each of them.
    All,
    /// Engine `classic`.
    Classic,
    /// Engine `compressed`.
    Compressed,
    /// Engine `scalable`.
    Scalable,
    /// Engine `swap`.
    Swap,
    /// `remap` alone.
    Remap,
    /// Engine `batch`.
    Batch,
    /// Volumes in object storage.
    Store,
    /// The local log of these.
    Redo,
    /// The order of their objects, who may open them, and who has lost them.
    Home,
    /// NVM pools.
    Pool,
    /// The NVM write buffer.
    Buffer,
    /// The NVM log.
    Log,
    /// The page table.
    Table,
    /// The log of `ondol run`.
    Run,
    /// A change of a volume's size.
    Resize,
}

macro_rules! defects {
    ($($variant:ident $name:literal $subject:ident $what:literal,)*) => {
        /// A rule that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Defect {
            $(#[doc = $what] $variant,)*
        }

        impl Defect {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name, in small letters with hyphens.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Where it is.
            pub fn subject(self) -> Subject {
                match self {
                    $(Self::$variant => Subject::$subject,)*
                }
            }

            /// What is done wrong, in one line.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => $what,)*
                }
            }
        }
    };
}

defects! {
    MissingFlushBeforeCommit "missing-flush-before-commit" All "The commit block is written before log blocks and data are durable.",
    MissingFlushAfterCommit "missing-flush-after-commit" All "A sync returns before the commit block is durable.",
    MissingFlushBeforeTail "missing-flush-before-tail" All "The log's tail moves on before the home blocks are durable.",
    MissingFlushAfterTail "missing-flush-after-tail" All "Log blocks are written again before the moved tail is durable.",
    MissingFlushInRecovery "missing-flush-in-recovery" All "Recovery empties the log before the home blocks are durable.",
    UnflushedImage "unflushed-image" All "With a journal on a disk of its own, a flush covers that disk alone.",
    MissingDataFlush "missing-data-flush" All "A sync without a transaction leaves data that was written in place in the cache.",
    CommitBeforeData "commit-before-data" Classic "The commit block is written together with the log blocks, before any flush.",
    UnsetTail "unset-tail" All "The first transaction in an empty log does not set the tail.",
    TailTooFar "tail-too-far" All "A checkpoint declares the log empty although younger transactions are in it.",
    LostHomeWrite "lost-home-write" All "A checkpoint leaves out the last block it should write home.",
    LostNewerImage "lost-newer-image" All "A checkpoint forgets images that were committed while it was writing.",
    RingOverrun "ring-overrun" All "Journal space is promised without regard to what the log still holds.",
    PromiseInGap "promise-in-gap" All "Promises of a transaction end before the journal space that it takes is counted.",
    PromiseTwice "promise-twice" All "Blocks that are freed before their commit give back twice what they were promised.",
    UnrevokedDead "unrevoked-dead" Classic "Blocks that leave the transaction are not revoked, though an earlier one has them in the log.",
    StaleCached "stale-cached" All "A block in memory does not take what was written in place at home.",
    TableInUse "table-in-use" All "A block of an inode table is not read although inodes in it are in use.",
    SweptAlive "swept-alive" All "With the dead blocks of a transaction, data that lives is swept out of it.",
    SkippedRevoke "skipped-revoke" All "Freed blocks are not revoked in the log.",
    UnreadRevoke "unread-revoke" All "Recovery does not heed revokes.",
    FreedImage "freed-image" All "A block that a transaction frees is logged with it all the same.",
    UncheckedChecksum "unchecked-checksum" Classic "Recovery does not verify the checksums of images.",
    UnescapedImage "unescaped-image" Classic "Recovery leaves escaped images as they are in the log.",
    OldImageWins "old-image-wins" Classic "Recovery writes the oldest image of a block home.",
    StaleRing "stale-ring" Classic "Recovery takes blocks of an earlier lap of the log for part of this one.",
    UncheckedUnit "unchecked-unit" Compressed "A unit of the compressed journal counts when it decompresses, whatever its checksum and number.",
    StaleUnit "stale-unit" Compressed "Recovery takes units of an earlier lap of the compressed journal for part of this one.",
    UncheckedStaging "unchecked-staging" Compressed "Recovery does not look whether data that a unit names has arrived at home.",
    UnnamedStaging "unnamed-staging" Compressed "A unit does not name the data that was written home for it.",
    StaleHome "stale-home" Compressed "New data that changes after it was written home is not written again by the commit.",
    KeptUnwritten "kept-unwritten" Classic "A commit leaves out new data that is not home.",
    KeptAfterCommitBlock "kept-after-commit-block" Classic "A commit writes its new data home after its commit block.",
    KeptOverNewer "kept-over-newer" Classic "Data is written in place although a transaction has yet to write older data there.",
    UnawaitedStaging "unawaited-staging" Compressed "A commit does not wait for those who still write its new data home.",
    SilentDamage "silent-damage" Compressed "Recovery takes a damaged unit that was durable for the end of the compressed journal.",
    UnsettledBatch "unsettled-batch" Batch "A sync returns before the batch of its transaction is settled.",
    SplitBatch "split-batch" Batch "A transaction is submitted as two batches.",
    HomeUnflushed "home-unflushed" Store "A sync returns before the bucket has its batch.",
    HomeLeftOut "home-left-out" Store "A sync returns before the bucket has what has bypassed the database's log.",
    HomeGap "home-gap" Home "An object of the database's log is put before the bucket has what has bypassed the log.",
    HomeUnnumbered "home-unnumbered" Redo "Batches do not have the record of the newest batch, by which a local log knows how far the bucket is.",
    HomeUnfenced "home-unfenced" Home "A writer that was taken over acknowledges what the bucket has refused.",
    RedoUnflushed "redo-unflushed" Redo "A sync returns before the local log has its batch durably.",
    RedoEarlyRelease "redo-early-release" Redo "Space of the local log is given back before the bucket has what lies there.",
    RedoBackwards "redo-backwards" Redo "What the local log has is brought to the bucket from its end.",
    RedoEarlyEpoch "redo-early-epoch" Redo "Records of a new epoch are written to the local log before the bucket has that epoch.",
    RedoOtherHistory "redo-other-history" Home "A local log is used although the bucket went another way since.",
    RedoForeign "redo-foreign" Home "A local log of another volume is used.",
    RedoUnfenced "redo-unfenced" Home "A writer that was taken over acknowledges what its local log has.",
    ReusedTid "reused-tid" Classic "An emptied log starts again with a transaction id that is still in it.",
    UnzeroedCommitPlace "unzeroed-commit-place" Classic "What was at the commit block's place stays behind its first sector.",
    EarlyDiscard "early-discard" All "Freed blocks are discarded before the freeing is durable.",
    EarlyReuse "early-reuse" All "Freed blocks can be allocated before the freeing is durable.",
    ReuseDuringCheckpoint "reuse-during-checkpoint" All "Freed blocks can be allocated while a checkpoint may still write to them.",
    EarlyForget "early-forget" All "The image of a freed block is given up while the transaction before still needs it.",
    LiveDerived "live-derived" All "A descriptor's free count is that of memory and not of the transaction's bitmap.",
    LostOrphan "lost-orphan" All "An inode that loses its last name is not entered as an orphan.",
    KeptOrphan "kept-orphan" All "A deleted inode stays entered as an orphan.",
    LostTruncate "lost-truncate" All "A truncate in several steps is not entered as an orphan.",
    UnannouncedOrphans "unannounced-orphans" All "The orphan file is used without ORPHAN_PRESENT.",
    SplitOperation "split-operation" All "An atomic write is published block by block.",
    SplitExchange "split-exchange" All "Ranges of files are exchanged in two transactions.",
    SplitStores "split-stores" All "Stores of a map are committed in two transactions.",
    StoredInPlace "stored-in-place" All "Stores of a map are written in place where contents are not journaled.",
    StoresApart "stores-apart" All "Each store of a map is an operation of its own.",
    StoredPages "stored-pages" All "A map's commit writes whole pages, with what they held when the map was made.",
    TornPublish "torn-publish" All "The blocks of a handle join the running transaction in two steps.",
    UnwrittenLate "unwritten-late" All "An extent is published as written before its data is on the way.",
    UnmarkedMount "unmarked-mount" All "A mount does not set RECOVER.",
    FlagClearedEarly "flag-cleared-early" All "RECOVER is cleared while the log still holds transactions.",
    XattrFreedAsData "xattr-freed-as-data" Classic "A block of attributes is freed as if it had held data.",
    NodeFreedAsData "node-freed-as-data" Classic "A node of an extent tree is freed as if it had held data.",
    DirectoryFreedAsData "directory-freed-as-data" Classic "A directory's blocks are freed as if they had held data.",
    SymlinkFreedAsData "symlink-freed-as-data" Classic "The block of a symbolic link is freed as if it had held data.",
    PointersFreedAsData "pointers-freed-as-data" Classic "A pointer block is freed as if it had held data.",
    RevokeForever "revoke-forever" Classic "Recovery also holds back images that are younger than a revoke.",
    HalfRevoked "half-revoked" All "Of a freed run only the first block is revoked.",
    RevokedImageKept "revoked-image-kept" All "A checkpoint writes images home that were revoked.",
    MisreadWrap "misread-wrap" All "What goes over the end of the ring goes on a block too far.",
    WaitForOlder "wait-for-older" All "A sync is content with the transaction before its own.",
    ForgottenFlag "forgotten-flag" Classic "Data of a file that once was journaled by its flag is written in place when the flag is gone.",
    OverwrittenStaging "overwritten-staging" Compressed "Data that the newest transaction names is overwritten in place.",
    StagingSumOfFirst "staging-sum-of-first" Compressed "The checksum of data that a unit names covers the first block of each run.",
    StaleOrphanLink "stale-orphan-link" All "An inode leaves the orphan list, and the one before it goes on naming it.",
    KeptSlot "kept-slot" All "The slot of an orphan is not cleared.",
    ZeroedTooFar "zeroed-too-far" All "A checkpoint overwrites the whole log with zeros.",
    UnstagedInode "unstaged-inode" All "An operation on several inodes writes the first of them.",
    RevokesOfOneBlock "revokes-of-one-block" Classic "Of many revokes the log has those that fit into one block.",
    UnlistedValue "unlisted-value" All "The inode of a value that nothing names any more is not entered as an orphan.",
    KeptTruncate "kept-truncate" All "A finished truncate stays on the orphan list.",
    UnnotedName "unnoted-name" All "With fsync=file, a file's newest transaction is not noted when a name of it changes.",
    UnsyncedContents "unsynced-contents" All "What is synchronous is durable on return only where an inode changes, too.",
    UnfreshBase "unfresh-base" Scalable "Recovery applies the records of a new block to what home held before.",
    UncommittedHome "uncommitted-home" Scalable "A checkpoint writes blocks home as they are, with changes that are not committed.",
    UnlockedCounters "unlocked-counters" Scalable "Numbers that operations share are logged without a lock.",
    UnderivedValues "underived-values" Scalable "What a descriptor says of its bitmaps does not go home with them.",
    UnheededHome "unheeded-home" Scalable "A checkpoint that home did not take counts as done.",
    UnstoredPages "unstored-pages" Scalable "A commit does not store the new data that waits for it.",
    UnflushedPages "unflushed-pages" Scalable "New data that goes home before its commit is not flushed.",
    UncheckedPage "unchecked-page" Scalable "Recovery takes what lies in a page for what its record says, whatever it is.",
    UntoldOwner "untold-owner" Scalable "A checkpoint takes what a block's next owner has for what the one before had.",
    OlderRelease "older-release" Scalable "Blocks that were released last count as the newest that were, whatever was released before.",
    TableTaken "table-taken" Scalable "A block of an inode table that nobody has read is taken for zeros although the log has only the bytes that change.",
    SwappedSuperseded "swapped-superseded" Swap "A checkpoint swaps the image of a transaction that stays in the log.",
    SwappedEscaped "swapped-escaped" Swap "A checkpoint swaps images that the log has in another form.",
    SwappedLookalike "swapped-lookalike" Swap "What looks like a block of the log is swapped into it.",
    SwappedBeforeTail "swapped-before-tail" Swap "A checkpoint swaps its blocks, and moves the tail in a second step.",
    RemapSkipped "remap-skipped" Remap "A checkpoint does not tell the page table which pages blocks have.",
    RemapUncommitted "remap-uncommitted" Remap "The page table is told of a page before the record that names it is committed.",
    RemapUnclaimed "remap-unclaimed" Remap "Recovery writes before the pages that the log names are claimed.",
    ForgottenBase "forgotten-base" Remap "What a short write builds on leaves memory when a longer one comes.",
    UnfilledPage "unfilled-page" Remap "A record names a page that is not filled.",
    TornStart "torn-start" Remap "A checkpoint stores in place what recovery reads first.",
    PoolMissingWriteBack "pool-missing-write-back" Pool "A record in the NVM pool is not written back from the CPU's caches.",
    PoolMissingFence "pool-missing-fence" Pool "What is written back to the NVM pool is not waited for.",
    PoolUncheckedChecksum "pool-unchecked-checksum" Pool "Recovery does not verify the checksums of the NVM pool.",
    PoolPublishBeforeData "pool-publish-before-data" Pool "A record in the NVM pool is published before its bytes.",
    BufferMissingWriteBack "buffer-missing-write-back" Buffer "A write to the buffer is not written back from the CPU's caches.",
    BufferMissingFence "buffer-missing-fence" Buffer "What is written back to the buffer is not waited for.",
    BufferUncheckedChecksum "buffer-unchecked-checksum" Buffer "Recovery does not verify the checksums of the buffer's records.",
    BufferUnclearedLine "buffer-uncleared-line" Buffer "A block of the buffer is used again while its line in the inode table still counts.",
    BufferEarlyClean "buffer-early-clean" Buffer "A file's writes count as durable at home before the sync.",
    BufferForgottenOverwrite "buffer-forgotten-overwrite" Buffer "What is overwritten between flush and sync counts as synced.",
    BufferLateSyncPoint "buffer-late-sync-point" Buffer "What is written home during a sync counts as synced.",
    BufferTrustedSync "buffer-trusted-sync" Buffer "After a failed sync, what was written home is not written again.",
    BufferEarlyReuse "buffer-early-reuse" Buffer "Blocks that are written home and not synced are used again.",
    BufferLostCut "buffer-lost-cut" Buffer "A truncate is not recorded in the buffer.",
    BufferOldestWins "buffer-oldest-wins" Buffer "Recovery applies the oldest write of each byte last.",
    BufferEarlyReset "buffer-early-reset" Buffer "Recovery empties the buffer before the files are synced.",
    LogMissingWriteBack "log-missing-write-back" Log "A record of the NVM log is not written back from the CPU's caches.",
    LogMissingFence "log-missing-fence" Log "What is written back to the NVM log is not waited for.",
    LogUncheckedChecksum "log-unchecked-checksum" Log "Recovery does not verify the checksums of the NVM log.",
    LogImpatientCommit "log-impatient-commit" Log "A commit does not wait for the records before it.",
    LogUnnamedVoid "log-unnamed-void" Log "A commit does not name the reservations that it has voided.",
    LogUnseenVoid "log-unseen-void" Log "An operation takes no notice that its record was voided.",
    LogUnawaitedVoid "log-unawaited-void" Log "Lines of the NVM log are used again while somebody whose record was voided still writes there.",
    LogEarlyRelease "log-early-release" Log "Lines of the NVM log are used again before the moved tail is durable.",
    LogUnmendedTail "log-unmended-tail" Log "A torn copy of the NVM log's tail stays while the other is written.",
    LogRepeatedPositions "log-repeated-positions" Log "After recovery, positions of the NVM log come again.",
    LogSilentDamage "log-silent-damage" Log "Recovery takes a damaged commit of the NVM log for the log's end.",
    TableMissingWriteBack "table-missing-write-back" Table "Undo records of the page table are not written back from the CPU's caches.",
    TableOpenBeforeUndo "table-open-before-undo" Table "A transaction of the page table begins before its undo records are durable.",
    TableChangeBeforeUndo "table-change-before-undo" Table "The page table's map is changed before the transaction has begun.",
    TableCommitBeforeChange "table-commit-before-change" Table "A transaction of the page table is committed before its changes are durable.",
    TablePublishBeforeData "table-publish-before-data" Table "A page is mapped before its contents are durable.",
    TableEarlyReuse "table-early-reuse" Table "A page is used again before its block is durably mapped elsewhere.",
    TablePinnedReuse "table-pinned-reuse" Table "A page is used again while a view has it.",
    TableOwnsLent "table-owns-lent" Table "A page that a log still names is given away as memory.",
    TableKeptBytes "table-kept-bytes" Table "Undoing a transaction of the page table leaves the bytes that it stored.",
    TableOldestFirst "table-oldest-first" Table "A transaction of the page table is undone from its beginning.",
    TableEarlyClear "table-early-clear" Table "The page table's log is cleared before what it undid is durable.",
    TableUnclearedLog "table-uncleared-log" Table "The page table's log is not cleared when its transaction is undone.",
    TableShownTooLong "table-shown-too-long" Table "A view shows a block's old page after it was freed and used again.",
    TableFlatUncopied "table-flat-uncopied" Table "Flattening changes an entry before the copy that it names is durable.",
    TableUnfencedInPlace "table-unfenced-in-place" Table "What is stored in place in a page is not waited for.",
    TableUncheckedEntry "table-unchecked-entry" Table "The checksums of the page table's map are not verified.",
    TableUncheckedRecord "table-unchecked-record" Table "The checksums of the page table's undo records are not verified.",
    RunEarlyRoom "run-early-room" Run "Room in a lane of `ondol run` is used again before the moved head is durable.",
    RunEarlyRetired "run-early-retired" Run "Records of `ondol run` count as retired before that is durable.",
    ResizeEarlySize "resize-early-size" Resize "The superblock has the new size before a step of a resize is committed.",
    ResizeReused "resize-reused" Resize "A step of a resize writes to blocks that the same step frees.",
    ResizeForgotten "resize-forgotten" Resize "A shrink takes what its transaction has freed, in groups that it has not looked at before.",
    ResizeOneLog "resize-one-log" Resize "A journal that a shrink moves has the transaction that moves it in its old log alone.",
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::Classic => "classic",
            Self::Compressed => "compressed",
            Self::Scalable => "scalable",
            Self::Swap => "swap",
            Self::Remap => "remap",
            Self::Pool => "pool",
            Self::Buffer => "buffer",
            Self::Log => "log",
            Self::Table => "table",
            Self::Run => "run",
            Self::Batch => "batch",
            Self::Resize => "resize",
            Self::Store => "store",
            Self::Redo => "redo",
            Self::Home => "home",
        })
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no planted defect of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(
    /// The name.
    pub String,
);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Defect::ALL.iter().map(|d| d.name()).collect();
        write!(f, "no planted defect: {} (there are {})", self.0, known.join(", "))
    }
}

impl std::error::Error for Unknown {}

impl FromStr for Defect {
    type Err = Unknown;

    fn from_str(name: &str) -> Result<Self, Unknown> {
        let found = Self::ALL.iter().find(|d| d.name() == name);
        found.copied().ok_or_else(|| Unknown(name.to_owned()))
    }
}

/// This build has no planted defects in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this build has no planted defects; `cargo run --manifest-path proof/Cargo.toml -p ondol-lab --features plant -- crash --plant DEFECT` has them",
        )
    }
}

impl std::error::Error for Unavailable {}

/// The variable of the environment that names the rule which all threads of a process break that break no other.
pub const EVERYWHERE: &str = "ONDOL_PLANTED";

pub use imp::{Guard, current, is, set};

#[cfg(feature = "plant")]
mod imp {
    use super::{Defect, EVERYWHERE, Unavailable};
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::sync::OnceLock;

    /// What the environment names.
    static TOLD: OnceLock<Option<Defect>> = OnceLock::new();

    thread_local! {
        static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Whether this thread is to break this rule.
    pub fn is(defect: Defect) -> bool {
        current() == Some(defect)
    }

    /// The rule that this thread breaks: to be handed on to threads that work for it.
    pub fn current() -> Option<Defect> {
        PLANTED.get().or_else(|| *TOLD.get_or_init(told))
    }

    fn told() -> Option<Defect> {
        let name = std::env::var(EVERYWHERE).ok()?;
        // A process that was to break a rule and keeps all would be praised for it.
        Some(name.parse().unwrap_or_else(|e| panic!("{EVERYWHERE}: {e}")))
    }

    /// Breaks a rule (or none) on this thread until the guard is dropped, which brings back what was before.
    ///
    /// # Errors
    /// `Unavailable` in a build without the feature, for anything but `None`.
    pub fn set(defect: Option<Defect>) -> Result<Guard, Unavailable> {
        Ok(Guard { before: PLANTED.replace(defect), here: PhantomData })
    }

    /// See [`set`].
    #[derive(Debug)]
    #[must_use = "the rule holds again when the guard is dropped"]
    pub struct Guard {
        before: Option<Defect>,
        /// It belongs to its thread.
        here: PhantomData<*const ()>,
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            PLANTED.set(self.before);
        }
    }
}

#[cfg(not(feature = "plant"))]
mod imp {
    use super::{Defect, Unavailable};

    /// Whether this thread is to break this rule.
    #[inline(always)]
    pub const fn is(_: Defect) -> bool {
        false
    }

    /// The rule that this thread breaks: to be handed on to threads that work for it.
    pub const fn current() -> Option<Defect> {
        None
    }

    /// Breaks a rule (or none) on this thread until the guard is dropped, which brings back what was before.
    ///
    /// # Errors
    /// `Unavailable` in a build without the feature, for anything but `None`.
    pub const fn set(defect: Option<Defect>) -> Result<Guard, Unavailable> {
        match defect {
            None => Ok(Guard),
            Some(_) => Err(Unavailable),
        }
    }

    /// See [`set`].
    #[derive(Debug)]
    #[must_use = "the rule holds again when the guard is dropped"]
    pub struct Guard;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defect_has_a_name_of_its_own() {
        for defect in Defect::ALL {
            assert_eq!(defect.to_string().parse(), Ok(*defect));
            assert!(defect.what().ends_with('.'));
        }
        assert!("no-such-thing".parse::<Defect>().is_err());
    }

    #[test]
    fn a_defect_is_planted_where_it_can_be_and_only_for_as_long_as_its_guard_lives() {
        assert!(!is(Defect::StaleRing));
        let guard = set(Some(Defect::StaleRing));
        assert_eq!((guard.is_ok(), is(Defect::StaleRing)), (AVAILABLE, AVAILABLE));
        assert!(!is(Defect::EarlyReuse));
        drop(guard);
        assert!(!is(Defect::StaleRing) && set(None).is_ok());
    }
}
