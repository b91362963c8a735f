//! The crash laboratory: every state that a power cut could leave, recovered by the code that ships, and judged.
//!
//! What a crash may do to media is written in [`ondol_power`]; what a recovered volume may hold in [`contract`]. How the
//! parts fit together is written in `docs/design/laboratory.md`.
#![forbid(unsafe_code)]

pub mod contract;
pub mod explore;
mod judge;
pub mod run;
mod store;
mod subject;

pub use store::LayerStore;
pub use subject::{Description, Subject};
