//! Bytes of files on their way to blocks: home at once, or through the journal with `data=journal`.

use crate::op::Op;
use crate::{DataMode, Result, Volume};

/// Whether file data goes through the journal.
pub(super) fn journaled(vol: &Volume) -> bool {
    vol.options.data == DataMode::Journal
}

/// Puts `bytes` at byte `offset` of the blocks from `start` on, over what is stored there.
///
/// # Errors
/// The store's failure.
pub(super) fn overwrite(op: &mut Op<'_>, start: u64, offset: usize, bytes: &[u8]) -> Result<()> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    let (start, offset) = (start + (offset / block_size) as u64, offset % block_size);
    if !journaled(op.vol()) {
        return op.write_over(start, offset, bytes);
    }
    for (block, at, part) in parts(block_size, start, offset, bytes) {
        op.handle()?.data(block, at, part)?;
    }
    Ok(())
}

/// Makes `blocks` blocks from `start` on, which nothing reads yet, hold `bytes` at byte `offset` (within the first block)
/// and zeros elsewhere. The bytes reach into the last block.
///
/// # Errors
/// The store's failure.
pub(super) fn fill(op: &mut Op<'_>, start: u64, blocks: u32, offset: usize, bytes: &[u8]) -> Result<()> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    if journaled(op.vol()) {
        for (block, at, part) in parts(block_size, start, offset, bytes) {
            op.handle()?.fresh_data(block, at, part)?;
        }
        return Ok(());
    }
    let tail = blocks as usize * block_size - offset - bytes.len();
    // The first and the last block are padded with zeros; what lies between goes as it is.
    let head_len = if offset > 0 { (block_size - offset).min(bytes.len()) } else { 0 };
    let (head, rest) = bytes.split_at(head_len);
    if !head.is_empty() {
        let mut block = vec![0; block_size];
        block[offset..offset + head.len()].copy_from_slice(head);
        op.stage(start, &block)?;
    }
    let start = start + u64::from(!head.is_empty());
    let whole = if tail > 0 { rest.len() / block_size * block_size } else { rest.len() };
    let (whole, last) = rest.split_at(whole);
    if !whole.is_empty() {
        op.stage(start, whole)?;
    }
    if !last.is_empty() {
        let mut block = vec![0; block_size];
        block[..last.len()].copy_from_slice(last);
        op.stage(start + (whole.len() / block_size) as u64, &block)?;
    }
    Ok(())
}

/// Puts zeros at `from..to` (bytes within the block) of a stored block.
///
/// # Errors
/// The store's failure.
pub(super) fn zero(op: &mut Op<'_>, block: u64, from: usize, to: usize) -> Result<()> {
    if from < to { overwrite(op, block, from, &vec![0; to - from]) } else { Ok(()) }
}

/// `bytes` at byte `offset` of block `start`, block by block.
fn parts(block_size: usize, start: u64, offset: usize, bytes: &[u8]) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let first = (block_size - offset).min(bytes.len());
    let (head, rest) = bytes.split_at(first);
    let whole = rest.chunks(block_size).zip(start + 1..).map(|(part, block)| (block, 0, part));
    std::iter::once((start, offset, head)).filter(|(.., head)| !head.is_empty()).chain(whole)
}
