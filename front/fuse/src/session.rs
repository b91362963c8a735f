//! The conversation with the kernel: the handshake, and the threads that serve.
//!
//! Requests run where they were received; nothing is handed over. How many threads there are, and who takes the next
//! request, is `crew`'s to decide.

use crate::budget::{ForDevice, ForRings, MAX_WRITE, ROOM, SMALL};
use crate::channel::{Device, Served, Wire};
use crate::coming::{Coming, Serve};
use crate::crew::{Crew, Size};
use crate::follow::Follow;
use crate::foreman::Duty;
use crate::ops::Carrier;
use crate::proto::numbers::{self, Init};
use crate::proto::wire::{InitIn, InitOut};
use crate::proto::{Operation, Request, reply};
use crate::ring::Rings;
use crate::standing::Standing;
use ondol::waits;
use parking_lot::Mutex;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, Scope};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Pages of the largest request.
const MAX_PAGES: u16 = 256;

/// Requests that the kernel may have under way on its own account (read-ahead, asynchronous I/O), and the number at
/// which it begins to slow their senders down.
const MAX_BACKGROUND: u16 = 64;
const CONGESTED: u16 = 48;

/// For how long FORGETs gather, where they alone come through `/dev/fuse`.
const GATHERING: Duration = Duration::from_millis(2);

/// How a connection is served.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Threads that run at the same time, where there is work for them.
    pub(crate) running: usize,
    /// Threads at most.
    pub(crate) most: usize,
    /// Bytes of memory for messages.
    pub(crate) room: usize,
    /// What is agreed on if the kernel offers it.
    pub(crate) wanted: Init,
    /// Where it is mounted, if that is known.
    pub(crate) dir: Option<Arc<Path>>,
}

/// A connection on which kernel and server have agreed.
pub(crate) struct Session {
    device: Device,
    agreed: Init,
    /// Where requests come through io_uring.
    rings: Option<Arc<Rings>>,
    server: Box<dyn Serve>,
    crew: Arc<Crew>,
    /// Bytes that the crew's rooms take beyond what was given for them.
    excess: usize,
    /// How serving threads are scheduled.
    standing: Arc<Standing>,
    /// What went wrong first.
    failed: Mutex<Option<io::Error>>,
}

impl Session {
    /// Waits for the kernel's first request and agrees on how to go on.
    ///
    /// # Errors
    /// The connection broke, or the kernel is too old.
    pub(crate) fn begin(
        connection: OwnedFd,
        config: &Config,
        server: impl FnOnce(Init) -> Box<dyn Serve>,
    ) -> io::Result<Self> {
        let device = Device::new(connection);
        let agreed = handshake(&device, config.wanted)?;
        let server = server(agreed);
        let has_rings = agreed.contains(Init::OVER_IO_URING);
        // The kernel keeps the place that a thread has given it, so that a queue's threads are not replaced.
        let standing = Arc::new(Standing::new(!has_rings));
        let for_device = ForDevice::of(config.room);
        let rings = has_rings.then(|| {
            let queues = ondol_ring::queues();
            let share = ForRings::of(config.room, queues, config.most);
            server.is_carried_by(Carrier::Rings, share.excess);
            Arc::new(Rings::new(queues, share, agreed, standing.clone(), config.dir.clone()))
        });
        if rings.is_none() {
            server.is_carried_by(Carrier::Device, for_device.excess);
        }
        Ok(Self {
            device,
            agreed,
            rings,
            server,
            crew: Arc::new(Crew::new(Size {
                running: config.running,
                threads: config.most.max(1),
                rooms: for_device.rooms,
                room: ROOM,
            })),
            excess: for_device.excess,
            standing,
            failed: Mutex::new(None),
        })
    }

    /// Serves until the connection ends.
    ///
    /// # Errors
    /// What broke the connection, or why no thread could be started.
    pub(crate) fn run(&self) -> io::Result<()> {
        thread::scope(|scope| -> io::Result<()> {
            if let Some(rings) = &self.rings {
                rings.start(scope, &self.device, &*self.server);
                let refused = self.serve_beside(rings);
                rings.end();
                if !refused? {
                    return Ok(());
                }
                tracing::warn!("requests come through /dev/fuse: the kernel took no ring");
                self.server.is_carried_by(Carrier::Device, self.excess);
            }
            self.crew.foreman.work(&mut Hands { session: self, scope, started: 0 });
            Ok(())
        })?;
        self.failed.lock().take().map_or(Ok(()), Err)
    }

    /// Serves what comes through `/dev/fuse` beside the rings, which is FORGET. Nobody waits for it, so that the thread
    /// lets some gather instead of being woken for each. True when all requests come here after all, false when the
    /// connection has ended.
    fn serve_beside(&self, rings: &Rings) -> io::Result<bool> {
        let (mut buffer, mut answer) = (buffer(), buffer());
        while let Some(message) = self.device.receive(&mut buffer)? {
            let coming = Coming::read(message, self.agreed);
            let load = coming.load();
            self.server.serve(&Served::new(&self.device, &mut answer), coming);
            if rings.refused() {
                return Ok(true);
            }
            if load.unanswered {
                thread::sleep(GATHERING);
            }
        }
        Ok(false)
    }

    /// The life of a serving thread, which begins with `room`.
    fn serve(&self, room: Vec<u8>) {
        let watch: Arc<dyn waits::Watch> = self.crew.clone();
        match waits::watched(watch, || self.serve_all(room)) {
            Ok(true) => return,
            Ok(false) => {}
            Err(e) => {
                tracing::error!("a serving thread ends: {e}");
                self.failed.lock().get_or_insert(e);
            }
        }
        self.crew.end();
    }

    /// True when the thread is let go, false when the connection has ended.
    fn serve_all(&self, mut room: Vec<u8>) -> io::Result<bool> {
        let (mut small, mut answer) = (vec![0; SMALL], vec![0; SMALL]);
        let mut follow = Follow::new();
        let member = self.standing.join();
        loop {
            let Some(len) = self.device.receive(&mut room)?.map(<[u8]>::len) else { return Ok(false) };
            let (load, back) = match small.get_mut(..len) {
                Some(message) => {
                    message.copy_from_slice(&room[..len]);
                    let coming = Coming::read(message, self.agreed);
                    let load = coming.load();
                    if load.room.max(load.copies) > SMALL {
                        self.crew.taken(load.sender, None);
                        self.server.serve(&Served::new(&self.device, &mut room), coming);
                        (load, Some(room))
                    } else {
                        self.crew.taken(load.sender, Some(room));
                        self.server.serve(&Served::new(&self.device, &mut answer), coming);
                        (load, None)
                    }
                }
                None => {
                    let coming = Coming::read(&room[..len], self.agreed);
                    let load = coming.load();
                    self.crew.taken(load.sender, None);
                    self.server.serve(&Served::new(&self.device, &mut answer), coming);
                    (load, Some(room))
                }
            };
            follow.note(load.sender, load.bytes);
            match self.crew.finished(back) {
                Some(next) if member.is_spent() => {
                    self.crew.replaced(next);
                    return Ok(true);
                }
                Some(next) => room = next,
                None => return Ok(true),
            }
        }
    }
}

/// What the foreman of a crew has to start threads with.
struct Hands<'s, 'e> {
    session: &'s Session,
    scope: &'s Scope<'s, 'e>,
    /// Threads that there have been.
    started: usize,
}

impl Duty<Vec<u8>> for Hands<'_, '_> {
    fn start(&mut self, room: Vec<u8>) {
        let session = self.session;
        let builder = thread::Builder::new().name(format!("ondol-fuse-{}", self.started));
        self.started += 1;
        if let Err(e) = builder.spawn_scoped(self.scope, move || session.serve(room)) {
            let left = session.crew.not_started();
            tracing::warn!("only {left} threads serve: {e}");
            if left == 0 {
                session.failed.lock().get_or_insert(e);
                session.crew.end();
            }
        }
    }

    fn look(&mut self) -> bool {
        let (serving, company) = self.session.crew.at_work();
        self.session.standing.look(serving, company);
        self.session.crew.look()
    }

    fn rest(&mut self) {
        self.session.standing.rest();
    }
}

/// Room for the largest message.
pub(crate) fn buffer() -> Vec<u8> {
    vec![0; ROOM]
}

/// Waits for the kernel's first request and agrees on how to go on.
///
/// # Errors
/// The connection broke, or the kernel is too old.
pub(crate) fn handshake(device: &Device, wanted: Init) -> io::Result<Init> {
    let broken = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut buffer = buffer();
    loop {
        let ended = || io::Error::from(io::ErrorKind::NotConnected);
        let message = device.receive(&mut buffer)?.ok_or_else(ended)?;
        let request = Request::parse(message, false).map_err(|(_, e)| broken(e.to_string()))?;
        let Operation::Init { first, flags2 } = request.operation else {
            return Err(broken(format!("opcode {} before the handshake", request.header.opcode)));
        };
        let unique = request.header.unique;
        if first.major < numbers::MAJOR || (first.major == numbers::MAJOR && first.minor < numbers::MINOR_OLDEST) {
            let _ = device.send(&reply::header(unique, rustix::io::Errno::PROTO.raw_os_error(), 0), [&[], &[]]);
            return Err(broken(format!("this kernel speaks FUSE {}.{}, which is too old", first.major, first.minor)));
        }
        let (answer, agreed) = agree(&first, flags2, wanted);
        device.send(&reply::header(unique, 0, size_of_val(&answer)), [answer.as_bytes(), &[]])?;
        // A kernel of a later major version asks once more, in ours.
        if first.major == numbers::MAJOR {
            return Ok(agreed);
        }
    }
}

/// The answer to INIT, and what it says.
fn agree(first: &InitIn, flags2: u32, wanted: Init) -> (InitOut, Init) {
    let mut offered = u64::from(first.flags);
    if offered & Init::INIT_EXT.bits() != 0 {
        offered |= u64::from(flags2) << 32;
    }
    let agreed = Init::from_bits_truncate(offered) & wanted;
    tracing::debug!("FUSE {}.{}: {agreed:?}; not offered: {:?}", first.major, first.minor, wanted - agreed);
    let bits = agreed.bits();
    let answer = InitOut {
        major: numbers::MAJOR,
        minor: numbers::MINOR,
        max_readahead: first.max_readahead.max(MAX_WRITE),
        flags: (bits & u64::from(u32::MAX)) as u32,
        flags2: (bits >> 32) as u32,
        max_background: MAX_BACKGROUND,
        congestion_threshold: CONGESTED,
        max_write: MAX_WRITE,
        time_gran: 1,
        max_pages: MAX_PAGES,
        ..InitOut::default()
    };
    (answer, agreed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel offers in its second word counts only if it says that there is one.
    #[test]
    fn nothing_is_agreed_on_that_is_not_offered() {
        let wanted = crate::flags::of_mount(true, true, true);
        let offer = |flags: Init, flags2| {
            let first = InitIn { major: 7, minor: 45, flags: flags.bits() as u32, ..InitIn::default() };
            let (answer, agreed) = agree(&first, flags2, wanted);
            assert_eq!(u64::from(answer.flags) | u64::from(answer.flags2) << 32, agreed.bits());
            agreed
        };
        assert_eq!(offer(Init::all(), u32::MAX), wanted);
        assert_eq!(offer(Init::ASYNC_DIO | Init::DONT_MASK, u32::MAX), Init::DONT_MASK);
        assert_eq!(offer(Init::empty(), u32::MAX), Init::empty());
    }
}
