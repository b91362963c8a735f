//! A judge of the log itself: whether what is written and what is durable keeps the rules of a log, whatever a recovery
//! would make of it.
//!
//! It follows the events of a run, reads each durable log by itself, with the format's parsers or less, and knows
//! nothing of the engine that wrote it: [`block`] of media that are written and flushed, [`nvm`] of the log in a pool,
//! [`table`] of the page table under an image. It finds what breaks an order in each run, and not only where that
//! leaves wrong bytes in a state that is built. It cannot see what data a transaction lacks, nor what records in NVM
//! mean.

mod block;
mod nvm;
mod read;
mod table;

use crate::log::Log;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_format::Superblock;
use ondol_format::group::GroupDesc;
use ondol_format::superblock::{OFFSET, SIZE};
use ondol_power::{Event, Kind, Layer, Medium};

/// Judges the log of a volume at each event of a run; `is_alone`: one thread did all of it. Says nothing where its
/// rules do not apply.
///
/// # Errors
/// The rule that is broken, and by what.
pub(crate) fn judge(log: &Log, media: &[Medium], events: &[Event], is_alone: bool) -> Result<(), String> {
    LOOKED[0].fetch_add(1, Relaxed);
    LOOKED[1].fetch_add(events.len() as u64, Relaxed);
    if log.image.is_some() {
        table::judge(media, log.nvm.is_some(), events)?;
    }
    if let Some(log) = &log.nvm {
        return nvm::judge(log, media, events);
    }
    let applies = log.image.is_none() && media.iter().all(|medium| medium.kind == Kind::Block);
    if applies { block::judge(log, media, events, is_alone) } else { Ok(()) }
}

/// Runs that were judged in this process, and their events.
static LOOKED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// How many runs were judged in this process, and how many events they had.
pub(crate) fn looked() -> [u64; 2] {
    LOOKED.each_ref().map(|count| count.load(Relaxed))
}

fn at(event: usize, what: &str) -> String {
    format!("the rules of the log, at event {event}: {what}")
}

/// The volume that the log is for.
struct Volume {
    sb: Superblock,
    descs: Vec<GroupDesc>,
}

impl Volume {
    fn of(image: &Layer) -> Option<Self> {
        let mut bytes = [0; SIZE];
        image.read(OFFSET as usize, &mut bytes);
        let sb = Superblock::parse(&bytes, image.len() as u64).ok()?;
        let descs = (0..sb.groups()).map(|g| {
            let (block, offset) = sb.gdt().location(g);
            let mut desc = vec![0; sb.gdt().desc_size().into()];
            image.read(block as usize * sb.block_size() as usize + offset, &mut desc);
            GroupDesc::parse(&desc).ok()
        });
        Some(Self { descs: descs.collect::<Option<_>>()?, sb })
    }

    /// What a block is that only transactions change.
    fn table(&self, block: u64) -> Option<&'static str> {
        if block == self.sb.superblock_location().0 {
            return None;
        }
        let tables = |desc: &GroupDesc| {
            let inodes = desc.inode_table..desc.inode_table + u64::from(self.sb.inode_table_blocks());
            match () {
                () if desc.block_bitmap == block => Some("a bitmap of blocks"),
                () if desc.inode_bitmap == block => Some("a bitmap of inodes"),
                () if inodes.contains(&block) => Some("a table of inodes"),
                () => None,
            }
        };
        let descriptors = (0..self.sb.gdt().blocks()).any(|index| self.sb.gdt().block(index) == block);
        self.descs.iter().find_map(tables).or(descriptors.then_some("a table of descriptors"))
    }
}
