//! The table of counters: each is declared once, with its name, its unit, its kind and a sentence that says what it
//! counts. Whatever shows counters walks through the table. Design: `docs/design/seeing.md`.

/// How a number goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows: what it grew by tells what was done meanwhile.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// What a number is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things that are counted.
    Number,
    /// Bytes.
    Bytes,
    /// Blocks of the volume.
    Blocks,
    /// Nanoseconds.
    Nanoseconds,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name everywhere.
    pub name: &'static str,
    /// What it counts, in a sentence.
    pub help: &'static str,
    /// What it is in.
    pub unit: Unit,
    /// How it goes on.
    pub kind: Kind,
}

/// A part of the table, and the numbers of one moment. [`counters`](crate::counters!) makes them.
pub trait Counts: Copy + Default {
    /// The rows, in the order of the numbers.
    const TABLE: &'static [Counter];

    /// Numbers that are made row by row.
    fn from_rows(number: impl FnMut(&'static Counter) -> u64) -> Self;

    /// The numbers.
    fn numbers(&self) -> impl Iterator<Item = u64>;

    /// Each row with its number.
    fn rows(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
        Self::TABLE.iter().zip(self.numbers())
    }

    /// What was counted after `before`. Gauges are what they are in `self`.
    #[must_use]
    fn since(&self, before: &Self) -> Self {
        let mut before = before.numbers();
        let mut now = self.numbers();
        Self::from_rows(|row| {
            let (now, before) = (now.next().unwrap_or(0), before.next().unwrap_or(0));
            if row.kind == Kind::Counter { now.saturating_sub(before) } else { now }
        })
    }

    /// Both together. Of gauges it is the larger one.
    #[must_use]
    fn plus(&self, more: &Self) -> Self {
        let (mut one, mut other) = (self.numbers(), more.numbers());
        Self::from_rows(|row| {
            let (one, other) = (one.next().unwrap_or(0), other.next().unwrap_or(0));
            if row.kind == Kind::Counter { one.saturating_add(other) } else { one.max(other) }
        })
    }
}

/// Declares a struct of counters, whose rows are named by a prefix and the field, and where wanted the atomics that
/// they are counted in.
///
/// ```
/// use ondol_env::counters::{Counts, Kind};
///
/// ondol_env::counters! {
///     /// What a kettle did.
///     pub struct KettleStats, "kettle_";
///     /// The same as it goes on.
///     live struct Live;
///     boiled: Counter, Number, "Times that it boiled.";
///     water_bytes: Gauge, Bytes, "Water that is in it.";
/// }
///
/// let live = Live::default();
/// live.boiled.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
/// let (row, boiled) = live.snapshot().rows().next().unwrap();
/// assert_eq!((row.name, row.kind, boiled), ("kettle_boiled", Kind::Counter, 2));
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$about:meta])* $shown:vis struct $name:ident, $prefix:literal;
        $($(#[$of_live:meta])+ live $visible:vis struct $live:ident;)?
        $($field:ident: $kind:ident, $unit:ident, $help:literal;)+
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $shown struct $name {
            $(#[doc = $help] $shown $field: u64,)+
        }

        impl $crate::counters::Counts for $name {
            const TABLE: &'static [$crate::counters::Counter] = &[$($crate::counters::Counter {
                name: concat!($prefix, stringify!($field)),
                help: $help,
                unit: $crate::counters::Unit::$unit,
                kind: $crate::counters::Kind::$kind,
            },)+];

            fn from_rows(mut number: impl FnMut(&'static $crate::counters::Counter) -> u64) -> Self {
                let mut table = Self::TABLE.iter();
                Self { $($field: table.next().map_or(0, &mut number),)+ }
            }

            fn numbers(&self) -> impl Iterator<Item = u64> {
                [$(self.$field,)+].into_iter()
            }
        }

        $crate::counters!(@live $name, $([$(#[$of_live])+ $visible $live])? $($field,)+);
    };
    (@live $name:ident, $($field:ident,)+) => {};
    (@live $name:ident, [$(#[$of_live:meta])+ $visible:vis $live:ident] $($field:ident,)+) => {
        $(#[$of_live])+
        #[derive(Debug, Default)]
        $visible struct $live {
            $(pub(crate) $field: $crate::sync::atomic::AtomicU64,)+
        }

        impl $live {
            /// The counts so far.
            $visible fn snapshot(&self) -> $name {
                $name { $($field: self.$field.load($crate::sync::atomic::Ordering::Relaxed),)+ }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        /// Two numbers.
        struct Two, "";
        grown: Counter, Number, "Grows.";
        now: Gauge, Bytes, "Is.";
    }

    #[test]
    fn counters_are_differences_and_gauges_are_not() {
        let (before, after) = (Two { grown: 3, now: 9 }, Two { grown: 10, now: 4 });
        assert_eq!(after.since(&before), Two { grown: 7, now: 4 });
        assert_eq!(after.plus(&before), Two { grown: 13, now: 9 });
        assert_eq!(Two::from_rows(|row| row.name.len() as u64), Two { grown: 5, now: 3 });
    }
}
