//! The library as programs use it.

mod files;
mod listing;
mod owned;
mod ranges;
