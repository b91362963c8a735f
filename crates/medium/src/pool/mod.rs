//! Pools: NVM with an identity, typed areas, and an epoch that joins it to an image.

mod error;
mod format;
mod recover;

use crate::{Domain, HeaderFault, Nvm, NvmError, PAGE};
use error::Result;
use ondol_env::sync::Arc;
use std::ops::Range;

pub use error::PoolError;
pub use format::{Area, AreaKind, Header, POOL_VERSION};
pub use recover::{PoolReport, inspect};

/// Where the two copies of the header lie, one page each. Areas begin behind them.
pub const HEADERS: [u64; 2] = [0, PAGE];

/// First byte that an area may have.
pub const AREAS_START: u64 = 2 * PAGE;

/// How much of a medium must be zeros for it to count as empty: signatures of other formats lie in there.
const EMPTY: u64 = 128 << 10;

/// A pool to be made.
#[derive(Clone, Debug, Default)]
pub struct PoolSpec {
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Bytes, rounded down to pages; 0 for the whole medium.
    pub size: u64,
    /// The persistence domain to use it with when it is opened; [`Domain::Auto`] to find it out each time.
    pub domain: Domain,
    /// Areas in their order: what each is for, and its bytes, rounded up to pages. The first page of each will be
    /// zeros, the rest is what the medium held.
    pub areas: Vec<(AreaKind, u64)>,
    /// Make it even where the medium holds something.
    pub force: bool,
}

/// An open pool.
#[derive(Debug)]
pub struct Pool {
    nvm: Arc<Nvm>,
    header: Header,
    mended: Option<HeaderFault>,
}

impl Pool {
    /// Makes a pool. After a crash on the way the medium holds what it held (the two headers at least), or is refused
    /// as no pool or a damaged one, or is the new pool.
    ///
    /// # Errors
    /// `Holds` when the medium is not empty, `Size` and `Areas` when the areas do not fit, or the medium's failure.
    pub fn create(nvm: Nvm, spec: &PoolSpec) -> Result<Self> {
        let header = plan(&nvm, spec)?;
        if !spec.force && !is_empty(&nvm)? {
            return Err(PoolError::Holds { name: nvm.name().into() });
        }
        let pool = Self::of(nvm, header);
        pool.forget_headers()?;
        pool.clear_heads(&pool.header.areas)?;
        HEADERS.iter().try_for_each(|copy| pool.write_header(*copy, &pool.header))?;
        Ok(pool)
    }

    /// Opens a pool. A copy of the header that is bad, or older after a crash, is written anew from the other, where
    /// the pool may be stored to.
    ///
    /// # Errors
    /// `NotAPool`, `Newer`, `Damaged`, `Truncated`, or the medium's failure.
    pub fn open(nvm: Nvm) -> Result<Self> {
        let report = inspect(&nvm)?;
        let header = report.header(nvm.name(), nvm.size())?.clone();
        let nvm = if nvm.domain_is_chosen { nvm } else { nvm.with_domain(header.domain)? };
        let mut pool = Self::of(nvm, header);
        for (offset, copy) in HEADERS.into_iter().zip(report.copies) {
            if copy.as_ref() != Ok(&pool.header) && !pool.nvm.is_read_only() {
                pool.write_header(offset, &pool.header)?;
                pool.mended = copy.err();
            }
        }
        Ok(pool)
    }

    fn of(mut nvm: Nvm, header: Header) -> Self {
        nvm.make_pinnable(pinnable(&header.areas));
        Self { nvm: Arc::new(nvm), header, mended: None }
    }

    /// The memory.
    pub fn nvm(&self) -> &Arc<Nvm> {
        &self.nvm
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What was wrong with the copy of the header that was written anew when the pool was opened.
    pub fn mended(&self) -> Option<&HeaderFault> {
        self.mended.as_ref()
    }

    /// The first area of a kind.
    pub fn area(&self, kind: AreaKind) -> Option<Area> {
        self.header.areas.iter().find(|a| a.kind == kind).copied()
    }

    /// Attaches the pool to the volume with this UUID, or attaches it again, and raises the attach epoch; it is durable
    /// then. The volume records the epoch afterwards.
    ///
    /// # Errors
    /// `Attached` to another volume, or the medium's failure.
    pub fn attach(&mut self, volume: [u8; 16]) -> Result<u64> {
        match self.header.volume {
            Some(other) if other != volume => {
                return Err(PoolError::Attached { name: self.nvm.name().into(), volume: other });
            }
            _ => {}
        }
        let epoch = self.header.epoch + 1;
        self.change(|header| (header.volume, header.epoch) = (Some(volume), epoch))?;
        Ok(epoch)
    }

    /// Detaches the pool from its volume, durably. The epoch stays: it never repeats.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn detach(&mut self) -> Result<()> {
        self.change(|header| header.volume = None)
    }

    /// Gives `len` bytes (rounded up to pages) of what no area has to a new one. It is durable, and its first page is
    /// zeros.
    ///
    /// # Errors
    /// `Size` or `Areas` when there is no room, or the medium's failure.
    pub fn allot(&mut self, kind: AreaKind, len: u64) -> Result<Area> {
        let new = self.allot_all(&[(kind, len)])?;
        new.first().copied().ok_or_else(|| PoolError::Size { name: self.nvm.name().into(), size: self.header.size })
    }

    /// As [`Pool::allot`], of several areas at once: after a crash there are all of them or none. In the order of their
    /// places.
    ///
    /// # Errors
    /// As [`Pool::allot`].
    pub fn allot_all(&mut self, kinds: &[(AreaKind, u64)]) -> Result<Vec<Area>> {
        let areas = place(self.nvm.name(), self.header.size, &self.header.areas, kinds)?;
        let new: Vec<Area> = areas.iter().filter(|a| !self.header.areas.contains(a)).copied().collect();
        self.clear_heads(&new)?;
        self.change(|header| header.areas = areas)?;
        // Who else has the memory may be storing to it: it is asked again when the pool is opened the next time.
        if let Some(nvm) = Arc::get_mut(&mut self.nvm).filter(|_| pinnable(&new).is_some()) {
            nvm.make_pinnable(pinnable(&self.header.areas));
        }
        Ok(new)
    }

    /// Writes a changed header: one copy, durably, then the other. One of them is whole at any moment.
    fn change(&mut self, change: impl FnOnce(&mut Header)) -> Result<()> {
        let mut header = self.header.clone();
        header.generation += 1;
        change(&mut header);
        header.check().map_err(|what| PoolError::Spent { name: self.nvm.name().into(), what })?;
        for copy in HEADERS {
            self.write_header(copy, &header)?;
        }
        self.header = header;
        Ok(())
    }

    fn write_header(&self, offset: u64, header: &Header) -> Result<()> {
        let mut batch = self.nvm.stored();
        batch.copy(offset, &header.encode())?;
        let written = batch.write_back();
        written.fence()?;
        Ok(())
    }

    /// An older pool must not be found again once its areas are being changed.
    fn forget_headers(&self) -> Result<()> {
        let mut batch = self.nvm.stored();
        HEADERS.iter().try_for_each(|copy| batch.zero(*copy, PAGE))?;
        batch.write_back().fence()?;
        Ok(())
    }

    /// What an area held before must not be taken for its contents.
    fn clear_heads(&self, areas: &[Area]) -> Result<()> {
        let mut batch = self.nvm.stored();
        areas.iter().try_for_each(|area| batch.zero(area.start, PAGE))?;
        batch.write_back().fence()?;
        Ok(())
    }
}

impl Header {
    /// What belongs to no area: ranges of bytes, whole pages, some of them empty.
    pub fn free(&self) -> impl Iterator<Item = Range<u64>> {
        gaps(self.size / PAGE * PAGE, &self.areas)
    }
}

/// What readers may pin: pages that are copied on write.
fn pinnable(areas: &[Area]) -> Option<Range<u64>> {
    areas.iter().find(|area| area.kind == AreaKind::PAGE_DATA).map(|area| area.start..area.start + area.len)
}

fn plan(nvm: &Nvm, spec: &PoolSpec) -> Result<Header> {
    let name = nvm.name();
    let size = if spec.size == 0 { nvm.size() } else { spec.size / PAGE * PAGE };
    if size > nvm.size() || size <= AREAS_START {
        return Err(PoolError::Size { name: name.into(), size });
    }
    let areas = place(name, size, &[], &spec.areas)?;
    let (uuid, domain) = (spec.uuid, spec.domain);
    Ok(Header { uuid, size, generation: 1, epoch: 0, volume: None, domain, areas })
}

/// The areas with new ones in the first gaps that hold them, in the order of their place.
fn place(name: &str, size: u64, old: &[Area], new: &[(AreaKind, u64)]) -> Result<Vec<Area>> {
    let mut areas = old.to_vec();
    for (kind, len) in new {
        let no_room = || PoolError::Areas { name: name.into(), kind: *kind, len: *len };
        let len = len.max(&1).checked_next_multiple_of(PAGE).ok_or_else(no_room)?;
        let start = gaps(size, &areas).find(|gap| gap.end - gap.start >= len).ok_or_else(no_room)?.start;
        if areas.len() == format::MAX_AREAS {
            return Err(no_room());
        }
        areas.push(Area { kind: *kind, start, len });
        areas.sort_unstable_by_key(|a| a.start);
    }
    Ok(areas)
}

fn gaps(size: u64, areas: &[Area]) -> impl Iterator<Item = Range<u64>> {
    let starts = areas.iter().map(|a| a.start).chain([size]);
    let ends = [AREAS_START].into_iter().chain(areas.iter().map(|a| a.start + a.len));
    ends.zip(starts).map(|(end, start)| end..start.max(end))
}

/// Lost lines hold nothing.
fn is_empty(nvm: &Nvm) -> Result<bool> {
    let mut page = [0; PAGE as usize];
    for offset in (0..nvm.size().min(EMPTY)).step_by(page.len()) {
        match nvm.read(offset, &mut page) {
            Ok(()) if page.iter().any(|b| *b != 0) => return Ok(false),
            Ok(()) | Err(NvmError::Poisoned { .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}
