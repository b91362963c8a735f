//! `ondol ls`, `cat` and `cp`: the files of an image that is not mounted.
//!
//! Paths in an image begin at its root, and may begin with a colon, which `cp` needs to tell them from others. After an
//! error a command goes on with the next path; its exit code is the worst.

pub(crate) mod args;
mod cat;
pub(crate) mod cp;
mod inside;
mod ls;
mod open;
mod out;
mod walk;

pub(crate) use cat::cat;
pub(crate) use cp::{cp, fill};
pub(crate) use ls::{ls, minute};
