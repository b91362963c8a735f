//! Writing transactions as jbd2 does: revoke blocks, descriptor blocks with their images, commit block.

use crate::Block;
use crate::Result;
use crate::area::{Area, LogMap};
use crate::block_engine::{AboutLog, LogFormat, Logged, Sealed};
use crate::device::Passing;
use crate::names::Tid;
use crate::running::NewData;
use ondol_block::{BlockStore, DeviceClass};
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::Time;
use ondol_format::jbd2::{self, Commit, DescriptorWriter, JournalSuperblock, OldChecksum, RevokeWriter, Tag};

/// What a crash does not tear.
const SECTOR: usize = 512;

/// A jbd2 log on a block store.
pub(crate) struct Jbd2Log {
    env: Arc<dyn Env>,
    area: Area,
    format: jbd2::LogFormat,
    uuid: [u8; 16],
    /// New data goes home with its commit (data modes `ordered` and `writeback`), unless it passes.
    keeps: Option<Passing>,
}

/// One block to be written: a shared image, or bytes made for the log.
enum Part<'a> {
    Image(&'a Block),
    Own(Vec<u8>),
}

impl Part<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Part::Image(image) => image,
            Part::Own(bytes) => bytes,
        }
    }
}

impl Jbd2Log {
    pub(crate) fn new(store: Arc<dyn BlockStore>, map: LogMap, sb: JournalSuperblock, env: Arc<dyn Env>) -> Self {
        let (format, uuid) = (sb.format(), *sb.uuid());
        Self { env, format, uuid, area: Area::new(store, map, sb, u64::MAX), keeps: None }
    }

    /// The same, and new data goes home with its commit.
    pub(crate) fn keeping(self, device: DeviceClass) -> Self {
        Self { keeps: Some(Passing::new(device)), ..self }
    }

    fn write_parts(&self, at: u64, parts: &[Part<'_>]) -> Result<()> {
        let parts: Vec<&[u8]> = parts.iter().map(Part::bytes).collect();
        self.area.write(at, &parts)
    }

    /// Writes everything of the transaction that must be durable before the commit block, from position `at` of the
    /// ring on. Returns the blocks written.
    pub(super) fn append(&self, at: u64, tx: &Sealed) -> Result<u64> {
        let mut parts = self.revokes(tx);
        for images in tx.images.chunks(self.tags_per_block()) {
            parts.extend(self.described(tx.tid, images));
        }
        let written = parts.len() as u64;
        // The place of the commit block: with zeros there, its first sector is all that is left to write, which cannot
        // be torn. A commit block that is half there would have a wrong checksum, for which jbd2 gives up a journal.
        parts.push(Part::Own(vec![0; self.area.block_size()]));
        self.write_parts(at, &parts)?;
        Ok(written)
    }

    fn commit_block(&self, tid: Tid) -> Vec<u8> {
        let now = self.env.now();
        let mut bytes = vec![0; self.area.block_size()];
        let time = Time { sec: now.sec, nsec: now.nsec };
        Commit { sequence: tid.low(), time, old_checksum: OldChecksum::None }.write(&mut bytes, &self.format);
        bytes
    }

    fn revokes(&self, tx: &Sealed) -> Vec<Part<'static>> {
        let make = |blocks: &[u64]| {
            let mut bytes = vec![0; self.area.block_size()];
            let mut writer = RevokeWriter::new(&mut bytes, self.format, tx.tid.low());
            for &block in blocks {
                writer.push(block);
            }
            writer.finish();
            Part::Own(bytes)
        };
        tx.revoked.chunks(jbd2::revoke_capacity(&self.format)).map(make).collect()
    }

    /// A descriptor block and the images it describes.
    fn described<'a>(&self, tid: Tid, images: &'a [(u64, Block)]) -> Vec<Part<'a>> {
        let mut descriptor = vec![0; self.area.block_size()];
        let mut writer = DescriptorWriter::new(&mut descriptor, self.format, tid.low(), &self.uuid);
        let mut parts = Vec::with_capacity(images.len() + 1);
        for (block, image) in images {
            let escaped = jbd2::is_escape_needed(image);
            let part = if escaped {
                let mut copy = image.to_vec();
                jbd2::escape(&mut copy);
                Part::Own(copy)
            } else {
                Part::Image(image)
            };
            let checksum = jbd2::tag_checksum(&self.format, tid.low(), part.bytes());
            writer.push(&Tag { block: *block, escaped, checksum });
            parts.push(part);
        }
        writer.finish();
        parts.insert(0, Part::Own(descriptor));
        parts
    }

    /// Where the images of a transaction that begins at position `at` lie, and whether as they are.
    pub(crate) fn places(&self, at: u64, tx: &Sealed) -> Vec<Option<u64>> {
        let (tags, ring) = (self.tags_per_block() as u64, self.area.ring_blocks());
        let first = at + self.revoke_blocks(tx.revoked.len() as u64);
        // A descriptor block precedes as many images as it has tags.
        let place = |n: u64| (first + n + n / tags + 1) % ring;
        let as_it_is = |image: &Block| !jbd2::is_escape_needed(image);
        (0..).zip(&tx.images).map(|(n, (_, image))| as_it_is(image).then(|| place(n))).collect()
    }

    fn revoke_blocks(&self, revokes: u64) -> u64 {
        revokes.div_ceil(jbd2::revoke_capacity(&self.format).max(1) as u64)
    }

    fn tags_per_block(&self) -> usize {
        DescriptorWriter::capacity(&self.format).max(1)
    }
}

impl LogFormat for Jbd2Log {
    fn about(&self) -> AboutLog {
        let new_data = if self.keeps.is_some() { NewData::Kept } else { NewData::Logged };
        AboutLog { name: "classic", images_per_block: 1, new_data }
    }

    fn area(&self) -> &Area {
        &self.area
    }

    fn cost(&self, images: u64, revokes: u64) -> u64 {
        images + images.div_ceil(self.tags_per_block() as u64) + self.revoke_blocks(revokes) + 1
    }

    fn log(&self, at: u64, tx: &Sealed) -> Result<Logged> {
        let blocks = self.append(at, tx)?;
        let mut record = self.commit_block(tx.tid);
        record.truncate(SECTOR);
        Ok(Logged { blocks, record: Some(record) })
    }

    fn passes(&self, _bytes: usize) -> bool {
        self.keeps.as_ref().is_some_and(Passing::passes_freely)
    }

    fn set_tail(&self, tid: Tid, at: Option<u64>) -> Result<()> {
        self.area.edit_superblock(|sb| sb.set_start(at.map(|at| self.area.file_block(at)), tid.low()))
    }
}
