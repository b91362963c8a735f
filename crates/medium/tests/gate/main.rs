//! The gate under a model checker: every interleaving of those who enter and one who closes, and every value that the
//! memory model lets a load see. Two who close wait for each other by exchanging a word, which the checker takes for a
//! loop without end: threads of the system have that, in the crate's own tests.
#![expect(unsafe_code, reason = "what lies behind the gate is shared by it")]
#![allow(clippy::duplicate_mod, reason = "each time with other atomics")]

/// What the gate is given instead of the crate's atomics: the checker's, before each operation of which `$before` is
/// done with its order.
macro_rules! meeting {
    ($before:expr) => {
        pub(crate) use loom::thread::yield_now;
        pub(crate) use ondol_env::apart::Apart;
        pub(crate) use std::sync::atomic::Ordering;

        /// Two are enough for some to meet in one and some not.
        pub(crate) const STRIPES: usize = 2;

        pub(crate) fn stripe() -> usize {
            crate::NUMBER.with(|number| number.get() % STRIPES)
        }

        fn before(order: Ordering) {
            let before: fn(Ordering) = $before;
            before(order);
        }

        #[derive(Debug)]
        pub(crate) struct AtomicBool(loom::sync::atomic::AtomicBool);

        impl AtomicBool {
            pub(crate) fn new(value: bool) -> Self {
                Self(loom::sync::atomic::AtomicBool::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> bool {
                before(order);
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: bool, order: Ordering) {
                before(order);
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
                before(order);
                self.0.swap(value, order)
            }
        }

        #[derive(Debug, Default)]
        pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

        impl AtomicU64 {
            pub(crate) fn load(&self, order: Ordering) -> u64 {
                before(order);
                self.0.load(order)
            }

            pub(crate) fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
                before(order);
                self.0.fetch_add(more, order)
            }

            pub(crate) fn fetch_sub(&self, less: u64, order: Ordering) -> u64 {
                before(order);
                self.0.fetch_sub(less, order)
            }
        }
    };
}

/// Programs of a `Gate`.
macro_rules! programs {
    () => {
        use crate::{NUMBER, Words, model};
        use gate::Gate;
        use loom::sync::Arc;
        use loom::thread;

        /// So many threads look, each once, while this one changes the words `changes` times.
        pub(crate) fn look_beside_changes(looking: usize, changes: u64) {
            model(move || {
                let gate = Arc::new(Gate::new(Words::default()));
                let looks = |number: usize| {
                    let gate = gate.clone();
                    thread::spawn(move || {
                        NUMBER.with(|mine| mine.set(number));
                        gate.enter().map(|words| words.look())
                    })
                };
                let looking: Vec<_> = (0..looking).map(looks).collect();
                (0..changes).for_each(|_| gate.close().change());
                for looking in looking {
                    assert!(looking.join().unwrap().is_none_or(|seen| seen <= changes));
                }
                assert_eq!(gate.enter().map(|words| words.look()), Some(changes), "it is open, and nothing is lost");
            });
        }
    };
}

mod ordered;
mod unordered;

use loom::cell::UnsafeCell;

loom::thread_local! {
    /// The stripe that a thread is counted in.
    static NUMBER: std::cell::Cell<usize> = std::cell::Cell::new(0);
}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// What lies behind the gate: the checker fails on whoever looks beside a change, or without having seen it end.
#[derive(Debug, Default)]
struct Words(UnsafeCell<u64>);

// SAFETY: every access is told to the checker, which fails where two of them meet.
unsafe impl Sync for Words {}

impl Words {
    fn look(&self) -> u64 {
        // SAFETY: the checker has found that nobody changes it meanwhile.
        self.0.with(|word| unsafe { *word })
    }

    fn change(&mut self) {
        // SAFETY: the checker has found that nobody else is here.
        self.0.with_mut(|word| unsafe { *word += 1 });
    }
}

#[test]
fn who_is_inside_never_meets_who_has_closed() {
    ordered::look_beside_changes(1, 2);
    ordered::look_beside_changes(2, 1);
}

/// The checker is not blind: a gate of which neither side need see the other lets them meet.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_one_order_of_all_they_meet() {
    unordered::look_beside_changes(1, 2);
}
