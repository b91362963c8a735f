//! Volumes over stores that are at hand and need no name: those in memory of the crash laboratory.

use super::mark::Mark;
use super::{Held, LagInfo};
use crate::media::Media;
use crate::{Result, transfer};
use ondol_block::{Access, BlockStore};
use ondol_env::sync::Arc;
use ondol_object_home::{Bucket, Home, Opening, What};
use std::path::Path;

impl Media {
    /// A volume in `bucket`, opened as a mount opens it, or as whoever only reads does. Closing the volume closes it.
    /// For tests, and no part of the interface.
    ///
    /// # Errors
    /// As [`Home::open`] and [`Home::view`].
    #[doc(hidden)]
    pub fn at(bucket: &Bucket, access: Access, opening: &Opening) -> Result<Self> {
        let home = match access {
            Access::Write => Home::open(bucket, opening)?,
            Access::Read => Home::view(bucket, &What::Now, opening)?,
        };
        Ok(Self::in_bucket(Arc::new(Held::new(home, Mark::new(Path::new(bucket.name()), access)))))
    }

    /// How far its bucket is behind a log on this machine; `None`: there is none. For tests, and no part of the
    /// interface.
    #[doc(hidden)]
    pub fn lag(&self) -> Option<LagInfo> {
        self.held.as_ref()?.info().lag
    }

    /// The image as an export has it, to a store that holds zeros. For tests, and no part of the interface.
    ///
    /// # Errors
    /// As [`crate::export`].
    #[doc(hidden)]
    pub fn export(self, to: &dyn BlockStore) -> Result<()> {
        transfer::export_media(self, to, true)
    }

    /// Bytes of the store below. For tests, and no part of the interface.
    #[doc(hidden)]
    pub fn size(&self) -> u64 {
        self.store.size()
    }
}
