//! Every source of nondeterminism of Ondol in one place: [`sync`] has the locks, atomics and threads, [`Env`] the clock
//! and the random numbers; [`waits`] tells of long waits, [`apart`] keeps threads from meeting in memory, and
//! [`mod@counters`] declares what is counted.
//!
//! Product code takes locks and threads from here and nowhere else, so that a controlled scheduler can run the same
//! code, and so that a test or the crash laboratory can fix time and randomness.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is the door")]

pub mod apart;
mod background;
mod clock;
pub mod counters;
mod number;
mod step;
pub mod sync;
pub mod waits;

pub use background::Background;
pub use clock::{Env, Fixed, System, Timestamp};
pub use number::thread_number;
pub use step::{Bell, Progress, Step};
