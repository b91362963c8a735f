//! SQLite's five levels of locks, between the connections of this process: nobody else has the image.
//!
//! ```text
//!   NONE    SHARED: any number    RESERVED: one, beside readers    PENDING: no new reader    EXCLUSIVE: alone
//! ```

use crate::codes::{BUSY, Result};

/// How much of a file a connection has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

impl Level {
    /// SQLite's number of it.
    pub(crate) fn from_number(number: i32) -> Self {
        match number {
            ..=0 => Self::None,
            1 => Self::Shared,
            2 => Self::Reserved,
            3 => Self::Pending,
            _ => Self::Exclusive,
        }
    }
}

/// The locks of one file.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Connections that have at least SHARED.
    readers: usize,
    /// What the one has that has more, if there is one.
    most: Level,
}

impl Locks {
    /// Raises what a connection has.
    ///
    /// # Errors
    /// `BUSY` if others are in the way. One that waits for readers has PENDING then, which keeps new ones out.
    pub(crate) fn raise(&mut self, has: &mut Level, to: Level) -> Result<()> {
        if *has >= to {
            return Ok(());
        }
        // Whoever has more than SHARED is the only one.
        let other_has = if *has > Level::Shared { Level::None } else { self.most };
        if *has == Level::None {
            if other_has >= Level::Pending {
                return Err(BUSY);
            }
            self.readers += 1;
            *has = Level::Shared;
        }
        if to == Level::Shared {
            return Ok(());
        }
        if other_has > Level::Shared {
            return Err(BUSY);
        }
        let mut reached = to;
        if to == Level::Exclusive && self.readers > 1 {
            reached = Level::Pending;
        }
        *has = reached;
        self.most = reached;
        if reached == to { Ok(()) } else { Err(BUSY) }
    }

    /// Lowers what a connection has, to SHARED or nothing.
    pub(crate) fn lower(&mut self, has: &mut Level, to: Level) {
        if *has <= to {
            return;
        }
        if *has > Level::Shared {
            self.most = Level::None;
        }
        if to == Level::None {
            self.readers -= 1;
        }
        *has = to.min(Level::Shared);
    }

    /// Whether somebody has RESERVED or more.
    pub(crate) fn is_reserved(&self) -> bool {
        self.most >= Level::Reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Level::{Exclusive, None, Pending, Reserved, Shared};

    #[test]
    fn a_writer_waits_for_readers_and_keeps_new_ones_out() {
        let (mut locks, mut a, mut b, mut c) = (Locks::default(), None, None, None);
        locks.raise(&mut a, Shared).unwrap();
        locks.raise(&mut b, Shared).unwrap();
        locks.raise(&mut a, Reserved).unwrap();
        assert!(locks.is_reserved());
        assert_eq!(locks.raise(&mut b, Reserved), Err(BUSY));
        locks.raise(&mut c, Shared).unwrap();
        locks.lower(&mut c, None);
        assert_eq!(locks.raise(&mut a, Exclusive), Err(BUSY));
        assert_eq!((a, b), (Pending, Shared));
        assert_eq!(locks.raise(&mut c, Shared), Err(BUSY));
        locks.lower(&mut b, None);
        locks.raise(&mut a, Exclusive).unwrap();
        assert_eq!(locks.raise(&mut b, Shared), Err(BUSY));
        locks.lower(&mut a, Shared);
        locks.raise(&mut b, Shared).unwrap();
        assert!(!locks.is_reserved());
    }

    #[test]
    fn who_rolls_back_goes_from_shared_to_exclusive() {
        let (mut locks, mut a, mut b) = (Locks::default(), None, None);
        locks.raise(&mut a, Shared).unwrap();
        locks.raise(&mut b, Shared).unwrap();
        locks.raise(&mut b, Reserved).unwrap();
        assert_eq!((locks.raise(&mut a, Exclusive), a), (Err(BUSY), Shared));
        locks.lower(&mut b, None);
        locks.raise(&mut a, Exclusive).unwrap();
        locks.lower(&mut a, None);
        assert_eq!((locks.readers, locks.most), (0, None));
    }

    /// Each state that three connections can come to keeps to the rules.
    #[test]
    fn no_two_have_more_than_shared_and_nobody_reads_beside_exclusive() {
        let (mut locks, mut all, mut seed) = (Locks::default(), [None; 3], 3u64);
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (who, what) = ((seed >> 33) as usize % 3, (seed >> 40) as usize % 5);
            let to = [None, Shared, Shared, Reserved, Exclusive][what];
            if what < 2 {
                locks.lower(&mut all[who], to);
            } else if locks.raise(&mut all[who], to).is_ok() {
                assert!(all[who] >= to);
            }
            let above = all.iter().filter(|has| **has > Shared).count();
            let readers = all.iter().filter(|has| **has >= Shared).count();
            assert!(above <= 1 && (!all.contains(&Exclusive) || readers == 1), "{all:?}");
            assert_eq!((locks.readers, locks.is_reserved()), (readers, above == 1));
        }
    }
}
