//! One place in a queue: memory shared with the kernel, and whose turn it is to use it.

#![allow(unsafe_code, reason = "the kernel writes into memory that it was told of")]

use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use zerocopy::{FromZeros, IntoBytes};

/// The kernel's commands for a place.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Room for the header of a request or of an answer, and for the part of a request that its opcode gives a fixed size.
const HEADER: usize = 128;
const FIXED: usize = 128;

/// What an incoming header takes of its room, and where its length stands.
const IN_HEADER: usize = 40;
/// What an outgoing header takes.
const OUT_HEADER: usize = 16;

/// The most that comes before the payload of a request.
const HEAD: usize = IN_HEADER + FIXED;

/// Requests whose payload is shorter are copied out of the payload's room, so that their answers have it.
const COPIED: usize = 4096;

/// Room for the answer to a request that keeps the payload's.
const BESIDE: usize = 32 << 10;

/// `struct fuse_uring_req_header`.
#[derive(FromZeros, IntoBytes, zerocopy::Immutable)]
#[repr(C)]
struct Headers {
    in_out: [u8; HEADER],
    fixed: [u8; FIXED],
    flags: u64,
    commit_id: u64,
    payload_size: u32,
    padding: u32,
    reserved: u64,
}

const _: () = assert!(size_of::<Headers>() == 288 && offset_of!(Headers, commit_id) == 264);

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Ours; the kernel knows nothing of the place yet.
    New,
    /// The kernel's: a command is under way, and it may write at any time.
    Kernels,
    /// Ours, with a request that waits for its answer.
    Ours,
    /// Nobody's any more: the connection has ended.
    Over,
}

/// Memory that the kernel is told of. It does not move, and lives as long as a command may be under way.
struct Shared {
    headers: Headers,
    /// The kernel's `struct iovec`: the headers, then the payload.
    parts: [[u64; 2]; 2],
    /// [`HEAD`] bytes, so that a message can be put together without moving its payload; then the payload.
    room: Vec<u8>,
}

/// A place registered with one queue of one connection. It belongs to the thread that made it.
pub struct Place {
    ring: IoUring<Entry128>,
    /// From a box. The kernel has the address, too: a reference is only made when it is our turn.
    shared: NonNull<Shared>,
    connection: OwnedFd,
    queue: u16,
    turn: Turn,
    small: Vec<u8>,
    beside: Vec<u8>,
    /// What makes a ring's thread its own: the kernel takes commands from that one alone.
    _here: std::marker::PhantomData<*const ()>,
}

/// A request in a place, and where its answer is put together.
pub struct Message<'p> {
    /// The request as `/dev/fuse` gives it: header and all that follows.
    pub bytes: &'p [u8],
    /// Room for what follows the header of the answer.
    pub room: &'p mut [u8],
}

impl Place {
    /// A place for queue `queue` of the FUSE connection `connection`, with room for `payload` bytes, of which pages are
    /// taken when they are first used. The kernel is told with [`Place::register`], or the first [`Place::fetch`].
    ///
    /// # Errors
    /// No ring can be had.
    pub fn new(connection: OwnedFd, queue: u16, payload: usize) -> io::Result<Self> {
        let mut shared =
            Box::new(Shared { headers: Headers::new_zeroed(), parts: [[0; 2]; 2], room: vec![0; HEAD + payload] });
        let headers = (&raw mut shared.headers) as u64;
        let room = shared.room.get_mut(HEAD..).map_or(0, |room| room.as_mut_ptr() as u64);
        shared.parts = [[headers, size_of::<Headers>() as u64], [room, payload as u64]];
        let ring = crate::ring()?;
        Ok(Self {
            ring,
            shared: NonNull::from(Box::leak(shared)),
            connection,
            queue,
            turn: Turn::New,
            small: Vec::new(),
            beside: Vec::new(),
            _here: std::marker::PhantomData,
        })
    }

    /// Gives the kernel a place that it has not had yet; nothing otherwise. When this returns, the kernel puts requests
    /// into it that come from then on. Requests that wait already are for places that it has had.
    ///
    /// # Errors
    /// The kernel takes no commands.
    pub fn register(&mut self) -> io::Result<()> {
        if self.turn == Turn::New {
            self.submit(REGISTER, 0)?;
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Sends the answer to the request before, if there was one (see [`Place::answer`]), and waits for the next. False
    /// when the connection has ended.
    ///
    /// # Errors
    /// The kernel takes nothing from this place any more.
    pub fn fetch(&mut self) -> io::Result<bool> {
        self.register()?;
        match self.turn {
            Turn::Ours => {
                let answered = self.shared().map_or(0, |shared| shared.headers.commit_id);
                self.submit(COMMIT_AND_FETCH, answered)?;
            }
            Turn::New | Turn::Kernels => {}
            Turn::Over => return Ok(false),
        }
        let result = loop {
            if let Some(done) = self.ring.completion().next() {
                break done.result();
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        };
        self.turn = if result == 0 { Turn::Ours } else { Turn::Over };
        match Errno::from_raw_os_error(result.saturating_neg()) {
            _ if result == 0 => Ok(true),
            Errno::NOTCONN | Errno::CONNABORTED | Errno::NODEV | Errno::CANCELED => Ok(false),
            e => Err(e.into()),
        }
    }

    /// The memory, unless it is the kernel's turn.
    fn shared(&mut self) -> Option<&mut Shared> {
        if self.turn == Turn::Kernels {
            return None;
        }
        // SAFETY: it came from a box, is freed by nobody but `drop`, and while no command is under way only this place,
        // which is borrowed for as long, reaches it.
        Some(unsafe { self.shared.as_mut() })
    }

    /// Tells the kernel of one command, which it has from the next system call on.
    fn submit(&mut self, command: u32, commit_id: u64) -> io::Result<()> {
        let mut words = [0; 80];
        for (at, word) in [(8, commit_id.as_bytes()), (16, self.queue.as_bytes())] {
            if let Some(place) = words.get_mut(at..at + word.len()) {
                place.copy_from_slice(word);
            }
        }
        let fd = types::Fd(self.connection.as_raw_fd());
        let Some(shared) = self.shared() else { return Ok(()) };
        let parts = (&raw mut shared.parts) as u64;
        let mut entry = opcode::UringCmd80::new(fd, command).cmd(words).addr(Some(parts)).build();
        set_length(&mut entry, 2);
        // SAFETY: the descriptor and the memory that the command names live until it has completed: both are this
        // place's, which does not give them up before (see `Drop`), and hands nothing of that memory out while it is
        // the kernel's turn.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        self.turn = Turn::Kernels;
        Ok(())
    }

    /// The request that has come, and room for its answer; nothing when none has.
    pub fn message(&mut self) -> Option<Message<'_>> {
        if self.turn != Turn::Ours {
            return None;
        }
        // SAFETY: as in `shared`; the other fields stay usable.
        let Shared { headers, room, .. } = unsafe { self.shared.as_mut() };
        let payload = (headers.payload_size as usize).min(room.len() - HEAD);
        let whole = u32::from_ne_bytes(*headers.in_out.first_chunk()?) as usize;
        let fixed = whole.checked_sub(IN_HEADER + payload)?.min(FIXED);
        let begin = HEAD - IN_HEADER - fixed;
        room.get_mut(begin..begin + IN_HEADER)?.copy_from_slice(headers.in_out.get(..IN_HEADER)?);
        room.get_mut(begin + IN_HEADER..HEAD)?.copy_from_slice(headers.fixed.get(..fixed)?);
        if payload < COPIED {
            self.small.clear();
            self.small.extend_from_slice(room.get(begin..HEAD + payload)?);
            return Some(Message { bytes: &self.small, room: room.get_mut(HEAD..)? });
        }
        self.beside.resize(BESIDE, 0);
        Some(Message { bytes: room.get(begin..HEAD + payload)?, room: &mut self.beside })
    }

    /// Sets the answer that the next [`Place::fetch`] sends: the header's bytes, and how many bytes of the message's
    /// room follow.
    pub fn answer(&mut self, header: &[u8; OUT_HEADER], len: usize) {
        if self.turn != Turn::Ours {
            return;
        }
        // SAFETY: as in `shared`; the other fields stay usable.
        let Shared { headers, room, .. } = unsafe { self.shared.as_mut() };
        if headers.payload_size as usize >= COPIED
            && let (Some(to), Some(from)) = (room.get_mut(HEAD..HEAD + len), self.beside.get(..len))
        {
            to.copy_from_slice(from);
        }
        if let Some(to) = headers.in_out.first_chunk_mut() {
            *to = *header;
        }
        headers.payload_size = u32::try_from(len).unwrap_or(u32::MAX);
    }
}

/// Sets the field of an entry that io_uring calls `len`, which the crate's builder of commands leaves out.
fn set_length(entry: &mut Entry128, len: u32) {
    const AT: usize = 24;
    // SAFETY: an entry is `struct io_uring_sqe`, 128 bytes of plain numbers without padding, `#[repr(C)]`, and
    // exclusively ours here.
    let bytes = unsafe { &mut *std::ptr::from_mut(entry).cast::<[u8; size_of::<Entry128>()]>() };
    if let Some(place) = bytes.get_mut(AT..).and_then(<[u8]>::first_chunk_mut) {
        *place = len.to_ne_bytes();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A command under way may still write: its memory is left to the kernel for good. It happens when a connection
        // breaks, if at all.
        if self.turn != Turn::Kernels {
            // SAFETY: it came from a box, no command is under way, and it is not used after this.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}
