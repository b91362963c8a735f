//! The seam on the server's side: messages that have come, and who serves them.

use crate::channel::Channel;
use crate::ops::Carrier;
use crate::proto::numbers::Init;
use crate::proto::reply;
use crate::proto::{Header, Malformed, Operation, Request};
use rustix::io::Errno;

/// Bytes of a range that are copied at a time.
const COPIED: usize = 1 << 20;

/// Serves the messages of one connection: a volume's requests, or those of a file system without one.
pub(crate) trait Serve: Send + Sync {
    /// Serves one message and answers it, if it is to be answered.
    fn serve(&self, channel: &dyn Channel, message: Coming<'_>);

    /// What carries messages from now on, and the bytes of memory that they take beyond those that were given for them.
    fn is_carried_by(&self, carrier: Carrier, excess: usize);
}

/// What a request is to the thread that serves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// The thread that sent it; 0 for what the kernel sends on its own account.
    pub(crate) sender: u32,
    /// Bytes of contents that it carries or asks for.
    pub(crate) bytes: u32,
    /// Bytes of room that its answer is put together in.
    pub(crate) room: usize,
    /// Bytes of contents that are once more in memory while it is served.
    pub(crate) copies: usize,
    /// Nobody waits for it.
    pub(crate) unanswered: bool,
}

/// A message that has come.
pub(crate) struct Coming<'m>(Result<Request<'m>, (Option<Header>, Malformed)>);

impl<'m> Coming<'m> {
    /// Reads one message as was agreed on at the start.
    pub(crate) fn read(message: &'m [u8], agreed: Init) -> Self {
        Self(Request::parse(message, agreed.contains(Init::SETXATTR_EXT)))
    }

    /// What it is to whoever serves it.
    pub(crate) fn load(&self) -> Load {
        use Operation as O;
        let Ok(request) = &self.0 else { return Load::default() };
        let load = Load { sender: request.header.pid, ..Load::default() };
        match &request.operation {
            O::Read(what) => Load { bytes: what.size, room: what.size as usize, ..load },
            O::Readdir(what) | O::Readdirplus(what) => Load { room: what.size as usize, ..load },
            O::Write(how, data) => Load { bytes: how.size, copies: data.len(), ..load },
            O::CopyFileRange { .. } => Load { copies: COPIED, ..load },
            O::Forget(_) | O::BatchForget(_) => Load { unanswered: true, ..load },
            _ => load,
        }
    }

    /// The request; what is none is answered as far as that can be done.
    pub(crate) fn request(self, channel: &dyn Channel) -> Option<Request<'m>> {
        match self.0 {
            Ok(request) => Some(request),
            Err((header, e)) => {
                tracing::warn!("the kernel sent what is no request: {e}");
                if let Some(header) = header {
                    let refusal = reply::header(header.unique, Errno::INVAL.raw_os_error(), 0);
                    if let Err(e) = channel.send(&refusal, [&[], &[]]) {
                        tracing::debug!("answer to opcode {}: {e}", header.opcode);
                    }
                }
                None
            }
        }
    }
}
