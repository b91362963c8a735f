//! Exchanging ranges of two files, of which the kernel knows one, and for which it checks nothing.

use super::sender::Capability;
use super::{Answer, Op, Ops, Sender};
use ondol::inodes::{Error, Inodes};
use ondol::{Attr, Exchange, Ino};
use rustix::io::Errno;
use std::io;

/// What is to be exchanged.
pub(crate) struct Exchanging {
    /// The file that is named by its number, and a byte.
    pub(crate) first: (Ino, u64),
    /// The generation of its inode.
    pub(crate) generation: u32,
    /// The file that is asked, and a byte.
    pub(crate) second: (Ino, u64),
    pub(crate) how: Exchange,
}

impl Ops {
    /// Exchanges; `forget` has the kernel write and forget its pages of a file.
    ///
    /// A server sees neither how a descriptor was opened nor how its sender came to a file. So both files must be the sender's own, readable and writable for
    /// their owner, unless permission bits do not count for the sender.
    pub(crate) fn exchange(
        &self,
        what: &Exchanging,
        sender: Sender,
        forget: &dyn Fn(Ino) -> io::Result<()>,
    ) -> Answer<()> {
        // Whoever waited here would take the place of those that the kernel needs.
        let Some(_alone) = self.exchanging.try_lock() else { return Err(Errno::AGAIN.into()) };
        let all = sender.may(Capability::DacOverride);
        let may =
            |a: &Attr| if all || is_own(a, sender) { Ok(()) } else { Err(Error::Denied("not the sender's own file")) };
        let both = [what.first.0, what.second.0];
        let forget_both = |_: &Inodes| {
            both.into_iter().try_for_each(forget).map_err(|e| {
                tracing::warn!("the kernel keeps pages of files that are exchanged: {e}");
                Error::Unsupported("the kernel keeps its pages".into())
            })
        };
        self.change(Op::Ioctl, sender, |i| {
            i.by_number(what.first.0)?;
            // It keeps its number meanwhile.
            i.open(what.first.0)?;
            let done = (|| {
                let first = i.by_number(what.first.0)?;
                if first.generation != what.generation {
                    return Err(Error::NotFound);
                }
                may(&first)?;
                may(&i.getattr(what.second.0)?)?;
                let how = Exchange { kill_suid: !sender.may(Capability::Fsetid), ..what.how };
                if how.dry_run {
                    return i.exchange(what.first, what.second, &how);
                }
                forget_both(i)?;
                i.exchange(what.first, what.second, &how)?;
                forget_both(i)
            })();
            let released = i.release(what.first.0);
            done.and(released)
        })
    }
}

/// Whether the sender could open a file of its own for reading and writing.
fn is_own(a: &Attr, sender: Sender) -> bool {
    const OWNER: u16 = 0o600;
    a.uid == sender.uid && a.perm & OWNER == OWNER
}
