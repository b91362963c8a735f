//! Reading file data of which some blocks are newer in memory than at home.

use crate::Result;
use crate::cache::Cache;
use ondol_block::BlockStore;

/// Reads from byte `offset` of `block` on: block by block what `cache` has, runs of others in one read.
pub(crate) fn read(cache: &Cache, store: &dyn BlockStore, block: u64, offset: usize, buf: &mut [u8]) -> Result<()> {
    let size = cache.block_size();
    let base = block * size as u64;
    let (mut at, mut home_from) = (offset, offset);
    let end = offset + buf.len();
    while at < end {
        let home = cache.home_from(block + (at / size) as u64);
        if home > 0 {
            at = end.min((at / size + home.min(end as u64) as usize) * size);
            continue;
        }
        let stop = ((at / size + 1) * size).min(end);
        if let Some(image) = cache.peek_data(block + (at / size) as u64) {
            if home_from < at {
                store.read(base + home_from as u64, &mut buf[home_from - offset..at - offset])?;
            }
            buf[at - offset..stop - offset].copy_from_slice(&image[at % size..at % size + stop - at]);
            home_from = stop;
        } else if cache.read_elsewhere(block + (at / size) as u64, at % size, &mut buf[at - offset..stop - offset])? {
            if home_from < at {
                store.read(base + home_from as u64, &mut buf[home_from - offset..at - offset])?;
            }
            home_from = stop;
        }
        at = stop;
    }
    if home_from < end {
        store.read(base + home_from as u64, &mut buf[home_from - offset..])?;
    }
    Ok(())
}
