//! The narrow waist: what a volume and its journal need of the thing that holds their bytes.
//!
//! ```text
//!   journal engines, volume
//!            |
//!       BlockStore          read, borrow, write, flush, discard + Caps
//!            |
//!   FileStore   RamStore    Recorder / Faulty (wrap another store)
//! ```
//!
//! A store is addressed in bytes. **What a crash may do**: every write that was accepted since the last completed
//! [`BlockStore::flush`] may be on the medium or not, in any subset and order, torn at [`Caps::atomic_unit`] bytes;
//! everything before a completed flush is there. Nothing here knows NVM, ext4 or journals.
#![forbid(unsafe_code)]

mod error;
mod fault;
mod file;
mod ram;
mod record;
mod stats;
mod store;

pub use error::{BlockError, Result};
pub use fault::{FaultPlan, Faulty};
pub use file::{Access, FileStore};
pub use ram::RamStore;
pub use record::{Event, PowerDomain, Recorder};
pub use stats::{BlockStats, Counters};
pub use store::{BlockStore, Caps};
