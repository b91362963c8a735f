//! The words of pages under a model checker: every interleaving of those who store and those who pin, and every value
//! that the memory model lets a load see.
#![expect(unsafe_code, reason = "what is pinned or stored to is shared")]
#![allow(clippy::duplicate_mod, reason = "each time with other atomics")]

/// What the words are given instead of the crate's atomics: the checker's, each operation of which has the order that
/// `$order` makes of its own.
macro_rules! meeting {
    ($order:expr) => {
        pub(crate) use std::sync::atomic::Ordering;

        fn order(order: Ordering) -> Ordering {
            let of: fn(Ordering) -> Ordering = $order;
            of(order)
        }

        #[derive(Debug)]
        pub(crate) struct AtomicU32(loom::sync::atomic::AtomicU32);

        impl AtomicU32 {
            pub(crate) fn new(value: u32) -> Self {
                Self(loom::sync::atomic::AtomicU32::new(value))
            }

            pub(crate) fn load(&self, by: Ordering) -> u32 {
                self.0.load(order(by))
            }

            pub(crate) fn fetch_add(&self, more: u32, by: Ordering) -> u32 {
                self.0.fetch_add(more, order(by))
            }

            pub(crate) fn fetch_sub(&self, less: u32, by: Ordering) -> u32 {
                self.0.fetch_sub(less, order(by))
            }

            pub(crate) fn compare_exchange(
                &self,
                old: u32,
                new: u32,
                set: Ordering,
                fetch: Ordering,
            ) -> Result<u32, u32> {
                self.0.compare_exchange(old, new, order(set), order(fetch))
            }

            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut(u32) -> Option<u32>,
            ) -> Result<u32, u32> {
                self.0.fetch_update(order(set), order(fetch), change)
            }
        }
    };
}

/// Programs of the words.
macro_rules! programs {
    () => {
        use crate::{PAGE, Page, model};
        use loom::sync::Arc;
        use loom::thread;
        use pinnable::Pinnable;

        /// So many threads pin a page, look twice and unpin it, each once, while this one stores to it `stores` times.
        /// Returns nothing that is wrong: the checker fails.
        pub(crate) fn pin_beside_stores(pinning: usize, stores: u64) {
            model(move || {
                let shared = Arc::new((Pinnable::new(&(0..PAGE)), Page::default()));
                let look = |_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let (pages, page) = &*shared;
                        pages.pin(&(0..PAGE)).then(|| {
                            let (first, second) = (page.look(), page.look());
                            pages.unpin(&(0..PAGE));
                            (first, second)
                        })
                    })
                };
                let pinning: Vec<_> = (0..pinning).map(look).collect();
                let (pages, page) = &*shared;
                let store = |_: &u64| pages.store(&(0..PAGE)).map(|_storing| page.store()).is_ok();
                let stored = (0..stores).filter(store).count() as u64;
                for looking in pinning {
                    assert!(looking.join().unwrap().is_none_or(|(a, b)| a == b && a <= stored));
                }
                assert!(!pages.has_pinned(&(0..PAGE)) && pages.store(&(0..PAGE)).is_ok());
            });
        }

        /// A thread has the page for itself for a while and stores to it as it likes, while another pins it and this
        /// one stores to it, each once if that can be.
        pub(crate) fn own_beside_all() {
            model(|| {
                let shared = Arc::new((Pinnable::new(&(0..PAGE)), Page::default()));
                let [owning, pinning] = [shared.clone(), shared.clone()];
                let owning = thread::spawn(move || {
                    let (pages, page) = &*owning;
                    let owned = pages.own(&(0..PAGE));
                    if owned {
                        page.store();
                        page.store();
                        pages.disown(&(0..PAGE));
                    }
                    2 * u64::from(owned)
                });
                let pinning = thread::spawn(move || {
                    let (pages, page) = &*pinning;
                    if pages.pin(&(0..PAGE)) {
                        assert_eq!(page.look(), page.look());
                        pages.unpin(&(0..PAGE));
                    }
                });
                let (pages, page) = &*shared;
                let stored = u64::from(pages.store(&(0..PAGE)).map(|_storing| page.store()).is_ok());
                let owned = owning.join().unwrap();
                pinning.join().unwrap();
                assert!(pages.pin(&(0..PAGE)));
                assert_eq!(page.look(), stored + owned);
            });
        }
    };
}

mod ordered;
mod unordered;

use loom::cell::UnsafeCell;

const PAGE: u64 = 4096;

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// What a page holds: the checker fails on whoever looks beside a store, or without having seen it end.
#[derive(Debug, Default)]
struct Page(UnsafeCell<u64>);

// SAFETY: every access is told to the checker, which fails where two of them meet.
unsafe impl Sync for Page {}

impl Page {
    fn look(&self) -> u64 {
        // SAFETY: the checker has found that nobody stores to it meanwhile.
        self.0.with(|word| unsafe { *word })
    }

    fn store(&self) {
        // SAFETY: the checker has found that nobody else is here.
        self.0.with_mut(|word| unsafe { *word += 1 });
    }
}

#[test]
fn who_has_a_page_pinned_never_meets_who_stores_to_it() {
    ordered::pin_beside_stores(1, 2);
    ordered::pin_beside_stores(2, 1);
}

#[test]
fn who_owns_a_page_meets_nobody() {
    ordered::own_beside_all();
}

/// The checker is not blind: words that order nothing else let them meet.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_order_they_meet() {
    unordered::pin_beside_stores(1, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_order_an_owner_meets_others() {
    unordered::own_beside_all();
}
