//! How far something of a file is on its way home: the one table of transitions between dirty and clean (papers/2,
//! figure 2).

use std::cmp::{max, min};

/// Of one LBN of a file, or of its length. Dirty while `unsynced` is there, clean otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phase {
    /// Sequence of the newest operation on it.
    last: u64,
    /// First sequence that is not written home.
    unflushed: Option<u64>,
    /// First sequence that is not durable at home.
    unsynced: Option<u64>,
    /// A flush is under way: the first sequence that came after it had begun.
    flight: Option<Option<u64>>,
    /// It is in a dirty queue.
    queued: bool,
}

impl Phase {
    /// An operation of this sequence is durable in NVM. Whether it is to be put into a dirty queue now.
    #[must_use]
    pub(crate) fn written(&mut self, sequence: u64) -> bool {
        self.last = sequence;
        self.unsynced.get_or_insert(sequence);
        self.unflushed.get_or_insert(sequence);
        if let Some(later) = &mut self.flight {
            later.get_or_insert(sequence);
            return false;
        }
        !std::mem::replace(&mut self.queued, true)
    }

    /// A flush takes it out of its queue: from which sequence on it is to be written, if at all.
    pub(crate) fn take(&mut self) -> Option<u64> {
        self.queued = false;
        let first = self.unflushed?;
        self.flight = Some(None);
        Some(first)
    }

    /// The flush is over. Whether it is to be put into a dirty queue again.
    #[must_use]
    pub(crate) fn landed(&mut self, is_home: bool) -> bool {
        let Some(later) = self.flight.take() else { return false };
        if is_home {
            self.unflushed = later;
        }
        self.queued = self.unflushed.is_some();
        self.queued
    }

    /// Everything of the file up to `point` is durable at home.
    pub(crate) fn synced(&mut self, point: u64) {
        self.unsynced = if self.last <= point { None } else { self.unsynced.map(|first| max(first, point + 1)) };
    }

    /// A sync failed: what was written home since the last one may be gone. Whether it is to be put into a dirty queue
    /// now.
    #[must_use]
    pub(crate) fn sync_failed(&mut self) -> bool {
        let Some(first) = self.unsynced else { return false };
        self.unflushed = Some(self.unflushed.map_or(first, |unflushed| min(unflushed, first)));
        if let Some(later) = &mut self.flight {
            *later = Some(first);
            return false;
        }
        !std::mem::replace(&mut self.queued, true)
    }

    /// First sequence that is not written home.
    pub(crate) fn unflushed(&self) -> Option<u64> {
        self.unflushed
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.unsynced.is_none()
    }

    /// It is in no queue, and no flush of it is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_none() && !self.queued
    }

    /// What always holds between the fields: for `check`.
    pub(crate) fn is_sound(&self) -> bool {
        let waits = self.queued || self.flight.is_some();
        let ordered = match (self.unsynced, self.unflushed) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some(first), unflushed) => first <= self.last && unflushed.is_none_or(|u| u >= first && u <= self.last),
        };
        ordered && (self.unflushed.is_none() || waits) && !(self.queued && self.flight.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_between_flush_and_sync_stays_dirty() {
        let mut phase = Phase::default();
        assert!(phase.written(1) && !phase.written(2));
        assert_eq!(phase.take(), Some(1));
        assert!(!phase.landed(true));
        assert!(phase.written(3), "it left its queue");
        phase.synced(2);
        assert!(!phase.is_clean());
        assert_eq!((phase.take(), phase.unflushed()), (Some(3), Some(3)));
        assert!(!phase.landed(true));
        phase.synced(3);
        assert!(phase.is_clean() && phase.is_sound());
    }

    #[test]
    fn what_is_written_during_a_flush_is_flushed_again() {
        let mut phase = Phase::default();
        assert!(phase.written(1));
        assert_eq!(phase.take(), Some(1));
        assert!(!phase.written(2), "the flush will queue it");
        assert!(phase.landed(true));
        assert_eq!(phase.take(), Some(2));
        assert!(phase.landed(false), "a failure queues it");
        assert_eq!(phase.take(), Some(2));
    }

    #[test]
    fn a_failed_sync_makes_all_of_it_be_written_again() {
        let mut phase = Phase::default();
        assert!(phase.written(4));
        assert_eq!(phase.take(), Some(4));
        assert!(!phase.landed(true));
        assert!(phase.sync_failed());
        assert_eq!(phase.take(), Some(4));
        assert!(!phase.sync_failed(), "in flight");
        assert!(phase.landed(true), "what is under way may be gone as well");
        assert_eq!(phase.unflushed(), Some(4));
        assert!(!Phase::default().sync_failed());
    }

    proptest! {
        /// Against the plain list of sequences and what became of each.
        #[test]
        fn as_with_a_list(events in proptest::collection::vec(0u8..6, 1..60)) {
            let mut phase = Phase::default();
            let (mut next, mut flushed, mut synced) = (0u64, 0u64, 0u64);
            let (mut flight, mut queued) = (None, false);
            for event in events {
                match event {
                    0 | 1 => {
                        next += 1;
                        queued |= phase.written(next);
                    }
                    2 if queued => {
                        queued = false;
                        prop_assert_eq!(phase.take(), Some(flushed + 1).filter(|first| *first <= next));
                        flight = (flushed < next).then_some(next);
                    }
                    3 | 4 if flight.is_some() => {
                        if event == 3 { flushed = flushed.max(flight.unwrap_or_default()); }
                        flight = None;
                        queued = phase.landed(event == 3);
                        prop_assert_eq!(queued, flushed < next);
                    }
                    5 => {
                        synced = phase.unflushed().map_or(next, |first| first - 1);
                        phase.synced(synced);
                    }
                    _ => {}
                }
                prop_assert!(phase.is_sound(), "{:?}", phase);
                prop_assert_eq!(phase.is_clean(), synced >= next);
                prop_assert_eq!(phase.unflushed().is_some(), flushed < next);
            }
        }
    }
}
