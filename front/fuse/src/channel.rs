//! Where answers go: the seam between the requests' meaning and what carries them.

use crate::proto::wire::{NotifyInvalInode, OutHeader};
use crate::proto::{numbers, reply};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use zerocopy::IntoBytes;

/// The largest answer that is filled in place; the kernel asks for less.
const FILLED_MAX: usize = 16 << 20;

thread_local! {
    static FILLED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Carries answers and notifications to the kernel: `/dev/fuse`, or a queue of io_uring.
pub(crate) trait Channel {
    /// Sends one message: its header and what follows it.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()>;

    /// Answers request `unique` with what `fill` puts into up to `len` bytes, which are sent from where they are put, or with its positive errno.
    ///
    /// # Errors
    /// As [`Channel::send`].
    fn send_filled(
        &self,
        unique: u64,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<usize, i32>,
    ) -> io::Result<()> {
        FILLED.with_borrow_mut(|buffer| {
            let len = len.min(FILLED_MAX);
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            match fill(buffer.get_mut(..len).unwrap_or_default()) {
                Ok(n) => {
                    let data = buffer.get(..n).unwrap_or_default();
                    self.send(&reply::header(unique, 0, data.len()), [data, &[]])
                }
                Err(error) => self.send(&reply::header(unique, error, 0), [&[], &[]]),
            }
        })
    }

    /// Has the kernel forget an inode's attributes; its pages stay.
    ///
    /// # Errors
    /// As [`Channel::send`]; an inode that the kernel does not know is no error.
    fn forget_attributes(&self, node: u64) -> io::Result<()> {
        const ATTRIBUTES_ONLY: i64 = -1;
        let what = NotifyInvalInode { ino: node, off: ATTRIBUTES_ONLY, len: 0 };
        let mut header = reply::header(0, 0, size_of_val(&what));
        header.error = numbers::notify::INVAL_INODE;
        match self.send(&header, [what.as_bytes(), &[]]) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// One connection to the kernel through `/dev/fuse`.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl Device {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// The same connection for another owner.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Waits for the next message; `None` when the connection has ended.
    ///
    /// # Errors
    /// What keeps the connection from being read at all.
    pub(crate) fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        use rustix::io::Errno;
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Ok(n) => return Ok(buffer.get(..n)),
                Err(Errno::NODEV) => return Ok(None),
                // The request was taken back, or a signal came.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Channel for Device {
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()> {
        let [first, second] = parts;
        let all = [IoSlice::new(header.as_bytes()), IoSlice::new(first), IoSlice::new(second)];
        // The kernel takes a message whole or not at all.
        rustix::io::writev(self.0.as_fd(), &all)?;
        Ok(())
    }
}
