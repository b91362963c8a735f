//! Flattening larger tables: nearly without free pages, in any order, stopped anywhere, and what it costs.

use crate::rig::PAGE;
use ondol_block::BlockStore;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_medium::{Nvm, Pool, PoolSpec};
use ondol_page_table::{Flatness, PageTable, TableError, TableSpec, check};

const P: u64 = PAGE as u64;

/// A table whose blocks are in no order, every `hole`th of them without a page.
fn scrambled(blocks: u64, reserve: u64, hole: u64, seed: u64) -> (Pool, Vec<u8>) {
    let nvm = Nvm::volatile((blocks + reserve) * P + (4 << 20)).unwrap();
    let mut pool = Pool::create(nvm, &PoolSpec::default()).unwrap();
    TableSpec { uuid: [3; 16], blocks: Some(blocks), reserve: Some(reserve) }.make(&mut pool).unwrap();
    let table = PageTable::attach(&pool).unwrap();
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: u64| u64::from(random.random_u32()) % n;
    for block in (0..blocks).filter(|block| block % hole != hole - 1) {
        table.write(block * P, &[block.to_le_bytes().repeat(512)].concat()).unwrap();
    }
    let mut transaction = table.transaction();
    (0..blocks).for_each(|block| transaction.swap(block, below(blocks)));
    transaction.commit().unwrap();
    let mut image = vec![0; (blocks * P) as usize];
    table.read(0, &mut image).unwrap();
    drop(table);
    (pool, image)
}

#[test]
fn tables_are_flattened_with_any_reserve() {
    for (reserve, hole) in [(1, 1000), (1, 3), (7, 1000), (300, 5), (2000, 2)] {
        let (pool, image) = scrambled(1500, reserve, hole, reserve);
        let mut table = PageTable::attach(&pool).unwrap();
        let before = table.flatness();
        assert!(before.displaced > 500 && before.extents > 300, "{before:?}");
        assert_eq!(check(&pool).unwrap().flatness, before);
        let free = table.stats().free;
        let done = table.flatten().unwrap();
        assert_eq!(done.moved, before.displaced);
        assert!(done.copied <= 2 * done.moved, "{done:?}");
        let flat = table.flatness();
        assert_eq!((flat.displaced, table.stats().free), (0, free));
        assert!(hole < 1500 || flat.extents <= 1500u64.div_ceil(hole) + 1, "{flat:?}");
        let fences = table.nvm().stats().fences;
        assert_eq!(table.flatten().unwrap(), ondol_page_table::Flattened { mapped: done.mapped, ..Default::default() });
        assert_eq!(table.nvm().stats().fences, fences, "there is nothing to do");
        let mut found = vec![0; image.len()];
        table.read(0, &mut found).unwrap();
        assert!(found == image, "{reserve} {hole}");
        // It is a table like others.
        (0..1500).step_by(100).for_each(|block| table.write(block * P, &[9; PAGE]).unwrap());
        table.flush().unwrap();
        drop(table);
        assert_eq!(check(&pool).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_map_is_measured() {
    let (pool, _) = scrambled(64, 10, 1000, 1);
    let mut table = PageTable::attach(&pool).unwrap();
    table.flatten().unwrap();
    assert_eq!(table.flatness(), Flatness { extents: 1, displaced: 0 });
    table.swap(3, 40).unwrap();
    assert_eq!(table.flatness(), Flatness { extents: 5, displaced: 2 });
    table.discard(10 * P, 5 * P).unwrap();
    assert_eq!(table.flatness(), Flatness { extents: 6, displaced: 2 });
}

#[test]
fn many_pages_share_a_fence() {
    let (pool, _) = scrambled(1024, 600, 5000, 2);
    let mut table = PageTable::attach(&pool).unwrap();
    let before = table.nvm().stats().fences;
    let done = table.flatten().unwrap();
    let fences = table.nvm().stats().fences - before;
    // Four for each 256 blocks.
    assert!(done.moved > 900 && fences <= 4 * 4, "{fences} fences, {done:?}");
}

#[test]
fn a_lost_line_stops_it_and_costs_nothing_else() {
    let (pool, image) = scrambled(64, 10, 1000, 3);
    let mut table = PageTable::attach(&pool).unwrap();
    let moves = |block: &u64| u64::from(table.page(*block).unwrap().unwrap()) != *block;
    let block = (20..64).find(moves).unwrap();
    let at = pool.area(ondol_medium::AreaKind::PAGE_DATA).unwrap().start
        + u64::from(table.page(block).unwrap().unwrap()) * P;
    pool.nvm().poison().add_line(at);
    let e = table.flatten().unwrap_err();
    assert!(matches!(e, TableError::Nvm(_)) && e.to_string().contains("has lost"), "{e}");
    drop(table);
    let table = PageTable::attach(&pool).unwrap();
    for other in (0..64).filter(|other| *other != block) {
        let mut found = vec![0; PAGE];
        table.read(other * P, &mut found).unwrap();
        assert!(found == image[(other * P) as usize..][..PAGE], "block {other}");
    }
    assert_eq!(check(&pool).unwrap().problems, Vec::<String>::new());
}
