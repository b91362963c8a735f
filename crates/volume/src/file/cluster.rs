//! Clusters of a file (bigalloc): a cluster of logical blocks lies in one cluster of the medium, block for block, and
//! which of them are mapped is for the extents to say. It is allocated with the first of them and freed with the last.

use super::{Mapped, tree};
use crate::op::Op;
use crate::{Error, Ino, Result};
use ondol_format::extent::Extent;
use ondol_journal::{Extent as Blocks, Kind};
use std::ops::Range;

/// A mapped block among `range`, except in `but`: where the cluster begins on the medium.
fn mapped_in(op: &mut Op<'_>, ino: Ino, range: Range<u64>, but: Range<u64>) -> Result<Option<u64>> {
    let ratio = u64::from(op.vol().shared.sb.cluster_ratio());
    let mut at = range.start;
    while at < range.end {
        if but.contains(&at) {
            at = but.end;
            continue;
        }
        let Ok(logical) = u32::try_from(at) else { break };
        if logical == ondol_format::extent::MAX_LOGICAL {
            break;
        }
        let run = tree::map(op, ino, logical)?;
        if let Mapped::Written(block) | Mapped::Unwritten(block) = run.what {
            if block % ratio == at % ratio {
                return Ok(Some(block - block % ratio));
            }
            let what = format!("logical block {at} does not lie in its place in a cluster");
            return Err(Error::corrupt(format!("mapping of inode {ino}"), block, what));
        }
        at += u64::from(run.len.max(1));
    }
    Ok(None)
}

/// The cluster of logical blocks that `at` is in.
fn around(at: u64, ratio: u64) -> Range<u64> {
    let first = at - at % ratio;
    first..first + ratio
}

/// Up to as many blocks as are asked for, for the hole where `new` lies: in the cluster where that lies already, or in
/// new ones, near to `new.start`.
///
/// # Errors
/// `NoSpace` beyond the promise; corruption.
pub(super) fn take(op: &mut Op<'_>, ino: Ino, new: Extent, grows: bool) -> Result<Blocks> {
    let Extent { logical: at, start: goal, len: mut want, .. } = new;
    let ratio = op.vol().shared.sb.cluster_ratio();
    if ratio == 1 {
        let got = if grows { op.alloc_stream(ino, goal, want)? } else { op.alloc_blocks(goal, want)? };
        tree::add_blocks(op, ino, got.len.into())?;
        return Ok(got);
    }
    let (wide, skip) = (u64::from(ratio), at % ratio);
    if let Some(cluster) = mapped_in(op, ino, around(at.into(), wide), 0..0)? {
        return Ok(Blocks { start: cluster + u64::from(skip), len: want.min(ratio - skip) });
    }
    let end = u64::from(at) + u64::from(want);
    if end % wide != 0 && end - end % wide > u64::from(at) && mapped_in(op, ino, around(end, wide), 0..0)?.is_some() {
        // The last blocks have a cluster already.
        want -= (end % wide) as u32;
    }
    let got = op.alloc_clusters(goal - goal % wide, (skip + want).div_ceil(ratio))?;
    tree::add_blocks(op, ino, u64::from(got.len / ratio))?;
    Ok(Blocks { start: got.start + u64::from(skip), len: want.min(got.len - skip) })
}

/// Frees the clusters of which nothing is mapped but some blocks of `gone`. What the journal knows of blocks in
/// clusters that stay is not forgotten: the same file, the same kind of data will be written there again, and the log
/// is replayed in order. Before a commit that shows in the file as it was: docs/crash-contract.md.
///
/// # Errors
/// Corruption.
pub(super) fn give_back(op: &mut Op<'_>, ino: Ino, gone: Extent, kind: Kind) -> Result<()> {
    let Extent { logical: from, start, len, .. } = gone;
    let wide = u64::from(op.vol().shared.sb.cluster_ratio());
    if wide == 1 {
        op.free_blocks(Blocks { start, len }, kind)?;
        return tree::remove_blocks(op, ino, len.into());
    }
    let own = u64::from(from)..gone.end();
    if start % wide != own.start % wide {
        let what = format!("logical block {from} does not lie in its place in a cluster");
        return Err(Error::corrupt(format!("mapping of inode {ino}"), start, what));
    }
    let (mut first, mut end) = (around(own.start, wide).start, own.end.next_multiple_of(wide));
    if mapped_in(op, ino, around(own.start, wide), own.clone())?.is_some() {
        first += wide;
    }
    if first < end && mapped_in(op, ino, around(own.end - 1, wide), own.clone())?.is_some() {
        end -= wide;
    }
    let block = |logical: u64| start + logical - own.start;
    let whole = first.max(own.start)..end.min(own.end);
    if first >= end {
        return Ok(());
    }
    op.free_blocks(Blocks { start: block(whole.start), len: (whole.end - whole.start) as u32 }, kind)?;
    tree::remove_blocks(op, ino, (end - first) / wide)
}
