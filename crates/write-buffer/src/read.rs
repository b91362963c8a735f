//! Reads: the newest bytes from NVM through the tree, the others from home.
//!
//! Home is read without a lock. If the shard has lost something meanwhile (reclaim, truncate) the read begins again,
//! the third time with the shard locked.

use crate::file::FileState;
use crate::shared::Core;
use crate::stats::Counters;
use crate::tree::Tree;
use crate::{BufferError, HomeError, Result};
use std::ops::Range;

/// A read that saw the tree lose something so many times keeps it locked.
const TRIES: usize = 2;

impl Core {
    /// Reads stripe after stripe, each as one.
    pub(crate) fn read(&self, file: &FileState, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let stripe = self.area.header.stripe() * self.area.block_size();
        let mut done = 0;
        loop {
            let at = offset + done as u64;
            let most = (stripe - at % stripe).min((buf.len() - done) as u64) as usize;
            let read = self.read_stripe(file, at, &mut buf[done..done + most])?;
            done += read;
            if read < most || done == buf.len() {
                return Ok(done);
            }
        }
    }

    fn read_stripe(&self, file: &FileState, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let shard = file.shard(offset / self.area.block_size());
        for attempt in 0.. {
            let tree = shard.read();
            file.check(tree.life)?;
            let (size, home_end) = {
                let whole = file.whole.lock();
                (whole.size, whole.home_end())
            };
            let len = size.saturating_sub(offset).min(buf.len() as u64) as usize;
            let buf = &mut buf[..len];
            let missing = self.missing(&tree, home_end, offset, len as u64);
            if missing.is_empty() {
                self.fill(&tree, offset, buf)?;
                return Ok(len);
            }
            if attempt >= TRIES {
                self.read_home(file, offset, buf, &missing)?;
                self.fill_over(&tree, offset, buf)?;
                return Ok(len);
            }
            let taken_out = tree.taken_out;
            drop(tree);
            self.read_home(file, offset, buf, &missing)?;
            let tree = shard.read();
            // What reclaim took out is home by now, but perhaps was not when home was read.
            if tree.taken_out == taken_out && file.whole.lock().size >= size {
                self.fill_over(&tree, offset, buf)?;
                return Ok(len);
            }
        }
        Ok(0)
    }

    /// The bytes that only home has: from the first of them to the last. Empty if there are none.
    fn missing(&self, tree: &Tree, home_end: u64, offset: u64, len: u64) -> Range<u64> {
        let end = (offset + len).min(home_end);
        let block_size = self.area.block_size();
        let (mut first, mut last) = (None, offset);
        let mut at = offset;
        let mut note = |from: u64, to: u64| {
            let to = to.min(end);
            if from < to {
                first.get_or_insert(from);
                last = to;
            }
        };
        for (lbn, node) in tree.nodes.range(offset / block_size..) {
            if lbn * block_size >= end {
                break;
            }
            for s in &node.segments {
                let (start, behind) = (lbn * block_size + u64::from(s.start), lbn * block_size + u64::from(s.end));
                note(at, start);
                at = at.max(behind);
            }
        }
        note(at, end);
        first.map_or(offset..offset, |first| first..last)
    }

    fn read_home(&self, file: &FileState, offset: u64, buf: &mut [u8], missing: &Range<u64>) -> Result<()> {
        buf.fill(0);
        let bytes = &mut buf[(missing.start - offset) as usize..(missing.end - offset) as usize];
        Counters::add(&self.counters.home_reads, 1);
        let read = file.home.read_at(missing.start, bytes);
        read.map_err(|e| BufferError::Home(HomeError::new("read", &file.identity, e)))
    }

    /// Bytes of the tree; zeros where it has none.
    fn fill(&self, tree: &Tree, offset: u64, buf: &mut [u8]) -> Result<()> {
        buf.fill(0);
        self.fill_over(tree, offset, buf)
    }

    /// Bytes of the tree over what is in `buf`.
    fn fill_over(&self, tree: &Tree, offset: u64, buf: &mut [u8]) -> Result<()> {
        let block_size = self.area.block_size();
        let end = offset + buf.len() as u64;
        for (lbn, node) in tree.nodes.range(offset / block_size..) {
            let base = lbn * block_size;
            if base >= end {
                break;
            }
            for s in &node.segments {
                let start = (base + u64::from(s.start)).max(offset);
                let behind = (base + u64::from(s.end)).min(end);
                if start < behind {
                    let at = u64::from(s.at) + (start - base - u64::from(s.start));
                    let into = &mut buf[(start - offset) as usize..(behind - offset) as usize];
                    self.area.nvm().read(self.area.block_at(s.block) + at, into)?;
                }
            }
        }
        Ok(())
    }
}
