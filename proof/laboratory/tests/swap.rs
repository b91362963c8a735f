//! An image in an NVM pool, with its page table and its journal: every layer of it is recorded in memory, cut, and
//! recovered by the code that ships.

mod pool;

use pool::Wanted;

use ondol::JournalEngine::{Classic, Swap};
use ondol_laboratory::plants::SWAP;
use ondol_laboratory::workload::Mount;

#[test]
fn whatever_is_cut_a_prefix_is_left() {
    let how = [(Swap, Mount::Tight), (Swap, Mount::Roomy), (Classic, Mount::Tight)];
    let wanted = Wanted { distinct: 60, nested: 50, module: "crates/page-table", percent: 12 };
    pool::a_life_leaves_prefixes(&how, 80, wanted);
}

#[test]
fn each_planted_defect_is_found_and_nothing_without() {
    pool::each_planted_defect_is_found(SWAP, 400);
}
