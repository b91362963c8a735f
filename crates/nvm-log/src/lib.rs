//! The NVM log (papers/5): records of operations in NVM, each placed by one atomic add, and commits that wait for the
//! records before them.
//!
//! ```text
//!  promise ─▶ claim ───────▶ complete ────────────▶ commit ──────────────▶ batch ─────▶ release
//!  (space)    (head += n)    (copied, one fence)    (one line, one fence)   (read it)    (tail moves on)
//! ```
//!
//! A [`Log`] is a ring of 64-byte lines in an area of a pool. A **position** is the number of a line since the log was
//! made; it never repeats. A *record* is whole or not there: one checksum covers it. What is committed when
//! [`Log::commit`] returns is found by [`Contents::open`] after any crash that the NVM survives, in the order of
//! positions, until [`Log::release`] gives its lines away. Operations that append side by side share one atomic number
//! and no lock. A record whose thread has lost its processor is *voided* by the commit that waits for it, and its
//! thread appends it again. Format, invariants and failure cases: `docs/design/scalable.md`.
//!
//! Beside the log a pool may have an area of pages ([`PageArea`]): what records need not carry, because they name it.
//!
//! It must not know ext4, journals or volumes: what records hold is the caller's.
//!
//! ```
//! use ondol_env::{System, sync::Arc};
//! use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec};
//! use ondol_nvm_log::{Contents, Log, OnDamage, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let areas = vec![(AreaKind::JOURNAL_LOG, 1 << 20)];
//! let pool = Pool::create(Nvm::volatile(4 << 20)?, &PoolSpec { areas, ..PoolSpec::default() })?;
//! let log = Log::start(Contents::open(&pool, &System, OnDamage::Refuse)?, Arc::new(System), &Options::default())?;
//! let position = log.promise(100)?.claim(10).complete(b"warm floor")?;
//! log.commit(position)?;
//! drop(log);
//! let found = Contents::open(&pool, &System, OnDamage::Refuse)?;
//! let mut read = Vec::new();
//! let contents = found.read(found.commits()[0].records[0], &mut read)?;
//! assert_eq!(&read[contents][..10], b"warm floor");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod append;
mod area;
mod atomics;
mod batch;
mod commit;
mod contents;
mod error;
mod format;
mod log;
mod pages;
mod ring;
mod space;

pub use append::{Promise, Slot};
pub use batch::Batch;
pub use contents::{Commit, Contents, OnDamage};
pub use error::{Damage, Fault, LogError, Result};
pub use format::{LINE, LOG_VERSION};
pub use log::{Log, LogStats, Options};
pub use pages::{PageArea, PageWrites};
