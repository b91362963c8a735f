//! The orphan list and the orphan file: they say which inodes without names are in use all the same.

use super::Checker;
use super::report::Where;
use crate::{Ino, Result};
use ondol_format::{Inode, Place, RoCompat, inode, orphan_file};

/// The pass over the orphans, which comes before that over the inodes.
pub(super) struct OrphanPass<'c, 'a> {
    pub(super) checker: &'c mut Checker<'a>,
}

impl OrphanPass<'_, '_> {
    pub(super) fn check_orphans(&mut self) -> Result<()> {
        self.check_orphan_list()?;
        if let Some(ino) = self.checker.sb.orphan_file_inum() {
            self.check_orphan_file(ino)?;
        } else if self.checker.sb.has_ro_compat(RoCompat::ORPHAN_PRESENT) {
            self.checker.problem("superblock", Where::NONE, "orphan_present without an orphan file");
        }
        self.checker.report.orphans = self.checker.orphans.len() as u64;
        Ok(())
    }

    fn check_orphan_list(&mut self) -> Result<()> {
        let mut ino = self.checker.sb.raw().s_last_orphan.get();
        let mut before = None;
        while ino != 0 {
            let Some(inode) = self.orphan(ino, before, "orphan list")? else { break };
            (before, ino) = (Some(ino), inode.dtime);
        }
        Ok(())
    }

    /// Takes in an orphan, if it can be one.
    fn orphan(&mut self, ino: Ino, before: Option<Ino>, structure: &str) -> Result<Option<Inode>> {
        let after = before.map_or(String::new(), |before| format!(" behind inode {before}"));
        let reserved = ino < self.checker.sb.first_ino()
            || self.checker.is_nameless(ino)
            || Some(ino) == self.checker.sb.journal_inum();
        let inode = if reserved { None } else { self.checker.read_inode(ino)? };
        let why = match &inode {
            _ if ino > self.checker.sb.inodes_count() => "which does not exist",
            _ if reserved => "which is reserved",
            None => "which cannot be read",
            Some(inode) if inode.file_type().is_none() => "which is not in use",
            Some(_) if !self.checker.orphans.insert(ino) => "which it has named before",
            Some(_) => return Ok(inode),
        };
        self.checker.problem(structure, Where::NONE, format!("it names inode {ino}{after}, {why}"));
        Ok(None)
    }

    fn check_orphan_file(&mut self, ino: Ino) -> Result<()> {
        let place = Where::inode(ino);
        let Some(inode) = self.checker.read_inode(ino)? else {
            self.checker.problem("orphan file", place, "its inode cannot be read");
            return Ok(());
        };
        self.checker.note_special(ino, &inode);
        let walk = self.checker.check_reserved(ino, &inode)?;
        let blocks = inode.size / self.checker.block_size() as u64;
        let whole = inode.size.is_multiple_of(self.checker.block_size() as u64) && walk.data == blocks;
        if !whole || blocks == 0 || walk.runs.iter().any(|run| run.unwritten) {
            self.checker.problem("orphan file", place, format!("{} bytes with {} blocks", inode.size, walk.data));
        }
        let seed = self.checker.sb.inode_seed(ino, inode.generation);
        let present = self.checker.sb.has_ro_compat(RoCompat::ORPHAN_PRESENT);
        for run in walk.runs.iter().filter(|_| walk.bad == 0) {
            for block in run.start..run.start + u64::from(run.len) {
                let bytes = self.checker.read(block)?;
                let place = place.in_block(block);
                if let Err(e) = orphan_file::verify(&bytes, seed, Place::block(block)) {
                    self.checker.broken(place, &e);
                    continue;
                }
                let named: Vec<Ino> = orphan_file::entries(&bytes).filter(|&ino| ino != 0).collect();
                if !present && !named.is_empty() {
                    self.checker.problem("orphan file", place, "it names inodes, but orphan_present is not set");
                }
                for ino in named {
                    self.orphan(ino, None, "orphan file")?;
                }
            }
        }
        Ok(())
    }
}

impl Checker<'_> {
    /// An inode, if its descriptor and its bytes can be believed.
    fn read_inode(&mut self, ino: Ino) -> Result<Option<Inode>> {
        let Some((g, index)) = self.sb.group_of_inode(ino) else { return Ok(None) };
        let Some(desc) = self.descs.get(g as usize).copied().flatten() else { return Ok(None) };
        if index >= self.used_part(&desc) {
            return Ok(None);
        }
        let (block, offset) = self.sb.inode_location(desc.inode_table, index);
        let bytes = self.read(block)?;
        let raw = bytes.get(offset..offset + usize::from(self.sb.inode_size())).unwrap_or_default();
        let sound = inode::verify(raw, ino, &self.format).is_ok();
        Ok(Inode::parse(raw, ino, &self.format).ok().filter(|_| sound))
    }
}
