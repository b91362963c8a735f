//! Power cuts: every state that a crash could have left on the medium, and what must hold in each of them.
//!
//! **What a crash may do.** A [`Run`] is a sequence of events: writes, completed flushes, and marks of the driver. A cut
//! may come after any event. Then every write before the last completed flush is on the medium. Each write since may be
//! there or not, independently of the others, so also in any order; and each may be torn: it consists of units of 512
//! aligned bytes, any subset of which arrived. One exception: ext4's superblock (1,024 bytes with one checksum over them)
//! is one unit, as ext4 itself needs it to be.
//!
//! **What must hold** is in [`contract`]: the recovered volume is the model after some prefix of the calls.
//!
//! ```text
//!   record: setup, then calls over a Recorder ──▶ Run { base image, events, model after each call }
//!   explore: for each event, subsets of unflushed writes ──▶ Layer (base + changed pages) ──▶ distinct?
//!   judge: recover with our code, check, read everything ──▶ contract; by sample the same through e2fsck
//! ```
//!
//! All subsets are built while they are few; otherwise the extremes (none, all, each alone, all but one) and samples from
//! a seed. A state that violates the contract comes with a [`Case`] that builds exactly this state again.

mod case;
pub mod contract;
mod explore;
mod judge;
mod layer;
mod record;

pub use case::{Case, Keep};
pub use explore::{Limits, Report, Violation, explore, replay};
pub use layer::{CowStore, Layer};
pub use record::{RecordError, Run, Setup, record};

/// Bytes that are not torn by a crash.
pub const UNIT: usize = 512;
