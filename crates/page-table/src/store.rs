//! The table as a block store: what lies above needs not know that it is NVM.

use crate::error::TableError;
use crate::table::PageTable;
use crate::transaction::Transaction;
use crate::write::Source;
use ondol_block::{BlockError, BlockStats, BlockStore, Caps, DeviceClass, PageLender, Pin, Result, Swaps, check_range};
use ondol_medium::{Domain, PAGE};
use std::io::IoSlice;

/// Bytes that an exchange of the most blocks can store with them: a superblock of a journal.
const EXCHANGED: u32 = 1024;

impl PageTable {
    pub(crate) fn failed(&self, op: &'static str, offset: u64, len: u64, e: TableError) -> BlockError {
        match e {
            TableError::ReadOnly { .. } => BlockError::ReadOnly { name: self.name.clone() },
            e => BlockError::Io { op, name: self.name.clone(), offset, len, source: std::io::Error::other(e) },
        }
    }
}

impl BlockStore for PageTable {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.config.blocks * PAGE
    }

    fn caps(&self) -> Caps {
        Caps {
            atomic_unit: PAGE as u32,
            durable_flush: self.nvm.domain() != Domain::Volatile,
            swap: Some(Swaps {
                block: PAGE as u32,
                pairs: self.log_lines().saturating_sub(Transaction::lines_of(EXCHANGED)),
                bytes: EXCHANGED,
            }),
            batch: None,
            read_only: self.nvm.is_read_only(),
            device: DeviceClass::Memory,
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        check_range("read", &self.name, offset, len, self.size())?;
        self.counters.read(buf.len());
        self.read_at(offset, buf).map_err(|e| self.failed("read", offset, len, e))
    }

    fn pin(&self, offset: u64, len: u64, bounded: bool) -> Result<Option<Pin>> {
        check_range("read", &self.name, offset, len, self.size())?;
        self.pin_at(offset, len, bounded).map_err(|e| self.failed("read", offset, len, e))
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let source = Source::new(bufs);
        let len = source.len();
        check_range("write", &self.name, offset, len, self.size())?;
        self.counters.write(len as usize);
        self.write_at(offset, &source).map_err(|e| self.failed("write", offset, len, e))
    }

    fn write_in_place(&self, places: &[(u64, &[u8])]) -> Result<()> {
        for (offset, bytes) in places {
            check_range("write", &self.name, *offset, bytes.len() as u64, self.size())?;
            self.counters.write(bytes.len());
        }
        let (first, len) = places.first().map_or((0, 0), |(offset, bytes)| (*offset, bytes.len() as u64));
        self.write_each_in_place(places).map_err(|e| self.failed("write", first, len, e))
    }

    fn flush(&self) -> Result<()> {
        self.counters.flush();
        self.persist().map_err(|e| self.failed("flush", 0, self.size(), e))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        check_range("discard", &self.name, offset, len, self.size())?;
        self.counters.discard(len);
        self.unmap(offset, len).map_err(|e| self.failed("discard", offset, len, e))?;
        Ok(true)
    }

    fn exchange(&self, pairs: &[(u64, u64)], offset: u64, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        check_range("exchange", &self.name, offset, len, self.size())?;
        self.counters.write(bytes.len());
        self.counters.flush();
        let mut transaction = self.transaction();
        pairs.iter().for_each(|(a, b)| transaction.swap(*a, *b));
        transaction.store(offset / PAGE, (offset % PAGE) as u32, bytes);
        transaction.commit().map_err(|e| self.failed("exchange", offset, len, e))
    }

    fn lender(&self) -> Option<&dyn PageLender> {
        Some(self)
    }

    fn stats(&self) -> BlockStats {
        self.counters.snapshot()
    }
}
