//! The first pass: which transactions of a log are whole, and whether what follows them is its end or damage.

use super::recover::Log;
use crate::{Corrupt, JournalError, Result};
use ondol_format::jbd2::{
    self, BlockType, Commit, Descriptor, HEADER, Header, JournalIncompat, OldChecksum, Tag, sequence_after,
};
use ondol_format::{FormatError, Place, Time, csum};

/// The whole transactions of a log.
pub(super) struct Whole {
    /// Number of the first, and of the first that is not whole.
    pub(super) first: u32,
    pub(super) end: u32,
    /// Position of the first, and where that was seen of the other.
    pub(super) start: u64,
    pub(super) at: u64,
    /// Blocks in between.
    pub(super) blocks: u64,
    /// Their images.
    pub(super) images: usize,
    /// When the newest was committed.
    newest: Option<Time>,
}

/// What can be known of a transaction's images when its commit block is read. Needed where nothing else shows that they
/// arrived: images have no checksums of their own, or the commit block may be older than they are.
struct Sums<'l> {
    log: &'l Log<'l>,
    whole: u32,
    torn: bool,
    images: usize,
}

impl<'l> Sums<'l> {
    fn new(log: &'l Log<'l>) -> Self {
        Self { log, whole: !0, torn: false, images: 0 }
    }

    fn add(&mut self, block: &[u8]) {
        if self.log.format.has_old_csum {
            self.whole = csum::crc32_be(self.whole, block);
        }
    }

    fn add_image(&mut self, at: u64, tag: &Tag, sequence: u32) -> Result<()> {
        self.images += 1;
        let each = self.log.format.has_csum() && !self.log.commits_in_order();
        if each || self.log.format.has_old_csum {
            let image = self.log.read(at)?;
            self.add(&image);
            self.torn |= each && !jbd2::tag_checksum_matches(&self.log.format, sequence, tag, &image);
        }
        Ok(())
    }

    fn judge(&self, commit: &Commit, place: Place) -> std::result::Result<Time, FormatError> {
        let bad = |what: String| Err(place.corrupt("journal transaction", what));
        match commit.old_checksum {
            _ if self.torn => bad("an image has another checksum than its tag".into()),
            OldChecksum::None => Ok(commit.time),
            OldChecksum::Crc32(sum) if sum == self.whole => Ok(commit.time),
            OldChecksum::Crc32(sum) => bad(format!("checksum {sum:#010x}, computed {:#010x}", self.whole)),
            OldChecksum::Unknown => bad("its checksum is of no kind that exists".into()),
        }
    }
}

impl Log<'_> {
    /// The commit block is written when everything before it is durable.
    fn commits_in_order(&self) -> bool {
        !self.sb.incompat().contains(JournalIncompat::ASYNC_COMMIT)
    }

    /// Whether a block belongs to this transaction, and not to an earlier lap of the log.
    fn is_of(&self, header: &Header, sequence: u32) -> bool {
        header.sequence == sequence
    }

    /// The whole transactions from position `start` on, the first of which is number `first`, but not more than `most`.
    pub(super) fn scan(&self, start: u64, first: u32, most: u64) -> Result<Whole> {
        let mut found = Whole { first, end: first, start, at: start, blocks: 0, images: 0, newest: None };
        let mut sums = Sums::new(self);
        // A log cannot hold more blocks than it has: a hostile one that seems endless ends here.
        while found.blocks < self.ring.blocks() && u64::from(found.end.wrapping_sub(first)) < most {
            let (at, sequence) = (found.at, found.end);
            let block = self.read(at)?;
            let Some(header) = Header::parse(&block) else { break };
            if !self.is_of(&header, sequence) {
                break;
            }
            let mut passed = 1;
            match header.kind {
                BlockType::Descriptor => {
                    // A torn descriptor ends the log: its transaction was never committed.
                    let Ok(tags) = Descriptor::new(&block, self.format, self.place(at)) else { break };
                    let Ok(tags) = tags.collect::<std::result::Result<Vec<Tag>, FormatError>>() else { break };
                    sums.add(&block);
                    for tag in &tags {
                        sums.add_image(self.ring.after(at, passed), tag, sequence)?;
                        passed += 1;
                    }
                }
                BlockType::Revoke => {}
                BlockType::Commit => {
                    // Its first sector is there and is wrong: no crash does that, sectors are not torn.
                    let judged = Commit::parse(&block, &self.format, self.place(at));
                    match judged.and_then(|commit| sums.judge(&commit, self.place(at))) {
                        Err(e) if self.commits_in_order() => return Err(self.corrupt(at, &e)),
                        Err(_) => break,
                        Ok(time) => found.newest = Some(time),
                    }
                    found.end = sequence.wrapping_add(1);
                    found.images += sums.images;
                    sums = Sums::new(self);
                }
                BlockType::SuperblockV1 | BlockType::SuperblockV2 => break,
            }
            found.at = self.ring.after(at, passed);
            found.blocks += passed;
        }
        Ok(found)
    }

    /// A log ends where its blocks stop to make sense, and after a crash that is right: the commit block of the next
    /// transaction was never written. If there is one, or one of a later transaction, the next was whole and has been
    /// damaged.
    ///
    /// But for a journal that was made over another with the same UUID, and was not zeroed: that one's commit blocks
    /// are right, too. One that is older than this log is of it. It shows by its time, before that of the newest whole
    /// transaction, or of the volume where none is whole; by the blocks before it, which are fewer than the
    /// transactions that it would follow; or by one before it whose number this log has given to another.
    ///
    /// Three cases cannot be decided. If the older journal's clock was ahead, the log may be refused after an ordinary
    /// crash; e2fsck replays it. If the clock was set back while the log was written, and the first transaction after
    /// that is damaged, the log ends there, as for the kernel and e2fsck. If the older journal's next transaction lies
    /// exactly where the log ends, with the next number, it is replayed, as by them: so journals begin with a random
    /// number here.
    pub(super) fn refuse_damage(&self, whole: &Whole, made: i64) -> Result<()> {
        if !self.format.has_csum() || !self.commits_in_order() {
            return Ok(());
        }
        let newest = whole.newest.unwrap_or(Time { sec: made, nsec: 0 });
        let left = self.ring.blocks().saturating_sub(whole.blocks);
        let transactions = whole.end.wrapping_sub(whole.first);
        let damage = self.ring.search(self.store, whole.at, left, |before, block| {
            let Some(commit) = self.commit_in(block) else { return Ok(None) };
            if commit.sequence.wrapping_sub(whole.first) < transactions {
                return Ok(Some(None));
            }
            let follows = u64::from(commit.sequence.wrapping_sub(whole.end)) <= before && commit.time >= newest;
            Ok(follows.then_some(Some(commit.sequence)))
        })?;
        let Some(later) = damage.flatten() else { return Ok(()) };
        let structure = format!("journal transaction {}", whole.end);
        let what = match sequence_after(later, whole.end) {
            false => "its commit block is whole, and what precedes it is not".to_owned(),
            true => format!("transaction {later} after it is whole"),
        };
        Err(Corrupt { structure, block: self.ring.named(whole.at), what }.into())
    }

    /// The number of the newest transaction behind the whole ones that has its commit block, or that of the first
    /// behind them.
    pub(super) fn newest(&self, whole: &Whole) -> Result<u32> {
        let mut behind = 0;
        self.ring.search(self.store, whole.at, self.ring.blocks(), |_, block| {
            let number = self.commit_in(block).map_or(0, |commit| commit.sequence.wrapping_sub(whole.end));
            if u64::from(number) <= self.ring.blocks() {
                behind = behind.max(number);
            }
            Ok(None::<()>)
        })?;
        Ok(whole.end.wrapping_add(behind))
    }

    /// The commit block that `block` is, if it is one and is right.
    fn commit_in(&self, block: &[u8]) -> Option<Commit> {
        let head = Header::parse(block.get(..HEADER)?)?;
        (head.kind == BlockType::Commit).then(|| Commit::parse(block, &self.format, Place::NONE).ok())?
    }

    /// Errors name blocks of the medium.
    pub(super) fn place(&self, at: u64) -> Place {
        Place { block: Some(self.ring.named(at)), ..Place::NONE }
    }

    pub(super) fn corrupt(&self, at: u64, e: &FormatError) -> JournalError {
        super::corrupt(self.ring.named(at), e)
    }
}
