//! The program `ondol`, run as a user runs it. Mounts need `/dev/fuse`; where it is missing they are skipped with a
//! line.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod ask;
#[cfg(not(feature = "object"))]
mod bucket;
mod calls;
mod confined;
mod damaged;
mod documented;
mod exchange;
mod files;
mod flags;
mod fsck;
mod fuse2fs;
mod helpers;
mod home;
mod hostile;
mod idmapped;
mod kinds;
mod lab;
mod lifecycle;
mod making;
mod manual;
mod messages;
mod metrics;
mod namespace;
mod narrow;
mod nvm;
mod over;
mod parts;
mod picture;
mod place;
mod pool;
mod readers;
mod resize;
mod seen;
mod threads;
mod tools;
mod top;
mod transport;
mod uring;
mod users;
mod ways;
mod wrong;

use std::path::Path;

/// The program under test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ondol"))
}
