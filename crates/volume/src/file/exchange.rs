//! Exchanging ranges of two files: their extents change places in one operation.
//!
//! **Crash guarantee**: after a crash both files are as before or both as after, in every data mode. Where data does
//! not go through the journal, the call waits for its commit with both inodes locked: what is written in place
//! afterwards must not be found in the file that had the blocks before.

use super::plan::{check_changeable, max_size};
use super::write::touch;
use super::{Mapped, Mounted, check_passed, data, find, inline, mapping, tree};
use crate::alloc::Need;
use crate::attr::{do_setattr, plan_setattr};
use crate::dir::lock::in_order;
use crate::inline::is_inline;
use crate::node::{Node, NodeGuard};
use crate::op::{Cost, Op};
use crate::{Error, Exchange, FileRanges, Ino, Result, SetAttr};
use ondol_format::Inode;
use ondol_format::extent::{Extent, MAX_LOGICAL, capacity};
use ondol_format::inode::InodeFlags;
use std::ops::Range;

/// Flags of inodes whose contents belong to what they were made for.
const BOUND: InodeFlags = InodeFlags::ENCRYPT.union(InodeFlags::VERITY).union(InodeFlags::EA_INODE);

/// One of the two ranges.
#[derive(Clone, Copy)]
pub(super) struct Side {
    ino: Ino,
    /// Its first byte, and its first logical block.
    offset: u64,
    first: u32,
}

/// What the two files agree on.
struct Agreed {
    /// Blocks of each range.
    blocks: u32,
    /// The new sizes, where they change.
    sizes: Option<[u64; 2]>,
    /// Blocks of the ranges that change places whatever they are, beside those that are written.
    cut: Range<u32>,
}

impl<'v> FileRanges<'v> {
    /// Exchanges what two files hold from their offsets (bytes) on, as XFS_IOC_EXCHANGE_RANGE does: one operation,
    /// after which, and after a crash, both hold the other's bytes or both their own. Holes and unwritten blocks change
    /// places with the rest. Durable on return where [`Exchange::durable`] says so, and where the data of neither file
    /// goes through the journal.
    ///
    /// Sizes change places only with all that the files hold: [`Exchange::written_only`] up to the ends of files takes
    /// two that are equally long from their offsets on.
    ///
    /// The offsets are multiples of the unit of allocation ([`crate::Volume::cluster_size`]), and so is the length,
    /// unless both ranges reach to the ends of their files. Both may lie in one file, if they do not overlap.
    ///
    /// # Errors
    /// `IsDirectory`; `Invalid` for what is no regular file, for ranges that are not as said above or reach behind an
    /// end of file; `NotPermitted` for an immutable or append-only file; `Unsupported` for a file with a block map, an
    /// encrypted one, or one under fs-verity; `FileTooBig`; `NoSpace` for nodes of the trees; `TooBig` for more extents
    /// than one operation changes; `ReadOnly`; corruption, or the journal's or store's failure. Nothing has changed
    /// then, unless the journal fails while the exchange is made durable.
    pub fn exchange(self, a: Ino, a_offset: u64, b: Ino, b_offset: u64, how: &Exchange) -> Result<()> {
        let sides = [self.side(a, a_offset), self.side(b, b_offset)];
        let done = self.exchange_locked(sides, how).map_err(|e| self.vol.noted(e));
        self.vol.xattrs().bury_values();
        done
    }

    fn exchange_locked(self, sides: [Side; 2], how: &Exchange) -> Result<()> {
        let guards = in_order(self.vol, &sides.map(|side| side.ino))?;
        let guards = guards.iter().map(Node::write).collect::<Result<Vec<_>>>()?;
        let agreed = self.agree(&guards, sides, how)?;
        if agreed.blocks == 0 {
            return Ok(());
        }
        if how.dry_run {
            return self.begin_exchange(guards, sides, &agreed, how).map(drop);
        }
        let guards = guards.into_iter().map(|guard| self.vol.files().unfold_locked(guard)).collect::<Result<_>>()?;
        self.exchange_step(guards, sides, &agreed, how).map(drop)
    }

    /// Gives the second file what is written in the first one up to byte `end`, both locked, and its new size. Between
    /// the bytes of `cut` it gets whatever is there, holes too. The first gets what that was in the place of, and the
    /// old size. All that is told here in bytes is in units of allocation, but for the size.
    pub(super) fn exchange_resized(
        self,
        guards: Vec<NodeGuard>,
        sides: [Side; 2],
        end: u64,
        size: u64,
        cut: Range<u64>,
    ) -> Result<()> {
        let guards =
            guards.into_iter().map(|guard| self.vol.files().unfold_locked(guard)).collect::<Result<Vec<_>>>()?;
        let old = inode_of(&guards, sides[1].ino)?.size;
        let block_size = u64::from(self.vol.shared.sb.block_size());
        // Its last unit of allocation may go beyond what a file can have.
        let most = u64::from(MAX_LOGICAL - sides[0].first);
        let blocks = |bytes: u64| (bytes.saturating_sub(sides[0].offset) / block_size).min(most) as u32;
        let cut = blocks(cut.start)..blocks(cut.end);
        let agreed = Agreed { blocks: blocks(end), sizes: Some([old, size]), cut };
        let how = Exchange { written_only: true, ..Exchange::default() };
        self.exchange_step(guards, sides, &agreed, &how).map(drop)
    }

    /// The range of a file from byte `offset` on.
    pub(super) fn side(self, ino: Ino, offset: u64) -> Side {
        let first = offset / u64::from(self.vol.shared.sb.block_size());
        Side { ino, offset, first: u32::try_from(first).unwrap_or(MAX_LOGICAL) }
    }

    /// Refuses what cannot be exchanged, and says how much it is.
    fn agree(self, guards: &[NodeGuard], sides: [Side; 2], how: &Exchange) -> Result<Agreed> {
        let [a, b] = sides;
        for side in sides {
            check_exchangeable(side.ino, inode_of(guards, side.ino)?)?;
        }
        self.vol.check_writable()?;
        let inodes = [inode_of(guards, a.ino)?, inode_of(guards, b.ino)?];
        let unit = u64::from(self.vol.cluster_size());
        if sides.iter().any(|side| !side.offset.is_multiple_of(unit)) {
            return Err(Error::Invalid("an offset is no multiple of the block size, or of the cluster size"));
        }
        let behind = Error::Invalid("a range reaches behind the end of its file");
        let (Some(left_a), Some(left_b)) = (inodes[0].size.checked_sub(a.offset), inodes[1].size.checked_sub(b.offset))
        else {
            return Err(behind);
        };
        let (len, sizes) = match how.len {
            None if a.ino == b.ino => return Err(Error::Invalid("the two ends of a file are one")),
            None if how.written_only && left_a != left_b => {
                return Err(Error::Invalid("sizes do not change places with written parts alone"));
            }
            None => {
                let sizes = a.offset.checked_add(left_b).zip(b.offset.checked_add(left_a));
                (left_a.max(left_b), Some(sizes.ok_or(Error::FileTooBig)?.into()))
            }
            Some(len) if len > left_a || len > left_b => return Err(behind),
            Some(len) => (len, None),
        };
        let both_end = len == left_a && len == left_b;
        if sizes.is_none() && !both_end && !len.is_multiple_of(unit) {
            let what = "a length that is no multiple of the block or cluster size, and no end of both files";
            return Err(Error::Invalid(what));
        }
        let len = len.checked_next_multiple_of(unit).ok_or(Error::FileTooBig)?;
        if a.ino == b.ino && a.offset.abs_diff(b.offset) < len {
            return Err(Error::Invalid("the ranges overlap"));
        }
        let blocks = len / u64::from(self.vol.shared.sb.block_size());
        let fits = |side: Side| u64::from(side.first) + blocks <= u64::from(MAX_LOGICAL);
        let grown = sizes.unwrap_or([0; 2]);
        if !fits(a) || !fits(b) || (0..2).any(|i| grown[i] > max_size(self.vol, inodes[i])) {
            return Err(Error::FileTooBig);
        }
        Ok(Agreed { blocks: blocks as u32, sizes: sizes.filter(|_| left_a != left_b), cut: 0..0 })
    }

    /// Opens an operation that can do it, with the parts of the ranges that change places.
    fn begin_exchange(
        self,
        guards: Vec<NodeGuard>,
        sides: [Side; 2],
        agreed: &Agreed,
        how: &Exchange,
    ) -> Result<(Op<'v>, Vec<Range<u32>>, bool)> {
        let blocks = agreed.blocks;
        let mut pieces = match how.written_only {
            true => self.written_in(inode_of(&guards, sides[0].ino)?, sides[0], blocks)?,
            false => std::iter::once(0..blocks).collect(),
        };
        if !agreed.cut.is_empty() {
            pieces = with_range(pieces, &agreed.cut);
        }
        let mut cost = self.exchange_cost(&guards, sides, blocks, &pieces)?;
        let mut xattrs = false;
        if how.kill_suid {
            for guard in &guards {
                let (changes, more) = plan_setattr(&mut &*self.vol, guard.node.ino, &guard.state.inode, &KILL_SUID)?;
                xattrs |= changes;
                (cost.journal, cost.blocks) = (cost.journal + more.journal, cost.blocks + more.blocks);
            }
        }
        Ok((Op::begin(self.vol, guards, cost)?, pieces, xattrs))
    }

    fn exchange_step(
        self,
        guards: Vec<NodeGuard>,
        sides: [Side; 2],
        agreed: &Agreed,
        how: &Exchange,
    ) -> Result<Vec<NodeGuard>> {
        let [a, b] = sides;
        let journaled = |side: Side| Ok::<_, Error>(data::journaled(self.vol, side.ino, inode_of(&guards, side.ino)?));
        let (one, other) = (journaled(a)?, journaled(b)?);
        let (mut op, pieces, xattrs) = self.begin_exchange(guards, sides, agreed, how)?;
        for piece in &pieces {
            let of = |side: Side| (side.first + piece.start, side.first + piece.end);
            let (from_a, from_b) = (of(a), of(b));
            let taken_a = tree::detach(&mut op, a.ino, from_a.0, from_a.1)?;
            let taken_b = tree::detach(&mut op, b.ino, from_b.0, from_b.1)?;
            hand_over(&mut op, taken_a, a, b)?;
            hand_over(&mut op, taken_b, b, a)?;
        }
        for (i, side) in sides.into_iter().enumerate() {
            tree::settle(&mut op, side.ino)?;
            if let Some(sizes) = agreed.sizes {
                op.inode_mut(side.ino)?.size = sizes[i];
            }
            if how.kill_suid {
                do_setattr(&mut op, side.ino, &KILL_SUID, xattrs)?;
            }
            touch(&mut op, side.ino)?;
        }
        if one != other {
            // An image in the log must not come home over bytes that the new owner has written there.
            sides.iter().for_each(|side| self.vol.once_journaled.add(side.ino));
        }
        let (tid, guards) = op.close_keeping()?;
        // What either has written in place is the other's now.
        if let [one, other] = &*guards {
            one.node.newest.join(&other.node.newest);
            other.node.newest.join(&one.node.newest);
        }
        if how.durable || !(one || other) {
            self.vol.wait(tid)?;
        }
        Ok(guards)
    }

    /// What the exchange takes at most.
    fn exchange_cost(self, guards: &[NodeGuard], sides: [Side; 2], blocks: u32, pieces: &[Range<u32>]) -> Result<Cost> {
        let max = self.vol.engine.max_blocks();
        let [a, b] = sides;
        let entries = [self.entries_in(guards, a, pieces)?, self.entries_in(guards, b, pieces)?];
        let mut cost = Cost { journal: 2 + tree::SPARE, blocks: 0, need: Need::Ordinary };
        let mut bitmaps = 0;
        for (side, incoming) in [(a, entries[1]), (b, entries[0])] {
            let inode = inode_of(guards, side.ino)?;
            if is_inline(inode) {
                let unfolded = inline::unfold_cost(self.vol, side.ino, inode);
                (cost.journal, cost.blocks) = (cost.journal + unfolded.journal, cost.blocks + unfolded.blocks);
            }
            let inode = &self.mapped_inode(inode);
            let range = side.first..side.first + blocks;
            let nodes = tree::nodes_in(&mut Mounted(&mut &*self.vol), side.ino, inode, range, max)?;
            let depth = tree::level(side.ino, inode)?;
            // What is cut out of the midst of an extent makes two of it. A leaf beside the range may take what its own
            // have held.
            let added = incoming + pieces.len() as u32;
            let new = tree::growth(self.vol.shared.sb.block_size(), depth, nodes + 1, added).new;
            let changed = nodes + depth + new;
            (cost.journal, cost.blocks) = (cost.journal + changed, cost.blocks + u64::from(new));
            bitmaps += u64::from(changed);
        }
        cost.journal += tree::alloc_cost(self.vol, bitmaps);
        Ok(cost)
    }

    /// The inode as it is when it has blocks.
    fn mapped_inode(self, inode: &Inode) -> Inode {
        if is_inline(inode) { inline::unfolded(self.vol, inode).0 } else { inode.clone() }
    }

    /// How many extents, or parts of such, lie in the pieces of a range.
    fn entries_in(self, guards: &[NodeGuard], side: Side, pieces: &[Range<u32>]) -> Result<u32> {
        let inode = inode_of(guards, side.ino)?;
        if is_inline(inode) {
            return Ok(1);
        }
        let mut entries = pieces.len() as u32;
        for piece in pieces {
            entries += self.runs_in(inode, side, piece.clone())?.count;
        }
        Ok(entries)
    }

    /// The parts of a range that are written, in whole units of allocation.
    fn written_in(self, inode: &Inode, side: Side, blocks: u32) -> Result<Vec<Range<u32>>> {
        let ratio = self.vol.shared.sb.cluster_ratio();
        if is_inline(inode) {
            return Ok(std::iter::once(0..ratio.min(blocks)).collect());
        }
        let mut pieces: Vec<Range<u32>> = Vec::new();
        for run in self.runs_in(inode, side, 0..blocks)?.written {
            let run = run.start / ratio * ratio..run.end.next_multiple_of(ratio).min(blocks);
            match pieces.last_mut() {
                Some(last) if last.end >= run.start => last.end = run.end,
                _ => pieces.push(run),
            }
        }
        Ok(pieces)
    }

    /// What lies in a part of a range.
    fn runs_in(self, inode: &Inode, side: Side, part: Range<u32>) -> Result<Runs> {
        let max = self.vol.engine.max_blocks();
        let most = max.saturating_mul(capacity(self.vol.shared.sb.block_size() as usize).into());
        let (mut at, mut allocated, mut runs) = (part.start, 0, Runs::default());
        while at < part.end {
            let run = find(&mut Mounted(&mut &*self.vol), side.ino, inode, side.first + at)?.run;
            let len = run.len.min(part.end - at);
            if run.what != Mapped::Hole {
                runs.count += 1;
                allocated += u64::from(len);
                check_passed(self.vol, side.ino, allocated)?;
            }
            if let Mapped::Written(_) = run.what {
                runs.written.push(at..at + len);
            }
            if runs.count > most {
                return Err(Error::TooBig { need: u64::from(max) + 1, max: max.into() });
            }
            at += len;
        }
        Ok(runs)
    }
}

/// Ranges that are in order and apart, and one more.
fn with_range(pieces: Vec<Range<u32>>, more: &Range<u32>) -> Vec<Range<u32>> {
    let apart = |piece: &Range<u32>| piece.end < more.start || piece.start > more.end;
    let (mut apart, joined): (Vec<_>, Vec<_>) = pieces.into_iter().partition(apart);
    let joined = joined.iter().fold(more.clone(), |all, piece| all.start.min(piece.start)..all.end.max(piece.end));
    let at = apart.partition_point(|piece| piece.end < joined.start);
    apart.insert(at, joined);
    apart
}

/// What lies in a range: extents, and those of them that are written, from its beginning.
#[derive(Default)]
struct Runs {
    count: u32,
    written: Vec<Range<u32>>,
}

const KILL_SUID: SetAttr =
    SetAttr { perm: None, uid: None, gid: None, size: None, atime: None, mtime: None, kill_suid: true };

fn inode_of(guards: &[NodeGuard], ino: Ino) -> Result<&Inode> {
    let guard = guards.iter().find(|guard| guard.node.ino == ino);
    guard.map(|guard| &guard.state.inode).ok_or(Error::NotFound)
}

/// Refuses a file whose extents cannot become another's.
pub(super) fn check_exchangeable(ino: Ino, inode: &Inode) -> Result<()> {
    check_changeable(ino, inode, false)?;
    if inode.flags.intersects(BOUND) {
        return Err(Error::Unsupported("exchanging contents that belong to their inode alone".into()));
    }
    if is_inline(inode) { Ok(()) } else { mapping::require_extents(inode) }
}

/// Gives extents of one side to the other, and the clusters that they lie in.
fn hand_over(op: &mut Op<'_>, extents: Vec<Extent>, from: Side, to: Side) -> Result<()> {
    let ratio = op.vol().shared.sb.cluster_ratio();
    let clusters = clusters_of(&extents, ratio);
    tree::remove_blocks(op, from.ino, clusters)?;
    tree::add_blocks(op, to.ino, clusters)?;
    let moved = |e: Extent| Extent { logical: e.logical - from.first + to.first, ..e };
    tree::attach(op, to.ino, extents.into_iter().map(moved))
}

/// How many clusters extents lie in, which are in order: several may share one.
fn clusters_of(extents: &[Extent], ratio: u32) -> u64 {
    let (mut clusters, mut last) = (0, None);
    for e in extents {
        let (first, end) = (e.logical / ratio, (e.end() - 1) / u64::from(ratio));
        clusters += end - u64::from(first) + u64::from(last != Some(u64::from(first)));
        last = Some(end);
    }
    clusters
}
