//! NVM pools whose bytes lie.

use crate::input::Input;
use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec, inspect};
use std::sync::OnceLock;

/// A small pool with areas, attached once.
fn seed() -> &'static [u8] {
    static SEED: OnceLock<Vec<u8>> = OnceLock::new();
    SEED.get_or_init(|| {
        let nvm = Nvm::volatile(64 << 10).expect("memory");
        let areas = vec![(AreaKind::JOURNAL_LOG, 8192), (AreaKind::PAGE_DATA, 16_384)];
        let spec = PoolSpec { uuid: [9; 16], areas, ..PoolSpec::default() };
        let mut pool = Pool::create(nvm, &spec).expect("an empty medium takes a pool");
        pool.attach([3; 16]).expect("a new pool can be attached");
        pool.nvm().to_bytes().expect("memory can be read")
    })
}

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut image = seed().to_vec();
    let word = input.u8();
    for _ in 0..word & 15 {
        let copy = if input.one_in(2) { 4096 } else { 0 };
        let (at, n) = (copy + input.below(512), usize::from(input.u8() % 16) + 1);
        let part = input.split(n);
        image[at..at + part.len()].copy_from_slice(part);
    }
    if word & 16 == 0 {
        seal(&mut image);
    }
    if word & 64 != 0 {
        image.truncate(usize::from(input.u16()));
    }
    let Ok(nvm) = Nvm::from_bytes(&image) else { return };
    if let Ok(report) = inspect(&nvm)
        && let Ok(header) = report.header(nvm.name(), nvm.size())
    {
        for area in &header.areas {
            let mut head = vec![0; area.len.min(256) as usize];
            nvm.read(area.start, &mut head).expect("an area of a header that is believed lies in the pool");
        }
    }
    let Ok(mut pool) = Pool::open(nvm) else { return };
    while !input.is_empty() {
        match input.u8() % 4 {
            0 => drop(pool.attach([input.u8(); 16])),
            1 => drop(pool.detach()),
            2 => drop(pool.allot(AreaKind::PAGE_LOG, input.u64())),
            _ => assert!(pool.header().areas.len() < 1000, "more areas than a header holds"),
        }
    }
}

/// Where the checksum of a header lies.
const CHECKSUM: usize = 12;

/// Makes the checksums of both headers right.
fn seal(image: &mut [u8]) {
    for header in image.chunks_exact_mut(4096).take(2) {
        header[CHECKSUM..CHECKSUM + 4].fill(0);
        let sum = ondol_format::csum::crc32c(!0, header);
        header[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
    }
}
