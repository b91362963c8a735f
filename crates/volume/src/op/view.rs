//! What operations are planned with: blocks and inodes as published, or as an operation has them so far.

use super::Op;
use crate::dir::memo::Remembered;
use crate::{Ino, Result, Volume};
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::Inode;
use ondol_journal::{Block, Kind, Placement, Run};

/// Reads metadata blocks: as published, or as an operation sees them.
pub(crate) trait Reader {
    /// The content of `block`.
    fn block(&mut self, block: u64, kind: Kind) -> Result<Block>;
    /// The volume.
    fn volume(&self) -> &Volume;
    /// Where data of a run goes, and for how many of its blocks: [`ondol_journal::Engine::place`].
    fn place(&self, run: &Run) -> (Placement, u32) {
        self.volume().engine.place(run)
    }
    /// Whether the handle has `block` already, so that changing it again takes nothing.
    fn holds_block(&self, block: u64) -> bool {
        let _ = block;
        false
    }
}

/// Locked inodes, and the blocks that they lead to.
pub(crate) trait View: Reader {
    /// A locked inode.
    fn inode(&self, ino: Ino) -> Result<&Inode>;
    /// Whether somebody has a locked inode open.
    fn is_open(&self, ino: Ino) -> Result<bool>;
    /// Whether a locked inode without names may get one: it was made without any.
    fn is_linkable(&self, ino: Ino) -> Result<bool>;
    /// What is known of a name of a locked directory without looking.
    fn recall(&self, ino: Ino, name: &[u8]) -> Option<Remembered>;
}

impl Reader for &Volume {
    fn block(&mut self, block: u64, kind: Kind) -> Result<Block> {
        Ok(self.engine.read(block, kind)?)
    }

    fn volume(&self) -> &Volume {
        self
    }
}

impl Reader for Op<'_> {
    fn block(&mut self, block: u64, kind: Kind) -> Result<Block> {
        Ok(self.handle()?.read(block, kind)?)
    }

    fn volume(&self) -> &Volume {
        self.vol
    }

    fn place(&self, run: &Run) -> (Placement, u32) {
        Op::place(self, run)
    }

    fn holds_block(&self, block: u64) -> bool {
        Op::holds_block(self, block)
    }
}

impl View for Op<'_> {
    fn inode(&self, ino: Ino) -> Result<&Inode> {
        Op::inode(self, ino)
    }

    fn is_open(&self, ino: Ino) -> Result<bool> {
        self.find(ino).map(|at| self.nodes[at].guard.node.opens.load(SeqCst) > 0)
    }

    fn is_linkable(&self, ino: Ino) -> Result<bool> {
        self.find(ino).map(|at| self.nodes[at].guard.node.linkable.load(SeqCst))
    }

    fn recall(&self, _: Ino, _: &[u8]) -> Option<Remembered> {
        // The operation may have changed the directory.
        None
    }
}
