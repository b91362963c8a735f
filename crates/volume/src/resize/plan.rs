//! A step of a volume that grows while it is used: planned here, committed by whoever has it open.

use super::edit::Edit;
use super::grow::NewGroups;
use crate::Result;
use crate::image::corrupt;
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::group::GroupDesc;
use ondol_format::{RawSuperblock, Superblock};

/// See the module.
pub(crate) struct Plan(Edit);

impl Plan {
    /// Over the live blocks, of which `raw` is the superblock and `descs` says where each group has what it has.
    pub(crate) fn over(
        live: Arc<dyn BlockStore>,
        env: Arc<dyn Env>,
        raw: RawSuperblock,
        descs: Vec<GroupDesc>,
    ) -> Result<Self> {
        let sb = Superblock::from_raw(raw, u64::MAX).map_err(|e| corrupt(0, &e))?;
        super::grow::refuse(&sb)?;
        Ok(Self(Edit::live(live, env, sb, descs)))
    }

    /// More blocks in the last group. Its bitmap is the caller's matter.
    pub(crate) fn extend(&mut self, blocks: u64) -> Result<()> {
        self.0.set_blocks(blocks)
    }

    /// More groups, up to `target` blocks.
    pub(crate) fn add(&mut self, target: u64) -> Result<()> {
        NewGroups { edit: &mut self.0 }.add_groups(target)
    }

    /// Writes what lies behind the end; the blocks before it, as they are to be.
    pub(crate) fn stage(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        self.0.images()
    }

    /// The superblock as it is to be.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.0.sb
    }

    /// The descriptors of the groups from `first` on.
    pub(crate) fn descs(&self, first: u32) -> &[GroupDesc] {
        self.0.descs.get(first as usize..).unwrap_or_default()
    }
}
