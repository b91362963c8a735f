//! Where the journal of a volume lies: in its image, or on a disk of its own; and where the log in its NVM pool does.

use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_format::jbd2::{JournalSuperblock, SUPERBLOCK_SIZE};
use ondol_format::superblock::{JournalDevice, OFFSET, SIZE};
use ondol_medium::{AreaKind, PAGE, Pool};
use ondol_power::{Event, Kind, LINE, Layer, Medium, Pages};
use ondol_testkit::disks::{Exported, images, is_home_pool, is_pool, nvm, takes_batches};
use ondol_volume::Image;
use std::ops::Range;

/// ext4's superblock has one checksum over 1,024 bytes: it is as vulnerable as ext4 makes it.
pub(crate) const SUPERBLOCK: Range<u64> = 1024..2048;

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The medium that it lies on.
    pub medium: usize,
    /// Its blocks there, or in the image where that lies in a pool, with their numbers in the log, from the journal's
    /// superblock, which is 0, on.
    pub slots: Vec<(u64, u64)>,
    /// All of it but for its superblock, by bytes: scratch, once it has been replayed.
    pub pages: Pages,
    /// The image, where that lies in a pool.
    pub(crate) image: Option<Exported>,
    /// All of it, by bytes.
    ranges: Vec<Range<u64>>,
    /// All of it but for its superblock, by bytes.
    scratch: Vec<Range<u64>>,
    /// What it holds has checksums.
    pub(crate) is_checked: bool,
    /// The log that operations go to instead, where there is a pool.
    pub(crate) nvm: Option<NvmLog>,
    /// Where the image lies in a pool and has no log elsewhere: the bytes that say which page each block has.
    pub(crate) map: Option<Range<u64>>,
}

/// The log in a pool, as `docs/format.md` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NvmLog {
    /// The medium that the pool is.
    pub(crate) medium: usize,
    /// The bytes of its lines there.
    pub(crate) ring: Range<u64>,
}

/// Bytes before the first line: two copies of the header, a page each.
const BEFORE_RING: u64 = 2 * PAGE;

/// Which kind of record a commit is.
const COMMIT: u8 = 2;

/// The bytes of an area of the pool on this disk.
fn area(disk: &Layer, kind: AreaKind) -> Option<Range<u64>> {
    let area = Pool::open(nvm(disk).ok()?).ok()?.area(kind)?;
    Some(area.start..area.start + area.len)
}

impl NvmLog {
    fn of(disks: &[Layer]) -> Option<Self> {
        let medium = disks.iter().rposition(is_pool)?;
        let area = area(&disks[medium], AreaKind::JOURNAL_LOG)?;
        let lines = (area.end - area.start).saturating_sub(BEFORE_RING) / LINE as u64;
        let start = area.start + BEFORE_RING;
        Some(Self { medium, ring: start..start + lines * LINE as u64 })
    }

    /// The bytes of it that an event has stored.
    pub(crate) fn stored<'e>(&self, event: &'e Event) -> Option<(u64, &'e [u8])> {
        match event {
            Event::Store { medium, offset, bytes, .. } if *medium as usize == self.medium => {
                self.ring.contains(offset).then_some((*offset, &bytes[..]))
            }
            _ => None,
        }
    }

    /// Whether an event has stored the line of a commit: it says so, and that this is its place.
    pub(crate) fn is_commit(&self, event: &Event) -> bool {
        let Some((offset, line)) = self.stored(event).filter(|(_, bytes)| bytes.len() == LINE) else { return false };
        let position = line.get(8..16).and_then(|word| Some(u64::from_le_bytes(word.try_into().ok()?)));
        let lines = (self.ring.end - self.ring.start) / LINE as u64;
        let place = (offset - self.ring.start) / LINE as u64;
        line[4] == COMMIT && position.is_some_and(|position| position % lines == place)
    }

    /// What a byte of the pool is.
    pub(crate) fn name(&self, byte: u64) -> String {
        match self.ring.contains(&byte) {
            true => format!("line {} of the log in the NVM pool", (byte - self.ring.start) / LINE as u64),
            false => "outside of the log in the NVM pool".into(),
        }
    }
}

impl Log {
    /// The log of the volume on `disks`.
    ///
    /// # Errors
    /// The image is not ext4, or its journal cannot be found.
    pub fn of(disks: &[Layer]) -> Result<Self, String> {
        let nvm = NvmLog::of(disks);
        let exported = is_home_pool(disks).then(|| Exported::of(&disks[0])).transpose().map_err(|e| e.to_string())?;
        let images = match &exported {
            Some(exported) => vec![exported.image.clone()],
            None => images(disks).map_err(|e| e.to_string())?,
        };
        let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(images[0].clone()));
        let image = Image::open(store).map_err(|e| e.to_string())?;
        let block_size = u64::from(image.superblock().block_size());
        let (medium, slots): (usize, Vec<_>) = match images.get(1) {
            Some(device) => (1, slots_of(device)?),
            None => (
                0,
                image
                    .journal_map()
                    .map_err(|e| e.to_string())?
                    .into_iter()
                    .flat_map(|(start, len)| start..start + len)
                    .zip(0..)
                    .collect(),
            ),
        };
        let bytes = |&(block, _): &(u64, u64)| block * block_size..(block + 1) * block_size;
        let scratch = joined(slots.iter().skip(1).map(bytes));
        let ranges = joined(slots.iter().map(bytes));
        let mut superblock = [0; SUPERBLOCK_SIZE];
        let at = slots.first().map_or(0, |(block, _)| block * block_size);
        images[medium].read(at as usize, &mut superblock);
        let superblock = JournalSuperblock::parse(&superblock, block_size as u32, slots.len() as u64);
        let is_checked = superblock.is_ok_and(|superblock| superblock.format().has_csum());
        let pages = Pages::inside(scratch.clone());
        let is_beside = nvm.as_ref().is_none_or(|nvm| nvm.medium == 0);
        let map = exported.as_ref().filter(|_| is_beside).and_then(|_| area(&disks[0], AreaKind::PAGE_MAP));
        Ok(Self { medium, slots, pages, image: exported, ranges, scratch, is_checked, nvm, map })
    }

    /// The medium that what operations log lies on.
    pub(crate) fn logs_on(&self) -> usize {
        self.nvm.as_ref().map_or(self.medium, |nvm| nvm.medium)
    }

    /// Whether this byte of its medium lies in it, behind its superblock.
    pub(crate) fn holds(&self, byte: u64) -> bool {
        self.image.is_none() && self.scratch.iter().any(|range| range.contains(&byte))
    }

    /// Whether any of these bytes of a medium lies in it.
    pub(crate) fn meets(&self, medium: usize, bytes: &Range<u64>) -> bool {
        medium == self.medium && self.ranges.iter().any(|range| bytes.start < range.end && bytes.end > range.start)
    }
}

/// The whole device, its journal's superblock first.
fn slots_of(device: &Layer) -> Result<Vec<(u64, u64)>, String> {
    let mut bytes = [0; SIZE];
    device.read(OFFSET as usize, &mut bytes);
    let JournalDevice { journal_block, blocks, .. } =
        JournalDevice::parse(&bytes, device.len() as u64).map_err(|e| e.to_string())?;
    Ok([(journal_block, 0)].into_iter().chain((journal_block + 1..blocks).map(|n| (n, n))).collect())
}

/// Neighbours as one.
fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    ranges.fold(Vec::new(), |mut all: Vec<Range<u64>>, next| {
        match all.last_mut().filter(|last| last.end == next.start) {
            Some(last) => last.end = next.end,
            None => all.push(next),
        }
        all
    })
}

/// By the persistence domain that a pool was made with.
fn kind_of_pool(base: &Layer) -> Kind {
    let pool = nvm(base).ok().and_then(|nvm| Pool::open(nvm).ok());
    pool.map_or(Kind::Nvm, |pool| pool.nvm().domain().crashes_as())
}

/// The disks as media that power can be cut of.
pub(crate) fn media(disks: Vec<Layer>) -> Vec<Medium> {
    let medium = |(n, base): (usize, Layer)| {
        let kind = match () {
            () if is_pool(&base) => kind_of_pool(&base),
            () if takes_batches(&base) => Kind::Batches,
            () => Kind::Block,
        };
        Medium { base, kind, whole: (n == 0).then_some(SUPERBLOCK) }
    };
    disks.into_iter().enumerate().map(medium).collect()
}
