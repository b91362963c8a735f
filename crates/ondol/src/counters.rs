//! All counters of a mounted volume: the parts of the table that its layers declare, one behind the other.

use ondol_block::{BlockStats, PageUse};
use ondol_env::counters::{Counter, Counts};
use ondol_journal::jbd2::Recovered;
use ondol_journal::{CacheStats, EngineStats};
use ondol_medium::NvmStats;
use ondol_volume::VolumeStats;
use serde::{Serialize, Serializer};

macro_rules! parts {
    ($($part:ident: $type:ty, $about:literal;)+) => {
        /// Counters since the mount; those of NVM since its pool was opened. They do not depend on how busy the machine
        /// is. Serialised, they are one object, whose fields are the names of the rows.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Counters {
            $(#[doc = $about] pub $part: $type,)+
        }

        impl Counters {
            /// The table: what all of them are, in the order of [`Counters::rows`].
            pub fn table() -> impl Iterator<Item = &'static Counter> {
                let rows = std::iter::empty();
                $(let rows = rows.chain(<$type>::TABLE);)+
                rows
            }

            /// Each row with its number.
            pub fn rows(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
                let rows = std::iter::empty();
                $(let rows = rows.chain(self.$part.rows());)+
                rows
            }
        }
    };
}

parts! {
    device: BlockStats, "The image's medium.";
    nvm: NvmStats, "NVM that the volume lies on, or has in front of it.";
    engine: EngineStats, "The journal engine.";
    cache: CacheStats, "The cache of blocks.";
    files: VolumeStats, "Files.";
    pages: PageUse, "Pages of the pool.";
    recovered: Recovered, "What was done when the volume was opened.";
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.rows().map(|(row, number)| (row.name, number)))
    }
}
