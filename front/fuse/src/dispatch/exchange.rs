//! The exchange of ranges of two files: what the kernel keeps of both comes to the volume before, and is dropped
//! afterwards.
//!
//! To drop changed pages the kernel writes them first, which is a request that another thread has to serve while this
//! one waits. So it takes a thread (or a place of the queue) beside, and one exchange at a time.

use super::Terms;
use super::answer::Answering;
use crate::client::EXCHANGE;
use crate::ops::{Answer, Asked, Ops, Ticket};
use crate::proto::Header;
use crate::proto::numbers::Init;
use crate::words::{ino, node, sender};
use ondol::Exchange;
use rustix::io::Errno;

bitflags::bitflags! {
    /// XFS's flags (`linux/fs/xfs/libxfs/xfs_fs.h`).
    #[derive(Clone, Copy)]
    struct Flags: u64 {
        /// Everything to the ends of the files, and the sizes.
        const TO_EOF = 1;
        /// Durable on return.
        const DSYNC = 2;
        /// Checks only.
        const DRY_RUN = 4;
        /// Only what is written in the first file.
        const FILE1_WRITTEN = 8;
    }
}

/// Answers the question for an attribute by which a file takes part in an exchange; `None` if it is another one. The
/// value is the ticket's two numbers, or empty.
pub(super) fn ask(ops: &Ops, terms: &Terms, header: &Header, name: &[u8]) -> Option<Answer<Vec<u8>>> {
    let numbers = name.strip_prefix(EXCHANGE.as_bytes())?;
    let ticket = asked(terms, numbers).and_then(|asked| ops.ask_exchange(ino(header.nodeid), &asked, sender(header)));
    Some(ticket.map(|ticket| ticket.map_or_else(Vec::new, |t| [t.offset, t.len].map(u64::to_ne_bytes).concat())))
}

/// `FLAGS.OFFSET.OFFSET.LENGTH` asks for a ticket, and the ticket's `OFFSET.LENGTH` brings the first file.
fn asked(terms: &Terms, numbers: &[u8]) -> Answer<Asked> {
    let text = std::str::from_utf8(numbers).map_err(|_| Errno::INVAL)?;
    let numbers = text.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>().map_err(|_| Errno::INVAL)?;
    let (flags, offsets, length) = match *numbers {
        [offset, len] => return Ok(Asked::First(Ticket { offset, len })),
        [flags, first, second, length] => (Flags::from_bits(flags).ok_or(Errno::INVAL)?, [first, second], length),
        _ => return Err(Errno::INVAL.into()),
    };
    // With the writeback cache the kernel keeps sizes itself, and believes nobody.
    let keeps_sizes = terms.agreed.contains(Init::WRITEBACK_CACHE);
    if !terms.others_serve || (keeps_sizes && flags.contains(Flags::TO_EOF)) {
        return Err(Errno::OPNOTSUPP.into());
    }
    let how = Exchange {
        len: (!flags.contains(Flags::TO_EOF)).then_some(length),
        written_only: flags.contains(Flags::FILE1_WRITTEN),
        durable: flags.contains(Flags::DSYNC),
        dry_run: flags.contains(Flags::DRY_RUN),
        kill_suid: false,
    };
    Ok(Asked::Second(offsets, how))
}

/// Takes a ticket on the file that the request is about.
pub(super) fn present(ops: &Ops, answer: &Answering<'_>, header: &Header, ticket: Ticket) {
    let forget = |ino| answer.channel.forget_pages(node(ino));
    answer.done(ops.present(ino(header.nodeid), ticket, sender(header), &forget));
}
