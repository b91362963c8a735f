//! FUSE over io_uring, from the server's side: places in which the kernel puts requests and finds their answers.
//!
//! The kernel has one queue of requests for each processor, and puts a request into the queue of the processor that its
//! sender runs on. A server registers places with a queue; a request goes to the place that became free last. Fetching
//! the next request and answering the one before are one system call. Facts: the kernel's
//! `Documentation/filesystems/fuse/fuse-io-uring.rst` and the public header `include/uapi/linux/fuse.h`.
//!
//! This crate knows no request but its length: a message is the bytes that `/dev/fuse` would have given. It is a crate
//! of its own because the kernel writes into memory that it was told of, which no type of Rust's can say; all `unsafe`
//! of it is in `place`, and in `policy`, `errand` and `attributes`, the system calls that a server needs beside.

mod attributes;
mod errand;
mod place;
mod policy;

pub use attributes::set_mount_attributes;
pub use errand::ask as ask_oneself;
pub use place::{Message, Place};
pub use policy::set_idle;

use io_uring::IoUring;
use io_uring::squeue::Entry128;
use std::io;

/// Whether this process may use rings as [`Place`] needs them, whatever FUSE says of it.
///
/// # Errors
/// The kernel's refusal: no io_uring, or not for this process.
pub fn available() -> io::Result<()> {
    ring().map(drop)
}

/// Whether the kernel's FUSE lets servers use io_uring. It says so to each connection, too; this is for messages.
pub fn switched_on() -> bool {
    std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring").is_ok_and(|text| text.starts_with('Y'))
}

/// How many queues the kernel has: one for each processor that it could ever run.
pub fn queues() -> usize {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    count(&possible).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// One past the highest number in a list like `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let last = list.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

/// A ring for one command at a time, submitted and completed by the thread that makes it.
fn ring() -> io::Result<IoUring<Entry128>> {
    const ENTRIES: u32 = 2;
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().dontfork().build(ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_processors_are_counted_by_the_highest() {
        assert_eq!(count("0-1\n"), Some(2));
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-3,8-11"), Some(12));
        assert_eq!(count("0-3,8"), Some(9));
        assert_eq!(count(""), None);
        assert!(queues() >= 1);
    }
}
