//! The program `ondol`, run as a user runs it. Mounts need `/dev/fuse`; where it is missing they are skipped with a line.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod ask;
mod bounds;
mod bucket;
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
mod elsewhere;
mod exchange;
mod files;
mod flags;
mod foreign;
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
mod memory;
mod messages;
mod metrics;
mod namespace;
mod narrow;
mod nvm;
mod over;
mod pages;
mod parts;
mod picture;
mod place;
mod pool;
mod protected;
mod readers;
mod resize;
mod rights;
mod seen;
mod threads;
mod tools;
mod top;
mod transport;
mod users;
mod ways;
mod wrong;
