//! The transport over io_uring: one queue a processor, served on that processor.
//!
//! The kernel puts a request into the queue of the processor that its sender runs on, and a thread of that queue is
//! bound there: whoever waits for the answer has left the processor, and nobody else need be woken. A thread has one
//! place (`ondol_ring`). A queue has one thread until that one waits for long, for a commit above all, and nobody else
//! of the queue waits for a request: then it gets another. The place that became free last gets the next request, so
//! threads that a burst made are left alone afterwards.
//!
//! FORGET still comes through `/dev/fuse`, and notifications go there.

use crate::budget::{ForRings, MAX_WRITE, SMALL, Turns};
use crate::channel::{Channel, Device, Fill, Room, Wire};
use crate::coming::{Coming, Serve};
use crate::foreman::{Duty, Foreman};
use crate::proto::numbers::Init;
use crate::proto::reply;
use crate::proto::wire::OutHeader;
use crate::standing::Standing;
use ondol::waits;
use ondol_ring::Place;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, Scope};
use std::time::Duration;
use zerocopy::IntoBytes;

/// The threads of one queue, on a line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Queue {
    /// How many there are, or will be when the foreman has started them.
    threads: AtomicUsize,
    /// Those of them that wait for a request.
    waiting: AtomicUsize,
    /// Those of them whose place takes the next request, also if that waits already.
    fetching: AtomicUsize,
    /// Those that serve one, and wait for long.
    asleep: AtomicUsize,
    /// Those whose place the kernel has, and has given no request yet. It gives them none that waited before.
    fresh: AtomicUsize,
    /// Requests taken.
    turns: AtomicU64,
    /// Who sent the last one that had a sender, and how often that was another than before since the foreman looked.
    sender: AtomicU32,
    changes: AtomicU32,
}

/// So many requests of another sender than the one before, between two looks, are no sign of a second client.
const OTHERS: u32 = 2;

impl Queue {
    fn note(&self, sender: u32) {
        if sender != 0 && self.sender.swap(sender, Relaxed) != sender {
            self.changes.fetch_add(1, Relaxed);
        }
    }

    /// One fresh place less; false where there is none.
    fn spend_fresh(&self) -> bool {
        self.fresh.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok()
    }

    /// Waits for the next request in a place. One that the kernel gets for the first time counts only when the kernel
    /// has it: it takes no request that waits already. One that it gets back with an answer does.
    fn fetch(&self, place: &mut Place) -> io::Result<bool> {
        place.register()?;
        self.fetching.fetch_add(1, Relaxed);
        let fetched = place.fetch();
        self.fetching.fetch_sub(1, Relaxed);
        fetched
    }
}

/// How long a thread that cannot go on alone waits for another of its queue, and between two looks.
const PATIENCE: u32 = 1000;
const TICK: Duration = Duration::from_millis(1);

/// All queues of one connection.
pub(crate) struct Rings {
    queues: Box<[Queue]>,
    agreed: Init,
    /// Threads that one queue may have.
    most: usize,
    /// Turns at what takes memory beside the places' rooms.
    large: Turns,
    /// How their threads are scheduled.
    standing: Arc<Standing>,
    /// Starts threads for queues, which it is told by number.
    foreman: Foreman<usize>,
    /// The kernel took no place: it sends its requests through `/dev/fuse` again.
    refused: AtomicBool,
    /// Where it is mounted, if that is known.
    dir: Option<Arc<Path>>,
}

impl Rings {
    /// For a connection that agreed on io_uring among other things, and has so many queues.
    pub(crate) fn new(
        queues: usize,
        share: ForRings,
        agreed: Init,
        standing: Arc<Standing>,
        dir: Option<Arc<Path>>,
    ) -> Self {
        Self {
            queues: (0..queues).map(|_| Queue::default()).collect(),
            agreed,
            most: share.places,
            large: Turns::new(share.turns),
            standing,
            foreman: Foreman::default(),
            refused: AtomicBool::new(false),
            dir,
        }
    }

    /// Whether requests have to be read from `/dev/fuse` after all.
    pub(crate) fn refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Starts the first thread of each queue. The kernel holds all requests back until each has a place.
    pub(crate) fn start<'s, 'e>(self: &Arc<Self>, scope: &'s Scope<'s, 'e>, device: &'s Device, server: &'s dyn Serve)
    where
        'e: 's,
    {
        (0..self.queues.len()).for_each(|queue| self.grow(queue));
        let rings = Arc::clone(self);
        let work = move || {
            let seen = vec![0; rings.queues.len()];
            rings.foreman.work(&mut Hands { rings: &rings, scope, device, server, seen });
        };
        if let Err(e) = thread::Builder::new().name("ondol-fuse-foreman".into()).spawn_scoped(scope, work) {
            tracing::warn!("no thread can be started: {e}");
            self.refused.store(true, Relaxed);
        }
    }

    /// The connection has ended.
    pub(crate) fn end(&self) {
        self.foreman.end();
    }

    /// Has another thread of a queue started, unless it has as many as it may.
    fn grow(&self, number: usize) {
        let Some(queue) = self.queues.get(number) else { return };
        let more = |n: usize| (n < self.most).then_some(n + 1);
        if queue.threads.fetch_update(Relaxed, Relaxed, more).is_ok() {
            queue.waiting.fetch_add(1, Relaxed);
            self.foreman.hire(number);
        }
    }

    /// A thread of a queue is gone. Requests that only this queue could take would wait for ever if it was the last.
    fn lost(&self, number: usize) {
        let last = self.queues.get(number).is_some_and(|queue| queue.threads.fetch_sub(1, Relaxed) == 1);
        if last {
            self.refused.store(true, Relaxed);
        }
    }

    /// Has a request come to a queue. Its answer makes the kernel look for requests that waited before the queue's
    /// newest place was there.
    fn move_on(&self, number: usize) {
        let Some(dir) = self.dir.clone() else { return };
        // Nobody waits for this thread: what is mounted on the directory by now may never answer.
        let ask = move || {
            if let Err(e) = ondol_ring::ask_oneself(&dir, number) {
                tracing::debug!("processor {number} gets no request: {e}");
            }
        };
        if let Err(e) = thread::Builder::new().name("ondol-fuse-asks".into()).spawn(ask) {
            tracing::warn!("no thread can be started: {e}");
        }
    }

    fn serve(self: &Arc<Self>, device: &Device, server: &dyn Serve, number: usize) -> io::Result<()> {
        bind(number);
        let _member = self.standing.join();
        let Some(queue) = self.queues.get(number) else { return Ok(()) };
        let index = u16::try_from(number).map_err(io::Error::other)?;
        let mut place = Place::new(device.duplicate()?, index, MAX_WRITE as usize)?;
        let another = || queue.fetching.load(Relaxed) > 0;
        place.register()?;
        queue.fresh.fetch_add(1, Relaxed);
        let mut is_fresh = true;
        while queue.fetch(&mut place)? {
            if std::mem::take(&mut is_fresh) {
                queue.spend_fresh();
            }
            queue.waiting.fetch_sub(1, Relaxed);
            queue.turns.fetch_add(1, Relaxed);
            self.foreman.stir();
            let (header, len) = {
                let Some(message) = place.message() else { break };
                let seat = Seat { another: Some(&another), ..Seat::new(device, message.room) };
                let coming = Coming::read(message.bytes, self.agreed);
                let load = coming.load();
                queue.note(load.sender);
                let _turn = (load.copies > SMALL).then(|| waits::long(|| self.large.take()));
                server.serve(&seat, coming);
                seat.answer(message.bytes)
            };
            queue.waiting.fetch_add(1, Relaxed);
            if let Ok(header) = header.as_bytes().try_into() {
                place.answer(header, len);
            }
        }
        Ok(())
    }
}

/// What the foreman of the rings has to start threads with.
struct Hands<'r, 's, 'e> {
    rings: &'r Arc<Rings>,
    scope: &'s Scope<'s, 'e>,
    device: &'s Device,
    server: &'s dyn Serve,
    /// Turns of each queue at the last look.
    seen: Vec<u64>,
}

impl Duty<usize> for Hands<'_, '_, '_> {
    fn start(&mut self, number: usize) {
        let (rings, device, server) = (Arc::clone(self.rings), self.device, self.server);
        let serve = move || {
            let watch = Arc::new(Watched { rings: Arc::clone(&rings), number });
            if let Err(e) = waits::watched(watch, || rings.serve(device, server, number)) {
                tracing::error!("a serving thread of processor {number} ends: {e}");
                rings.lost(number);
            }
        };
        if let Err(e) = thread::Builder::new().name(format!("ondol-fuse-{number}")).spawn_scoped(self.scope, serve) {
            tracing::warn!("processor {number} has no further thread: {e}");
            if let Some(queue) = self.rings.queues.get(number) {
                queue.waiting.fetch_sub(1, Relaxed);
            }
            self.rings.lost(number);
        }
    }

    /// A queue is stuck where all its threads have served one request each since the last look; and it may be where one
    /// has, while requests wait that a fresh place does not get.
    fn look(&mut self) -> bool {
        let (mut busy, mut serving, mut senders, mut changes) = (false, 0, BTreeSet::new(), 0);
        for (number, (queue, seen)) in self.rings.queues.iter().zip(&mut self.seen).enumerate() {
            let turns = queue.turns.load(Relaxed);
            let waiting = queue.waiting.load(Relaxed);
            if turns == *seen && waiting == 0 {
                self.rings.grow(number);
            } else if turns == *seen && waiting < queue.threads.load(Relaxed) && queue.spend_fresh() {
                self.rings.move_on(number);
            }
            changes += queue.changes.swap(0, Relaxed);
            if turns != *seen {
                senders.insert(queue.sender.load(Relaxed));
            }
            busy |= turns != *seen || waiting < queue.threads.load(Relaxed);
            serving += queue.threads.load(Relaxed).saturating_sub(waiting + queue.asleep.load(Relaxed));
            *seen = turns;
        }
        // One client that goes from processor to processor is the same in every queue.
        self.rings.standing.look(serving, senders.len() > 1 || changes > OTHERS);
        busy
    }

    fn rest(&mut self) {
        self.rings.standing.rest();
    }
}

/// Hears of the long waits of a queue's threads.
struct Watched {
    rings: Arc<Rings>,
    number: usize,
}

impl waits::Watch for Watched {
    fn begins(&self) {
        let Some(queue) = self.rings.queues.get(self.number) else { return };
        queue.asleep.fetch_add(1, Relaxed);
        if queue.waiting.load(Relaxed) == 0 {
            self.rings.grow(self.number);
        }
    }

    fn ends(&self) {
        if let Some(queue) = self.rings.queues.get(self.number) {
            queue.asleep.fetch_sub(1, Relaxed);
        }
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
pub(crate) struct Seat<'p> {
    wire: &'p dyn Wire,
    room: Room<'p>,
    answer: Cell<Option<(OutHeader, usize)>>,
    /// Whether the queue has another place for a request.
    another: Option<&'p dyn Fn() -> bool>,
}

impl<'p> Seat<'p> {
    /// An answer that is put into `room`; notifications go through `wire`.
    pub(crate) fn new(wire: &'p dyn Wire, room: &'p mut [u8]) -> Self {
        Self { wire, room: Room::new(room), answer: Cell::new(None), another: None }
    }

    /// The answer's header, and how many bytes of the room follow it. One that was not given, or did not fit, is EIO:
    /// the sender of `message` waits.
    pub(crate) fn answer(&self, message: &[u8]) -> (OutHeader, usize) {
        self.answer.get().unwrap_or_else(|| (unanswered(message), 0))
    }
}

impl Channel for Seat<'_> {
    fn send(&self, header: &OutHeader, parts: [&[u8]; 2]) -> io::Result<()> {
        if header.unique == 0 {
            return self.wire.send(header, parts);
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

    fn wait_for_another(&self) {
        let Some(is_there) = self.another else { return };
        for _ in 0..PATIENCE {
            if is_there() {
                break;
            }
            thread::sleep(TICK);
        }
    }
}
