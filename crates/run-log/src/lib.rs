//! The log of `ondol run`: what programs write to files that they sync, in NVM beside the kernel's page cache.
//!
//! ```text
//!  program ── write ──▶ page cache ──── real fsync (Drain) ──▶ disk
//!     │  └─ same bytes ─▶ lane of the process                   │
//!     └──── fsync ──▶ lane durable, return     retired ◀────────┘
//! ```
//!
//! [`Log`] is what all processes share: slots (one file each) and lanes (one process each) in two areas of a pool.
//! [`Client`] is a process that writes: it decides whether an fsync may end in the log. [`Drain`] syncs files for real
//! and retires their records. [`found`] tells what is live after a crash, and [`recover()`] brings it into the files.
//! Format, invariants and failure cases: `docs/design/run.md`.
//!
//! A write is acknowledged from here only if every change of its file since the last real fsync is in the log, which
//! the kernel's own look at the file proves: [`Look`]. It must not know how a program was made to call it, nor ext4.

mod area;
mod call;
mod changes;
mod client;
mod drain;
mod durable;
mod durable_word;
mod error;
mod format;
mod handle;
mod lane;
mod leave;
mod lock;
mod log;
mod look;
mod name_record;
mod names;
mod newest;
mod own;
mod recover;
#[cfg(any(test, feature = "rigs"))]
pub mod rigs;
mod slot;

pub use call::{Call, Place, WriteCall, Written};
pub use client::Client;
pub use drain::{Drain, Drained, Files, Sought, System};
pub use error::{Result, RunLogError};
pub use format::{HORIZON_NS, RUN_LOG_VERSION, SlotKey};
pub use handle::Handle;
pub use log::{Log, LogOptions, Opened};
pub use look::{FileKind, Identity, Look, Subject, Times, is_ext4, multigrain, names_why_not};
pub use name_record::{Change, NameRecord, Names};
pub use names::{NameCall, Side};
pub use newest::{Piece, newest};
pub use recover::{
    Found, FoundDir, FoundFile, Home, Kept, Listed, Lookup, Mounted, Outcome, Record, Recovered, Touched, Tree, found,
    give_up, recover, recover_to, touched,
};
