//! What a power cut may do. This page is the contract between everything that stores and the crash laboratory.
//!
//! All media of a volume share one [`PowerDomain`]: one sequence of [`Event`]s, cut at one instant for all of them.
#![forbid(unsafe_code)]

mod event;

pub use event::{Event, PowerDomain};
