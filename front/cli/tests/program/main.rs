//! The program `ondol`, run as a user runs it. Mounts need `/dev/fuse`; where it is missing they are skipped with a line.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod ask;
mod atomic;
mod bench;
mod bucket;
#[cfg(feature = "object")]
mod bucket_bench;
#[cfg(feature = "object")]
mod bucket_local;
#[cfg(feature = "object")]
mod bucket_seen;
#[cfg(feature = "object")]
mod bucket_server;
mod calls;
mod confined;
mod damaged;
mod documented;
mod exchange;
mod files;
mod flags;
mod foreign;
mod fsck;
mod helpers;
mod home;
mod hostile;
mod kills;
mod kinds;
mod lifecycle;
mod making;
mod manual;
mod memory;
mod messages;
mod metrics;
mod namespace;
mod nvm;
mod over;
mod parts;
mod place;
mod pool;
mod protected;
mod readers;
mod resize;
mod seen;
mod threads;
mod tools;
mod top;
mod transport;
mod users;
mod ways;
mod wrong;
