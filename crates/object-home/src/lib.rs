//! Volumes whose home is a bucket.
//!
//! ```text
//!   a place by its name → its store                           [`Place`], [`Bucket`]   feature `object`
//!   a volume there as a block store                           [`Home`]                feature `object`
//!   a log on this machine before it                           [`Local`]               feature `object`
//!   chunk of the volume ⇄ value of a key                      [`ChunkFormat`]
//!   is this a store that keeps its conditions?                `probe`                feature `object`
//!   a store that delays, fails, reorders and lies, for tests  `unruly`               feature `object`
//! ```
//!
//! The crate knows neither ext4 nor journals. It alone has an asynchronous runtime (`Border`): calls from outside block. Formats, invariants and failure cases, and what is still to
//! be built: `docs/design/object-home.md`.
#![forbid(unsafe_code)]

#[cfg(feature = "object")]
mod border;
mod error;
mod format;
#[cfg(feature = "object")]
mod home;
#[cfg(feature = "object")]
mod place;
#[cfg(feature = "object")]
mod probe;
#[cfg(feature = "object")]
pub mod unruly;

#[cfg(feature = "object")]
pub use border::Border;
pub use error::ChunkError;
pub use format::{CHUNK_KEY, ChunkFormat, ChunkSize};
#[cfg(feature = "object")]
pub use home::{
    BATCH, Home, HomeError, Lag, Local, LogContents, LogMedium, LoggedBatch, Making, Opening, RedoFile, RedoNvm,
    Snapshot, What,
};
#[cfg(feature = "object")]
pub use object_store;
#[cfg(feature = "object")]
pub use place::{Bucket, Kind, Place, PlaceError};
#[cfg(feature = "object")]
pub use probe::{Depth, ProbeError, Probed, Refusal, probe};
