//! The index of a write-ahead log: memory and locks that the connections of this process share.

use crate::codes::shm::LOCKS;
use crate::codes::{BUSY, Result};
use std::sync::atomic::AtomicU64;

/// The shared memory of one database. Its regions stay where they are as long as it is.
#[derive(Default)]
pub(crate) struct Shm {
    /// SQLite reads and writes them from all threads, as its own rules say.
    regions: Vec<Box<[AtomicU64]>>,
    /// How many hold each lock shared; `None` if one holds it alone.
    locks: [Held; LOCKS],
    /// Connections that use it.
    pub(crate) users: usize,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    By(usize),
    Alone,
}

impl Default for Held {
    fn default() -> Self {
        Self::By(0)
    }
}

/// The locks that one connection has, one bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Has {
    shared: u8,
    alone: u8,
}

impl Shm {
    /// A region of `size` bytes, zeros at first; `None` where it is not there and `make` does not ask for it.
    pub(crate) fn region(&mut self, at: usize, size: usize, make: bool) -> Option<*mut u8> {
        while make && self.regions.len() <= at {
            self.regions.push((0..size.div_ceil(8)).map(|_| AtomicU64::new(0)).collect());
        }
        self.regions.get(at).map(|region| region.as_ptr().cast_mut().cast())
    }

    /// Takes locks, or gives them back.
    ///
    /// # Errors
    /// `BUSY`; none of them is taken then.
    pub(crate) fn lock(&mut self, has: &mut Has, range: std::ops::Range<usize>, take: bool, alone: bool) -> Result<()> {
        let (locks, mask) = (&mut self.locks[range.clone()], range.fold(0u8, |mask, at| mask | 1 << at));
        if !take {
            let (shared, was_alone) = (has.shared & mask, has.alone & mask);
            for (at, lock) in self.locks.iter_mut().enumerate() {
                match lock {
                    Held::Alone if was_alone & 1 << at != 0 => *lock = Held::By(0),
                    Held::By(n) if shared & 1 << at != 0 => *n -= 1,
                    _ => {}
                }
            }
            (has.shared, has.alone) = (has.shared & !mask, has.alone & !mask);
            return Ok(());
        }
        let mine = if alone { has.alone } else { has.shared | has.alone };
        if mine & mask == mask {
            return Ok(());
        }
        let is_free = |held: &Held| if alone { *held == Held::By(0) } else { *held != Held::Alone };
        if !locks.iter().all(is_free) {
            return Err(BUSY);
        }
        for held in locks {
            *held = match *held {
                Held::By(n) if !alone => Held::By(n + 1),
                _ => Held::Alone,
            };
        }
        if alone {
            has.alone |= mask
        } else {
            has.shared |= mask
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_shared_or_held_alone() {
        let (mut shm, mut a, mut b) = (Shm::default(), Has::default(), Has::default());
        shm.lock(&mut a, 3..4, true, false).unwrap();
        shm.lock(&mut b, 3..4, true, false).unwrap();
        assert_eq!(shm.lock(&mut b, 3..5, true, true), Err(BUSY));
        shm.lock(&mut a, 3..4, false, false).unwrap();
        shm.lock(&mut b, 3..4, false, false).unwrap();
        shm.lock(&mut b, 0..8, true, true).unwrap();
        assert_eq!(shm.lock(&mut a, 7..8, true, false), Err(BUSY));
        // What one does not have is not given back.
        shm.lock(&mut a, 0..8, false, true).unwrap();
        assert_eq!(shm.lock(&mut a, 7..8, true, false), Err(BUSY));
        shm.lock(&mut b, 0..8, false, true).unwrap();
        shm.lock(&mut a, 7..8, true, true).unwrap();
        assert_eq!(shm.locks[7], Held::Alone);
    }

    #[test]
    fn regions_stay_where_they_are() {
        let mut shm = Shm::default();
        assert!(shm.region(0, 32768, false).is_none());
        let first = shm.region(0, 32768, true).unwrap();
        assert!(shm.region(5, 32768, true).is_some());
        assert_eq!(shm.region(0, 32768, false), Some(first));
    }
}
