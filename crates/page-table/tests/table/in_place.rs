//! Writing in place: which lines are stored, and where it is done in a page of its own instead.

use crate::rig::{PAGE, changed, fill, opened, page, pool, read};
use ondol_block::{BlockStore, Pin};
use ondol_page_table::{PageTable, View, ViewSpec};

const P: u64 = PAGE as u64;

/// A table of which the first three blocks are written, durably.
fn table() -> PageTable {
    let table = PageTable::attach(&pool()).unwrap();
    table.write(0, &[page(1), page(2), page(3)].concat()).unwrap();
    table.flush().unwrap();
    table
}

fn pages(table: &PageTable) -> Vec<Option<u32>> {
    (0..4).map(|block| table.page(block).unwrap()).collect()
}

#[test]
fn lines_that_differ_are_stored_and_one_fence_is_for_all() {
    let table = table();
    let (then, before) = (pages(&table), table.nvm().stats());
    let new = [changed(&page(1), 77), changed(&page(3), 78)];
    table.write_in_place(&[(0, &new[0]), (2 * P, &new[1])]).unwrap();
    let after = table.nvm().stats();
    let stored = after.stored_bytes - before.stored_bytes + after.copied_bytes - before.copied_bytes;
    // Bytes 8 to 16, 700 to 711, 1024 to 1160 and the last 8: seven lines.
    assert_eq!((after.fences - before.fences, stored), (1, 2 * 7 * 64));
    assert_eq!(pages(&table), then);
    assert_eq!(read(&table).unwrap()[..3], [new[0].clone().into(), page(2).into(), new[1].clone().into()]);
    table.write_in_place(&[(0, &new[0])]).unwrap();
    let same = table.nvm().stats();
    assert_eq!(same.stored_bytes + same.copied_bytes, after.stored_bytes + after.copied_bytes, "nothing differs");
    let left = PageTable::attach(&opened(&table.nvm().to_bytes().unwrap())).unwrap();
    assert_eq!(read(&left).unwrap()[0][..], new[0]);
}

#[test]
fn a_page_that_is_lent_is_not_stored_to() {
    let table = table();
    let lender = table.lender().unwrap();
    let lent = lender.lend(1).unwrap().unwrap()[0];
    fill(&table, lent, &page(9));
    lender.remap(&[(1, lent)]).unwrap();
    table.flush().unwrap();
    let new = changed(&page(9), 50);
    table.write_in_place(&[(P, &new)]).unwrap();
    assert_ne!(table.page(1).unwrap(), Some(lent));
    assert_eq!(read(&table).unwrap()[1][..], new);
    table.flush().unwrap();
    lender.remap(&[(1, lent)]).unwrap();
    assert_eq!(read(&table).unwrap()[1][..], page(9), "the borrower's page holds what it did");
}

#[test]
fn a_page_that_is_read_in_place_is_not_stored_to() {
    let table = table();
    let Some(Pin::Bytes(view)) = table.pin(P, P, true).unwrap() else { panic!("no page") };
    let (then, new) = (pages(&table)[1], changed(&page(2), 40));
    table.write_in_place(&[(P, &new)]).unwrap();
    assert_eq!((&view[..], &read(&table).unwrap()[1][..]), (&page(2)[..], &new[..]));
    assert_ne!(pages(&table)[1], then);
    table.flush().unwrap();
    drop(view);
    let then = pages(&table)[1];
    table.write_in_place(&[(P, &page(5))]).unwrap();
    assert_eq!(pages(&table)[1], then, "in place again");
}

#[test]
fn a_lost_line_a_block_without_a_page_and_parts_of_blocks_are_written_as_ever() {
    let table = table();
    let data = page_address(&table, table.page(0).unwrap().unwrap());
    table.nvm().poison().add_line(data + 640);
    assert!(table.read(0, &mut [0; PAGE]).is_err());
    let (then, new) = (pages(&table), changed(&page(1), 60));
    let part = [7; 100];
    table.write_in_place(&[(0, &new), (3 * P, &page(4)), (P + 50, &part)]).unwrap();
    table.flush().unwrap();
    let now = read(&table).unwrap();
    assert_eq!((&now[0][..], &now[3][..], &now[1][50..150]), (&new[..], &page(4)[..], &part[..]));
    assert!(pages(&table)[0] != then[0] && then[3].is_none() && pages(&table)[3].is_some());
    assert!(table.write_in_place(&[(table.size(), &part)]).is_err());
}

/// Where a page lies: what the table reads there is what it holds.
fn page_address(table: &PageTable, number: u32) -> u64 {
    let mut of_page = [0; 64];
    table.read(0, &mut of_page).unwrap();
    let is_there = |at: &u64| {
        let mut found = [0; 64];
        table.nvm().read(*at, &mut found).is_ok() && found == of_page
    };
    let at = (0..table.nvm().size()).step_by(PAGE).find(is_there);
    at.unwrap_or_else(|| panic!("page {number} is nowhere"))
}

#[test]
fn a_view_shows_what_was_stored_in_place() {
    let table = table();
    for remapping in [ondol_page_table::Remapping::Transaction, ondol_page_table::Remapping::Immediate] {
        let view = View::new(&table, &ViewSpec { blocks: 0..3, remapping, ..ViewSpec::default() }).unwrap();
        let mut bytes = vec![0; PAGE];
        view.read(P, &mut bytes).unwrap();
        let new = changed(&bytes, bytes[8].wrapping_add(1));
        table.write_in_place(&[(P, &new)]).unwrap();
        view.read(P, &mut bytes).unwrap();
        assert_eq!(bytes, new);
        table.flush().unwrap();
        view.read(P, &mut bytes).unwrap();
        assert_eq!((bytes, view.stats().waiting), (new, 0));
    }
}
