//! The narrow waist: what a volume and its journal need of the thing that holds their bytes.
//!
//! ```text
//!   journal engines, volume
//!            |
//!       BlockStore          read, borrow, pin, write, flush, discard, exchange, submit, settle + Caps;
//!            |              PageLender of stores that copy on write
//!   FileStore   RamStore   LayerStore    OverlayStore / JoinedStore (wrap others)
//! ```
//!
//! A store is addressed in bytes. What a crash may do to it is written in `ondol_power`. Nothing here knows NVM, ext4
//! or journals.
#![forbid(unsafe_code)]

mod batches;
mod device;
mod error;
mod file;
mod join;
mod layer;
mod lender;
mod overlay;
pub mod passed;
mod pinned;
mod ram;
mod stats;
mod store;

pub use device::{DeviceClass, UnknownDevice};
pub use error::{BlockError, Result, check_range};
pub use file::{Access, FileStore, open_file, reopen};
pub use join::JoinedStore;
pub use layer::LayerStore;
pub use lender::PageLender;
pub use overlay::OverlayStore;
pub use pinned::{MapPart, Mapped, Memory, Own, PageUse, Pin, Pinned};
pub use ram::RamStore;
pub use stats::{BlockStats, Counters};
pub use store::{BlockStore, Caps, Swaps};
