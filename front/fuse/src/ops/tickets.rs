//! Tickets, by which a program says which two files are to be exchanged.
//!
//! A server sees neither how a descriptor was opened nor on which mount. So both files take part by calls that the
//! kernel checks on the mount of each: an attribute outside of all namespaces tells its value to who may read the file,
//! and fallocate(2) needs a descriptor that was opened for writing.
//!
//! An exchange of A and B takes four calls of one thread: getxattr(2) of
//! `ondol.exchange.FLAGS.A_OFFSET.B_OFFSET.LENGTH` on B, which answers with the ticket (B may be read); of
//! `ondol.exchange.NUMBER.NUMBER` on A (A may be read, too); fallocate(2) with `FALLOC_FL_KEEP_SIZE` and the ticket's
//! numbers on A, and on B, which exchanges. It is what XFS asks for, but that reading is checked at the call and not at
//! open(2).

use super::timing::now;
use super::{Answer, Sender};
use ondol::{Exchange, Ino};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::cmp::Reverse;

/// How long a ticket is good for, in nanoseconds.
const TIME: u64 = 5_000_000_000;

/// Tickets at most. Beyond that whoever has most of them loses his oldest one.
const MOST: usize = 256;

/// A range for fallocate(2) that lies behind all that ext4 has a number for, so that it can mean nothing else; 122 bits
/// of it are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Byte that the range begins with.
    pub(crate) offset: u64,
    /// Its length.
    pub(crate) len: u64,
}

impl Ticket {
    const LEAST: u64 = 1 << 62;
    const RANDOM: u64 = (1 << 61) - 1;

    fn new() -> Answer<Self> {
        let mut halves = [[0; 8]; 2];
        for half in &mut halves {
            // So few bytes come as a whole.
            getrandom(half, GetRandomFlags::empty())?;
        }
        let [offset, len] = halves.map(|half| u64::from_ne_bytes(half) & Self::RANDOM);
        Ok(Self { offset: Self::LEAST + offset, len: 1 + len })
    }

    /// The ticket that a range is, by the mode of its fallocate(2).
    pub(crate) fn of(mode: u32, offset: u64, len: u64) -> Option<Self> {
        const KEEP_SIZE: u32 = 1;
        (mode == KEEP_SIZE && offset >= Self::LEAST).then_some(Self { offset, len })
    }
}

/// A file of an exchange: its number, and the generation that tells it from the next one with that number.
pub(super) type File = (Ino, u32);

/// What is to be exchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchanging {
    pub(super) files: [File; 2],
    /// Bytes to begin with.
    pub(super) offsets: [u64; 2],
    pub(super) how: Exchange,
}

/// A ticket that somebody has, and how far he has come.
struct Issued {
    ticket: Ticket,
    sender: Sender,
    at: u64,
    second: File,
    offsets: [u64; 2],
    how: Exchange,
    /// Once it was asked about.
    first: Option<File>,
    /// Once the first file was written to.
    written: bool,
}

impl Issued {
    /// Whether it is this sender's. A thread asks and presents: what another one is made to present is none of its own.
    fn is_of(&self, ticket: Ticket, sender: Sender) -> bool {
        self.ticket == ticket && self.sender.is(sender)
    }
}

/// The tickets of one mount.
#[derive(Default)]
pub(super) struct Tickets(Mutex<Vec<Issued>>);

impl Tickets {
    /// Issues a ticket to who may read the second file.
    pub(super) fn issue(&self, sender: Sender, second: File, offsets: [u64; 2], how: Exchange) -> Answer<Ticket> {
        let (ticket, at) = (Ticket::new()?, now());
        let mut all = self.0.lock();
        all.retain(|issued| at < issued.at + TIME);
        if all.len() >= MOST {
            let of = |n: usize| all.iter().filter(|issued| issued.sender.uid == all[n].sender.uid).count();
            let loser = (0..all.len()).max_by_key(|&n| (of(n), Reverse(n)));
            loser.map(|n| all.remove(n));
        }
        all.push(Issued { ticket, sender, at, second, offsets, how, first: None, written: false });
        Ok(ticket)
    }

    /// Names the first file, which the sender may read.
    pub(super) fn join(&self, ticket: Ticket, sender: Sender, first: File) -> Answer<()> {
        let mut all = self.0.lock();
        let issued = all.iter_mut().find(|issued| issued.is_of(ticket, sender)).ok_or(Errno::NODATA)?;
        issued.first = Some(first);
        issued.written = false;
        Ok(())
    }

    /// Takes a ticket that is presented on a file which the sender may write to: `Some` if it was on both by now, on
    /// the first file first.
    pub(super) fn present(&self, ticket: Ticket, sender: Sender, file: File) -> Result<Option<Exchanging>, Unknown> {
        let mut all = self.0.lock();
        let n =
            all.iter().position(|issued| issued.is_of(ticket, sender) && now() < issued.at + TIME).ok_or(Unknown)?;
        let issued = &mut all[n];
        match issued.first {
            Some(first) if issued.written && issued.second == file => {
                let Issued { offsets, how, .. } = all.remove(n);
                Ok(Some(Exchanging { files: [first, file], offsets, how }))
            }
            Some(first) if !issued.written && first == file => {
                issued.written = true;
                Ok(None)
            }
            _ => Err(Unknown),
        }
    }
}

/// Nobody has the ticket, or not for this file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown;

#[cfg(test)]
mod tests {
    use super::*;

    const A: File = (12, 5);
    const B: File = (13, 6);

    fn sender(uid: u32, thread: u32) -> Sender {
        Sender { uid, gid: 0, umask: 0, thread, mapped: false }
    }

    fn issue(tickets: &Tickets, sender: Sender) -> Ticket {
        tickets.issue(sender, B, [1, 2], Exchange::default()).unwrap()
    }

    #[test]
    fn a_ticket_is_good_for_both_files_in_turn_and_once() {
        let (tickets, me) = (Tickets::default(), sender(5, 9));
        let ticket = issue(&tickets, me);
        assert_eq!(Ticket::of(1, ticket.offset, ticket.len), Some(ticket));
        assert!(i64::try_from(ticket.offset + ticket.len).is_ok() && ticket.len > 0);
        // Not before the first file is known.
        assert!(tickets.present(ticket, me, B).is_err() && tickets.present(ticket, me, A).is_err());
        tickets.join(ticket, me, A).unwrap();
        assert!(tickets.present(ticket, me, B).is_err() && tickets.present(ticket, me, (12, 6)).is_err());
        assert!(tickets.present(ticket, me, A).unwrap().is_none());
        assert!(tickets.present(ticket, me, A).is_err() && tickets.present(ticket, me, (13, 7)).is_err());
        let what = tickets.present(ticket, me, B).unwrap().unwrap();
        assert_eq!((what.files, what.offsets), ([A, B], [1, 2]));
        assert!(tickets.present(ticket, me, B).is_err());
        assert_eq!(tickets.join(ticket, me, A), Err(Errno::NODATA.into()));
    }

    #[test]
    fn a_ticket_is_of_who_asked() {
        let (tickets, me) = (Tickets::default(), sender(5, 9));
        let ticket = issue(&tickets, me);
        tickets.join(ticket, me, A).unwrap();
        for other in [sender(5, 10), sender(6, 9)] {
            assert!(tickets.join(ticket, other, B).is_err() && tickets.present(ticket, other, A).is_err());
        }
        assert!(tickets.present(Ticket { len: ticket.len ^ 1, ..ticket }, me, A).is_err());
        assert!(tickets.present(ticket, me, A).unwrap().is_none());
        // Another first file has not been written to.
        tickets.join(ticket, me, (20, 1)).unwrap();
        assert!(tickets.present(ticket, me, B).is_err());
    }

    #[test]
    fn a_ticket_ends_by_itself() {
        let (tickets, me) = (Tickets::default(), sender(5, 9));
        let ticket = issue(&tickets, me);
        tickets.join(ticket, me, A).unwrap();
        tickets.0.lock()[0].at -= TIME;
        assert_eq!(tickets.present(ticket, me, A).err(), Some(Unknown));
        issue(&tickets, me);
        assert_eq!(tickets.0.lock().len(), 1);
    }

    #[test]
    fn who_floods_pushes_out_his_own() {
        let (tickets, me) = (Tickets::default(), sender(5, 9));
        let ticket = issue(&tickets, me);
        for thread in 0..3 * MOST as u32 {
            issue(&tickets, sender(6, thread));
        }
        assert_eq!(tickets.0.lock().len(), MOST);
        tickets.join(ticket, me, A).unwrap();
    }

    #[test]
    fn what_programs_ask_for_is_no_ticket() {
        for (mode, offset) in [(0, 1 << 62), (3, 1 << 62), (1, (1 << 62) - 1), (1, 1 << 44)] {
            assert_eq!(Ticket::of(mode, offset, 4096), None);
        }
    }
}
