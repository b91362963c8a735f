//! Pages beside the log: what records need not carry, because they name it.
//!
//! They lie in an area of their own, or are free pages of the page table that an image lies under: that is an array of
//! pages, too.
//!
//! A page holds something only as long as a record names it; which record, and what its checksum is, stands there. Who
//! hands pages out keeps account of them in memory: after a crash nothing is handed out.

use crate::error::Result;
use ondol_env::sync::Arc;
use ondol_medium::{AreaKind, Nvm, NvmError, Pool, WrittenBack};

/// An area of a pool with pages, as an array of them: `journal-pages`, or `page-data` of a page table.
#[derive(Clone, Debug)]
pub struct PageArea {
    nvm: Arc<Nvm>,
    start: u64,
    len: u64,
    of_table: bool,
}

/// Pages that are being written, by one thread.
#[derive(Debug)]
#[must_use = "what is not fenced may be lost"]
pub struct PageWrites<'p>(pub(crate) WrittenBack<'p>);

impl PageArea {
    pub(crate) fn of(pool: &Pool, kind: AreaKind) -> Option<Self> {
        let area = pool.area(kind)?;
        let of_table = kind == AreaKind::PAGE_DATA;
        Some(Self { nvm: pool.nvm().clone(), start: area.start, len: area.len, of_table })
    }

    /// Whether they are those of a page table, which says who may have one.
    pub fn is_of_table(&self) -> bool {
        self.of_table
    }

    /// How many pages of `size` bytes there are.
    pub fn pages(&self, size: usize) -> u32 {
        u32::try_from(self.len / size as u64).unwrap_or(u32::MAX)
    }

    /// Begins to write pages, each as long as its contents. They are durable with the next fence of this thread: that
    /// of [`PageWrites::fence`], or of the record that they are given to.
    ///
    /// # Errors
    /// The memory's failure; a page that is not there.
    pub fn write<'b>(&self, pages: impl Iterator<Item = (u32, &'b [u8])>) -> Result<PageWrites<'_>> {
        let mut batch = self.nvm.stored();
        for (page, contents) in pages {
            batch.copy(self.start + u64::from(page) * contents.len() as u64, contents)?;
        }
        Ok(PageWrites(batch.write_back()))
    }

    /// Reads a page that is as long as `contents`. False: there is none, or the medium has lost some of it.
    ///
    /// # Errors
    /// The memory's failure.
    pub fn read(&self, page: u32, contents: &mut [u8]) -> Result<bool> {
        self.read_part(page, contents.len(), 0, contents)
    }

    /// As [`PageArea::read`], bytes from `offset` on of a page of `size` bytes.
    ///
    /// # Errors
    /// The memory's failure.
    pub fn read_part(&self, page: u32, size: usize, offset: usize, contents: &mut [u8]) -> Result<bool> {
        if page >= self.pages(size) || offset + contents.len() > size {
            return Ok(false);
        }
        match self.nvm.read(self.start + u64::from(page) * size as u64 + offset as u64, contents) {
            Ok(()) => Ok(true),
            Err(NvmError::Poisoned { .. }) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl PageWrites<'_> {
    /// All of them are durable when this returns.
    ///
    /// # Errors
    /// The memory's failure.
    pub fn fence(self) -> Result<()> {
        self.0.fence()?;
        Ok(())
    }
}
