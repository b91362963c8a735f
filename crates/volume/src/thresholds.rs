//! Where the volume begins to do something else: what tests have to cross. Nothing else is to depend on them.

pub use crate::file::write::ATOMIC_MAX;
pub use crate::file::{DIRECT, MOST_BYTES, MOST_RUNS, STEP_BLOCKS};
pub use crate::inline::{DATA, IN_BLOCK};
pub use crate::op::FEW;
pub use crate::pages::PAGE;
