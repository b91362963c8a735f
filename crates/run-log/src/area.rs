//! The two areas of a pool: making them, the header, and resetting them.

use crate::error::{Result, RunLogError};
use crate::format::{HEADER, Header, LANES_AT, SLOT, slot_at};
use ondol_medium::{AreaKind, HeaderFault, Nvm, NvmError, PAGE, Pool};

/// Where the two areas lie in a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) files: u64,
    pub(crate) files_len: u64,
    pub(crate) log: u64,
    pub(crate) log_len: u64,
}

const COPIES: [u64; 2] = [0, PAGE];

/// Slots of a pool that is large enough for them.
const SLOTS: u64 = 4096;
/// Lanes of a pool that is large enough for them, and bytes that a lane has at least.
const LANES: u64 = 32;
const LANE: u64 = 256 << 10;

impl Places {
    /// The areas of a pool with this header.
    pub(crate) fn of(pool: &str, areas: &[ondol_medium::Area]) -> Result<Self> {
        let area = |kind| {
            let found = areas.iter().find(|area| area.kind == kind);
            found.copied().ok_or_else(|| RunLogError::NoArea { pool: pool.into() })
        };
        let (files, log) = (area(AreaKind::RUN_FILES)?, area(AreaKind::RUN_LOG)?);
        Ok(Self { files: files.start, files_len: files.len, log: log.start, log_len: log.len })
    }

    /// The areas of a pool, made of its largest free range if there are none.
    pub(crate) fn make(pool: &mut Pool) -> Result<Self> {
        let name = pool.nvm().name().to_owned();
        if pool.area(AreaKind::RUN_FILES).is_none() {
            let free = pool.header().free().map(|gap| gap.end - gap.start).max().unwrap_or(0);
            // An eighth for the tables, at most what the usual number of slots takes.
            let tables = (free / 8).min(slot_at(LANES as u32, SLOTS as u32)).next_multiple_of(PAGE);
            let least = slot_at(1, 4) + LANE;
            if tables < slot_at(1, 4) || free < tables + LANE {
                return Err(RunLogError::Small { pool: name, free, least: least.max(slot_at(1, 4) * 8) });
            }
            pool.allot(AreaKind::RUN_FILES, tables)?;
        }
        if pool.area(AreaKind::RUN_LOG).is_none() {
            let free = pool.header().free().map(|gap| gap.end - gap.start).max().unwrap_or(0);
            if free < LANE {
                return Err(RunLogError::Small { pool: name, free, least: LANE });
            }
            pool.allot(AreaKind::RUN_LOG, free)?;
        }
        Self::of(&name, &pool.header().areas)
    }

    /// How many lanes and slots there is room for, and bytes of a lane.
    pub(crate) fn plan(&self) -> (u32, u32, u64) {
        let lanes = (self.log_len / LANE).clamp(1, LANES);
        let lane_len = self.log_len / lanes / PAGE * PAGE;
        let slots = (self.files_len - slot_at(lanes as u32, 0)) / SLOT;
        (lanes as u32, slots.min(SLOTS) as u32, lane_len)
    }

    /// The header that counts; none if nothing was ever made here.
    pub(crate) fn read(&self, nvm: &Nvm) -> Result<Option<Header>> {
        let mut copies = Vec::new();
        for copy in COPIES {
            let mut bytes = [0; HEADER];
            let read = match nvm.read(self.files + copy, &mut bytes) {
                Ok(()) => Header::decode(&bytes, self.files_len, self.log_len),
                Err(NvmError::Poisoned { offset, .. }) => Err(HeaderFault::Lost(offset)),
                Err(e) => return Err(e.into()),
            };
            copies.push((read, bytes == [0; HEADER]));
        }
        if copies.first().is_some_and(|(_, empty)| *empty) {
            // Making begins with the second copy.
            return Ok(None);
        }
        let newest = copies.iter().filter_map(|(copy, _)| copy.as_ref().ok()).max_by_key(|h| (h.epoch, !h.resetting));
        match (newest, copies.first()) {
            (Some(header), _) => Ok(Some(header.clone())),
            (None, Some((Err(what), _))) => Err(RunLogError::Header { pool: nvm.name().into(), what: what.clone() }),
            (None, _) => Ok(None),
        }
    }

    /// Makes everything empty, as the epoch that `header` says. After a crash on the way all is as it was, or this is
    /// to be done again.
    pub(crate) fn reset(&self, nvm: &Nvm, header: &Header) -> Result<()> {
        self.write(nvm, &Header { resetting: true, ..header.clone() })?;
        let mut batch = nvm.stored();
        batch.zero(self.files + HEADER as u64, PAGE - HEADER as u64)?;
        batch.zero(self.files + LANES_AT, self.files_len - LANES_AT)?;
        batch.write_back().fence()?;
        nvm.shared().store_u64(self.files + crate::format::shared::SEQUENCE, 1)?;
        nvm.shared().store_u64(self.files + crate::format::shared::TOKEN, 1)?;
        self.write(nvm, header)
    }

    /// One copy, durably, then the other; the first of all begins with the second.
    fn write(&self, nvm: &Nvm, header: &Header) -> Result<()> {
        let [first, second] = COPIES;
        let order = if header.epoch == 1 && header.resetting { [second, first] } else { [first, second] };
        for copy in order {
            let mut batch = nvm.stored();
            batch.store(self.files + copy, &header.encode())?;
            batch.write_back().fence()?;
        }
        Ok(())
    }
}
