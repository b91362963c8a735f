//! The one sequence of everything that could matter to a crash.

use ondol_env::sync::{Arc, Mutex, untold};
use std::ops::Range;

/// One event that a crash may fall before or after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `bytes` were written at `offset` of a block medium.
    Write {
        /// Which medium of the domain.
        medium: u32,
        /// First byte.
        offset: u64,
        /// What was written.
        bytes: Arc<[u8]>,
    },
    /// `len` bytes at `offset` of a block medium were declared unused.
    Discard {
        /// Which medium of the domain.
        medium: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A write failed: any part of `bytes` may be there, now or after any later flush, unless it is written again.
    WriteFailed {
        /// Which medium of the domain.
        medium: u32,
        /// First byte.
        offset: u64,
        /// What was to be written.
        bytes: Arc<[u8]>,
    },
    /// A flush failed: what was not durable may be there or not, now or after any later flush, unless it is written
    /// again. That is what Linux makes of a failed write-back: the page is clean then, and is not tried again.
    FlushFailed {
        /// Which medium of the domain.
        medium: u32,
    },
    /// A block medium completed a flush.
    Flush {
        /// Which medium of the domain.
        medium: u32,
    },
    /// A batch was submitted to a medium that takes batches: all of it happens, or nothing, and not before the batches
    /// before it.
    Batch {
        /// Which medium of the domain.
        medium: u32,
        /// Its number. Numbers of a medium grow.
        number: u64,
        /// Where bytes are written, and which.
        writes: Arc<[(u64, Arc<[u8]>)]>,
        /// Ranges that are declared unused, as first byte and length.
        discards: Arc<[(u64, u64)]>,
    },
    /// The batch of this number is durable, with all before it.
    Settled {
        /// Which medium of the domain.
        medium: u32,
        /// The batch.
        number: u64,
    },
    /// `bytes` were stored at `offset` of an NVM medium. A non-temporal store is this and a write-back of its lines.
    Store {
        /// Which medium of the domain.
        medium: u32,
        /// Who stored it.
        thread: u32,
        /// First byte.
        offset: u64,
        /// What was stored.
        bytes: Arc<[u8]>,
    },
    /// A thread began to write back the lines that hold `len` bytes at `offset` of an NVM medium.
    WriteBack {
        /// Which medium of the domain.
        medium: u32,
        /// Whose fence completes it.
        thread: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A thread's fence completed: what it had begun to write back before, on any NVM medium, is on the medium.
    Fence {
        /// The thread.
        thread: u32,
    },
    /// The driver marked a point, such as "operation 3 returned".
    Mark(u64),
}

impl Event {
    /// A batch of copies of these bytes.
    pub fn batch(medium: u32, number: u64, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Self {
        let writes = writes.iter().map(|(offset, bytes)| (*offset, Arc::from(*bytes))).collect();
        Self::Batch { medium, number, writes, discards: discards.into() }
    }
}

/// What was read, as media and bytes.
pub type Reads = Vec<(u32, Range<u64>)>;

/// Media that lose power together: one event sequence for all of them.
#[derive(Debug, Default)]
pub struct PowerDomain {
    events: Mutex<Vec<Event>>,
    /// Where reads are noted, if they are.
    reads: Option<Mutex<Reads>>,
}

impl PowerDomain {
    /// A domain without events.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A domain without events that notes reads, too.
    pub fn with_reads() -> Arc<Self> {
        Arc::new(Self { reads: Some(Mutex::default()), ..Self::default() })
    }

    /// Notes that `len` bytes at `offset` of a medium are read: for media and their recorders.
    pub fn note_read(&self, medium: u32, offset: u64, len: u64) {
        let Some(reads) = &self.reads else { return };
        let mut reads = reads.lock();
        match reads.last_mut() {
            Some((of, bytes)) if *of == medium && bytes.end == offset => bytes.end += len,
            _ => reads.push((medium, offset..offset + len)),
        }
    }

    /// Takes what was read so far, in order.
    pub fn take_reads(&self) -> Reads {
        self.reads.as_ref().map(|reads| std::mem::take(&mut *reads.lock())).unwrap_or_default()
    }

    /// Appends an event: for media and their recorders. What was written to a block medium or became durable, nobody
    /// was told yet.
    pub fn push(&self, event: Event) {
        let tells = !matches!(event, Event::Store { .. } | Event::WriteBack { .. } | Event::Mark(_));
        let mut events = self.events.lock();
        events.push(event);
        drop(events);
        if tells {
            untold();
        }
    }

    /// Appends a mark.
    pub fn mark(&self, id: u64) {
        self.push(Event::Mark(id));
    }

    /// Takes the events recorded so far and starts anew.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock())
    }
}
