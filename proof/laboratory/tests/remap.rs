//! An image in an NVM pool with the log of engine `remap`: every layer of it is recorded in memory, cut, and recovered
//! by the code that ships.

mod pool;

use pool::Wanted;

use ondol::JournalEngine::Remap;
use ondol_laboratory::plants::REMAP;
use ondol_laboratory::workload::Mount;

#[test]
fn whatever_is_cut_a_prefix_is_left() {
    let how = [(Remap, Mount::Tight), (Remap, Mount::Roomy)];
    let wanted = Wanted { distinct: 35, nested: 20, module: "crates/journal/src/scalable", percent: 20 };
    pool::a_life_leaves_prefixes(&how, 50, wanted);
}

#[test]
fn each_planted_defect_is_found_and_nothing_without() {
    pool::each_planted_defect_is_found(REMAP, 160);
}
