//! The server without a kernel: messages in, answers out. For fuzzers and tests.

use crate::channel::{Served, Wire};
use crate::coming::{Coming, Serve};
use crate::dispatch::{Dispatch, Terms};
use crate::ops::Ops;
use crate::options::Shown;
use crate::proto::numbers::Init;
use crate::proto::wire::OutHeader;
use crate::proto::{Header, Request};
use crate::ring::Seat;
use ondol::Volume;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Room for the largest answer, and for one whose request has kept its room.
const ROOM: usize = 1 << 20;
const BESIDE: usize = 32 << 10;
/// Requests whose payload is longer keep their room, as places of io_uring have it.
const KEPT: usize = 4096;

/// Whether these bytes are a request.
pub fn is_request(message: &[u8]) -> bool {
    Request::parse(message, true).is_ok()
}

/// A volume served to whoever calls.
pub struct Surface {
    ops: Arc<Ops>,
    dispatch: Dispatch,
    room: RefCell<Vec<u8>>,
}

impl Surface {
    /// Serves `volume` as to a kernel that offered everything.
    pub fn new(volume: Volume) -> Self {
        let ops = Arc::new(Ops::new(volume));
        let terms = Terms {
            agreed: Init::all(),
            only: None,
            shown: Shown::default(),
            minixdf: false,
            opens: true,
            others_serve: true,
        };
        Self { dispatch: Dispatch::new(Arc::clone(&ops), terms), ops, room: RefCell::new(vec![0; ROOM]) }
    }

    /// Serves one message as it comes through `/dev/fuse`. Hands back what was sent, each message with its header.
    pub fn serve(&self, message: &[u8]) -> Vec<Vec<u8>> {
        let (sent, mut room) = (Sent::default(), self.room.borrow_mut());
        self.dispatch.serve(&Served::new(&sent, &mut room), Coming::read(message, Init::all()));
        sent.0.into_inner()
    }

    /// The same as it comes through io_uring, where FORGET does not.
    pub fn serve_over_rings(&self, message: &[u8]) -> Vec<Vec<u8>> {
        let (sent, mut room) = (Sent::default(), self.room.borrow_mut());
        let coming = Coming::read(message, Init::all());
        if coming.load().unanswered || message.len() < size_of::<Header>() {
            drop(room);
            return self.serve(message);
        }
        let space = if message.len() < KEPT { ROOM } else { BESIDE };
        let seat = Seat::new(&sent, room.get_mut(..space).unwrap_or_default());
        self.dispatch.serve(&seat, coming);
        let (header, len) = seat.answer(message);
        let answer = [header.as_bytes(), room.get(..len).unwrap_or_default()].concat();
        sent.0.borrow_mut().push(answer);
        sent.0.into_inner()
    }

    /// The addresses of the room from which answers are sent.
    pub fn room(&self) -> std::ops::Range<usize> {
        let range = self.room.borrow().as_ptr_range();
        range.start.addr()..range.end.addr()
    }

    /// Whether a request has panicked.
    pub fn is_broken(&self) -> bool {
        self.ops.is_broken()
    }

    /// Ends serving.
    pub fn into_volume(self) -> Option<Volume> {
        self.ops.close()
    }
}

#[derive(Default)]
struct Sent(RefCell<Vec<Vec<u8>>>);

impl Wire for Sent {
    fn send(&self, header: &OutHeader, [first, second]: [&[u8]; 2]) -> io::Result<()> {
        self.0.borrow_mut().push([header.as_bytes(), first, second].concat());
        Ok(())
    }
}
