//! Time of the processor: what work costs, however busy the machine is.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds that the calling thread has had a processor.
pub(crate) fn spent() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
