//! The exchange of ranges of two files: what the kernel keeps of both comes to the volume before, and is dropped afterwards.
//!
//! To drop changed pages the kernel writes them first, which is a request that another thread has to serve while this one waits. So it takes
//! a thread (or a place of the queue) beside, and one exchange at a time.

use super::Terms;
use super::answer::Answering;
use crate::ops::{Answer, Exchanging, Ops};
use crate::proto::Header;
use crate::proto::numbers::Init;
use crate::words::{ino, node, sender};
use ondol::{Exchange, Ino};
use ondol_ring::ExchangeRange;
use rustix::io::Errno;
use zerocopy::FromBytes;

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

/// Serves one exchange with the file that was asked.
pub(super) fn serve(ops: &Ops, terms: &Terms, answer: &Answering<'_>, header: &Header, data: &[u8]) {
    answer.with(exchange(ops, terms, answer, header, data), |()| answer.ioctl(&[]));
}

fn exchange(ops: &Ops, terms: &Terms, answer: &Answering<'_>, header: &Header, data: &[u8]) -> Answer<()> {
    let (range, _) = ExchangeRange::read_from_prefix(data).map_err(|_| Errno::INVAL)?;
    let flags = Flags::from_bits(range.flags).ok_or(Errno::INVAL)?;
    if range.pad != 0 {
        return Err(Errno::INVAL.into());
    }
    // With the writeback cache the kernel keeps sizes itself, and believes nobody.
    let keeps_sizes = terms.agreed.contains(Init::WRITEBACK_CACHE);
    if !terms.others_serve || (keeps_sizes && flags.contains(Flags::TO_EOF)) {
        return Err(Errno::OPNOTSUPP.into());
    }
    let how = Exchange {
        len: (!flags.contains(Flags::TO_EOF)).then_some(range.length),
        written_only: flags.contains(Flags::FILE1_WRITTEN),
        durable: flags.contains(Flags::DSYNC),
        dry_run: flags.contains(Flags::DRY_RUN),
        kill_suid: false,
    };
    let first = Ino::try_from(range.file1_ino).map_err(|_| Errno::NOENT)?;
    let what = Exchanging {
        first: (first, range.file1_offset),
        generation: range.file1_generation,
        second: (ino(header.nodeid), range.file2_offset),
        how,
    };
    ops.exchange(&what, sender(header), &|ino| answer.channel.forget_pages(node(ino)))
}
