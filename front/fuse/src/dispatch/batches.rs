//! F2FS's ioctls of atomic writes (`linux/f2fs.h`), as SQLite uses them.

use super::answer::Answering;
use crate::ops::{Answer, Ops};
use crate::proto::Header;
use crate::proto::wire::IoctlIn;
use crate::words::{ino, sender};
use rustix::io::Errno;
use zerocopy::IntoBytes;

/// `F2FS_IOC_START_ATOMIC_WRITE`, `_COMMIT_ATOMIC_WRITE`, `_ABORT_ATOMIC_WRITE` and `_GET_FEATURES`.
const START: u32 = 0xF501;
const COMMIT: u32 = 0xF502;
const ABORT: u32 = 0xF505;
const GET_FEATURES: u32 = 0x8004_F50C;

/// `F2FS_FEATURE_ATOMIC_WRITE`.
const ATOMIC_WRITE: u32 = 4;

pub(super) fn is_command(command: u32) -> bool {
    [START, COMMIT, ABORT, GET_FEATURES].contains(&command)
}

/// Serves one command.
pub(super) fn serve(ops: &Ops, answer: &Answering<'_>, header: &Header, how: &IoctlIn) {
    if how.cmd == GET_FEATURES {
        let features = ATOMIC_WRITE.to_ne_bytes();
        return answer.ioctl(features.get(..how.out_size as usize).unwrap_or(&features));
    }
    answer.with(change(ops, answer, header, how), |()| answer.ioctl(().as_bytes()));
}

fn change(ops: &Ops, answer: &Answering<'_>, header: &Header, how: &IoctlIn) -> Answer<()> {
    if how.fh == 0 {
        // A directory.
        return Err(Errno::NOTTY.into());
    }
    match how.cmd {
        START => ops.begin_batch(ino(header.nodeid), how.fh),
        COMMIT => {
            let made = ops.commit_batch(how.fh, sender(header), &|| answer.channel.forget_pages(header.nodeid));
            // Also where it failed: the kernel took the size from the writes. Setuid may be gone.
            answer.forget_mode(true, header.nodeid);
            made
        }
        _ => {
            dropped(ops, answer, header, how.fh);
            Ok(())
        }
    }
}

/// Gives up the batch of an open file, if it has one. The kernel believes that the file has become as long as what was written to it.
pub(super) fn dropped(ops: &Ops, answer: &Answering<'_>, header: &Header, handle: u64) {
    answer.forget_mode(ops.drop_batch(handle), header.nodeid);
}
