//! One seam between the file system and whatever makes it crash-consistent.
//!
//! ```text
//!   volume ── Handle: private write set ── close() ──▶ Engine::publish
//!                                                        │ one step
//!              Cache: live blocks  ◀─────────────────────┤
//!                                                        ▼
//!              running ─▶ committing ─▶ checkpointing ─▶ home
//! ```
//!
//! A [`Handle`] collects what one operation wants to change; nothing of it is visible before [`Handle::close`], and
//! dropping it changes nothing. An [`Engine`] takes closed write sets and decides how they become durable. The volume
//! does not know which engine it feeds; an engine knows no inodes and no directories: it is told what a block is by an
//! opaque [`Kind`] and asks its [`Client`] to seal derived values into the images it makes.
//!
//! **Crash guarantee**: what a medium holds after recovery is the state after some prefix of the closed handles, in the
//! order of their `close`, and a prefix that contains every handle whose transaction [`Engine::wait_for`] has returned
//! for.
#![forbid(unsafe_code)]

mod area;
pub mod batch;
mod block;
mod block_engine;
mod cache;
mod change;
mod client;
mod clock;
mod common;
pub mod compressed;
mod config;
mod contract;
mod data;
mod device;
mod error;
mod ground;
mod handle;
mod hash;
mod in_place;
mod index;
pub mod jbd2;
mod logged;
mod names;
mod open;
mod piece;
mod placement;
mod ranges;
mod read_only;
pub mod remap;
mod ring;
mod running;
mod salvage;
pub mod scalable;
mod stats;
pub mod swap;
pub mod thresholds;
mod together;
mod turn;
mod write_set;

pub use area::LogMap;
pub use block::Block;
pub use cache::{Cache, CacheStats};
pub use client::{Client, Derived, Images, Patches};
pub use clock::{Clock, Look};
pub use config::Config;
pub use contract::{About, Engine};
pub use error::{Corrupt, JournalError, Result};
pub use ground::Ground;
pub use handle::{Credits, Handle, Merge};
pub use hash::{NumberHash, NumberHasher};
pub use names::{Extent, Kind, Tid};
pub use open::{Journal, open};
pub use piece::Piece;
pub use placement::{Before, Bytes, Placement, Run};
pub use ranges::Ranges;
pub use read_only::ReadOnlyEngine;
pub use salvage::{GivenUp, Lose, Salvaged};
pub use stats::EngineStats;
pub use write_set::WriteSet;
