use super::{MERGE, WORTH_THREADS, Writers, write_many};
use crate::Block;
use crate::together::{each, together};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;

const BLOCK: usize = 64;
const FOUR: Writers = Writers { told: None, own: 4 };

/// Many blocks apart, and a run that is longer than one write.
fn images() -> Vec<(u64, Block)> {
    let apart = (0..2 * WORTH_THREADS as u64).map(|i| 2 * i);
    let run = (0..2 * MERGE as u64 + 9).map(|i| 10_000 + i);
    apart.chain(run).map(|block| (block, Block::from(vec![block as u8 | 1; BLOCK]))).collect()
}

#[test]
fn what_several_threads_write_is_all_there_and_nothing_else() {
    let ram = Arc::new(RamStore::new(20_000 * BLOCK));
    let store: Arc<dyn BlockStore> = ram.clone();
    write_many(&store, FOUR, BLOCK, &images()).unwrap();
    let mut expected = vec![0; 20_000 * BLOCK];
    for (block, image) in images() {
        expected[block as usize * BLOCK..][..BLOCK].copy_from_slice(&image);
    }
    assert!(ram.to_bytes() == expected);
}

#[test]
fn what_one_of_them_cannot_write_is_an_error() {
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::new(10_100 * BLOCK));
    assert!(write_many(&store, FOUR, BLOCK, &images()).is_err());
}

#[test]
fn many_write_what_is_much_and_as_many_as_are_told_whatever_is_there() {
    let told = |told| Writers { told, own: 4 };
    assert_eq!([0, 1, 255, 256].map(|count| FOUR.of(count, WORTH_THREADS)), [1, 1, 1, 4]);
    assert_eq!([0, 1, 2, 256].map(|count| told(Some(3)).of(count, WORTH_THREADS)), [1, 1, 2, 3]);
    assert_eq!(told(Some(1)).of(1000, WORTH_THREADS), 1);
}

#[test]
fn each_has_its_number_and_one_that_panics_is_an_error() {
    assert_eq!(together(4, "test", |n| n * 10).unwrap(), [0, 10, 20, 30]);
    let failed = together(3, "test", |n| assert!(n != 2, "planned"));
    assert!(failed.unwrap_err().to_string().contains("test"));
}

#[test]
fn each_number_is_claimed_once_and_what_came_of_it_is_in_order() {
    for (threads, count, at_once) in [(1, 10, 3), (4, 1000, 7), (3, 5, 16), (4, 0, 1)] {
        let all = each(threads, count, at_once, "test", |n| 3 * n).unwrap();
        assert!(all.iter().copied().eq((0..count).map(|n| 3 * n)), "{threads} {count} {at_once}");
    }
}
