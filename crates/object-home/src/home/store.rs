//! The block store's calls.

use super::change::{Draft, whole_chunks};
use super::{BATCH, Home, HomeError, LOOSE, Order, Writing};
use ondol_block::{BlockError, BlockStats, BlockStore, Caps, DeviceClass, Result, check_range};
use ondol_env::sync::atomic::Ordering::Relaxed;
use std::io::IoSlice;

/// Up to so many chunks are deleted whether they are there or not; of longer ranges only those that are.
pub(super) const UNSEEN: u64 = 1024;

impl Home {
    /// An error with the place of a transfer.
    fn failed(&self, op: &'static str, offset: u64, len: u64) -> impl Fn(HomeError) -> BlockError {
        let name = self.bucket.name.clone();
        move |e| match e {
            HomeError::NotWriting { name } => BlockError::ReadOnly { name },
            e => BlockError::Io { op, name: name.clone(), offset, len, source: std::io::Error::other(e) },
        }
    }

    fn writing(&self) -> Result<Writing<'_>> {
        self.writer().map_err(|_| BlockError::ReadOnly { name: self.bucket.name.clone() })
    }

    /// The chunks to delete when these ranges are unused.
    fn unused(&self, discards: &[(u64, u64)]) -> std::result::Result<Vec<u64>, HomeError> {
        let mut unused = vec![];
        for range in whole_chunks(self.format.size().bytes(), discards) {
            if range.end - range.start <= UNSEEN {
                unused.extend(range);
            } else {
                unused.extend(self.keyed(range)?);
            }
        }
        Ok(unused)
    }
}

impl Writing<'_> {
    /// Writes that belong to no batch. What stays of a chunk is read first.
    fn write_loose(self, draft: Draft<'_>) -> std::result::Result<(), HomeError> {
        let mut order = self.order.lock();
        self.require_open(&order)?;
        let (whole, parts) = draft.split();
        for (number, chunk) in whole {
            self.loose.write().put(number, Some(chunk.into_owned()));
        }
        for (number, chunk) in self.patched(&mut order, parts)? {
            self.loose.write().put(number, Some(chunk));
        }
        self.bound_loose(&mut order)
    }

    fn bound_loose(self, order: &mut Order) -> std::result::Result<(), HomeError> {
        if self.loose.read().bytes() < LOOSE {
            return Ok(());
        }
        self.put_loose(order)
    }

    fn require_open(self, order: &Order) -> std::result::Result<(), HomeError> {
        if order.closed {
            return Err(HomeError::NotWriting { name: self.home.bucket.name.clone() });
        }
        self.turn.require()
    }

    fn discard_loose(self, offset: u64, len: u64) -> std::result::Result<(), HomeError> {
        let mut order = self.order.lock();
        self.require_open(&order)?;
        for chunks in whole_chunks(self.home.format.size().bytes(), &[(offset, len)]) {
            let waiting: Vec<u64> = self.loose.read().within(chunks).into_keys().collect();
            waiting.into_iter().for_each(|number| self.loose.write().put(number, None));
        }
        for number in self.home.unused(&[(offset, len)])? {
            self.loose.write().put(number, None);
            self.bound_loose(&mut order)?;
        }
        Ok(())
    }

    fn submit_batch(self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> std::result::Result<u64, HomeError> {
        let mut draft = Draft::new(self.home.format.size().bytes());
        writes.iter().for_each(|(offset, bytes)| draft.write(*offset, bytes));
        let (whole, parts) = draft.split();
        let mut puts = self.home.encode_all(&whole)?;
        let mut order = self.order.lock();
        self.require_open(&order)?;
        self.put_loose(&mut order)?;
        for (number, value) in self.home.encode_all(&self.patched(&mut order, parts)?)? {
            order.recent.keep(number, value.clone());
            puts.push((number, value));
        }
        puts.extend(self.home.unused(discards)?.into_iter().map(|number| (number, None)));
        self.take(&mut order, puts)?;
        Ok(order.number)
    }

    fn settle_number(self, number: u64) -> std::result::Result<(), HomeError> {
        let newest = self.turn.newest();
        if number > newest {
            let (name, why) = (self.home.bucket.name.clone(), format!("the newest has number {newest}"));
            return Err(HomeError::Store { name, what: "to settle a batch that was not submitted", why });
        }
        // What was there when this was opened is durable.
        self.make_durable(number.max(self.first))
    }

    fn flush_all(self) -> std::result::Result<(), HomeError> {
        let mut order = self.order.lock();
        self.require_open(&order)?;
        self.put_loose(&mut order)?;
        let number = order.number;
        drop(order);
        self.make_durable(number)
    }

    fn lengthen_to(self, size: u64) -> std::result::Result<(), HomeError> {
        // A home is one of whole chunks.
        let size = size.next_multiple_of(self.home.format.size().bytes() as u64);
        let mut order = self.order.lock();
        self.require_open(&order)?;
        self.put_loose(&mut order)?;
        let header = super::Header { size, ..self.home.header };
        self.put_header(&mut order, header)?;
        self.home.size.store(size, Relaxed);
        Ok(())
    }
}

impl BlockStore for Home {
    fn name(&self) -> &str {
        &self.bucket.name
    }

    fn size(&self) -> u64 {
        self.len()
    }

    fn caps(&self) -> Caps {
        Caps {
            atomic_unit: self.format.size().bytes() as u32,
            durable_flush: true,
            swap: None,
            batch: self.writer.as_ref().map(|_| BATCH),
            read_only: self.writer.is_none(),
            device: DeviceClass::default(),
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        check_range("read", self.name(), offset, len, self.size())?;
        self.counters.read(buf.len());
        self.fill(offset, buf).map_err(self.failed("read", offset, len))
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let writer = self.writing()?;
        let len = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        check_range("write", self.name(), offset, len as u64, self.size())?;
        self.counters.write(len);
        let mut draft = Draft::new(self.format.size().bytes());
        let mut at = offset;
        for buf in bufs {
            draft.write(at, buf);
            at += buf.len() as u64;
        }
        writer.write_loose(draft).map_err(self.failed("write", offset, len as u64))
    }

    fn flush(&self) -> Result<()> {
        self.counters.flush();
        let Ok(writer) = self.writing() else { return Ok(()) };
        writer.flush_all().map_err(self.failed("flush", 0, self.size()))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        let writer = self.writing()?;
        check_range("discard", self.name(), offset, len, self.size())?;
        self.counters.discard(len);
        writer.discard_loose(offset, len).map_err(self.failed("discard", offset, len))?;
        Ok(true)
    }

    fn lengthen(&self, size: u64) -> Result<()> {
        let writer = self.writing()?;
        if size <= self.size() {
            return Ok(());
        }
        writer.lengthen_to(size).map_err(self.failed("lengthen", self.size(), size))
    }

    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Result<u64> {
        let writer = self.writing()?;
        let len = writes.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        for (offset, bytes) in writes {
            check_range("submit", self.name(), *offset, bytes.len() as u64, self.size())?;
        }
        for (offset, len) in discards {
            check_range("submit", self.name(), *offset, *len, self.size())?;
        }
        if len > BATCH {
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "a batch has less");
            return Err(BlockError::Io { op: "submit", name: self.name().to_owned(), offset: 0, len, source });
        }
        self.counters.write(len as usize);
        discards.iter().for_each(|(_, len)| self.counters.discard(*len));
        writer.submit_batch(writes, discards).map_err(self.failed("submit", 0, len))
    }

    fn settle(&self, number: u64) -> Result<()> {
        let writer = self.writing()?;
        self.counters.flush();
        writer.settle_number(number).map_err(self.failed("settle", number, 0))
    }

    fn stats(&self) -> BlockStats {
        self.counters.snapshot()
    }
}
