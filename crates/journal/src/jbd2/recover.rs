//! Recovery: what happens to a jbd2 log after a crash.
//!
//! Three passes as in jbd2: *scan* finds the last whole transaction, *revoke* collects which blocks must not be replayed
//! up to which transaction, *replay* writes the newest image of every block home. Then the home blocks are flushed, and
//! only then is the log declared empty; recovery interrupted anywhere can be repeated.

use super::writer::Jbd2Log;
use super::{corrupt, load_empty, load_superblock};
use crate::area::LogMap;
use crate::block_engine::{LogFormat as _, Sealed};
use crate::cache::Block;
use crate::contract::Tid;
use crate::{Corrupt, JournalError, Result};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::plant::{self, Defect};
use ondol_env::reach::{self, Place as At};
use ondol_env::sync::Arc;
use ondol_format::jbd2::{
    self, BlockType, Commit, Descriptor, FastCommit, FastCommitReader, Header, JournalIncompat, JournalSuperblock,
    LogFormat, OldChecksum, Revoke, Tag,
};
use ondol_format::{FormatError, Place, csum};
use std::collections::{BTreeMap, HashMap};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whole transactions found.
    pub transactions: u64,
    /// Different blocks written home.
    pub blocks: u64,
    /// Images that a later revoke held back.
    pub revoked: u64,
}

/// A journal that is being recovered.
struct Log<'a> {
    store: &'a dyn BlockStore,
    map: &'a LogMap,
    sb: JournalSuperblock,
    format: LogFormat,
}

/// Where the image of one block lies.
struct Image {
    at: u64,
    tag: Tag,
    sequence: u32,
}

/// Replays the journal into its volume of `volume_blocks` blocks and empties it. The next transaction id is raised past
/// every id that the log has seen. Durable when this returns. Fast commits must have been taken care of: see [`fast_commits`].
///
/// # Errors
/// Corruption inside a transaction that has its commit block, or that precedes one that has; the store's failure.
pub fn recover(store: &dyn BlockStore, map: &LogMap, volume_blocks: u64) -> Result<Recovered> {
    let sb = load_superblock(store, map)?;
    let log = Log { store, map, format: sb.format(), sb };
    if log.sb.start().is_none() {
        return Ok(Recovered::default());
    }
    let (recovered, end) = log.bring_home(volume_blocks)?;
    // One further than the log's end: an unfinished transaction may lie there under that id.
    log.begin_anew(None, end.wrapping_add(1))?;
    Ok(recovered)
}

/// What ext4 has committed behind the log's end in its own way; None if there is nothing. It is to be done when the log has
/// been replayed.
///
/// # Errors
/// As [`recover`]; fast commits with features that are not known (named).
pub fn fast_commits(store: &dyn BlockStore, map: &LogMap) -> Result<Option<Vec<FastCommit>>> {
    let sb = load_superblock(store, map)?;
    let log = Log { store, map, format: sb.format(), sb };
    if !log.sb.incompat().contains(JournalIncompat::FAST_COMMIT) {
        return Ok(None);
    }
    let first = log.sb.sequence();
    // An empty log proves nothing about the area behind it.
    let end = log.sb.start().map_or(Ok(first), |start| log.scan(u64::from(start), first).map(|(end, _)| end))?;
    let mut reader = FastCommitReader::new(end);
    // jbd2 leaves one block between the log and the area.
    for at in u64::from(log.sb.end()) + 1..u64::from(log.sb.maxlen()) {
        let more = reader.block(&log.read(at)?).map_err(|e| JournalError::Unsupported(e.to_string()))?;
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
pub fn recover_before_fast_commits(store: &dyn BlockStore, map: &LogMap, volume_blocks: u64) -> Result<Recovered> {
    let sb = load_superblock(store, map)?;
    let log = Log { store, map, format: sb.format(), sb };
    let start = log.sb.first();
    if log.sb.start().is_none() {
        let sequence = log.sb.sequence();
        log.begin_anew(Some(start), sequence)?;
        return Ok(Recovered::default());
    }
    let (recovered, end) = log.bring_home(volume_blocks)?;
    log.begin_anew(Some(start), end)?;
    Ok(recovered)
}

/// Writes `images` as the transaction with which the log begins: from then on they count, and no fast commit does. Durable when this
/// returns.
///
/// # Errors
/// `Unsupported` when they do not fit into the log; the store's failure.
pub fn append_fast_commits(
    store: &Arc<dyn BlockStore>,
    map: &LogMap,
    env: Arc<dyn Env>,
    images: Vec<(u64, Vec<u8>)>,
) -> Result<()> {
    let what = "fast commits that change more blocks than the log holds: mount the image once with the kernel, or run e2fsck on it";
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
    let sb = load_empty(&**store, map)?;
    let log = Log { store: &**store, map, format: sb.format(), sb };
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
    let tid = Tid(sb.sequence());
    let log = Jbd2Log::new(store.clone(), map.clone(), sb, env);
    let images: Vec<(u64, Block)> = images.into_iter().map(|(block, image)| (block, image.into())).collect();
    if log.cost(images.len() as u64, 0) + 1 > log.area().ring_blocks() {
        return Err(JournalError::Unsupported(too_many.into()));
    }
    let tx = Sealed { tid, images, staged: Vec::new(), revoked: Vec::new() };
    log.log(0, &tx, &mut || Ok(store.flush()?))?;
    Ok(store.flush()?)
}

/// What can be known of a transaction's images when its commit block is read. Needed where nothing else shows that they arrived:
/// images have no checksums of their own, or the commit block may be older than they are.
struct Sums<'l> {
    log: &'l Log<'l>,
    whole: u32,
    torn: bool,
}

impl<'l> Sums<'l> {
    fn new(log: &'l Log<'l>) -> Self {
        Self { log, whole: !0, torn: false }
    }

    fn add(&mut self, block: &[u8]) {
        if self.log.format.has_old_csum {
            self.whole = csum::crc32_be(self.whole, block);
        }
    }

    fn add_image(&mut self, at: u64, tag: &Tag, sequence: u32) -> Result<()> {
        let each = self.log.format.has_csum() && !self.log.commits_in_order();
        if each || self.log.format.has_old_csum {
            let image = self.log.read(at)?;
            self.add(&image);
            self.torn |= each && !jbd2::tag_checksum_matches(&self.log.format, sequence, tag, &image);
        }
        Ok(())
    }

    fn judge(&self, commit: &Commit, place: Place) -> std::result::Result<(), FormatError> {
        let bad = |what: String| Err(place.corrupt("journal transaction", what));
        match commit.old_checksum {
            _ if self.torn => bad("an image has another checksum than its tag".into()),
            OldChecksum::None => Ok(()),
            OldChecksum::Crc32(sum) if sum == self.whole => Ok(()),
            OldChecksum::Crc32(sum) => bad(format!("checksum {sum:#010x}, computed {:#010x}", self.whole)),
            OldChecksum::Unknown => bad("its checksum is of no kind that exists".into()),
        }
    }
}

impl Log<'_> {
    fn read(&self, at: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.map.block_size()];
        self.store.read(self.map.physical(at)? * self.map.block_size() as u64, &mut bytes)?;
        Ok(bytes)
    }

    fn wrap(&self, at: u64) -> u64 {
        let (first, end) = (u64::from(self.sb.first()), u64::from(self.sb.end()));
        if at >= end { first + (at - end) } else { at }
    }

    /// Errors name blocks of the medium.
    fn place(&self, at: u64) -> Place {
        Place { block: self.map.physical(at).ok(), ..Place::NONE }
    }

    fn corrupt(&self, at: u64, e: &FormatError) -> JournalError {
        corrupt(self.map.physical(at).unwrap_or(at), e)
    }

    /// The commit block is written when everything before it is durable.
    fn commits_in_order(&self) -> bool {
        !self.sb.incompat().contains(JournalIncompat::ASYNC_COMMIT)
    }

    /// Whether a block belongs to this transaction, and not to an earlier lap of the log.
    fn is_of(&self, header: &Header, sequence: u32) -> bool {
        header.sequence == sequence || plant::is(Defect::StaleRing)
    }

    /// The first sequence number that has no whole transaction, and the block at which that was seen.
    fn scan(&self, start: u64, first: u32) -> Result<(u32, u64)> {
        let (mut at, mut sequence) = (start, first);
        let mut sums = Sums::new(self);
        // A log cannot hold more blocks than it has: a hostile one that seems endless ends here.
        for _ in 0..u64::from(self.sb.maxlen()) {
            let block = self.read(at)?;
            let Some(header) = Header::parse(&block) else { break };
            if !self.is_of(&header, sequence) {
                reach::hit(At::StaleEnd);
                break;
            }
            match header.kind {
                BlockType::Descriptor => {
                    // A torn descriptor ends the log: its transaction was never committed.
                    let Ok(tags) = Descriptor::new(&block, self.format, self.place(at)) else { break };
                    let Ok(tags) = tags.collect::<std::result::Result<Vec<Tag>, FormatError>>() else { break };
                    sums.add(&block);
                    for tag in &tags {
                        at = self.wrap(at + 1);
                        sums.add_image(at, tag, sequence)?;
                    }
                    at = self.wrap(at + 1);
                }
                BlockType::Revoke => at = self.wrap(at + 1),
                BlockType::Commit => {
                    // Its first sector is there and is wrong: no crash does that, sectors are not torn.
                    let judged = Commit::parse(&block, &self.format, self.place(at));
                    match judged.and_then(|commit| sums.judge(&commit, self.place(at))) {
                        Err(_) if plant::is(Defect::UncheckedChecksum) => {}
                        Err(e) if self.commits_in_order() => return Err(self.corrupt(at, &e)),
                        Err(_) => break,
                        Ok(()) => {}
                    }
                    at = self.wrap(at + 1);
                    sequence = sequence.wrapping_add(1);
                    sums = Sums::new(self);
                }
                BlockType::SuperblockV1 | BlockType::SuperblockV2 => break,
            }
        }
        Ok((sequence, at))
    }

    /// A log ends where its blocks stop to make sense, and after a crash that is right: the commit block of transaction
    /// `end` was never written. If there is one, or one of a later transaction, `end` was whole and has been damaged.
    fn refuse_damage(&self, end: u32, at: u64, start: u64) -> Result<()> {
        if !self.format.has_csum() || !self.commits_in_order() {
            return Ok(());
        }
        let ring = self.sb.end().saturating_sub(self.sb.first());
        let mut here = at;
        for _ in 0..ring {
            if let Some(later) = self.commit_at(here)?.filter(|later| later.wrapping_sub(end) < ring) {
                let structure = format!("journal transaction {end}");
                let what = match later == end {
                    true => "its commit block is whole, and what precedes it is not".to_owned(),
                    false => format!("transaction {later} after it is whole"),
                };
                return Err(Corrupt { structure, block: self.map.physical(at)?, what }.into());
            }
            here = self.wrap(here + 1);
            if here == start {
                break;
            }
        }
        Ok(())
    }

    /// The sequence number of the commit block at `at`, if one lies there and is right.
    fn commit_at(&self, at: u64) -> Result<Option<u32>> {
        let mut head = [0; jbd2::HEADER];
        self.store.read(self.map.physical(at)? * self.map.block_size() as u64, &mut head)?;
        if !matches!(Header::parse(&head), Some(Header { kind: BlockType::Commit, .. })) {
            return Ok(None);
        }
        Ok(Commit::parse(&self.read(at)?, &self.format, self.place(at)).ok().map(|commit| commit.sequence))
    }

    /// Writes the images of whole transactions home: what that came to, and the first id without a whole transaction.
    fn bring_home(&self, volume_blocks: u64) -> Result<(Recovered, u32)> {
        let (first, start) = (self.sb.sequence(), u64::from(self.sb.start().unwrap_or(self.sb.first())));
        let (end, at) = self.scan(start, first)?;
        self.refuse_damage(end, at, start)?;
        match end.wrapping_sub(first) {
            0 => reach::hit(At::ReplayNone),
            1 => reach::hit(At::ReplayOne),
            _ => reach::hit(At::ReplaySeveral),
        }
        reach::hit_if(at < start, At::ReplayWrapped);
        let (images, revoked) = self.collect(start, first, end)?;
        let blocks = self.replay(&images, volume_blocks)?;
        if !plant::is(Defect::MissingFlushInRecovery) {
            self.store.flush()?;
        }
        Ok((Recovered { transactions: u64::from(end.wrapping_sub(first)), blocks, revoked }, end))
    }

    /// Makes the log begin at `start` (None: it is empty) with transaction `sequence`.
    fn begin_anew(&self, start: Option<u32>, sequence: u32) -> Result<()> {
        let mut sb = self.sb.clone();
        sb.set_start(start, sequence);
        self.store.write(self.map.physical(0)? * self.map.block_size() as u64, &sb.encode())?;
        Ok(self.store.flush()?)
    }

    /// The newest image of every block that is to be replayed, and how many images revokes held back.
    fn collect(&self, start: u64, first: u32, end: u32) -> Result<(BTreeMap<u64, Image>, u64)> {
        let mut images: Vec<(u64, Image)> = Vec::new();
        let mut revokes: HashMap<u64, u32> = HashMap::new();
        let (mut at, mut sequence) = (start, first);
        while sequence != end {
            let block = self.read(at)?;
            let here = at;
            let bad = |e: FormatError| self.corrupt(here, &e);
            match Header::parse(&block).map(|h| h.kind) {
                Some(BlockType::Descriptor) => {
                    for tag in Descriptor::new(&block, self.format, self.place(at)).map_err(bad)? {
                        at = self.wrap(at + 1);
                        let tag = tag.map_err(bad)?;
                        images.push((tag.block, Image { at, tag, sequence }));
                    }
                }
                Some(BlockType::Revoke) => {
                    for revoked in Revoke::new(&block, self.format, self.place(at)).map_err(bad)? {
                        revokes.insert(revoked, sequence);
                    }
                }
                Some(BlockType::Commit) => sequence = sequence.wrapping_add(1),
                _ => return Err(self.lost(at)),
            }
            at = self.wrap(at + 1);
        }
        let before = images.len();
        if plant::is(Defect::UnreadRevoke) {
            revokes.clear();
        }
        if plant::is(Defect::OldImageWins) {
            images.reverse();
        }
        let revoked_later =
            |block: u64, sequence: u32| revokes.get(&block).is_some_and(|&r| !jbd2::sequence_after(sequence, r));
        images.retain(|(block, image)| !revoked_later(*block, image.sequence));
        let held_back = (before - images.len()) as u64;
        let all = images.len();
        let newest: BTreeMap<u64, Image> = images.into_iter().collect();
        reach::hit_if(newest.len() < all, At::ReplayNewer);
        reach::hit_if(held_back > 0, At::RevokeHonoured);
        Ok((newest, held_back))
    }

    fn lost(&self, at: u64) -> JournalError {
        let what = "a block that was read before is not there any more".to_owned();
        Corrupt { structure: "journal".into(), block: self.map.physical(at).unwrap_or(at), what }.into()
    }

    fn replay(&self, images: &BTreeMap<u64, Image>, volume_blocks: u64) -> Result<u64> {
        // Everything is checked before the first home block is touched.
        for (&home, image) in images {
            self.image(home, image, volume_blocks)?;
        }
        for (&home, image) in images {
            let bytes = self.image(home, image, volume_blocks)?;
            self.store.write(home * self.map.block_size() as u64, &bytes)?;
        }
        Ok(images.len() as u64)
    }

    fn image(&self, home: u64, image: &Image, volume_blocks: u64) -> Result<Vec<u8>> {
        let block = self.map.physical(image.at)?;
        let bad = |what: String| Corrupt { structure: format!("journal image of block {home}"), block, what };
        if home >= volume_blocks || self.map.contains(home) {
            return Err(bad("the volume has no such block to be journaled".into()).into());
        }
        let mut bytes = self.read(image.at)?;
        if !plant::is(Defect::UncheckedChecksum)
            && !jbd2::tag_checksum_matches(&self.format, image.sequence, &image.tag, &bytes)
        {
            return Err(bad(format!("wrong checksum in transaction {}", image.sequence)).into());
        }
        if image.tag.escaped && !plant::is(Defect::UnescapedImage) {
            reach::hit(At::ReplayEscaped);
            jbd2::unescape(&mut bytes);
        }
        Ok(bytes)
    }
}
