//! Engine `classic`: jbd2's own log format, so that the kernel and e2fsck can replay ours and we can replay theirs.
//!
//! Written: checksum v3, 64-bit block numbers, revoke blocks, escaping. Read: every version. The format is jbd2's own
//! (the kernel's `Documentation/filesystems/ext4/journal.rst`); its bytes are in `ondol_format::jbd2`.

mod recover;
mod replay;
mod scan;
mod writer;

pub use recover::{
    Recovered, Volume, append_fast_commits, commit_alone, fast_commits, recover, recover_before_fast_commits, salvage,
};

use crate::area::{LogMap, MERGE};
use crate::block_engine::LogFormat;
use crate::names::Tid;
use crate::{Corrupt, Ground, JournalError, Result};
use ondol_block::BlockStore;
use ondol_format::FormatError;
use ondol_format::jbd2::{Attached, Extension, JournalCompat, JournalIncompat, JournalSuperblock, MIN_BLOCKS};
pub(crate) use writer::Jbd2Log;

/// Journal features that can be replayed.
const READABLE: JournalIncompat = JournalIncompat::REVOKE
    .union(JournalIncompat::BIT64)
    .union(JournalIncompat::ASYNC_COMMIT)
    .union(JournalIncompat::CSUM_V2)
    .union(JournalIncompat::CSUM_V3)
    .union(JournalIncompat::FAST_COMMIT)
    .union(JournalIncompat::COMPRESSED)
    .union(JournalIncompat::NVM);

/// Transactions that a journal has had at most if it may lie over another with the same UUID.
const FEW: u32 = 1 << 20;

/// What a journal says about itself.
#[derive(Clone, Debug)]
pub struct JournalInfo {
    /// Blocks of the journal, its superblock included.
    pub blocks: u32,
    /// Blocks before its fast-commit area.
    pub log_blocks: u32,
    /// The journal holds transactions that are not home yet.
    pub dirty: bool,
    /// The next transaction id.
    pub sequence: u32,
    /// Names of its features.
    pub features: Vec<String>,
    /// Volumes that share it.
    pub users: u32,
    /// The journal's UUID.
    pub uuid: [u8; 16],
    /// Error of an earlier abort: a negative errno, or 0.
    pub errno: i32,
    /// What it holds are units of engine `compressed`.
    pub compressed: bool,
    /// The pool that holds what is newer than home, as long as there may be such.
    pub nvm: Option<Attached>,
    /// The engine and data mode that the image asks for.
    pub asks: Extension,
}

impl JournalInfo {
    /// The log has fewer blocks than jbd2 writes to: hardly anything would fit into it. What it holds can be replayed.
    pub fn is_short(&self) -> bool {
        self.log_blocks < MIN_BLOCKS
    }
}

/// Reads the journal superblock.
///
/// # Errors
/// Corruption, features that are not known (by name), or the store's failure.
pub fn info(store: &dyn BlockStore, map: &LogMap) -> Result<JournalInfo> {
    let sb = load_superblock(store, map)?;
    Ok(JournalInfo {
        blocks: sb.maxlen(),
        log_blocks: sb.end(),
        dirty: sb.start().is_some(),
        sequence: sb.sequence(),
        features: feature_names(&sb),
        users: sb.users(),
        uuid: *sb.uuid(),
        errno: sb.errno(),
        compressed: sb.incompat().contains(JournalIncompat::COMPRESSED),
        nvm: sb.extension().attached.filter(|_| sb.incompat().contains(JournalIncompat::NVM)),
        asks: sb.extension(),
    })
}

/// Has a clean journal ask for an engine and a data mode, in the numbers of [`Extension`]; None leaves what it asks
/// for. Durable when this returns.
///
/// # Errors
/// Corruption, or the store's failure.
pub fn ask(store: &dyn BlockStore, map: &LogMap, engine: Option<u8>, data: Option<u8>) -> Result<()> {
    let mut sb = load_superblock(store, map)?;
    let asks = sb.extension();
    sb.set_extension(&Extension { engine: engine.unwrap_or(asks.engine), data: data.unwrap_or(asks.data), ..asks });
    store.write(map.physical(0)? * map.block_size() as u64, &sb.encode())?;
    Ok(store.flush()?)
}

/// Has an empty journal say that from now on what is newer than home lies in an NVM pool, which keeps everybody else
/// from the image. Durable when this returns.
///
/// # Errors
/// Corruption, a journal that is not empty, or the store's failure.
pub fn attach(store: &dyn BlockStore, map: &LogMap, pool: Attached) -> Result<()> {
    let mut sb = load_to_write(store, map)?;
    sb.set_extension(&Extension { attached: Some(pool), ..sb.extension() });
    sb.set_incompat(sb.incompat() | JournalIncompat::NVM);
    store.write(map.physical(0)? * map.block_size() as u64, &sb.encode())?;
    Ok(store.flush()?)
}

/// Has the journal say that everything is home. Which pool it was stays. Durable when this returns.
///
/// # Errors
/// Corruption, or the store's failure.
pub fn detach(store: &dyn BlockStore, map: &LogMap) -> Result<()> {
    let mut sb = load_superblock(store, map)?;
    sb.set_incompat(sb.incompat() - JournalIncompat::NVM);
    store.write(map.physical(0)? * map.block_size() as u64, &sb.encode())?;
    Ok(store.flush()?)
}

/// Makes the area `new` an empty journal that can take the place of `old`, which is empty: it goes on with the same
/// identity, features and transaction ids. Behind its first block it must hold zeros. Durable when this returns.
///
/// # Errors
/// `Unsupported`: `new` is too short, or `old` not empty; corruption, or the store's failure.
pub fn succeed(store: &dyn BlockStore, old: &LogMap, new: &LogMap) -> Result<()> {
    let sb = load_empty(store, old)?;
    let blocks = u32::try_from(new.blocks()).unwrap_or(u32::MAX);
    if blocks < sb.least_blocks() {
        let what = format!("a journal of {blocks} blocks: the least is {}", sb.least_blocks());
        return Err(JournalError::Unsupported(what));
    }
    store.write(new.physical(0)? * new.block_size() as u64, &sb.resized(blocks).encode())?;
    Ok(store.flush()?)
}

/// Makes an empty journal as long as its file, whose other blocks become zeros before its superblock counts them.
/// Durable when this returns.
///
/// # Errors
/// Corruption, a journal that is not empty, or the store's failure.
pub fn lengthen(store: &dyn BlockStore, map: &LogMap) -> Result<()> {
    let sb = load_empty(store, map)?;
    let size = map.block_size();
    let zeros = vec![0; size * MERGE];
    let mut at = 1;
    while at < map.blocks() {
        let (block, run) = map.run_from(at)?;
        let now = run.min(MERGE as u64);
        store.write(block * size as u64, &zeros[..now as usize * size])?;
        at += now;
    }
    store.flush()?;
    let blocks = u32::try_from(map.blocks()).unwrap_or(u32::MAX);
    store.write(map.physical(0)? * size as u64, &sb.resized(blocks).encode())?;
    Ok(store.flush()?)
}

/// Makes an empty journal in place of one whose superblock is damaged. What its log held counts no more, and can never
/// be taken for its own: `uuid` must be new. Durable when this returns.
///
/// # Errors
/// The store's failure.
pub fn renew(store: &dyn BlockStore, map: &LogMap, uuid: [u8; 16]) -> Result<()> {
    let blocks = u32::try_from(map.blocks()).unwrap_or(u32::MAX);
    let mut sb = JournalSuperblock::new(map.block_size() as u32, blocks, uuid);
    sb.set_incompat(JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::CSUM_V3);
    store.write(map.physical(0)? * map.block_size() as u64, &sb.encode())?;
    Ok(store.flush()?)
}

/// The least blocks with which a journal can take the place of that in `map`.
///
/// # Errors
/// Corruption, or the store's failure.
pub fn least_blocks(store: &dyn BlockStore, map: &LogMap) -> Result<u64> {
    Ok(u64::from(load_superblock(store, map)?.least_blocks()))
}

fn feature_names(sb: &JournalSuperblock) -> Vec<String> {
    let features = sb.incompat();
    let names = [
        (JournalIncompat::REVOKE, "revoke"),
        (JournalIncompat::BIT64, "64bit"),
        (JournalIncompat::ASYNC_COMMIT, "async_commit"),
        (JournalIncompat::CSUM_V2, "checksum_v2"),
        (JournalIncompat::CSUM_V3, "checksum_v3"),
        (JournalIncompat::FAST_COMMIT, "fast_commit"),
        (JournalIncompat::COMPRESSED, "ondol_compressed"),
        (JournalIncompat::NVM, "ondol_nvm"),
    ];
    let old = sb.compat().contains(JournalCompat::CHECKSUM).then_some("checksum");
    let found = names.iter().filter(|(bit, _)| features.contains(*bit)).map(|(_, name)| *name);
    old.into_iter().chain(found).map(str::to_owned).collect()
}

pub(crate) fn load_superblock(store: &dyn BlockStore, map: &LogMap) -> Result<JournalSuperblock> {
    let mut bytes = vec![0; map.block_size()];
    let at = map.physical(0)?;
    store.read(at * map.block_size() as u64, &mut bytes)?;
    let sb = JournalSuperblock::parse(&bytes, map.block_size() as u32, map.blocks()).map_err(|e| corrupt(at, &e))?;
    sb.require_incompat(READABLE).map_err(|e| JournalError::Unsupported(e.to_string()))?;
    Ok(sb)
}

pub(crate) fn corrupt(block: u64, e: &FormatError) -> JournalError {
    Corrupt { structure: "journal".into(), block, what: e.to_string() }.into()
}

/// Reads the superblock of an empty journal that is about to be written to, with the features that every engine writes
/// and without the error of an earlier abort.
///
/// # Errors
/// Corruption, a journal that is not empty, or the store's failure.
pub(crate) fn load_to_write(store: &dyn BlockStore, map: &LogMap) -> Result<JournalSuperblock> {
    let mut sb = load_empty(store, map)?;
    sb.upgrade();
    let kept = sb.incompat() & JournalIncompat::FAST_COMMIT;
    sb.set_incompat(kept | JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::CSUM_V3);
    sb.set_compat(JournalCompat::empty());
    sb.set_errno(0);
    Ok(sb)
}

/// Reads the superblock of a journal that must hold nothing.
fn load_empty(store: &dyn BlockStore, map: &LogMap) -> Result<JournalSuperblock> {
    let sb = load_superblock(store, map)?;
    match sb.start() {
        None => Ok(sb),
        Some(_) => Err(JournalError::Unsupported("the journal still holds transactions: recover it first".into())),
    }
}

/// The log of engine `classic`, and its first transaction.
pub(crate) fn log(ground: &Ground, map: LogMap) -> Result<(Box<dyn LogFormat>, Tid)> {
    let (log, first) = open_log(ground, map)?;
    let log = if ground.config.journaled_data { log } else { log.keeping(ground.config.device) };
    Ok((Box::new(log), first))
}

/// Opens a recovered, empty log for writing, and says which transaction is its first. Sets the features that are
/// written (checksum v3, 64-bit, revoke).
pub(crate) fn open_log(ground: &Ground, map: LogMap) -> Result<(Jbd2Log, Tid)> {
    let Ground { store, env, .. } = ground;
    let mut sb = load_to_write(&**store, &map)?;
    if sb.sequence() < FEW {
        // Transactions of an older journal may still lie in the ring: none of them has a number that this one comes to
        // soon.
        let [a, b, c, d, ..] = env.random_uuid();
        sb.set_start(None, FEW + (u32::from_le_bytes([a, b, c, d]) >> 1));
    }
    let first = Tid(sb.sequence().into());
    let log = Jbd2Log::new(store.clone(), map, sb, env.clone());
    log.area().edit_superblock(|_| ())?;
    Ok((log, first))
}
