//! What the buffer has done, and what it holds.

use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($field:ident $what:literal,)*) => {
        /// What a buffer has done since it was opened, and how full it is.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct BufferStats {
            $(#[doc = $what] pub $field: u64,)*
            /// Data blocks.
            pub blocks: u64,
            /// Data blocks that are free.
            pub free_blocks: u64,
            /// Bytes of the data blocks that are not free.
            pub held_bytes: u64,
            /// Bytes in them that the files have; `held_bytes` divided by this is the space for each user byte.
            pub live_bytes: u64,
            /// Bytes of the files that are not known to be durable at home.
            pub dirty_bytes: u64,
            /// Files that have a slot.
            pub files: u64,
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $field: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> BufferStats {
                BufferStats { $($field: self.$field.load(Relaxed),)* ..BufferStats::default() }
            }
        }
    };
}

counters! {
    writes "Writes of callers.",
    user_bytes "Bytes that callers wrote.",
    block_records "Pieces that were given a block of their own.",
    fragments "Pieces that were packed.",
    home_writes "Writes to the home.",
    home_write_bytes "Bytes written to the home.",
    home_syncs "Syncs of files at home.",
    home_reads "Reads from the home.",
    home_errors "Failures of the home in the background.",
    waits "Times that somebody had to stand in line for blocks.",
    compactions "Fragment blocks that were compacted.",
    compacted_bytes "Live bytes that compaction moved.",
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
}
