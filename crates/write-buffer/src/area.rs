//! The buffer's areas in a pool: where everything lies, the header with its two copies, and the reset.

use crate::format::{AreaState, BLOCK_BYTES, FILE_BYTES, HEADER_BYTES, Header, LINE, Seal, is_block_size};
use crate::{BufferError, Result};
use ondol_env::sync::Arc;
use ondol_medium::{AreaKind, HeaderFault, Nvm, NvmError, PAGE, Pool, Stored};

const HEADERS: [u64; 2] = [0, PAGE];
const FILES_AT: u64 = 2 * PAGE;

/// Blocks that a buffer has at least.
pub(crate) const MIN_BLOCKS: u32 = 8;

/// The shape of a buffer that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a data block: a power of two, 512 to 1 MiB.
    pub block_size: u32,
    /// Files that can be in the buffer at once; at least 1.
    pub files: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { block_size: 16 << 10, files: 1024 }
    }
}

impl Shape {
    /// Areas for a buffer with `bytes` of data blocks, for `ondol_medium::PoolSpec` or `Pool::allot`.
    pub fn areas(&self, bytes: u64) -> [(AreaKind, u64); 2] {
        let blocks = bytes / u64::from(self.block_size.max(1));
        let tables = self.lines_at().saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        [(AreaKind::BUFFER_TABLES, tables), (AreaKind::BUFFER_DATA, bytes)]
    }

    /// Gives a pool the areas of a buffer, as large as its largest free range allows. A pool that has such areas keeps
    /// them. Durable when it returns.
    ///
    /// # Errors
    /// `Shape` when there is no room for 8 blocks; the pool's failure.
    pub fn allot(&self, pool: &mut Pool) -> Result<()> {
        if pool.area(AreaKind::BUFFER_TABLES).is_some() {
            return Ok(());
        }
        let free = pool.header().free().map(|gap| gap.end - gap.start).max().unwrap_or(0);
        // Both areas end with a page that may be used in part.
        let blocks = free.saturating_sub(self.lines_at() + 2 * PAGE) / (u64::from(self.block_size) + BLOCK_BYTES);
        if blocks < u64::from(MIN_BLOCKS) {
            return Err(BufferError::Shape { pool: pool.nvm().name().into(), what: "it has no room for 8 blocks" });
        }
        pool.allot_all(&self.areas(blocks * u64::from(self.block_size)))?;
        Ok(())
    }

    fn lines_at(&self) -> u64 {
        (FILES_AT + u64::from(self.files) * FILE_BYTES).next_multiple_of(PAGE)
    }
}

/// The areas of a buffer, of one epoch.
#[derive(Debug)]
pub(crate) struct Area {
    nvm: Arc<Nvm>,
    tables: u64,
    data: u64,
    pub(crate) header: Header,
    pub(crate) seal: Seal,
}

/// What an area holds when it is opened.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Nothing: it was made, or its reset finished, just now.
    Empty(Area),
    /// Perhaps something.
    Used(Area),
}

impl Area {
    /// Opens the areas of a pool; makes a buffer of `shape` there if they have none. An unfinished reset is finished.
    pub(crate) fn open(pool: &Pool, shape: Shape) -> Result<Opened> {
        let name = pool.nvm().name().to_owned();
        let areas = pool.area(AreaKind::BUFFER_TABLES).zip(pool.area(AreaKind::BUFFER_DATA));
        let Some((tables, data)) = areas else { return Err(BufferError::NoAreas { pool: name }) };
        let fits = |header: &Header| {
            let shape = Shape { block_size: header.block_size, files: header.files };
            let blocks = u64::from(header.blocks);
            let lines = shape.lines_at() + blocks * BLOCK_BYTES;
            header.blocks >= MIN_BLOCKS
                && header.files > 0
                && lines <= tables.len
                && blocks * u64::from(header.block_size) <= data.len
        };
        let area = |header: Header| {
            let seal = Seal::new(header.uuid, header.epoch);
            Self { nvm: pool.nvm().clone(), tables: tables.start, data: data.start, header, seal }
        };
        let found = read_headers(pool.nvm(), tables.start, &fits)?;
        let header = match found {
            Found::None => {
                let header = plan(&name, pool, shape, data.len)?;
                if !fits(&header) {
                    return Err(BufferError::Shape { pool: name, what: "the areas are too small" });
                }
                let area = area(header);
                area.make()?;
                return Ok(Opened::Empty(area));
            }
            Found::Some(header) => header,
            Found::Newer(what) => return Err(BufferError::Newer { pool: name, what }),
            Found::Bad(first, second) => return Err(BufferError::Header { pool: name, first, second }),
        };
        if header.uuid != pool.header().uuid {
            return Err(BufferError::Foreign { pool: name });
        }
        let area = area(header);
        if header.state == AreaState::Ready {
            return Ok(Opened::Used(area));
        }
        area.finish_reset(header).map(Opened::Empty)
    }

    pub(crate) fn nvm(&self) -> &Nvm {
        &self.nvm
    }

    pub(crate) fn name(&self) -> &str {
        self.nvm.name()
    }

    pub(crate) fn block_size(&self) -> u64 {
        self.header.block_size.into()
    }

    /// First byte of a slot of the volume table. Its state word.
    pub(crate) fn slot_at(&self, slot: u32) -> u64 {
        self.tables + FILES_AT + u64::from(slot) * FILE_BYTES
    }

    pub(crate) fn synced_at(&self, slot: u32) -> u64 {
        self.slot_at(slot) + 8
    }

    pub(crate) fn name_at(&self, slot: u32) -> u64 {
        self.slot_at(slot) + LINE
    }

    /// First byte of a block's line in the inode table.
    pub(crate) fn line_at(&self, block: u32) -> u64 {
        let shape = Shape { block_size: self.header.block_size, files: self.header.files };
        self.tables + shape.lines_at() + u64::from(block) * BLOCK_BYTES
    }

    /// First byte of a data block.
    pub(crate) fn block_at(&self, block: u32) -> u64 {
        self.data + u64::from(block) * self.block_size()
    }

    /// Reads; lost lines are zeros, and told.
    pub(crate) fn read_lines(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        match self.nvm.read(offset, buf) {
            Ok(()) => return Ok(true),
            Err(NvmError::Poisoned { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        for (i, line) in buf.chunks_mut(LINE as usize).enumerate() {
            match self.nvm.read(offset + i as u64 * LINE, line) {
                Err(NvmError::Poisoned { .. }) => line.fill(0),
                other => other?,
            }
        }
        Ok(false)
    }

    /// Writes an area where there is none: a first page of zeros is none, so the second copy comes first.
    fn make(&self) -> Result<()> {
        self.zero_tables()?;
        for copy in HEADERS.iter().rev() {
            self.write_header(*copy, &self.header)?;
        }
        Ok(())
    }

    /// Forgets all records. They are all home, durably.
    pub(crate) fn reset(self) -> Result<Self> {
        let epoch = self.header.epoch + 1;
        if epoch >> 63 != 0 {
            return Err(BufferError::Spent);
        }
        let next = Header { epoch, state: AreaState::Resetting, ..self.header };
        HEADERS.iter().try_for_each(|copy| self.write_header(*copy, &next))?;
        self.finish_reset(next)
    }

    fn finish_reset(self, resetting: Header) -> Result<Self> {
        // A crash may have left the older header in the second copy.
        HEADERS.iter().try_for_each(|copy| self.write_header(*copy, &resetting))?;
        self.zero_tables()?;
        let header = Header { state: AreaState::Ready, ..resetting };
        HEADERS.iter().try_for_each(|copy| self.write_header(*copy, &header))?;
        Ok(Self { seal: Seal::new(header.uuid, header.epoch), header, ..self })
    }

    /// Both copies are whole and equal again.
    pub(crate) fn mend(&self) -> Result<()> {
        let bytes = self.header.encode();
        for copy in HEADERS {
            let mut found = [0; HEADER_BYTES];
            if !self.read_lines(self.tables + copy, &mut found)? || found != bytes {
                self.write_header(copy, &self.header)?;
            }
        }
        Ok(())
    }

    fn zero_tables(&self) -> Result<()> {
        let mut batch = self.nvm.stored();
        batch.zero(self.slot_at(0), self.line_at(self.header.blocks) - self.slot_at(0))?;
        batch.write_back().fence()?;
        Ok(())
    }

    fn write_header(&self, copy: u64, header: &Header) -> Result<()> {
        let mut batch = self.nvm.stored();
        batch.copy(self.tables + copy, &header.encode())?;
        batch.write_back().fence()?;
        Ok(())
    }

    /// Makes a batch durable: the one point at which an operation counts.
    pub(crate) fn commit(&self, batch: Stored<'_>) -> Result<()> {
        let written = batch.write_back();
        written.fence()?;
        Ok(())
    }
}

enum Found {
    None,
    Some(Header),
    Newer(HeaderFault),
    Bad(HeaderFault, HeaderFault),
}

fn read_headers(nvm: &Nvm, tables: u64, fits: &dyn Fn(&Header) -> bool) -> Result<Found> {
    let read = |copy: u64| {
        let mut bytes = [0; HEADER_BYTES];
        match nvm.read(tables + copy, &mut bytes) {
            Ok(()) => {}
            Err(NvmError::Poisoned { offset, .. }) => return Ok((false, Err(HeaderFault::Lost(offset)))),
            Err(e) => return Err(BufferError::Nvm(e)),
        }
        let header = Header::decode(&bytes).and_then(|header| match fits(&header) {
            true => Ok(header),
            false => Err(HeaderFault::Contents("what it describes does not fit into the areas")),
        });
        Ok((bytes == [0; HEADER_BYTES], header))
    };
    let [(is_empty, first), (_, second)] = [read(HEADERS[0])?, read(HEADERS[1])?];
    // Making an area writes the second copy first: a first page of zeros with an intact second copy is one, too.
    Ok(match (first, second) {
        (Err(what), _) | (_, Err(what)) if what.is_newer() => Found::Newer(what),
        (Ok(a), Ok(b)) => Found::Some(if (b.epoch, b.state) > (a.epoch, a.state) { b } else { a }),
        (Ok(only), Err(_)) => Found::Some(only),
        (Err(_), _) if is_empty => Found::None,
        (Err(_), Ok(only)) => Found::Some(only),
        (Err(first), Err(second)) => Found::Bad(first, second),
    })
}

fn plan(name: &str, pool: &Pool, shape: Shape, data: u64) -> Result<Header> {
    let refuse = |what| BufferError::Shape { pool: name.to_owned(), what };
    if !is_block_size(shape.block_size) {
        return Err(refuse("a block has 512 bytes to 1 MiB, a power of two"));
    }
    let blocks = u32::try_from(data / u64::from(shape.block_size)).unwrap_or(u32::MAX);
    if blocks < MIN_BLOCKS {
        return Err(refuse("it has fewer than 8 blocks"));
    }
    let uuid = pool.header().uuid;
    let (block_size, files) = (shape.block_size, shape.files);
    Ok(Header { uuid, epoch: 1, state: AreaState::Ready, block_size, blocks, files })
}
