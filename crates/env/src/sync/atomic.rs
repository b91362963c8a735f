//! Atomic numbers and flags: `std`'s, with a point of the scheduler before every operation.

use super::schedule::point;
pub use std::sync::atomic::Ordering;

macro_rules! atomic {
    ($name:ident, $of:ty) => {
        #[doc = concat!("An atomic `", stringify!($of), "`; its methods are `std`'s.")]
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// One that holds `value`.
            pub const fn new(value: $of) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// What it holds.
            #[inline]
            pub fn load(&self, order: Ordering) -> $of {
                point();
                self.0.load(order)
            }

            /// Makes it hold `value`.
            #[inline]
            pub fn store(&self, value: $of, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// Makes it hold `value`; returns what it held.
            #[inline]
            pub fn swap(&self, value: $of, order: Ordering) -> $of {
                point();
                self.0.swap(value, order)
            }

            /// Makes it hold `new` if it holds `current`; returns what it held.
            ///
            /// # Errors
            /// It holds something else: what.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $of,
                new: $of,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$of, $of> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Makes it hold what `f` makes of what it holds; returns what it held.
            ///
            /// # Errors
            /// `f` returned `None`: what it holds.
            #[inline]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                f: impl FnMut($of) -> Option<$of>,
            ) -> Result<$of, $of> {
                point();
                self.0.fetch_update(set, fetch, f)
            }

            atomic!(@binary $of, fetch_and, "Keeps the bits that `value` has too");
            atomic!(@binary $of, fetch_or, "Sets the bits of `value`");

            /// What it holds, which nobody else can reach now.
            pub fn get_mut(&mut self) -> &mut $of {
                self.0.get_mut()
            }

            /// What it held.
            pub fn into_inner(self) -> $of {
                self.0.into_inner()
            }
        }
    };
    (@number $name:ident, $of:ty) => {
        atomic!($name, $of);

        impl $name {
            atomic!(@binary $of, fetch_add, "Adds `value`, wrapping around");
            atomic!(@binary $of, fetch_sub, "Subtracts `value`, wrapping around");
            atomic!(@binary $of, fetch_max, "Makes it at least `value`");
            atomic!(@binary $of, fetch_min, "Makes it at most `value`");
        }
    };
    (@binary $of:ty, $method:ident, $what:literal) => {
        #[doc = concat!($what, "; returns what it held.")]
        #[inline]
        pub fn $method(&self, value: $of, order: Ordering) -> $of {
            point();
            self.0.$method(value, order)
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(@number AtomicU8, u8);
atomic!(@number AtomicU16, u16);
atomic!(@number AtomicU32, u32);
atomic!(@number AtomicU64, u64);
atomic!(@number AtomicUsize, usize);
atomic!(@number AtomicI64, i64);
