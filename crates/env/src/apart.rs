//! What keeps threads apart in memory: values in cache lines of their own, counts that threads do not meet in, and
//! numbers spread over shards.

use crate::sync::atomic::{
    AtomicI64,
    Ordering::{Acquire, Release},
};
use crate::thread_number;
use std::ops::Deref;

/// A value in cache lines of its own; two, as processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Parts of a [`Striped`].
pub const STRIPES: usize = 16;

/// A count that threads change without meeting, each in a line of its own or one that few have.
#[derive(Debug, Default)]
pub struct Striped {
    parts: [Apart<AtomicI64>; STRIPES],
}

impl Striped {
    /// One that stands at `count`.
    pub fn new(count: i64) -> Self {
        let new = Self::default();
        new.add(count);
        new
    }

    /// Adds `more`; returns what the calling thread's part held.
    pub fn add(&self, more: i64) -> i64 {
        self.parts[stripe()].fetch_add(more, Release)
    }

    /// The count: exact while nobody adds. What another thread added before it did something that this one has seen is
    /// in it.
    pub fn sum(&self) -> i64 {
        self.parts.iter().map(|part| part.load(Acquire)).sum()
    }
}

/// The calling thread's number among [`STRIPES`].
pub fn stripe() -> usize {
    thread_number() as usize % STRIPES
}

/// Which of `shards`, a power of two of at most 1024, has `number`. Neighbours lie in neighbouring shards, so what
/// comes in order fills all of them evenly; numbers that lie regularly apart, as the first ones of block groups, lie in
/// different ones.
pub fn shard_of(number: u64, shards: usize) -> usize {
    debug_assert!(shards.is_power_of_two() && shards <= 1024);
    let turned = number.wrapping_add((number >> 10) * 397).wrapping_add((number >> 15).wrapping_mul(40_503));
    turned as usize & (shards - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_count_is_the_sum_of_what_all_threads_added() {
        let count = crate::sync::Arc::new(Striped::new(5));
        let others: Vec<_> = (0..40)
            .map(|n| {
                let count = count.clone();
                crate::sync::thread::spawn(move || count.add(n))
            })
            .collect();
        others.into_iter().for_each(|other| drop(other.join()));
        assert_eq!(count.sum(), 5 + (0..40).sum::<i64>());
    }

    #[test]
    fn neighbours_and_regular_numbers_lie_in_different_shards() {
        for step in [1, 2, 16, 1024, 8192, 32768] {
            let shards: HashSet<usize> = (0..64).map(|n| shard_of(1000 + n * step, 1024)).collect();
            assert!(shards.len() > 40, "{} shards with steps of {step}", shards.len());
        }
    }
}
