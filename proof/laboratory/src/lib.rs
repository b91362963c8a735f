//! The crash laboratory: every state that a power cut could leave, recovered by the code that ships, and judged.
//!
//! What a crash may do to media is written in [`ondol_power`]; what a recovered volume may hold in [`contract`]. How
//! the parts fit together is written in `docs/design/laboratory.md`.
#![forbid(unsafe_code)]

mod after;
mod args;
mod command;
pub mod contract;
pub mod coverage;
pub mod explore;
pub mod faults;
pub mod hunt;
mod image;
mod judge;
mod kernel;
pub mod kill;
pub mod log;
mod log_judge;
mod names;
pub mod plants;
pub mod pool;
mod pools;
mod prey;
mod processor;
mod rot;
pub mod run;
mod search;
mod signals;
mod small;
#[cfg(feature = "object")]
mod store;
mod subject;
pub mod threads;
pub mod tools;
pub mod workload;

pub use args::CrashArgs;
pub use command::{LaboratoryError, main};
pub use image::Kind as Image;
pub use judge::VolumeRun;
pub use names::Names;
pub use prey::{Prey, Replayed, data_word};
pub use subject::{Description, Subject, Told};
