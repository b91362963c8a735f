//! What must be right before anything of a volume is written.
//!
//! A volume that is mounted for writing is marked, and while it is marked others may have to refuse it. So whatever
//! every mount needs is looked at first: what is damaged is then refused as it lies, and e2fsck can take it.

use crate::node::read_inode;
use crate::{Error, Image, ROOT, Result, Volume};
use ondol_format::Compat;
use ondol_format::inode::{FileType, RESIZE_INO};

impl Volume {
    /// Reads the root directory's inode, the journal's, the resize inode, and all orphans. Changes nothing; the volume
    /// may be one over a read-only engine.
    ///
    /// # Errors
    /// What is damaged, by name. Not the resize inode, which only growing a volume needs: that is logged.
    pub fn examine(&self, image: &Image) -> Result<()> {
        let root = read_inode(&self.shared, &*self.engine, ROOT)?;
        if root.file_type() != Some(FileType::Directory) || root.links == 0 || root.size == 0 {
            let what = format!("mode {:#o}, {} links, {} bytes", root.mode, root.links, root.size);
            return Err(Error::corrupt(format!("root directory (inode {ROOT})"), 0, what));
        }
        image.require_journal_inode()?;
        if image.sb.has_compat(Compat::RESIZE_INODE) {
            match image.read_inode(RESIZE_INO) {
                Err(e @ Error::Block(_)) => return Err(e),
                Err(e) => tracing::warn!("resize inode (inode {RESIZE_INO}): {e}; e2fsck mends it"),
                Ok(_) => {}
            }
        }
        self.examine_orphans()
    }

    /// Reads all orphans' inodes. Changes nothing.
    ///
    /// # Errors
    /// The list, the orphan file or one of the inodes is damaged; the store's failure.
    pub fn examine_orphans(&self) -> Result<()> {
        for ino in self.inode_ops().orphans_found()? {
            read_inode(&self.shared, &*self.engine, ino)?;
        }
        Ok(())
    }
}
