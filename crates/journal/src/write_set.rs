//! What one operation stages, and its engine takes.

use crate::cache::Buf;
use crate::change::{Base, Change, Changes};
use crate::{Block, Extent, Kind, Ranges};
use ondol_env::sync::Arc;

/// What one handle stages for one block.
#[derive(Debug)]
pub(crate) struct Staged<'d> {
    pub(crate) buf: Arc<Buf>,
    pub(crate) kind: Kind,
    pub(crate) base: Base<'d>,
    /// Data in a block that this handle has allocated.
    pub(crate) newborn: bool,
    /// Data over stored data, which goes home with the commit and not into the log.
    pub(crate) over: bool,
    pub(crate) changes: Changes,
    /// Base plus changes, made when the operation reads its own writes.
    view: Option<Block>,
}

impl<'d> Staged<'d> {
    pub(crate) fn new(buf: Arc<Buf>, kind: Kind, base: Base<'d>) -> Self {
        Self { buf, kind, base, newborn: false, over: false, changes: Changes::default(), view: None }
    }

    /// Forgets what was staged before.
    pub(crate) fn start_from(&mut self, base: Base<'d>) {
        (self.base, self.view) = (base, None);
        self.changes.clear();
    }

    /// All of `bytes`, in a new block if it is data.
    #[cfg(test)]
    pub(crate) fn whole(buf: Arc<Buf>, kind: Kind, bytes: Block) -> Self {
        let newborn = kind == Kind::DATA;
        Self { newborn, ..Self::new(buf, kind, Base::Whole(bytes)) }
    }

    /// Copies what is lent.
    pub(crate) fn own(&mut self) {
        if let Base::Lent(bytes) = self.base {
            self.base = Base::Whole(bytes.into());
        }
    }
}

/// Everything a closed handle hands to its engine.
#[derive(Debug, Default)]
pub struct WriteSet<'d> {
    pub(crate) arena: Vec<u8>,
    pub(crate) blocks: Vec<Staged<'d>>,
    pub(crate) freed: Vec<(Extent, Kind)>,
}

impl WriteSet<'_> {
    /// Copies what is lent: for an engine that keeps it in memory.
    pub(crate) fn own(&mut self) {
        self.blocks.iter_mut().for_each(Staged::own);
    }

    /// Stages one more change of a block.
    pub(crate) fn change(&mut self, at: usize, change: Change) {
        let staged = &mut self.blocks[at];
        if let Some(view) = &mut staged.view {
            change.apply(&self.arena, view.make_mut(), &mut Ranges::default());
        }
        staged.changes.push(change);
    }

    /// Stages bytes of a block, which are fewer than all.
    pub(crate) fn put(&mut self, at: usize, offset: usize, bytes: &[u8]) {
        let from = self.arena.len() as u32;
        self.arena.extend_from_slice(bytes);
        let staged = &mut self.blocks[at];
        if let Some(view) = &mut staged.view {
            view.make_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        staged.changes.push(Change::Bytes { offset: offset as u32, at: from, len: bytes.len() as u32 });
    }

    /// A staged block as its operation sees it.
    pub(crate) fn view(&mut self, at: usize, block_size: usize) -> &Block {
        let Self { arena, blocks, .. } = self;
        let staged = &mut blocks[at];
        let Staged { buf, base, changes, view, .. } = staged;
        view.get_or_insert_with(|| {
            let mut base = match base {
                Base::Live => buf.snapshot(),
                Base::Zeros => Block::zeros(block_size),
                Base::Whole(bytes) => bytes.clone(),
                Base::Lent(bytes) => (*bytes).into(),
            };
            if !changes.is_empty() {
                let bytes = base.make_mut();
                let mut touched = Ranges::default();
                changes.as_slice().iter().for_each(|c| c.apply(arena, bytes, &mut touched));
            }
            base
        })
    }
}
