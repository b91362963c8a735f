//! The transport over io_uring: one queue a processor, served on that processor.
//!
//! The kernel puts a request into the queue of the processor that its sender runs on, and a thread of that queue is bound there:
//! whoever waits for the answer has left the processor, and nobody else need be woken. A thread has one place (`ondol_ring`). While all
//! threads of a queue are busy, fsyncs above all, whoever takes the last free place starts another thread. The place that became
//! free last gets the next request, so threads that a burst made are left alone afterwards.
//!
//! FORGET still comes through `/dev/fuse`, and notifications go there.

use crate::budget::{ForRings, MAX_WRITE, SMALL, Turns};
use crate::channel::{Channel, Device, Fill, Room};
use crate::coming::{Coming, Serve};
use crate::proto::numbers::Init;
use crate::proto::reply;
use crate::proto::wire::OutHeader;
use ondol_ring::Place;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use zerocopy::IntoBytes;

/// The threads of one queue, on a line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Queue {
    /// How many there are.
    threads: AtomicUsize,
    /// Those of them that wait for a request.
    waiting: AtomicUsize,
}

/// All queues of one connection.
#[derive(Debug)]
pub(crate) struct Rings {
    queues: Box<[Queue]>,
    agreed: Init,
    /// Threads that one queue may have.
    most: usize,
    /// Turns at what takes memory beside the places' rooms.
    large: Turns,
    /// The kernel took no place: it sends its requests through `/dev/fuse` again.
    refused: AtomicBool,
}

impl Rings {
    /// For a connection that agreed on io_uring among other things, and has so many queues.
    pub(crate) fn new(queues: usize, share: ForRings, agreed: Init) -> Self {
        Self {
            queues: (0..queues).map(|_| Queue::default()).collect(),
            agreed,
            most: share.places,
            large: Turns::new(share.turns),
            refused: AtomicBool::new(false),
        }
    }

    /// Whether requests have to be read from `/dev/fuse` after all.
    pub(crate) fn refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Starts the first thread of each queue. The kernel holds all requests back until each has a place.
    pub(crate) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, device: &'s Device, server: &'s dyn Serve) {
        for queue in 0..self.queues.len() {
            self.add(scope, device, server, queue);
        }
    }

    /// Starts another thread of a queue, unless it has as many as it may.
    fn add<'s>(&'s self, scope: &'s Scope<'s, '_>, device: &'s Device, server: &'s dyn Serve, number: usize) {
        let Some(queue) = self.queues.get(number) else { return };
        let more = |n: usize| (n < self.most).then_some(n + 1);
        let Ok(n) = queue.threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else { return };
        queue.waiting.fetch_add(1, Ordering::Relaxed);
        let serve = move || {
            if let Err(e) = self.serve(scope, device, server, number) {
                tracing::error!("a serving thread of processor {number} ends: {e}");
                // Requests that this queue alone could take would wait for ever.
                if n == 0 {
                    self.refused.store(true, Ordering::Relaxed);
                }
            }
        };
        if let Err(e) = thread::Builder::new().name(format!("ondol-fuse-{number}-{n}")).spawn_scoped(scope, serve) {
            tracing::warn!("only {n} threads serve processor {number}: {e}");
            queue.waiting.fetch_sub(1, Ordering::Relaxed);
            if n == 0 {
                self.refused.store(true, Ordering::Relaxed);
            }
        }
    }

    fn serve<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        device: &'s Device,
        server: &'s dyn Serve,
        number: usize,
    ) -> io::Result<()> {
        bind(number);
        let Some(queue) = self.queues.get(number) else { return Ok(()) };
        let index = u16::try_from(number).map_err(io::Error::other)?;
        let mut place = Place::new(device.duplicate()?, index, MAX_WRITE as usize)?;
        while place.fetch()? {
            if queue.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.add(scope, device, server, number);
            }
            let (header, len) = {
                let Some(message) = place.message() else { break };
                let seat = Seat { device, room: Room::new(message.room), answer: Cell::new(None) };
                let coming = Coming::read(message.bytes, self.agreed);
                let _turn = (coming.load().copies > SMALL).then(|| self.large.take());
                server.serve(&seat, coming);
                seat.answer.get().unwrap_or_else(|| (unanswered(message.bytes), 0))
            };
            queue.waiting.fetch_add(1, Ordering::Relaxed);
            if let Ok(header) = header.as_bytes().try_into() {
                place.answer(header, len);
            }
        }
        Ok(())
    }
}

/// What the kernel gets for a request that nobody answered, so that its sender does not wait for ever.
fn unanswered(message: &[u8]) -> OutHeader {
    const UNIQUE: std::ops::Range<usize> = 8..16;
    let unique = message.get(UNIQUE).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
    reply::header(unique, Errno::IO.raw_os_error(), 0)
}

/// Binds the calling thread to a processor, if it may run there.
fn bind(processor: usize) {
    if processor < CpuSet::MAX_CPU {
        let mut one = CpuSet::new();
        one.set(processor);
        if let Err(e) = sched_setaffinity(None, &one) {
            tracing::debug!("a serving thread is not bound to processor {processor}: {e}");
        }
    }
}

/// Where one request's answer is put.
struct Seat<'p> {
    device: &'p Device,
    room: Room<'p>,
    answer: Cell<Option<(OutHeader, usize)>>,
}

impl Channel for Seat<'_> {
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()> {
        if header.unique == 0 {
            return self.device.send(header, parts);
        }
        let [first, second] = parts;
        let put = |space: &mut [u8]| {
            let (front, rest) = space.split_at_mut_checked(first.len())?;
            rest.get_mut(..second.len())?.copy_from_slice(second);
            front.copy_from_slice(first);
            Some(first.len() + second.len())
        };
        let len = self.room.with(put).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.answer.set(Some((*header, len)));
        Ok(())
    }

    fn send_filled(&self, unique: u64, len: usize, fill: &mut Fill<'_>) -> io::Result<()> {
        self.answer.set(Some(self.room.fill(unique, len, fill)));
        Ok(())
    }
}
