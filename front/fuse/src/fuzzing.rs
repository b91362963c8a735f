//! The server without a kernel: messages in, answers out. For fuzzers and tests.

use crate::channel::{Channel, Fill, Room};
use crate::coming::{Coming, Serve};
use crate::dispatch::{Dispatch, Terms};
use crate::ops::Ops;
use crate::proto::Request;
use crate::proto::numbers::Init;
use crate::proto::wire::OutHeader;
use ondol::Volume;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The largest answer that is filled in place.
const MOST: usize = 1 << 20;

/// Whether these bytes are a request.
pub fn is_request(message: &[u8]) -> bool {
    Request::parse(message, true).is_ok()
}

/// A volume served to whoever calls.
pub struct Surface {
    ops: Arc<Ops>,
    dispatch: Dispatch,
}

impl Surface {
    /// Serves `volume` as to a kernel that offered everything.
    pub fn new(volume: Volume) -> Self {
        let ops = Arc::new(Ops::new(volume));
        let terms = Terms { agreed: Init::all(), only: None, opens: true };
        Self { dispatch: Dispatch::new(Arc::clone(&ops), terms), ops }
    }

    /// Serves one message. Hands back what was sent, each message with its header.
    pub fn serve(&self, message: &[u8]) -> Vec<Vec<u8>> {
        let sent = Sent::default();
        self.dispatch.serve(&sent, Coming::read(message, Init::all()));
        sent.0.into_inner()
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

impl Channel for Sent {
    fn send(&self, header: &OutHeader, [first, second]: [&[u8]; 2]) -> io::Result<()> {
        self.0.borrow_mut().push([header.as_bytes(), first, second].concat());
        Ok(())
    }

    fn send_filled(&self, unique: u64, len: usize, fill: &mut Fill<'_>) -> io::Result<()> {
        let mut space = vec![0; len.min(MOST)];
        let (header, len) = Room::new(&mut space).fill(unique, len, fill);
        self.send(&header, [space.get(..len).unwrap_or_default(), &[]])
    }
}
