//! What engines do by the class of the device: every decision is a formula of what a flush and a byte cost there.
//!
//! Design: `docs/design/journal.md`, "By class of device".

use ondol_block::DeviceClass;
use ondol_env::apart::{Apart, STRIPES, stripe};
// What is new since a commit is counted and never waited for, so these are no places at which schedules part.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that may wait however slow the device is, and however fast: of more an idle device would have all to write in
/// the end.
const LEAST: u64 = 8 << 20;
const MOST: u64 = 32 << 20;
/// Nanoseconds in which the device has to be able to write what waits: a sync waits for no more.
const SYNC_NS: u64 = 100_000_000;
/// Picoseconds a byte up to which a device takes writes as memory does. Elsewhere an arm would seek for each of them.
const AS_MEMORY_PS: u64 = 1_000;
/// Picoseconds that a byte saves which is not kept in memory until its commit, to be set against the flush that it
/// costs.
const KEPT_PS: u64 = 500;
/// Picoseconds that LZ4 takes for a byte, and what it leaves of one: a half.
const LZ4_PS: u64 = 2_000;
const LEFT: u64 = 2;

/// How much may wait to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Bytes of new data that may wait before it is written home.
    pub(crate) kept: u64,
    /// Bytes of anything that may wait before somebody makes it durable.
    pub(crate) dirty: u64,
}

impl Bound {
    /// `most` bytes may wait, and fewer where the device is slow; or always `kept` of new data and `most` of all else.
    pub(crate) fn new(device: DeviceClass, most: u64, kept: Option<u64>) -> Self {
        let written = SYNC_NS * 1000 / device.byte_ps();
        let dirty = if kept.is_some() { most } else { most.min(written.clamp(LEAST, MOST)) };
        Self { kept: kept.unwrap_or(dirty), dirty }
    }
}

/// Whether images are compressed before they are logged: that takes less than writing what it saves.
pub(crate) fn compresses(device: DeviceClass) -> bool {
    LZ4_PS < device.byte_ps() - device.byte_ps() / LEFT
}

/// Whether new data is written home at once from where the caller has it, past the cache and the log.
#[derive(Debug)]
pub(crate) struct Passing {
    device: DeviceClass,
    /// Bytes of new data since the last commit, by thread, so that threads do not meet.
    new: [Apart<AtomicU64>; STRIPES],
}

impl Passing {
    pub(crate) fn new(device: DeviceClass) -> Self {
        Self { device, new: Default::default() }
    }

    /// Where commits flush what was written before in any case.
    pub(crate) fn passes_freely(&self) -> bool {
        self.device.byte_ps() <= AS_MEMORY_PS
    }

    /// Where a commit needs one flush more for it: there must be enough new data. Asked once for each `bytes` that lie
    /// together.
    pub(crate) fn passes(&self, bytes: usize) -> bool {
        if !self.passes_freely() {
            return false;
        }
        let new = self.new[stripe()].fetch_add(bytes as u64, Relaxed) + bytes as u64;
        new * KEPT_PS / 1000 > self.device.flush_ns()
    }

    /// The calling thread commits.
    pub(crate) fn committed(&self) {
        self.new[stripe()].store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeviceClass::{Disk, Memory, Ssd};

    #[test]
    fn what_waits_is_written_in_a_tenth_of_a_second() {
        let dirty = |device, most| Bound::new(device, most, None).dirty;
        assert_eq!([Memory, Ssd, Disk].map(|device| dirty(device, u64::MAX)), [MOST, MOST, 12_500_000]);
        assert_eq!([Memory, Ssd, Disk].map(|device| dirty(device, 1 << 20)), [1 << 20; 3]);
        let set = Bound::new(Disk, 1 << 30, Some(4096));
        assert_eq!((set.kept, set.dirty), (4096, 1 << 30));
    }

    #[test]
    fn only_an_arm_is_slow_enough_to_compress_for() {
        assert_eq!([Memory, Ssd, Disk].map(compresses), [false, false, true]);
    }

    #[test]
    fn new_data_passes_where_writing_is_a_copy_and_there_is_enough_for_a_flush() {
        assert!([Ssd, Disk].iter().all(|device| !Passing::new(*device).passes(1 << 20)));
        let memory = Passing::new(Memory);
        assert!(memory.passes_freely() && !memory.passes(4096) && memory.passes(4096));
        memory.committed();
        assert!(!memory.passes(4096), "single blocks cost no flush");
    }
}
