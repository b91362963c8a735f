//! Who else on this machine has an image: other processes by their locks, and the kernel through devices and mounts.
//!
//! `claim` opens images so that nobody else can write them; the rest finds out, and says, who has them.

pub(crate) mod claim;
mod devices;
pub mod elsewhere;
mod holders;
pub mod locks;
pub mod mountinfo;
pub(crate) mod pools;
pub(crate) mod rights;
mod roots;

pub use claim::users;
pub use ondol_medium::lease::nobody_writes;
