//! NVM as a medium: memory that outlives a crash, mapped, and stored to by rules that types hold.
//!
//! [`Nvm`] is a DAX device, a file on a DAX file system, a file on tmpfs, an ordinary file, or memory of this process.
//! A store that must survive goes through four states, each a type:
//!
//! ```text
//! Nvm::stored() ─▶ Stored ──write_back()──▶ WrittenBack ──fence()──▶ Fenced ──publish(offset, word)──▶ Published
//! ```
//!
//! Many stores share one fence. A commit word can only be published by a [`Fenced`], so never before its data. What a
//! crash may do to stores in each state is in the documentation of `ondol_power`; [`Nvm::record`] records a run for the
//! crash laboratory.
//!
//! ```
//! use ondol_medium::Nvm;
//! # fn main() -> Result<(), ondol_medium::NvmError> {
//! let nvm = Nvm::volatile(1 << 20)?;
//! let mut record = nvm.stored();
//! record.store(4096, b"warm floor")?;
//! record.copy(8192, &[7; 4096])?;
//! record.write_back().fence()?.publish(0, 1)?;
//! assert_eq!((nvm.load_u64(0)?, nvm.stats().fences), (1, 2));
//! # Ok(())
//! # }
//! ```
//!
//! Data that was stored and not fenced publishes nothing:
//!
//! ```compile_fail,E0599
//! # let nvm = ondol_medium::Nvm::volatile(1 << 20).unwrap();
//! let mut record = nvm.stored();
//! record.store(4096, b"warm floor").unwrap();
//! record.publish(0, 1);
//! ```
//!
//! ```compile_fail,E0599
//! # let nvm = ondol_medium::Nvm::volatile(1 << 20).unwrap();
//! let mut record = nvm.stored();
//! record.store(4096, b"warm floor").unwrap();
//! record.write_back().publish(0, 1);
//! ```
//!
//! Nobody makes the proof up:
//!
//! ```compile_fail,E0451
//! # let nvm = ondol_medium::Nvm::volatile(1 << 20).unwrap();
//! let fenced = ondol_medium::Fenced { nvm: &nvm };
//! ```
//!
//! A fence completes the write-backs of its own thread, so they do not go to another:
//!
//! ```compile_fail,E0277
//! # let nvm: &'static _ = Box::leak(Box::new(ondol_medium::Nvm::volatile(1 << 20).unwrap()));
//! let mut record = nvm.stored();
//! record.store(4096, b"warm floor").unwrap();
//! let record = record.write_back();
//! std::thread::spawn(move || record.fence());
//! ```
//!
//! [`Pool`] gives an NVM an identity: UUID, version, typed areas, and the attach epoch that joins it to an image.
//!
//! [`Windows`] show ranges of a medium at addresses that lie in a row.
//!
//! [`Nvm::pin`] lends pages as slices of the stored bytes, which nobody stores to meanwhile; [`Snapshot`] has pages at
//! addresses that lie in a row, as they were when it was made.
//!
//! [`loops`] asks the kernel what a loop device shows, [`mountinfo`] what is mounted where, [`lease`] whether anybody
//! has a file open for writing. [`Whose`] says whose pool may be opened.
#![deny(unsafe_code)]

mod detect;
mod domain;
mod error;
mod frozen;
mod gate;
#[cfg(test)]
mod gate_tests;
mod header;
pub mod lease;
pub mod loops;
mod map;
mod mapped;
mod memory;
mod model;
pub mod mountinfo;
mod nvm;
mod open;
mod order;
mod owned;
mod owner;
mod persist;
mod pin;
mod pinnable;
#[cfg(test)]
mod pinnable_tests;
mod poison;
mod pool;
mod record;
mod shared;
mod snapshot;
mod stats;
mod stretch;
mod users;
mod windows;

/// What threads meet in at a gate, and in the words of pages.
mod meeting {
    pub(crate) use ondol_env::apart::{Apart, STRIPES, stripe};
    pub(crate) use ondol_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use ondol_env::sync::thread::yield_now;
}

pub use domain::{Domain, DomainError, MediumKind};
pub use error::{NvmError, Result};
pub use frozen::Frozen;
pub use header::{HeaderFault, check_header, crc32c, seal_header};
pub use model::{ModelError, NvmModel};
pub use nvm::Nvm;
pub use open::{Access, NvmOptions, found};
pub use order::{Fenced, Published, Stored, WrittenBack};
pub use owned::{Owned, Ownership};
pub use owner::Whose;
pub use persist::Instructions;
pub use pin::Pinned;
pub use poison::Poison;
pub use pool::{
    AREAS_START, Area, AreaKind, HEADERS, Header, POOL_VERSION, Pool, PoolError, PoolReport, PoolSpec, inspect,
};
pub use shared::{Shared, SharedWord};
pub use snapshot::{Parter, Snapshot, Source};
pub use stats::NvmStats;
pub use users::User;
pub use windows::{ClosedWindows, Windows, WindowsSpec, WindowsStats, most_mappings};

/// Bytes of a page: the unit of mappings, of pools and of their areas.
pub const PAGE: u64 = 4096;
