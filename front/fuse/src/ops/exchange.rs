//! Exchanging ranges of two files: what a sender asks for, and the exchange once the kernel has checked both files.

use super::sender::Capability;
use super::tickets::Exchanging;
use super::{Answer, Op, Ops, Sender, Ticket};
use ondol::inodes::{Error, Inodes};
use ondol::{Exchange, Ino};
use rustix::io::Errno;
use std::io;

/// What is asked of a file that the sender may read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// A ticket for an exchange whose second file it is, from these bytes of the first and the second on.
    Second([u64; 2], Exchange),
    /// To be the first file.
    First(Ticket),
}

impl Ops {
    /// Notes one of the files of an exchange. The second one's answer is a ticket, to be presented on the first file
    /// and then on the second.
    pub(crate) fn ask_exchange(&self, ino: Ino, asked: &Asked, sender: Sender) -> Answer<Option<Ticket>> {
        let a = self.ask(Op::Getxattr, |i| i.by_number(ino))?;
        let file = (ino, a.generation);
        match *asked {
            Asked::Second(offsets, how) => self.tickets.issue(sender, file, offsets, how).map(Some),
            Asked::First(ticket) => self.tickets.join(ticket, sender, file).map(|()| None),
        }
    }

    /// Takes a ticket on a file that the sender has opened for writing, and exchanges when it was presented on both;
    /// `forget` has the kernel write and forget its pages of a file.
    pub(crate) fn present(
        &self,
        ino: Ino,
        ticket: Ticket,
        sender: Sender,
        forget: &dyn Fn(Ino) -> io::Result<()>,
    ) -> Answer<()> {
        let done = self.change(Op::Fallocate, sender, |i| {
            let file = (ino, i.by_number(ino)?.generation);
            // What a range behind the largest file is without a ticket.
            let what = self.tickets.present(ticket, sender, file).map_err(|_| Error::FileTooBig)?;
            let Some(what) = what else { return Ok(true) };
            // Whoever waited here would take the place of those that the kernel needs.
            let Some(_alone) = self.exchanging.try_lock() else { return Ok(false) };
            exchange(i, &what, sender, forget).map(|()| true)
        })?;
        if done { Ok(()) } else { self.refused(Op::Fallocate, Errno::AGAIN.into()) }
    }
}

fn exchange(
    i: &Inodes,
    what: &Exchanging,
    sender: Sender,
    forget: &dyn Fn(Ino) -> io::Result<()>,
) -> Result<(), Error> {
    let [(first, generation), (second, _)] = what.files;
    let [a, b] = what.offsets;
    let forget_both = || {
        [first, second].into_iter().try_for_each(forget).map_err(|e| {
            tracing::warn!("the kernel keeps pages of files that are exchanged: {e}");
            Error::Unsupported("the kernel keeps its pages".into())
        })
    };
    // It keeps its number meanwhile.
    i.inode_ops().open(first)?;
    let done = (|| {
        if i.getattr(first)?.generation != generation {
            return Err(Error::NotFound);
        }
        let how = Exchange { kill_suid: !sender.may(Capability::Fsetid), ..what.how };
        if how.dry_run {
            return i.ranges().exchange(first, a, second, b, &how);
        }
        forget_both()?;
        i.ranges().exchange(first, a, second, b, &how)?;
        forget_both()
    })();
    let released = i.inode_ops().release(first);
    done.and(released)
}
