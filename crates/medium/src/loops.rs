//! What a loop device shows, as the kernel tells it: an ioctl(2), which is why it stands where `unsafe` is allowed.
#![expect(unsafe_code, reason = "asks the kernel to fill a structure")]

use rustix::ioctl::{Getter, ioctl};
use std::io;
use std::os::fd::AsFd;

/// `LOOP_GET_STATUS64` of `linux/loop.h`.
const GET_STATUS: rustix::ioctl::Opcode = 0x4C05;

/// What lies under a loop device. Numbers, unlike the path in `/sys`, mean the same in every mount namespace and after
/// a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The inode `ino` on the file system with device number `dev`, both as stat(2) has them.
    File {
        /// The file system's device number.
        dev: u64,
        /// The inode's number.
        ino: u64,
    },
    /// The block device with this number.
    Device(u64),
}

/// `struct loop_info64`.
#[repr(C)]
struct Status {
    device: u64,
    inode: u64,
    own_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    cipher: u32,
    key_size: u32,
    flags: u32,
    names: [[u8; 64]; 2],
    key: [u8; 32],
    init: [u64; 2],
}

/// What the loop device opened as `device` shows.
///
/// # Errors
/// It is no loop device, or shows nothing (ENXIO).
pub fn backing(device: impl AsFd) -> io::Result<Backing> {
    // SAFETY: the opcode is that of a request which writes one `struct loop_info64` to the address that it is given,
    // whatever kind of file it is asked of; all bit patterns are values of `Status`.
    let status = unsafe { ioctl(device, Getter::<GET_STATUS, Status>::new())? };
    Ok(match status.own_device {
        0 => Backing::File { dev: status.device, ino: status.inode },
        number => Backing::Device(number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_the_kernels() {
        assert_eq!((size_of::<Status>(), align_of::<Status>()), (232, 8));
    }

    #[test]
    fn only_loop_devices_answer() {
        assert!(backing(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
