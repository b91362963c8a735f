//! Lines whose contents the medium has lost.

use crate::stats::LINE;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::collections::BTreeSet;
use std::ops::Range;

/// The lines that a medium has lost: reading one is an error until it is stored to as a whole.
#[derive(Debug, Default)]
pub struct Poison {
    /// Costs one load while there are none.
    any: AtomicBool,
    /// By number.
    lines: Mutex<BTreeSet<u64>>,
}

impl Poison {
    /// Poisons every line that has one of `bytes`.
    pub(crate) fn add(&self, bytes: Range<u64>) {
        self.lines.lock().extend(bytes.start / LINE..bytes.end.div_ceil(LINE));
        self.any.store(true, Relaxed);
    }

    /// Loses the line at `offset`, as a medium that fails does.
    pub fn add_line(&self, offset: u64) {
        self.add(offset..offset.saturating_add(1));
    }

    /// There may be one.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// First byte of the first poisoned line that has one of `bytes`.
    pub(crate) fn first(&self, bytes: Range<u64>) -> Option<u64> {
        if !self.any.load(Relaxed) || bytes.is_empty() {
            return None;
        }
        self.lines.lock().range(bytes.start / LINE..bytes.end.div_ceil(LINE)).next().map(|line| line * LINE)
    }

    /// First byte of a poisoned line that has some of `bytes`, but not all of its own: its other bytes cannot be kept.
    pub(crate) fn first_partial(&self, bytes: &Range<u64>) -> Option<u64> {
        let head = bytes.start..bytes.start.next_multiple_of(LINE).min(bytes.end);
        let tail = (bytes.end / LINE * LINE).max(bytes.start)..bytes.end;
        self.first(head).or_else(|| self.first(tail))
    }

    /// Lines that lie wholly in `bytes` are stored anew: they hold something again.
    pub(crate) fn heal(&self, bytes: &Range<u64>) {
        if self.any.load(Relaxed) {
            let whole = bytes.start.div_ceil(LINE)..bytes.end / LINE;
            self.lines.lock().retain(|line| !whole.contains(line));
        }
    }

    /// First bytes of all lines that are lost.
    pub fn all(&self) -> Vec<u64> {
        self.lines.lock().iter().map(|line| line * LINE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_lost_and_healed_whole() {
        let poison = Poison::default();
        assert_eq!(poison.first(0..1000), None);
        poison.add(100..130);
        assert_eq!(poison.all(), [64, 128]);
        assert_eq!((poison.first(0..64), poison.first(0..65), poison.first(191..200)), (None, Some(64), Some(128)));
        assert_eq!((poison.first_partial(&(64..192)), poison.first_partial(&(65..192))), (None, Some(64)));
        assert_eq!(poison.first_partial(&(70..75)), Some(64));
        assert_eq!(poison.first_partial(&(0..129)), Some(128));
        poison.heal(&(64..191));
        assert_eq!(poison.all(), [128]);
    }
}
