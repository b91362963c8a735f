//! A SATA solid-state disk: commands share the link and overlap otherwise; a flush is not queued and has the device to
//! itself.
//!
//! Numbers follow the data sheet of the Samsung 850 PRO 256 GB, the drive of papers/3: 550 and 520 MB/s, 10,000 reads
//! and 36,000 writes of 4 KiB a second one at a time, 100,000 and 90,000 at depth 32. So a lone write takes 28 µs, a
//! read 97 µs. Data sheets do not tell what a flush takes. Published latencies of fsync on this drive are 1 to 6 ms,
//! for two flushes and the writes between them; 1 ms is the friendliest whole number. A flush costs the same whatever
//! was written, and there is no garbage collection, which would add to whoever writes more: scattered writes cost no
//! more than sequential ones.

use super::{Request, transfer};

/// Nanoseconds of the link for a command, beside its bytes.
const COMMAND: u64 = 3_000;
/// Bytes a second of the link, reading.
const READ_RATE: u64 = 550_000_000;
/// Bytes a second of the link and of the flash, writing.
const WRITE_RATE: u64 = 520_000_000;
/// Nanoseconds from the command to the first byte of a read.
const READ_LATENCY: u64 = 87_000;
/// Nanoseconds from the last byte of a write to its acknowledgement out of the write cache.
const WRITE_LATENCY: u64 = 17_000;
/// Nanoseconds of a flush once all bytes are programmed: the mapping table.
const FLUSH: u64 = 1_000_000;
/// Nanoseconds of a flush after which there is nothing to do.
const CLEAN_FLUSH: u64 = 30_000;

/// What the device is doing.
#[derive(Clone, Debug, Default)]
pub(super) struct Ssd {
    /// When the link is free.
    link: u64,
    /// When the last command is done.
    last: u64,
    /// When all bytes are programmed that were written.
    programmed: u64,
    /// Something was written since the last flush.
    dirty: bool,
}

impl Ssd {
    pub(super) fn serve(&mut self, now: u64, request: Request) -> u64 {
        let done = match request {
            Request::Read { len, .. } => {
                self.link = self.link.max(now) + COMMAND + transfer(len, READ_RATE);
                self.link + READ_LATENCY
            }
            Request::Write { len, .. } => {
                let bytes = transfer(len, WRITE_RATE);
                self.link = self.link.max(now) + COMMAND + bytes;
                self.programmed = self.programmed.max(self.link) + bytes;
                self.dirty = true;
                self.link + WRITE_LATENCY
            }
            Request::Flush => {
                let begin = now.max(self.link).max(self.last);
                let dirty = std::mem::take(&mut self.dirty);
                self.link = if dirty { begin.max(self.programmed) + FLUSH } else { begin + CLEAN_FLUSH };
                self.link
            }
        };
        self.last = self.last.max(done);
        done
    }
}
