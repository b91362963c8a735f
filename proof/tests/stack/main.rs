//! The program `ondol` of this source, as users run it: what takes long, and volumes in object storage. The rest is
//! `front/cli/tests/program`, with which this shares where and how it mounts.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod bounds;
mod bucket;
mod bucket_local;
mod bucket_seen;
mod bucket_server;
mod elsewhere;
mod foreign;
mod memory;
#[path = "../../../front/cli/tests/program/namespace.rs"]
mod namespace;
mod pages;
#[allow(dead_code, reason = "the tests of the product use all of it")]
#[path = "../../../front/cli/tests/program/place.rs"]
mod place;
mod protected;
mod rights;
#[path = "../../../front/cli/tests/program/transport.rs"]
mod transport;
mod trial;

use std::path::Path;

/// The program under test.
fn program() -> &'static Path {
    ondol_tests::program().unwrap_or_else(|e| panic!("{e}"))
}
