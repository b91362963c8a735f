//! Reach: which of the places that matter a run has come to, so that the crash laboratory can tell what it has never tried.
//!
//! Where one of them is passed, the code says so with [`hit`]. Unless somebody on this thread has called [`listen`], that is one look
//! at a word of the thread's own. Nothing is shared between threads: whoever explores on several adds up what each has heard.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

/// The journal engines in which a place can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engines {
    /// All engines.
    All,
    /// Those that have a log.
    Logs,
    /// Those whose log lies in the image.
    Images,
    /// `compressed` alone.
    Compressed,
    /// `classic` alone.
    Classic,
    /// Those that keep new data until the commit, and write it home.
    Keeping,
    /// Those whose log holds records.
    Records,
    /// `scalable` alone.
    Scalable,
    /// `remap` alone.
    Remap,
    /// `swap` alone.
    Swap,
    /// Those whose log is jbd2's.
    Jbd2,
    /// None: a volume is given another size.
    Resize,
    /// `batch` alone.
    Batch,
    /// None by itself: a volume is in object storage.
    Store,
    /// None by itself: what syncs of such a volume wait for is in the store.
    Remote,
    /// None by itself: such a volume has a log on this machine.
    Redo,
}

macro_rules! places {
    ($($variant:ident $name:literal $engines:ident $what:literal,)*) => {
        /// A place that matters when power is lost near it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Place {
            $(#[doc = $what] $variant,)*
        }

        impl Place {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name, in small letters with hyphens.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What happens there, in one line.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => $what,)*
                }
            }

            /// Where it can be reached.
            pub fn engines(self) -> Engines {
                match self {
                    $(Self::$variant => Engines::$engines,)*
                }
            }
        }
    };
}

places! {
    LogWraps "log-wraps" Images "A transaction lies across the end of the ring.",
    EmptyLogBegins "empty-log-begins" Images "The first transaction in an empty log sets the tail.",
    PartialCheckpoint "partial-checkpoint" Logs "A checkpoint moves the tail and leaves younger transactions in the log.",
    WholeCheckpoint "whole-checkpoint" Logs "A checkpoint empties the log.",
    CheckpointBeforeCommit "checkpoint-before-commit" Logs "A checkpoint comes while newer changes wait for their commit.",
    CommitBesideCheckpoint "commit-beside-checkpoint" Images "A transaction becomes durable while a checkpoint writes.",
    NewerThanCheckpoint "newer-than-checkpoint" Logs "A block was committed again while a checkpoint wrote its older image.",
    FreedBesideCheckpoint "freed-beside-checkpoint" Logs "Freed blocks wait for the end of a checkpoint.",
    ForegroundCommit "foreground-commit" Images "An operation commits because it finds no room.",
    ForegroundCheckpoint "foreground-checkpoint" Logs "An operation writes a checkpoint because it finds no room.",
    MemoryCheckpoint "memory-checkpoint" Images "A checkpoint because too many images wait in memory.",
    TimerCommit "timer-commit" All "The committer commits an old or large transaction.",
    BackgroundCheckpoint "background-checkpoint" Logs "The checkpointer writes a checkpoint.",
    BackgroundFlush "background-flush" Logs "The flusher flushes data.",
    BatchBesideBatch "batch-beside-batch" Batch "A batch is submitted while the one before it is not settled.",
    BatchesSettled "batches-settled" Batch "Several batches are settled at once.",
    DiscardedInBatch "discarded-in-batch" Batch "A batch discards what its transaction frees.",
    FlushedBatches "flushed-batches" Batch "A flush settles batches, since something was written beside them.",
    FullBatch "full-batch" Batch "An operation submits the running transaction, since its batch has no room for more.",
    WaitedForBatches "waited-for-batches" Batch "An operation waits, since too much is not durable.",
    LooseBatch "loose-batch" Store "What was written beside batches becomes a batch.",
    ChunkPatched "chunk-patched" Store "A part of a chunk is written, and the rest of it read.",
    LogPut "log-put" Store "A sync has the database's log put into the bucket.",
    LogBypassed "log-bypassed" Remote "A sync has objects of the database put in place of its log, which large batches bypass.",
    LogReopened "log-reopened" Remote "Batches go into the database's log again, after some have bypassed it.",
    SnapshotMade "snapshot-made" Store "A snapshot is made.",
    HomeClosed "home-closed" Store "A volume in object storage is closed.",
    RedoPersisted "redo-persisted" Redo "A sync makes the local log durable.",
    RedoWraps "redo-wraps" Redo "A record goes over the end of the local log's ring.",
    RedoCut "redo-cut" Redo "Space of the local log is given back.",
    RedoWaits "redo-waits" Redo "A batch waits until the bucket has more of what is in the local log.",
    RedoTooLarge "redo-too-large" Redo "A batch is in no record, since the local log has no room for it.",
    RedoReplayed "redo-replayed" Redo "An opening brings a batch of the local log to the bucket.",
    RedoKnown "redo-known" Redo "An opening finds a batch in the local log that the bucket has.",
    GroupCommit "group-commit" Images "A sync waits until another thread has committed for it.",
    DataFlush "data-flush" All "A sync flushes data that no transaction names.",
    ChangedWhileCommitted "changed-while-committed" All "A block is changed while another image of it is kept.",
    SealedBesideChange "sealed-beside-change" All "Derived values go into an image and into newer live bytes.",
    FreedImageLeftOut "freed-image-left-out" Images "A block that its transaction has freed is not logged.",
    DeadUncounted "dead-uncounted" Images "Blocks are freed in the transaction that has them, and leave it.",
    DeadSwept "dead-swept" Images "More blocks have left a transaction than live in it.",
    RevokeWritten "revoke-written" Logs "A transaction revokes blocks.",
    ManyRevokes "many-revokes" Jbd2 "Revokes fill more than one block of the log.",
    SeveralDescriptors "several-descriptors" Jbd2 "A transaction has more than one descriptor block.",
    EscapedImage "escaped-image" Jbd2 "An image that begins like a block of the log is escaped.",
    BlockEvicted "block-evicted" All "The cache drops a block.",
    CacheFollowed "cache-followed" Classic "A block in memory takes bytes that were written in place at home.",
    TakenAsEmpty "taken-as-empty" Images "A block of an inode table in which no inode is in use is not read.",
    ReadFromLog "read-from-log" Images "A block that was dropped after its commit is read from its committed image.",
    Discarded "discarded" Logs "Freed blocks are discarded.",
    EarlyFlush "early-flush" Compressed "A commit flushes data that was written in place first.",
    StagedRun "staged-run" Compressed "A transaction names new data that is at home.",
    KeptWritten "kept-written" Classic "A commit writes new data home before its commit block.",
    KeptOverwritten "kept-overwritten" Classic "Data that a commit under way has is overwritten, and waits for the next.",
    EarlyStaged "early-staged" Keeping "New data is written home before its commit begins.",
    StagedByHand "staged-by-hand" Compressed "An operation writes new data home for a commit that is under way.",
    StagedChanged "staged-changed" Compressed "New data that was written home is changed before its commit.",
    StagedOverwritten "staged-overwritten" Compressed "Data that a transaction in the log names or holds is overwritten through the log.",
    NoRoomForNewData "no-room-for-new-data" Compressed "All new data goes home because the ring has no room for it.",
    NvmLogFull "nvm-log-full" Records "An operation finds the NVM log full and makes room.",
    HomeFailed "home-failed" Scalable "A checkpoint cannot write home, and the engine goes on.",
    LetGo "let-go" Records "New data that is home leaves memory before its record leaves the log.",
    LetGoChanged "let-go-changed" Records "A block that has left memory is changed while the log has its record.",
    BroughtHome "brought-home" Scalable "An operation writes its new data home itself.",
    DerivedAlone "derived-alone" Records "A descriptor goes home because of its bitmaps alone.",
    FreedBehindSlice "freed-behind-slice" Records "A checkpoint leaves alone a block that a later record has freed.",
    ImageFromRecords "image-from-records" Records "A checkpoint builds the image of a block that has changed again from its records.",
    BuiltOnBefore "built-on-before" Records "A checkpoint builds an image of file data that has changed again from what it held before.",
    BaseKept "base-kept" Remap "A block stays in memory beside its page because a record builds on what it held before.",
    EntriesSet "entries-set" Remap "A checkpoint has blocks mapped to the pages that their records name.",
    StoredInPlace "stored-in-place" Remap "Lines of a block that differ are stored into its page.",
    NoPageToLend "no-page-to-lend" Remap "An operation finds no page to borrow and makes room.",
    Swapped "swapped" Swap "A checkpoint swaps blocks of the ring with those at home.",
    SplitCheckpoint "split-checkpoint" Swap "A checkpoint leaves transactions to the next because they have more blocks than can be swapped at once.",
    CopiedForRoom "copied-for-room" Swap "A checkpoint copies blocks of a transaction that has more than can be swapped at once.",
    SupersededCopy "superseded-copy" Swap "A checkpoint leaves a block to a younger transaction.",
    LookalikeAtHome "lookalike-at-home" Swap "A checkpoint writes over a block that begins like one of the log.",
    PageStored "page-stored" Records "File data goes into a page of the pool with its record.",
    DataWaits "data-waits" Scalable "New data stays in memory until its commit, and its record names a page for it.",
    WaitingStored "waiting-stored" Scalable "A commit stores new data that waits in pages of the pool.",
    WaitingFreed "waiting-freed" Scalable "New data that waits is freed before its commit, and goes nowhere.",
    WaitingHome "waiting-home" Scalable "New data that waits goes home before its commit.",
    ForegroundDrain "foreground-drain" Scalable "An operation brings new data home because too much of it waits.",
    ThereAlready "there-already" Records "A checkpoint finds that home has a block already.",
    NoFreePage "no-free-page" Records "File data goes into the log because no page of the pool is free.",
    PageAtHome "page-at-home" Scalable "Recovery takes new data from home, where it went before its commit.",
    BuiltBlockHome "built-block-home" Records "A checkpoint writes a bitmap home that home had nothing of.",
    StoredChunk "stored-chunk" Compressed "Images go into a unit as they are, because they look random.",
    SeveralChunks "several-chunks" Compressed "A unit has several compressed chunks.",
    ReplayOne "replay-one" All "Recovery brings one transaction home.",
    ReplaySeveral "replay-several" All "Recovery brings several transactions home.",
    ReplayNone "replay-none" All "Recovery finds no whole transaction in a log that is not empty.",
    ReplayWrapped "replay-wrapped" Images "Recovery follows the log across the end of the ring.",
    ReplayNewer "replay-newer" Images "Recovery writes the newest of several images of a block.",
    RevokeHonoured "revoke-honoured" All "Recovery holds an image back because of a revoke.",
    ReplayEscaped "replay-escaped" Jbd2 "Recovery restores the beginning of an escaped image.",
    StaleEnd "stale-end" Images "Recovery finds a block of an earlier lap at the end of the log.",
    TornEnd "torn-end" Compressed "Recovery finds a unit that is not whole at the end of the log.",
    StagedArrived "staged-arrived" Compressed "Recovery finds that the data which the last unit names has arrived.",
    StagedLost "staged-lost" Compressed "Recovery finds that the data which the last unit names has not arrived.",
    MountMarked "mount-marked" All "A mount sets RECOVER.",
    Unmounted "unmounted" All "An unmount marks the image clean.",
    OrphanDeleted "orphan-deleted" All "A mount deletes an orphan.",
    OrphanTruncated "orphan-truncated" All "A mount finishes a truncate.",
    OrphanListed "orphan-listed" All "An inode is put on the orphan list.",
    OrphanUnlistedFirst "orphan-unlisted-first" All "The first inode of the orphan list leaves it.",
    OrphanUnlistedInside "orphan-unlisted-inside" All "An inode behind others leaves the orphan list.",
    OrphanSlotTaken "orphan-slot-taken" All "An inode is entered in the orphan file.",
    OrphanSlotCleared "orphan-slot-cleared" All "An inode leaves the orphan file.",
    OrphansAnnounced "orphans-announced" All "ORPHAN_PRESENT is set.",
    DeletedInSteps "deleted-in-steps" All "An inode's blocks are freed in more than one operation.",
    DeletedAtOnce "deleted-at-once" All "An inode loses its last name and is freed in the same operation.",
    TruncatedInSteps "truncated-in-steps" All "A truncate takes more than one operation.",
    WrittenInSteps "written-in-steps" All "A write takes more than one operation.",
    WriteStopped "write-stopped" All "A write ends early because a later part of it fails.",
    AllocatedInSteps "allocated-in-steps" All "A fallocate takes more than one operation.",
    Overwritten "overwritten" All "Bytes are overwritten in place and nothing else changes.",
    OverwrittenLate "overwritten-late" All "Bytes over stored ones go home with the close of a transaction.",
    DataJournaled "data-journaled" All "Data of one file goes through the journal by its flag.",
    ChangedItsMind "changed-its-mind" All "An operation is dropped after it has changed blocks.",
    GaveBlocksBack "gave-blocks-back" All "An operation is dropped after it has taken blocks.",
    GaveInodeBack "gave-inode-back" All "An operation is dropped after it has taken an inode.",
    ListUndone "list-undone" All "An operation is dropped after it has changed the orphan list.",
    TransactionRetried "transaction-retried" All "A transaction begins anew with more space or more locks.",
    TransactionFailed "transaction-failed" All "A step of a transaction fails.",
    InodeReused "inode-reused" All "An inode number is taken again.",
    ReusedData "reused-data" All "A logged block of data is freed and its place allocated again.",
    ReusedDirectory "reused-directory" All "A logged block of a directory is freed and its place allocated again.",
    ReusedExtentNode "reused-extent-node" All "A logged block of an extent tree is freed and its place allocated again.",
    ReusedIndirect "reused-indirect" All "A logged pointer block is freed and its place allocated again.",
    ReusedXattr "reused-xattr" All "A logged block of attributes is freed and its place allocated again.",
    ReusedSymlink "reused-symlink" All "The logged block of a symbolic link is freed and its place allocated again.",
    AllocatedInGroups "allocated-in-groups" All "An operation takes blocks of a second group.",
    FreedInGroups "freed-in-groups" All "An operation frees blocks of a second group.",
    TreeGrows "tree-grows" All "An extent tree becomes a level deeper.",
    TreeShrinks "tree-shrinks" All "An extent tree becomes a level less deep.",
    LeafSplit "leaf-split" All "A leaf of an extent tree is split.",
    NodeDropped "node-dropped" All "A node of an extent tree becomes empty and is freed.",
    ExtentsMerged "extents-merged" All "New blocks become a part of an extent.",
    ExtentCut "extent-cut" All "A hole is cut into the middle of an extent.",
    UnwrittenConverted "unwritten-converted" All "A part of an unwritten extent becomes written.",
    MadeUnwritten "made-unwritten" All "A part of a written extent becomes unwritten.",
    TreeShifted "tree-shifted" All "Extents move to other places of their file.",
    Exchanged "exchanged" All "Two files exchange their extents.",
    StoresCommitted "stores-committed" All "Stores of a map are committed by one operation.",
    StoresExchanged "stores-exchanged" All "Stores of a map are committed by an exchange.",
    PointersAdded "pointers-added" All "A block map is given a pointer block.",
    PointersFreed "pointers-freed" All "A pointer block becomes empty and is freed.",
    ClusterShared "cluster-shared" All "New blocks lie in a cluster that their file has already.",
    ClusterKept "cluster-kept" All "Blocks are freed, and their cluster stays because of others.",
    InlineWritten "inline-written" All "Bytes are written into an inode.",
    InlineUnfolded "inline-unfolded" All "The bytes of a file leave its inode.",
    InlineDirUnfolded "inline-dir-unfolded" All "The entries of a directory leave its inode.",
    InlineEntry "inline-entry" All "A name is put into an inode.",
    DirectoryGrows "directory-grows" All "A directory is given a further block.",
    IndexMade "index-made" All "A directory becomes an htree.",
    HtreeLeafSplit "htree-leaf-split" All "A leaf of an htree is split.",
    HtreeNodeSplit "htree-node-split" All "A node of an htree is split.",
    HtreeRaised "htree-raised" All "An htree becomes a level deeper.",
    DirectoryPacked "directory-packed" All "The entries of a directory's block are packed to make room.",
    IndexedRemoved "indexed-removed" All "A name leaves an htree.",
    IndexedDeleted "indexed-deleted" All "An htree is deleted with its directory.",
    XattrBlockMade "xattr-block-made" All "An inode is given a block of attributes.",
    XattrBlockChanged "xattr-block-changed" All "A block of attributes is changed in place.",
    XattrBlockFreed "xattr-block-freed" All "A block of attributes is freed.",
    ValueMade "value-made" All "The value of an attribute is given an inode.",
    ValueCounted "value-counted" All "The references of a value's inode change.",
    ValueDeleted "value-deleted" All "A value's inode loses its last reference.",
    ResizeExtended "resize-extended" Resize "A volume is given what its last group lacks.",
    ResizeAdded "resize-added" Resize "A volume is given groups.",
    ResizeReserveTaken "resize-reserve-taken" Resize "A reserved block becomes one of descriptors.",
    ResizeMetaBg "resize-meta-bg" Resize "A volume that grows becomes one with meta_bg.",
    ResizeMetadata "resize-metadata" Resize "A shrink moves a bitmap or a table of a group that stays.",
    ResizeJournal "resize-journal" Resize "A shrink moves the journal.",
    ResizeTree "resize-tree" Resize "A shrink builds nodes of an extent tree.",
    ResizePointers "resize-pointers" Resize "A shrink builds blocks of pointers.",
    ResizeInSteps "resize-in-steps" Resize "A shrink moves a file in more than one step.",
    ResizeAttributes "resize-attributes" Resize "A shrink moves a block of attributes.",
    ResizeRenumbered "resize-renumbered" Resize "A shrink gives an inode another number.",
    ResizeCut "resize-cut" Resize "A shrink cuts off the end.",
    ResizeReserveGiven "resize-reserve-given" Resize "The last block of descriptors is reserved again.",
    ResizeDescriptorsFreed "resize-descriptors-freed" Resize "The last block of descriptors becomes free.",
    ResizeExtendedInUse "resize-extended-in-use" Resize "A volume in use is given what its last group lacks.",
    ResizeAddedInUse "resize-added-in-use" Resize "A volume in use is given groups.",
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One time that a place was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Which.
    pub place: Place,
    /// When: after how many events.
    pub at: usize,
}

/// What was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Every hit, in order; none if who listened only counts.
    pub hits: Vec<Hit>,
    /// How often each of [`Place::ALL`] was passed.
    pub counts: Vec<u64>,
}

struct Ear {
    /// Keeps every hit, and not only how many there were.
    keeps: bool,
    /// Events so far.
    events: usize,
    heard: Heard,
    /// What was freed and may come back, with the class of what it was.
    freed: HashMap<Thing, u8>,
}

thread_local! {
    static LISTENS: Cell<bool> = const { Cell::new(false) };
    static EARS: RefCell<Vec<Ear>> = const { RefCell::new(Vec::new()) };
}

/// This place is passed now.
#[inline(always)]
pub fn hit(place: Place) {
    if LISTENS.get() {
        heard(place);
    }
}

/// As [`hit`], if `so`.
#[inline(always)]
pub fn hit_if(so: bool, place: Place) {
    if so {
        hit(place);
    }
}

/// Whether anybody listens, where it takes work to know whether a place is passed.
#[inline(always)]
pub fn is_on() -> bool {
    LISTENS.get()
}

#[cold]
fn heard(place: Place) {
    with_ear(|ear| {
        ear.heard.counts[place as usize] += 1;
        if ear.keeps {
            ear.heard.hits.push(Hit { place, at: ear.events });
        }
    });
}

fn with_ear<T: Default>(f: impl FnOnce(&mut Ear) -> T) -> T {
    EARS.with_borrow_mut(|ears| ears.last_mut().map(f)).unwrap_or_default()
}

/// A medium has recorded an event.
pub fn event() {
    if LISTENS.get() {
        with_ear(|ear| ear.events += 1);
    }
}

/// What can be freed and taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thing {
    /// A block of which the log holds an image.
    Block(u64),
    /// An inode.
    Inode(u32),
}

/// This is free from now on; it was something of class `class`.
pub fn freed(thing: Thing, class: u8) {
    if LISTENS.get() {
        with_ear(|ear| {
            ear.freed.insert(thing, class);
        });
    }
}

/// The class that was told of this, which is taken again.
pub fn taken(thing: Thing) -> Option<u8> {
    if LISTENS.get() { with_ear(|ear| ear.freed.remove(&thing)) } else { None }
}

/// Listens on this thread until the guard is dropped, or asked what it has heard. With `keeps`, every hit is told, and between which
/// events it was; else they are only counted. Whoever listened before goes on afterwards, and hears nothing of this.
pub fn listen(keeps: bool) -> Listening {
    let heard = Heard { hits: Vec::new(), counts: vec![0; Place::ALL.len()] };
    EARS.with_borrow_mut(|ears| ears.push(Ear { keeps, events: 0, heard, freed: HashMap::new() }));
    LISTENS.set(true);
    Listening { here: PhantomData }
}

/// See [`listen`].
#[derive(Debug)]
#[must_use = "nobody listens when this is dropped"]
pub struct Listening {
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Listening {
    /// Forgets the events and hits so far.
    pub fn begin_anew(&self) {
        with_ear(|ear| {
            ear.events = 0;
            ear.heard.hits.clear();
            ear.heard.counts.fill(0);
        });
    }

    /// Ends it.
    pub fn finish(self) -> Heard {
        with_ear(|ear| std::mem::take(&mut ear.heard))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        EARS.with_borrow_mut(|ears| {
            ears.pop();
            LISTENS.set(!ears.is_empty());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Place::ALL.iter().map(|place| place.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Place::ALL.len());
        assert!(Place::ALL.iter().enumerate().all(|(i, place)| *place as usize == i && place.what().ends_with('.')));
    }

    #[test]
    fn hits_are_heard_by_the_last_who_listens_and_by_nobody_else() {
        hit(Place::LogWraps);
        let outer = listen(false);
        hit(Place::LogWraps);
        let inner = listen(true);
        hit(Place::LogWraps);
        event();
        inner.begin_anew();
        (0..3).for_each(|_| event());
        hit(Place::RevokeWritten);
        (0..2).for_each(|_| event());
        hit_if(true, Place::LogWraps);
        hit_if(false, Place::LogWraps);
        let heard = inner.finish();
        let at: Vec<_> = heard.hits.iter().map(|hit| (hit.place, hit.at)).collect();
        assert_eq!(at, [(Place::RevokeWritten, 3), (Place::LogWraps, 5)]);
        hit(Place::LogWraps);
        let heard = outer.finish();
        assert_eq!((heard.counts[Place::LogWraps as usize], heard.counts[Place::RevokeWritten as usize]), (2, 0));
        assert!(heard.hits.is_empty() && !is_on());
    }

    #[test]
    fn what_was_freed_is_told_once() {
        let block = Thing::Block(7);
        freed(block, 2);
        let ear = listen(false);
        assert_eq!(taken(block), None);
        freed(block, 2);
        assert_eq!((taken(Thing::Inode(7)), taken(block), taken(block)), (None, Some(2), None));
        drop(ear);
    }
}
