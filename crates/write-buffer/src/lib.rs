//! The NVM write buffer (papers/2): synchronous writes end in NVM and go to their files later.
//!
//! ```text
//!             write                flush                  sync                 reclaim
//!   caller ─▶ NVM, tree ─▶ dirty queues ─▶ Home::write_at ─▶ sync queue ─▶ Home::sync ─▶ clean ─▶ free
//!             (durable)    low watermark    neighbours merged   on shortage   one word in NVM   on shortage
//! ```
//!
//! A [`Buffer`] stands before the files of a [`Home`]. When [`File::write_at`], [`File::set_len`] or [`Buffer::remove`]
//! returns, what it did is found by every later read, and by recovery after any crash that the NVM survives. Writes
//! have any offset, size and alignment; small ones are packed. The paper's tables are in the NVM (volume table, inode
//! table, data blocks), its trees in DRAM; its stages are steps ([`Flusher`], [`Syncer`], [`Reclaimer`]) to which the
//! owner gives threads, or not. Format, invariants, locking and what differs from the paper: `docs/write-buffer.md`.
//!
//! It must not know ext4, journals or volumes.
//!
//! ```
//! use ondol_env::{System, sync::Arc};
//! use ondol_medium::{Nvm, Pool, PoolSpec};
//! use ondol_write_buffer::{Buffer, DirectoryHome, Identity, Options, Shape};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let areas = Shape::default().areas(1 << 20).to_vec();
//! let pool = Pool::create(Nvm::volatile(4 << 20)?, &PoolSpec { areas, ..PoolSpec::default() })?;
//! let home = Arc::new(DirectoryHome::new(dir.path())?);
//! let (buffer, _) = Buffer::open(&pool, home, Arc::new(System), &Options::default())?;
//! let file = buffer.open_file(&Identity::new(b"floor")?, true)?;
//! file.write_at(0, b"warm")?;
//! assert_eq!(std::fs::read(dir.path().join("floor"))?, b"");
//! buffer.settle()?;
//! assert_eq!(std::fs::read(dir.path().join("floor"))?, b"warm");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod area;
mod buffer;
mod check;
mod damage;
mod error;
mod file;
mod files;
mod flush;
mod format;
mod fragments;
mod handle;
mod home;
mod obtain;
mod options;
mod phase;
mod queue;
mod read;
mod reclaim;
mod recover;
mod scan;
mod shared;
mod space;
mod stats;
mod sync;
mod table;
mod tree;
mod whole;
mod write;

pub use area::Shape;
pub use buffer::Buffer;
pub use error::{BufferError, Damage, HomeError, Result};
pub use flush::Flusher;
pub use format::BUFFER_VERSION;
pub use handle::File;
pub use home::{DirectoryHome, Home, HomeFile, Identity};
pub use options::Options;
pub use reclaim::Reclaimer;
pub use recover::{OnDamage, Report, recover};
pub use stats::BufferStats;
pub use sync::Syncer;
