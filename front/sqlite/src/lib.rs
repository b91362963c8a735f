//! SQLite databases in volumes: a VFS as a loadable extension. What it promises: `docs/sqlite.md`; how:
//! `docs/design/sqlite.md`.
//!
//! ```text
//!   SQLite ──▶ ffi, vfs, methods: C's side, all that is unsafe
//!                 ├─ database: a database file; what a transaction writes is a batch, until it is whole
//!                 │     ├─ locks: SQLite's five levels, between the connections of this process
//!                 │     └─ shm: the index of a write-ahead log
//!                 ├─ journal: rollback journals and super-journals, which need be nowhere but in memory
//!                 └─ images: which volumes are open, and who uses them
//! ```
//!
//! All of it is a C border, so `unsafe` is allowed in this crate, block by block with its reason. No panic crosses the
//! border: `call.rs`.
#![allow(unsafe_code, reason = "a C border")]

mod call;
mod codes;
mod database;
mod ffi;
mod images;
mod journal;
mod locks;
mod methods;
mod name;
mod shm;
mod vfs;

pub use vfs::{sqlite3_ondol_init, sqlite3_ondolsqlite_init};
