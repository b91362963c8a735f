//! Pages of a B-tree table as an embedded database has them: a header, an array of cells' places, free space, and cells of
//! numbers, dates, names and keys.

use super::words::Words;
use crate::rng::Rng;

const PAGE: usize = 4096;
/// Bytes of the page's header: a leaf's.
const HEADER: usize = 8;

/// Appends until there are `len` bytes.
pub(super) fn fill(out: &mut Vec<u8>, len: usize, rng: &mut Rng) {
    let words = Words::new(rng, 4000, 4);
    let mut row = 0;
    while out.len() < len {
        out.extend_from_slice(&page(&words, &mut row, rng));
    }
}

fn page(words: &Words, row: &mut u32, rng: &mut Rng) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    // Between half and nine tenths are in use.
    let free = PAGE / 10 + rng.below(PAGE as u64 * 4 / 10) as usize;
    let mut top = PAGE;
    let mut cells = 0u16;
    loop {
        let cell = cell(words, *row, rng);
        let place = HEADER + 2 * usize::from(cells);
        if top < place + 2 + free + cell.len() {
            break;
        }
        top -= cell.len();
        put(&mut page, top, &cell);
        put(&mut page, place, &(top as u16).to_be_bytes());
        cells += 1;
        *row += 1;
    }
    put(&mut page, 0, &[0x0d, 0, 0]);
    put(&mut page, 3, &cells.to_be_bytes());
    put(&mut page, 5, &(top as u16).to_be_bytes());
    page
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = page.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// One row: number, customer, time, amount, state, name, remark, key.
fn cell(words: &Words, row: u32, rng: &mut Rng) -> Vec<u8> {
    const STATES: [&str; 4] = ["shipped", "pending", "returned", "cancelled"];
    let mut cell = vec![0, 0x81, 0x05, 9, 4, 3, 6, 2, 29, 41, 53, 44];
    cell.extend_from_slice(&row.to_be_bytes());
    cell.extend_from_slice(&(rng.below(20_000) as u32).to_be_bytes());
    cell.extend_from_slice(&(1_795_000_000 + u64::from(row) * 37 + rng.below(30)).to_be_bytes());
    cell.extend_from_slice(&(rng.below(100_000) as u32).to_be_bytes());
    cell.extend_from_slice(STATES.get(rng.below(4) as usize).copied().unwrap_or_default().as_bytes());
    let text =
        format!("{} {}|{} {}", words.pick(rng, 300), words.pick(rng, 4000), words.pick(rng, 300), words.any(rng));
    cell.extend_from_slice(text.as_bytes());
    cell.extend_from_slice(&rng.next().to_be_bytes());
    if let Some(len) = cell.first_mut() {
        *len = text.len() as u8;
    }
    cell
}
