//! Volumes whose home is a bucket.
//!
//! ```text
//!   a place by its name → its store                           [`Place`], [`Bucket`]   feature `object`
//!   a volume there as a block store                           [`Home`]                feature `object`
//!   a log on this machine before it                           [`Local`]               feature `object`
//!   chunk of the volume ⇄ value of a key                      [`ChunkFormat`]
//!   a cache on the local disk                                 [`Disk`]                feature `object`
//!   what a store was asked, and what a volume takes           [`Requests`], [`Usage`] feature `object`
//!   is this a store that keeps its conditions?                `probe`                feature `object`
//! ```
//!
//! The crate knows neither ext4 nor journals. It alone has an asynchronous runtime (`Border`): calls from outside
//! block. Invariants and failure cases: `docs/design/object-home.md`; bytes: the modules.
#![forbid(unsafe_code)]

#[cfg(feature = "object")]
mod border;
mod error;
mod format;
#[cfg(feature = "object")]
mod home;
#[cfg(feature = "object")]
mod meter;
#[cfg(feature = "object")]
mod place;
#[cfg(feature = "object")]
mod probe;
#[cfg(feature = "object")]
mod usage;

#[cfg(feature = "object")]
pub use border::Border;
pub use error::ChunkError;
pub use format::{CHUNK_KEY, ChunkFormat, ChunkSize};
#[cfg(feature = "object")]
pub use home::{
    BATCH, Disk, DiskUse, Home, HomeError, Lag, Leased, Local, LogContents, LogMedium, LoggedBatch, LoggedRanges,
    Making, Of, Opening, RedoFile, RedoNvm, Snapshot, What,
};
#[cfg(feature = "object")]
pub use meter::{Requests, Wire};
#[cfg(feature = "object")]
pub use object_store;
#[cfg(feature = "object")]
pub use place::{Bucket, Kind, Place, PlaceError};
#[cfg(feature = "object")]
pub use probe::{Depth, ProbeError, Probed, Refusal, probe};
#[cfg(feature = "object")]
pub use usage::{Share, Usage};
