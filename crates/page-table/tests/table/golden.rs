//! A pool byte for byte: the format depends on no address, process or processor.

use crate::rig::{PAGE, opened, pool};
use ondol_block::BlockStore;
use ondol_page_table::PageTable;
use std::fmt::Write;

/// Lines that are neither empty nor junk, as text.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (row, at) in bytes.chunks(16).zip((0..).step_by(16)) {
        if row.iter().any(|byte| !matches!(byte, 0 | 0xa5)) {
            let hex: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{at:05x} {hex}").unwrap();
        }
    }
    text
}

/// Three blocks of one byte each, one of them swapped with a block without a page, and bytes stored by the same
/// transaction.
fn made() -> Vec<u8> {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    for block in 0..3u8 {
        let mut page = vec![0; PAGE];
        page[usize::from(block)] = block + 1;
        table.write(u64::from(block) * PAGE as u64, &page).unwrap();
    }
    let mut transaction = table.transaction();
    transaction.swap(1, 4);
    transaction.store(0, 100, b"warm floor");
    assert_eq!(transaction.lines(), 2);
    transaction.commit().unwrap();
    pool.nvm().to_bytes().unwrap()
}

#[test]
fn the_format_is_what_it_was() {
    let (found, golden) = (dump(&made()), include_str!("golden.txt"));
    if found != golden {
        println!("{found}");
    }
    assert!(found == golden, "the bytes of a table have changed: see above");
}

#[test]
fn the_golden_pool_is_read() {
    let mut bytes = pool().nvm().to_bytes().unwrap();
    for line in include_str!("golden.txt").lines() {
        let (at, row) = line.split_once(' ').unwrap();
        let at = usize::from_str_radix(at, 16).unwrap();
        for n in 0..16 {
            bytes[at + n] = u8::from_str_radix(&row[2 * n..2 * n + 2], 16).unwrap();
        }
    }
    // Of pages that are used, rows of zeros are not in the text.
    let table = PageTable::attach(&opened(&bytes)).unwrap();
    let mut found = [0; 10];
    table.read(100, &mut found).unwrap();
    assert_eq!((&found, table.page(1).unwrap()), (b"warm floor", None));
    table.read(4 * PAGE as u64, &mut found).unwrap();
    assert_eq!(found[..3], [0, 2, 0]);
}
