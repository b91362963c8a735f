//! A volume as a file system of the running kernel, through FUSE.
//!
//! [`Mount`] serves a volume on a directory. Inside, six parts do not know each other's trade:
//!
//! - `ops`: what each request means. Plain arguments in, plain results or an errno out; no FUSE type appears.
//! - `proto`, `words`, `dispatch`: FUSE's messages, and which operation each asks for.
//! - `flags`: what is agreed on with the kernel at the start, and what it leaves to us because of that.
//! - `channel`, `coming`, `session`, `ring`: what carries them: `/dev/fuse` or io_uring. `crew`, `foreman`, `follow`,
//!   `standing`: which threads serve, where, and how they are scheduled these run. `budget`: what memory they may take.
//! - `meter`: what it has done, for who is in the same process and tells others.
//! - `kernel`, `fusermount`: how a mount comes to be and ends, by root and by everybody else.
//!
//! With the feature `rigs`, `proof/fuse` is part of this: file systems without a volume, over the same protocol and
//! transport.
//!
//! [`client`] is the other side: what a process does to a mount that some other process serves.
#![forbid(unsafe_code)]

mod budget;
mod channel;
pub mod client;
mod coming;
mod crew;
mod dispatch;
mod error;
mod flags;
#[cfg(feature = "rigs")]
#[path = "../../../proof/fuse/src/floor/mod.rs"]
mod floor;
mod follow;
mod foreman;
mod fusermount;
#[cfg(any(test, feature = "rigs"))]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod kernel;
mod meter;
mod ops;
mod options;
mod proto;
mod ring;
mod serve;
mod server;
mod session;
#[cfg(feature = "rigs")]
#[path = "../../../proof/fuse/src/single.rs"]
mod single;
mod standing;
mod words;

pub use error::{ClientError, MountError};
#[cfg(feature = "rigs")]
pub use floor::{Floor, FloorKind};
pub use meter::Meter;
pub use options::{MountOptions, OPTION_NAMES, Shown, Transport};
pub use serve::Mount;
#[cfg(feature = "rigs")]
pub use single::{Contents, SingleFile};
