//! Where engines begin to do something else: what tests have to cross. Nothing else is to depend on them.

pub use crate::area::{MERGE, WORTH_THREADS};
pub use crate::block_engine::{BATCH, HANDLE_SHARE};
pub use crate::compressed::{STAGE_DENSE, STAGE_EARLY, STAGE_PLAIN, WORTH_A_THREAD};
pub use crate::handle::FEW;
pub use crate::in_place::IN_PLACE;
