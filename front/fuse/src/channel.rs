//! Where answers go: the seam between the requests' meaning and what carries them.

use crate::proto::wire::{NotifyInvalInode, OutHeader};
use crate::proto::{numbers, reply};
use ondol::waits;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use zerocopy::IntoBytes;

/// Puts up to as many bytes as there is space into it and says how many, or a positive errno.
pub(crate) type Fill<'f> = dyn FnMut(&mut [u8]) -> Result<usize, i32> + 'f;

/// Carries answers and notifications to the kernel: `/dev/fuse`, or a queue of io_uring.
pub(crate) trait Channel {
    /// Sends one message: its header and what follows it.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()>;

    /// Answers request `unique` with what `fill` puts into up to `len` bytes, which are sent from where they are put,
    /// or with its errno.
    ///
    /// # Errors
    /// As [`Channel::send`].
    fn send_filled(&self, unique: u64, len: usize, fill: &mut Fill<'_>) -> io::Result<()>;

    /// Has the kernel forget an inode's attributes; its pages stay.
    ///
    /// # Errors
    /// As [`Channel::send`]; an inode that the kernel does not know is no error.
    fn forget_attributes(&self, node: u64) -> io::Result<()> {
        const ATTRIBUTES_ONLY: i64 = -1;
        self.forget(NotifyInvalInode { ino: node, off: ATTRIBUTES_ONLY, len: 0 })
    }

    /// Has the kernel forget an inode's attributes and pages. Changed ones it writes first, for which another thread
    /// has to serve it.
    ///
    /// # Errors
    /// As [`Channel::forget_attributes`].
    fn forget_pages(&self, node: u64) -> io::Result<()> {
        waits::long(|| {
            self.wait_for_another();
            // No length is all of the file.
            self.forget(NotifyInvalInode { ino: node, off: 0, len: 0 })
        })
    }

    /// Has the kernel write and forget the pages that have these bytes of an inode, to its end if they go as far as can
    /// be. As for [`Channel::forget_pages`], another thread has to serve.
    ///
    /// # Errors
    /// As [`Channel::forget_attributes`].
    fn forget_some(&self, node: u64, bytes: Range<u64>) -> io::Result<()> {
        let len = if bytes.end == u64::MAX { 0 } else { bytes.end - bytes.start };
        waits::long(|| {
            self.wait_for_another();
            self.forget(NotifyInvalInode { ino: node, off: bytes.start.cast_signed(), len: len.cast_signed() })
        })
    }

    /// Waits until a request that comes now would be served beside this one, as far as that has to be waited for.
    fn wait_for_another(&self) {}

    /// Sends a notification.
    ///
    /// # Errors
    /// As [`Channel::forget_attributes`].
    fn forget(&self, what: NotifyInvalInode) -> io::Result<()> {
        let mut header = reply::header(0, 0, size_of_val(&what));
        header.error = numbers::notify::INVAL_INODE;
        match self.send(&header, [what.as_bytes(), &[]]) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Where an answer is put together that is sent from where it lies.
pub(crate) struct Room<'r>(RefCell<&'r mut [u8]>);

impl<'r> Room<'r> {
    pub(crate) fn new(space: &'r mut [u8]) -> Self {
        Self(RefCell::new(space))
    }

    /// Has `fill` put up to `len` bytes into it. The answer's header, and how many bytes of the room follow it.
    pub(crate) fn fill(&self, unique: u64, len: usize, fill: &mut Fill<'_>) -> (OutHeader, usize) {
        let mut space = self.0.borrow_mut();
        let most = len.min(space.len());
        let filled = fill(space.get_mut(..most).unwrap_or_default());
        let (error, len) = filled.map_or_else(|error| (error, 0), |n| (0, n.min(most)));
        (reply::header(unique, error, len), len)
    }

    /// Its space.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut [u8]) -> T) -> T {
        f(*self.0.borrow_mut())
    }
}

/// What takes whole messages: `/dev/fuse`, or what stands in its place where there is no kernel.
pub(crate) trait Wire {
    /// Sends one message: its header and what follows it.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()>;
}

/// `/dev/fuse` for one request, with the room in which its contents are put together.
pub(crate) struct Served<'r> {
    wire: &'r dyn Wire,
    room: Room<'r>,
}

impl<'r> Served<'r> {
    pub(crate) fn new(wire: &'r dyn Wire, room: &'r mut [u8]) -> Self {
        Self { wire, room: Room::new(room) }
    }
}

impl Channel for Served<'_> {
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()> {
        self.wire.send(header, parts)
    }

    fn send_filled(&self, unique: u64, len: usize, fill: &mut Fill<'_>) -> io::Result<()> {
        let (header, len) = self.room.fill(unique, len, fill);
        self.room.with(|space| self.wire.send(&header, [space.get(..len).unwrap_or_default(), &[]]))
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

impl Wire for Device {
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()> {
        let [first, second] = parts;
        let all = [IoSlice::new(header.as_bytes()), IoSlice::new(first), IoSlice::new(second)];
        // The kernel takes a message whole or not at all.
        rustix::io::writev(self.0.as_fd(), &all)?;
        Ok(())
    }
}
