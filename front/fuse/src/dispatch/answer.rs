//! The answer to one request.

use crate::channel::Channel;
use crate::flags::TTL;
use crate::ops::{Answer, Errno as Number};
use crate::options::Shown;
use crate::proto::Header;
use crate::proto::numbers::Fopen;
use crate::proto::reply;
use crate::proto::wire::{AttrOut, CreateOut, EntryOut, GetxattrIn, IoctlOut, OpenOut};
use crate::words::{attr, node};
use ondol::Attr;
use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

/// Answers one request.
pub(crate) struct Answering<'a> {
    pub(crate) channel: &'a dyn Channel,
    pub(crate) header: &'a Header,
    /// What is shown of files in the place of what the image says.
    pub(crate) shown: Shown,
}

impl Answering<'_> {
    fn send(&self, error: i32, parts: [&[u8]; 2]) {
        let [first, second] = parts;
        let header = reply::header(self.header.unique, error, first.len() + second.len());
        if let Err(e) = self.channel.send(&header, parts) {
            // The sender of a request may be gone before its answer comes, or the whole mount.
            tracing::debug!("answer to opcode {} of {} bytes: {e}", self.header.opcode, header.len);
        }
    }

    pub(crate) fn data(&self, data: &[u8]) {
        self.send(0, [data, &[]]);
    }

    /// Answers with what `fill` puts where it is sent from.
    pub(crate) fn filled(&self, len: u32, fill: &mut dyn FnMut(&mut [u8]) -> Answer<usize>) {
        let sent =
            self.channel.send_filled(self.header.unique, len as usize, &mut |space| fill(space).map_err(|e| e.0));
        if let Err(e) = sent {
            tracing::debug!("answer to opcode {} of up to {len} bytes: {e}", self.header.opcode);
        }
    }

    pub(crate) fn body<T: IntoBytes + Immutable>(&self, body: &T) {
        self.data(body.as_bytes());
    }

    pub(crate) fn error(&self, e: Errno) {
        self.send(e.raw_os_error(), [&[], &[]]);
    }

    fn failed(&self, e: Number) {
        self.send(e.0, [&[], &[]]);
    }

    /// Answers with what `f` makes of a result, or with why there is none.
    pub(crate) fn with<T>(&self, answer: Answer<T>, f: impl FnOnce(&T)) {
        match answer {
            Ok(value) => f(&value),
            Err(e) => self.failed(e),
        }
    }

    pub(crate) fn done(&self, answer: Answer<()>) {
        self.with(answer, |()| self.data(&[]));
    }

    pub(crate) fn attr(&self, answer: Answer<Attr>) {
        self.with(answer, |a| {
            let out = AttrOut { attr_valid: TTL, attr_valid_nsec: 0, dummy: 0, attr: attr(&self.shown.of(a)) };
            self.body(&out);
        });
    }

    pub(crate) fn entry(&self, answer: Answer<Attr>) {
        self.with(answer, |a| self.body(&entry(&self.shown.of(a))));
    }

    /// Node 0 says that a name does not exist, and for how long that may be believed.
    pub(crate) fn no_such_name(&self) {
        self.body(&EntryOut { entry_valid: TTL, ..EntryOut::default() });
    }

    pub(crate) fn opened(&self, how: Fopen) {
        self.body(&opened(how));
    }

    pub(crate) fn created(&self, answer: Answer<Attr>, how: Fopen) {
        let open = opened(how);
        self.with(answer, |a| self.body(&CreateOut { entry: entry(&self.shown.of(a)), open }));
    }

    /// Answers a request for `size` bytes of an attribute: 0 asks how many there are.
    pub(crate) fn xattr(&self, answer: Answer<Vec<u8>>, size: u32) {
        self.with(answer, |value| match value.len() {
            len if size == 0 => self.body(&GetxattrIn { size: u32::try_from(len).unwrap_or(u32::MAX), padding: 0 }),
            len if len <= size as usize => self.data(value),
            _ => self.error(Errno::RANGE),
        });
    }

    pub(crate) fn ioctl(&self, data: &[u8]) {
        self.send(0, [IoctlOut::default().as_bytes(), data]);
    }

    /// Has the kernel forget a mode, or other attributes: answers to writes and opens do not carry the new one, and a
    /// setuid bit that is gone must not be honoured for the time that attributes are kept.
    pub(crate) fn forget_mode(&self, changed: bool, node: u64) {
        if changed && let Err(e) = self.channel.forget_attributes(node) {
            tracing::warn!("the kernel keeps old attributes of inode {node}: {e}");
        }
    }
}

/// What the kernel is told about what it has opened. Nothing names an open file: number 0.
fn opened(how: Fopen) -> OpenOut {
    OpenOut { fh: 0, open_flags: how.bits(), backing_id: 0 }
}

fn entry(a: &Attr) -> EntryOut {
    reply::entry(node(a.ino), a.generation, attr(a), TTL)
}
