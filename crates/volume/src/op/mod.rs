//! One operation: its locked inodes, its claims on space, and its handle.
//!
//! ```text
//!   lock inodes ─▶ Op::begin (promise space, reserve journal) ─▶ change staged copies
//!     ─▶ close: publish, install, unlock
//! ```
//!
//! Everything an operation changes is staged: inodes as copies, metadata blocks in the [`Handle`], blocks and inodes it
//! takes as claims. [`Op::close`] publishes all of it in one step while the inode locks are held; dropping the `Op`
//! returns the claims and changes nothing.
//!
//! **Lock order**: rename lock; directories by number; other inodes by number; then `Op::begin` (which may wait for
//! journal space); then the orphan lock; group; block. Nothing waits for a commit or for space after `begin`.

mod inodes;
mod newest;
mod room;
mod view;

pub(crate) use view::{Reader, View};

use crate::alloc::{Need, Wanted, clusters};
use crate::error::unplanned;
use crate::node::{NodeGuard, locate};
use crate::{Error, Ino, Result, Volume, kind};
use ondol_env::Timestamp;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::Inode;
use ondol_format::inode::InodeFlags;
use ondol_journal::{Extent, Handle, Kind, Merge, Tid};
use room::Late;
use std::collections::HashMap;
use std::ops::Range;

/// What an operation may need at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Metadata blocks (and journaled data blocks) it changes.
    pub(crate) journal: u32,
    /// Clusters it allocates: blocks, without bigalloc.
    pub(crate) blocks: u64,
    /// Who asks.
    pub(crate) need: Need,
}

struct OpNode {
    guard: NodeGuard,
    /// The inode as this operation has it so far.
    inode: Inode,
    dirty: bool,
    created: bool,
    freed: bool,
}

/// See the module documentation.
pub(crate) struct Op<'v> {
    vol: &'v Volume,
    handle: Option<Handle<'v>>,
    nodes: Vec<OpNode>,
    /// Where each inode is among `nodes`, once there are many.
    index: HashMap<Ino, usize>,
    /// Blocks of inode tables that the close will change, sorted.
    tables: Vec<u64>,
    now: Timestamp,
    /// Clusters promised and not yet taken, and all that have been promised.
    promised: u64,
    granted: u64,
    taken: Vec<Extent>,
    taken_inodes: Vec<(Ino, bool)>,
    freed: Vec<Extent>,
    freed_inodes: Vec<(Ino, bool)>,
    /// Values of attributes that nothing names any more: orphans.
    pub(crate) dead_values: Vec<Ino>,
    /// Bytes over stored ones, to be written home by the close; `None` when they are written at once.
    late: Option<Late>,
    /// Bytes over stored ones have been written home.
    wrote_over: bool,
    /// Nobody waits for what it changes, whatever the flags of its inodes.
    in_passing: bool,
    /// Extents have become fewer by merging: a tree may fit into its root now.
    pub(crate) has_merged: bool,
    pub(crate) orphans: crate::orphan::state::Changes<'v>,
}

impl<'v> Op<'v> {
    /// Opens an operation over inodes that are locked already, in lock order.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, `TooBig`, or the journal's failure. May wait for journal space, and for a commit when
    /// space is only free once it is done.
    pub(crate) fn begin(vol: &'v Volume, guards: Vec<NodeGuard>, cost: Cost) -> Result<Self> {
        vol.check_writable()?;
        vol.promise(cost.blocks, cost.need)?;
        let handle = match Handle::begin(&*vol.engine, cost.journal) {
            Ok(handle) => handle,
            Err(e) => {
                vol.shared.groups.give_back(cost.blocks);
                return Err(vol.noted(e.into()));
            }
        };
        let mut op = Self {
            vol,
            handle: Some(handle),
            nodes: Vec::with_capacity(guards.len() + 1),
            index: HashMap::new(),
            tables: Vec::new(),
            now: vol.now(),
            promised: cost.blocks,
            granted: cost.blocks,
            taken: Vec::new(),
            taken_inodes: Vec::new(),
            freed: Vec::new(),
            freed_inodes: Vec::new(),
            dead_values: Vec::new(),
            late: None,
            wrote_over: false,
            in_passing: false,
            has_merged: false,
            orphans: crate::orphan::state::Changes::new(&vol.orphans),
        };
        guards.into_iter().for_each(|guard| op.join(guard));
        Ok(op)
    }

    /// Adds a locked inode. After `begin`, only one that was locked without waiting may be added.
    pub(crate) fn join(&mut self, guard: NodeGuard) {
        let inode = guard.state.inode.clone();
        self.push(OpNode { guard, inode, dirty: false, created: false, freed: false });
    }

    fn push(&mut self, node: OpNode) {
        self.nodes.push(node);
        // Searching few is faster than hashing.
        if self.nodes.len() > FEW {
            let from = self.index.len();
            self.index.extend(self.nodes.iter().map(|n| n.guard.node.ino).zip(0..).skip(from));
        }
    }

    /// The volume.
    pub(crate) fn vol(&self) -> &'v Volume {
        self.vol
    }

    /// One time for everything the operation stamps.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// What it changes need not be durable when it is closed, not even of inodes that are written synchronously.
    pub(crate) fn in_passing(&mut self) {
        self.in_passing = true;
    }

    /// Whether an inode that it changes is to be durable on return: `chattr +S` and `+D`. Contents change without their
    /// inode where its times have no parts of a second, so that what is dirty does not tell.
    fn is_synchronous(&self) -> bool {
        let synchronous = |n: &OpNode| match n.inode.is_dir() {
            true => n.inode.flags.intersects(InodeFlags::SYNC | InodeFlags::DIRSYNC),
            false => n.inode.flags.contains(InodeFlags::SYNC),
        };
        let changed = |handle: &Handle<'_>| !handle.is_empty();
        let changes = self.wrote_over || self.handle.as_ref().is_some_and(changed);
        let counts = |n: &OpNode| synchronous(n);
        !self.in_passing && changes && self.nodes.iter().any(counts)
    }

    /// The handle, for staging changes of metadata blocks.
    pub(crate) fn handle(&mut self) -> Result<&mut Handle<'v>> {
        self.handle.as_mut().ok_or(Error::Invalid("the operation is closed"))
    }

    /// Whether the operation holds this inode.
    pub(crate) fn holds(&self, ino: Ino) -> bool {
        self.find(ino).is_ok()
    }

    /// The inodes that it was begun with or that have joined it.
    pub(crate) fn joined(&self) -> impl Iterator<Item = Ino> {
        self.nodes.iter().filter(|n| !n.created).map(|n| n.guard.node.ino)
    }

    /// A locked inode as the operation has it so far.
    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.find(ino).map(|at| &self.nodes[at].inode)
    }

    /// The same, to be changed.
    pub(crate) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode> {
        let at = self.find(ino)?;
        if !self.nodes[at].dirty {
            self.nodes[at].dirty = true;
            self.changes_table(ino)?;
        }
        Ok(&mut self.nodes[at].inode)
    }

    fn find(&self, ino: Ino) -> Result<usize> {
        let at = match self.index.is_empty() {
            true => self.nodes.iter().position(|n| n.guard.node.ino == ino),
            false => self.index.get(&ino).copied(),
        };
        at.ok_or(Error::Invalid("an operation used an inode that it has not locked"))
    }

    /// Clusters that are promised and not taken yet.
    pub(crate) fn promised(&self) -> u64 {
        self.promised
    }

    /// Takes up to `want` consecutive blocks near `goal` out of the promise and marks them used, with the rest of their
    /// clusters.
    ///
    /// # Errors
    /// `NoSpace` when the promise is used up; corruption of a bitmap.
    pub(crate) fn alloc_blocks(&mut self, goal: u64, want: u32) -> Result<Extent> {
        self.alloc(goal..u64::MAX, want, None)
    }

    /// As [`Op::alloc_blocks`], for a file that grows at its end.
    ///
    /// # Errors
    /// As [`Op::alloc_blocks`].
    pub(crate) fn alloc_stream(&mut self, ino: Ino, goal: u64, want: u32) -> Result<Extent> {
        self.alloc(goal..u64::MAX, want, Some(ino))
    }

    /// As [`Op::alloc_blocks`], but only blocks before `end`.
    ///
    /// # Errors
    /// As [`Op::alloc_blocks`].
    pub(crate) fn alloc_blocks_below(&mut self, end: u64, goal: u64, want: u32) -> Result<Extent> {
        self.alloc(goal..end, want, None)
    }

    fn alloc(&mut self, place: Range<u64>, want: u32, stream: Option<Ino>) -> Result<Extent> {
        let clusters = want.div_ceil(self.vol.shared.sb.cluster_ratio());
        let Extent { start, len } = self.take_clusters(place, clusters, stream)?;
        Ok(Extent { start, len: len.min(want) })
    }

    /// Takes up to `want` consecutive clusters near `goal` out of the promise and marks them used: a run of blocks.
    ///
    /// # Errors
    /// As [`Op::alloc_blocks`].
    pub(crate) fn alloc_clusters(&mut self, goal: u64, want: u32) -> Result<Extent> {
        self.take_clusters(goal..u64::MAX, want, None)
    }

    fn take_clusters(&mut self, place: Range<u64>, want: u32, stream: Option<Ino>) -> Result<Extent> {
        let want = u32::try_from(self.promised).unwrap_or(u32::MAX).min(want);
        if want == 0 {
            return Err(unplanned(self.granted));
        }
        let vol = self.vol;
        let extent =
            vol.shared.groups.take_blocks(&vol.shared.sb, &*vol.engine, place, Wanted { clusters: want, stream })?;
        self.promised -= u64::from(extent.len / vol.shared.sb.cluster_ratio());
        self.taken.push(extent);
        self.mark_blocks(extent, true)?;
        Ok(extent)
    }

    /// Frees a run of blocks that held `kind`, with all of their clusters; they can be allocated again once this
    /// operation is durable.
    ///
    /// # Errors
    /// Corruption: the run is not in use or cannot belong to a file.
    pub(crate) fn free_blocks(&mut self, extent: Extent, kind: Kind) -> Result<()> {
        let vol = self.vol;
        let ratio = vol.shared.sb.cluster_ratio();
        let before = (extent.start % u64::from(ratio)) as u32;
        let extent = match ratio {
            1 => extent,
            _ => Extent {
                start: extent.start - u64::from(before),
                len: extent.len.saturating_add(before).next_multiple_of(ratio),
            },
        };
        vol.shared.groups.check_freeing(&vol.shared.sb, &*vol.engine, extent)?;
        self.mark_blocks(extent, false)?;
        self.freed.push(extent);
        self.handle()?.free(extent, kind);
        Ok(())
    }

    fn mark_blocks(&mut self, extent: Extent, used: bool) -> Result<()> {
        let vol = self.vol;
        for (g, first, len) in crate::alloc::per_group(&vol.shared.sb, extent) {
            let (block, kind) = (vol.shared.groups.get(g)?.block_bitmap, kind::block_bitmap(g));
            let handle = self.handle()?;
            if used {
                handle.merge(block, kind, Merge::Set { first, count: len })?;
            } else {
                handle.merge(block, kind, Merge::Clear { first, count: len })?;
            }
            self.touch_descriptor(g, 0)?;
        }
        Ok(())
    }

    /// Takes a descriptor into the transaction, because its bitmaps are, and changes its count of directories.
    fn touch_descriptor(&mut self, g: u32, dirs: i32) -> Result<()> {
        if dirs == 0 && self.vol.engine.about().logs_bytes {
            return Ok(());
        }
        let (block, kind, offset) = self.vol.shared.descriptor(g);
        let at = offset + ondol_format::group::USED_DIRS_OFFSET;
        Ok(self.handle()?.merge(block, kind, Merge::Add { offset: at, width: 2, delta: dirs })?)
    }

    /// Marks blocks used that have been claimed before, out of the promise.
    ///
    /// # Errors
    /// `NoSpace` when the promise is used up.
    pub(crate) fn take_claimed(&mut self, extent: Extent) -> Result<()> {
        let left = self.promised.checked_sub(u64::from(extent.len));
        self.promised = left.ok_or_else(|| unplanned(self.granted))?;
        self.taken.push(extent);
        self.mark_blocks(extent, true)
    }

    /// Publishes everything in one step, installs the inodes and unlocks them. Where an inode asks for it (`chattr +S`,
    /// `+D`), everything is durable when this returns.
    ///
    /// # Errors
    /// An inode cannot be staged; nothing has changed then. Or the journal's failure, where it has to be durable.
    pub(crate) fn close(self) -> Result<Tid> {
        self.close_keeping().map(|(tid, _)| tid)
    }

    /// As [`Op::close`], but hands back this inode, still locked: for the next step of work that takes several
    /// operations.
    ///
    /// # Errors
    /// As [`Op::close`]; `NotFound` for an inode that the operation has freed or does not hold.
    pub(crate) fn close_holding(self, ino: Ino) -> Result<NodeGuard> {
        let kept = self.close_keeping()?.1;
        kept.into_iter().find(|guard| guard.node.ino == ino).ok_or(Error::NotFound)
    }

    /// As [`Op::close`], but hands back the inodes, still locked, in the order in which they joined: for the next step
    /// of work that takes several operations. Inodes that the operation has freed are not among them.
    ///
    /// # Errors
    /// As [`Op::close`].
    pub(crate) fn close_keeping(mut self) -> Result<(Tid, Vec<NodeGuard>)> {
        for at in 0..self.nodes.len() {
            if self.nodes[at].dirty {
                self.stage_inode(at)?;
            }
        }
        self.write_late()?;
        let synchronous = self.is_synchronous();
        let handle = self.handle.take().ok_or(Error::Invalid("the operation is closed"))?;
        // Counted before the journal can release them.
        let groups = &self.vol.shared.groups;
        let freed: u64 = self.freed.drain(..).map(|e| clusters(&self.vol.shared.sb, e)).sum();
        if freed > 0 {
            groups.pending_free.fetch_add(freed, SeqCst);
        }
        tracing::trace!(
            target: "ondol::promise",
            journal = handle.credits().used + handle.credits().left, used = handle.credits().used,
            clusters = self.granted, left = self.promised
        );
        let is_empty = handle.is_empty();
        let tid = handle.close();
        self.note_newest((!is_empty).then_some(tid));
        self.taken.clear();
        self.orphans.commit();
        if !self.dead_values.is_empty() {
            self.vol.dead_values.lock().append(&mut self.dead_values);
        }
        for (ino, dir) in self.taken_inodes.drain(..) {
            count_dir(self.vol, ino, dir, true);
        }
        let mut kept = Vec::with_capacity(self.nodes.len());
        for OpNode { mut guard, inode, dirty, freed, .. } in self.nodes.drain(..) {
            let unnamed = !freed && inode.links == 0 && guard.state.inode.links > 0;
            if unnamed {
                let now = self.vol.env.monotonic_ns();
                self.vol.lookups.hold(guard.node.ino, inode.blocks, now, &guard.node.opens);
            } else if dirty && inode.links == 0 {
                self.vol.lookups.has(guard.node.ino, inode.blocks);
            }
            if dirty {
                guard.state.inode = inode;
            }
            if freed {
                guard.state.gone = true;
                self.vol.once_journaled.forget(guard.node.ino);
                self.vol.nodes.forget(guard.node.ino);
            } else {
                kept.push(guard);
            }
        }
        for (ino, dir) in self.freed_inodes.drain(..) {
            count_dir(self.vol, ino, dir, false);
            groups.return_inode(&self.vol.shared.sb, ino);
            self.vol.lookups.deleted(ino);
        }
        if synchronous {
            self.vol.wait(tid)?;
        }
        Ok((tid, kept))
    }

    fn stage_inode(&mut self, at: usize) -> Result<()> {
        let shared = &self.vol.shared;
        let OpNode { guard, inode, created, freed, .. } = &mut self.nodes[at];
        // Where attributes leave no room, the inode stays as it is.
        inode.grow_extra(shared.sb.want_extra_isize());
        let (ino, created) = (guard.node.ino, *created);
        let own_dtime = created || *freed || inode.dtime != guard.state.inode.dtime;
        let (block, offset, first) = locate(shared, ino)?;
        let kind = kind::inode_table(first);
        let size = usize::from(shared.sb.inode_size());
        let mut bytes = vec![0; size];
        let handle = self.handle.as_mut().ok_or(Error::Invalid("the operation is closed"))?;
        if !created && !handle.published(block, kind, offset, &mut bytes)? {
            return Err(Error::corrupt("inode table", block, "short block"));
        }
        inode
            .write(&mut bytes, &shared.inode_format)
            .map_err(|e| Error::corrupt(format!("inode {ino}"), block, e.to_string()))?;
        if inode.extra_isize < WHOLE_TIMES {
            // What the inode has no room for is forgotten now, and not only when it is next read.
            let kept = Inode::parse(&bytes, ino, &shared.inode_format);
            self.nodes[at].inode = kept.map_err(|e| Error::corrupt(format!("inode {ino}"), block, e.to_string()))?;
        }
        let link = self.orphans.link(ino);
        let handle = self.handle()?;
        handle.update(block, kind, offset, &bytes[..DTIME.start])?;
        handle.update(block, kind, offset + DTIME.end, &bytes[DTIME.end..])?;
        // An orphan's link belongs to the list: whoever changes a neighbour writes it, without this inode's lock.
        match link {
            Some(next) => handle.write(block, kind, offset + DTIME.start, &next.to_le_bytes())?,
            None if own_dtime => handle.write(block, kind, offset + DTIME.start, &bytes[DTIME])?,
            None => {}
        }
        Ok(())
    }
}

/// Inodes that are searched one by one.
pub const FEW: usize = 16;

/// Where i_dtime lies in an inode.
const DTIME: Range<usize> = 0x14..0x18;
/// Bytes of extra fields that an inode needs to keep all its times.
const WHOLE_TIMES: u16 = 24;

fn count_dir(vol: &Volume, ino: Ino, dir: bool, up: bool) {
    let group = vol.shared.sb.group_of_inode(ino).and_then(|(g, _)| vol.shared.groups.get(g).ok());
    if let (Some(info), true) = (group, dir) {
        if up {
            info.used_dirs.fetch_add(1, SeqCst)
        } else {
            info.used_dirs.fetch_sub(1, SeqCst)
        };
    }
}

impl Drop for Op<'_> {
    fn drop(&mut self) {
        if self.wrote_over {
            self.note_newest(None);
        }
        let shared = &self.vol.shared;
        let taken: u64 = self.taken.iter().map(|&e| clusters(&shared.sb, e)).sum();
        for &extent in &self.taken {
            shared.groups.return_blocks(&shared.sb, extent);
        }
        shared.groups.give_back(taken + self.promised);
        for &(ino, _) in &self.taken_inodes {
            self.vol.nodes.forget(ino);
            shared.groups.return_inode(&shared.sb, ino);
        }
        for node in self.nodes.iter_mut().filter(|n| n.created && !self.taken_inodes.is_empty()) {
            node.guard.state.gone = true;
        }
    }
}
