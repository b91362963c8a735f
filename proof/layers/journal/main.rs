//! The engines through their contract, with the power cut everywhere.

mod batch;
mod bounded;
mod classic;
mod compressed;
mod contract;
mod living;
mod lost;
mod older_journal;
mod room;
mod scalable;
mod scalable_brought;
mod scalable_home;
mod scalable_pages;
mod scalable_threads;
mod waiting;

/// Bytes of a block.
const BLOCK: usize = 1024;
/// Blocks of the medium: journal first, then home.
const BLOCKS: u64 = 2048;
/// Both.
const VOLUME: ondol_journal::scalable::Geometry =
    ondol_journal::scalable::Geometry { blocks: BLOCKS, block_size: BLOCK };
