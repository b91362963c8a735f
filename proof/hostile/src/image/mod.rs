//! Images to begin with, where their structures lie, and what makes them hostile.

mod atlas;
pub(crate) mod log;
mod made;
mod mapped;
mod patch;
mod seal;
mod seed;
pub(crate) mod units;

pub(crate) use atlas::{Structure, What};
pub(crate) use patch::patched;
pub(crate) use seed::{Kind, OWNER, Seed};
