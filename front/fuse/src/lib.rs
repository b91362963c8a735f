//! A volume as a file system of the running kernel, through FUSE.
//!
//! [`Mount`] serves a volume on a directory. Inside, three parts do not know each other's trade:
//!
//! - `ops`: what each request means. Plain arguments in, plain results or an errno out; no FUSE type appears.
//! - `fuser_transport`, `fuser_words`: FUSE's messages, over the `fuser` crate and `/dev/fuse`. Another transport would stand beside it.
//! - `kernel`, `fusermount`: how a mount comes to be and ends, by root and by everybody else.
//!
//! [`client`] is the other side: what a process does to a mount that some other process serves.
#![forbid(unsafe_code)]

pub mod client;
mod error;
mod fuser_transport;
mod fuser_words;
mod fusermount;
mod gate;
mod kernel;
pub mod mountinfo;
mod ops;
mod options;
mod serve;

pub use error::{ClientError, MountError};
pub use options::MountOptions;
pub use serve::Mount;
