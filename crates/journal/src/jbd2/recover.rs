//! Recovery: what happens to a jbd2 log after a crash.
//!
//! Three passes as in jbd2: *scan* finds the last whole transaction, *revoke* collects which blocks must not be
//! replayed up to which transaction, *replay* writes the newest image of every block home. Then the home blocks are
//! flushed, and only then is the log declared empty; recovery interrupted anywhere can be repeated.

use super::writer::Jbd2Log;
use super::{load_empty, load_superblock};
use crate::Block;
use crate::area::LogMap;
use crate::block_engine::{LogFormat as _, Logged, Sealed};
use crate::names::Tid;
use crate::ring::Ring;
use crate::salvage::{GivenUp, Lose, Salvaged, longest};
use crate::{JournalError, Result};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::jbd2::{FastCommit, FastCommitReader, JournalIncompat, JournalSuperblock, LogFormat};

ondol_env::counters! {
    /// What recovery did.
    pub struct Recovered, "recovered_";
    transactions: Counter, Number, "Whole transactions that were found in the journal when the volume was opened.";
    blocks: Counter, Blocks, "Different blocks that recovery wrote home.";
    revoked: Counter, Number, "Images that a later revoke held back.";
}

/// What recovery has to know of the volume that a journal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its blocks.
    pub blocks: u64,
    /// When it was made, in seconds since 1970: no transaction of its journal is older.
    pub made: i64,
}

/// A journal that is being recovered.
pub(super) struct Log<'a> {
    pub(super) store: &'a dyn BlockStore,
    pub(super) ring: Ring,
    pub(super) sb: JournalSuperblock,
    pub(super) format: LogFormat,
}

/// Replays the journal into its volume and empties it. The next transaction id is raised past every id that the log has
/// seen. Durable when this returns. Fast commits must have been taken care of: see [`fast_commits`].
///
/// # Errors
/// Corruption inside a transaction that has its commit block, or that precedes one that has; the store's failure.
pub fn recover(store: &dyn BlockStore, map: &LogMap, volume: Volume) -> Result<Recovered> {
    let log = Log::load(store, map)?;
    if log.sb.start().is_none() {
        return Ok(Recovered::default());
    }
    let (recovered, end) = log.bring_home(volume)?;
    // One further than the log's end: an unfinished transaction may lie there under that id.
    log.begin_anew(None, end.wrapping_add(1))?;
    Ok(recovered)
}

/// As [`recover`], of a damaged log: the longest beginning of it that is sound goes home, and the rest is given up.
/// Fast commits are not looked at.
///
/// # Errors
/// The journal's superblock is damaged, or the store's failure.
pub fn salvage(store: &dyn BlockStore, map: &LogMap, volume: Volume, lose: Lose<'_>) -> Result<Salvaged> {
    let log = Log::load(store, map)?;
    let Some(start) = log.sb.start() else { return Ok(Salvaged::default()) };
    let (start, first) = (log.ring.position(start), log.sb.sequence());
    let sound = |most| {
        let whole = log.scan(start, first, most)?;
        let images = log.collect(&whole)?;
        log.verify(&images, volume.blocks).map(|()| (whole, images))
    };
    let ((whole, images), why) = longest(log.ring.blocks(), sound)?;
    let why = why.or_else(|| log.refuse_damage(&whole, volume.made).err());
    let recovered = log.replay(&images, whole.end.wrapping_sub(first), volume.blocks)?;
    store.flush()?;
    why.as_ref().map_or(Ok(()), |_| lose())?;
    // What cannot be read holds no more transactions than it has blocks.
    let newest = log.newest(&whole).unwrap_or(whole.end.wrapping_add(log.ring.blocks() as u32));
    log.begin_anew(None, newest.wrapping_add(1))?;
    let given_up = why.map(|e| GivenUp { first: whole.end.into(), last: newest.into(), why: e.to_string() });
    Ok(Salvaged { recovered, given_up })
}

/// What ext4 has committed behind the log's end in its own way; None if there is nothing. It is to be done when the log
/// has been replayed.
///
/// # Errors
/// As [`recover`]; fast commits with features that are not known (named).
pub fn fast_commits(store: &dyn BlockStore, map: &LogMap) -> Result<Option<Vec<FastCommit>>> {
    let log = Log::load(store, map)?;
    if !log.sb.incompat().contains(JournalIncompat::FAST_COMMIT) {
        return Ok(None);
    }
    let first = log.sb.sequence();
    // An empty log proves nothing about the area behind it.
    let scan = |start| log.scan(log.ring.position(start), first, u64::MAX);
    let end = log.sb.start().map_or(Ok(first), |start| scan(start).map(|whole| whole.end))?;
    let mut reader = FastCommitReader::new(end);
    // jbd2 leaves one block between the log and the area.
    let mut block = vec![0; map.block_size()];
    for at in u64::from(log.sb.end()) + 1..u64::from(log.sb.maxlen()) {
        store.read(map.physical(at)? * map.block_size() as u64, &mut block)?;
        let more = reader.block(&block).map_err(|e| JournalError::Unsupported(e.to_string()))?;
        if !more {
            break;
        }
    }
    Ok(reader.finish())
}

/// As [`recover`], but the log then begins with the transaction that fast commits follow: they still count, and
/// [`append_fast_commits`] can put in their place what they come to.
///
/// # Errors
/// As [`recover`].
pub fn recover_before_fast_commits(store: &dyn BlockStore, map: &LogMap, volume: Volume) -> Result<Recovered> {
    let log = Log::load(store, map)?;
    let start = log.sb.first();
    if log.sb.start().is_none() {
        let sequence = log.sb.sequence();
        log.begin_anew(Some(start), sequence)?;
        return Ok(Recovered::default());
    }
    let (recovered, end) = log.bring_home(volume)?;
    log.begin_anew(Some(start), end)?;
    Ok(recovered)
}

/// Writes `images` as the transaction with which the log begins: from then on they count, and no fast commit does.
/// Durable when this returns.
///
/// # Errors
/// `Unsupported` when they do not fit into the log; the store's failure.
pub fn append_fast_commits(
    store: &Arc<dyn BlockStore>,
    map: &LogMap,
    env: Arc<dyn Env>,
    images: Vec<(u64, Vec<u8>)>,
) -> Result<()> {
    let what = "fast commits that change more blocks than the log holds: mount the image once with the kernel, or run \
                e2fsck on it";
    append(store, map, env, images, what)
}

/// Makes `images` the one transaction of an empty log. It counts when this returns, durably, or not at all.
///
/// # Errors
/// `Unsupported` when the log is not empty, or they do not fit into it; the store's failure.
pub fn commit_alone(
    store: &Arc<dyn BlockStore>,
    map: &LogMap,
    env: Arc<dyn Env>,
    images: Vec<(u64, Vec<u8>)>,
) -> Result<()> {
    load_empty(&**store, map)?;
    let log = Log::load(&**store, map)?;
    log.begin_anew(Some(log.sb.first()), log.sb.sequence())?;
    append(store, map, env, images, "a transaction of more blocks than the log holds")
}

fn append(
    store: &Arc<dyn BlockStore>,
    map: &LogMap,
    env: Arc<dyn Env>,
    images: Vec<(u64, Vec<u8>)>,
    too_many: &str,
) -> Result<()> {
    let sb = load_superblock(&**store, map)?;
    let tid = Tid(sb.sequence().into());
    let log = Jbd2Log::new(store.clone(), map.clone(), sb, env);
    let images: Vec<(u64, Block)> = images.into_iter().map(|(block, image)| (block, image.into())).collect();
    if log.cost(images.len() as u64, 0) + 1 > log.area().ring_blocks() {
        return Err(JournalError::Unsupported(too_many.into()));
    }
    let tx = Sealed { tid, images, staged: Vec::new(), revoked: Vec::new() };
    let Logged { blocks, record } = log.log(0, &tx)?;
    store.flush()?;
    log.area().write(blocks, &[&record.unwrap_or_default()])?;
    Ok(store.flush()?)
}

impl<'a> Log<'a> {
    fn load(store: &'a dyn BlockStore, map: &LogMap) -> Result<Self> {
        let sb = load_superblock(store, map)?;
        Ok(Self { store, ring: Ring::new(map.clone(), &sb, u64::MAX), format: sb.format(), sb })
    }

    /// The block at a position of the ring.
    pub(super) fn read(&self, at: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.ring.block_size()];
        self.ring.read(self.store, at, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes the images of whole transactions home: what that came to, and the first id without a whole transaction.
    fn bring_home(&self, volume: Volume) -> Result<(Recovered, u32)> {
        let start = self.ring.position(self.sb.start().unwrap_or(self.sb.first()));
        let whole = self.scan(start, self.sb.sequence(), u64::MAX)?;
        self.refuse_damage(&whole, volume.made)?;
        let images = self.collect(&whole)?;
        let recovered = self.replay(&images, whole.end.wrapping_sub(whole.first), volume.blocks)?;
        self.store.flush()?;
        Ok((recovered, whole.end))
    }

    /// Makes the log begin at `start` (None: it is empty) with transaction `sequence`.
    fn begin_anew(&self, start: Option<u32>, sequence: u32) -> Result<()> {
        let mut sb = self.sb.clone();
        sb.set_start(start, sequence);
        let map = self.ring.map();
        self.store.write(map.physical(0)? * map.block_size() as u64, &sb.encode())?;
        Ok(self.store.flush()?)
    }
}
