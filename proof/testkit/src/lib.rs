//! What Ondol is proved with: operations as plain text, a reference model, snapshots, and images.
//!
//! ```text
//!   op (text, strategies) ──▶ Target: Model | Library (a Volume) | Directory (a mounted one)
//!                                 │ outcome, call by call        │ snapshot
//!                                 └───────── lockstep ───────────┘
//! ```
//!
//! The model is written to be read, not to be fast; every other part trusts it. Programs that did not come with Ondol
//! (mke2fs, e2fsck, the kernel's ext4) are called through [`image`].
#![forbid(unsafe_code)]

mod batching;
pub mod disks;
pub mod dump;
mod ends;
mod exchanging;
mod fail;
pub mod image;
mod lending;
pub mod model;
pub mod nvm_log;
pub mod op;
mod over;
pub mod page_table;
pub mod put_data;
pub mod resizing;
pub mod rig;
pub mod run_log;
pub mod shrink;
pub mod strategy;
pub mod target;
pub mod threads;
pub mod thresholds;
pub mod tooled;
pub mod write_buffer;

pub use ends::SetWhenDropped;
pub use fail::{Fail, Outcome};
