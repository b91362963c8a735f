//! An image in an NVM pool with the log of engine `remap`: every layer of it is recorded in memory, cut, and recovered
//! by the code that ships.

mod pool;

use ondol::JournalEngine::Remap;
use ondol_laboratory::plants::REMAP;
use ondol_laboratory::workload::Mount;

#[test]
fn whatever_is_cut_a_prefix_is_left() {
    let how = [(Remap, Mount::Tight), (Remap, Mount::Roomy)];
    pool::a_life_leaves_prefixes(&how, 50, (35, 20), ("crates/journal/src/scalable", 20));
}

#[test]
fn each_planted_defect_is_found_and_nothing_without() {
    pool::each_planted_defect_is_found(REMAP, 160);
}
