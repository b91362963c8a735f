//! The orphan list and the orphan file: they say which inodes without names are in use all the same.

use super::Checker;
use super::report::Where;
use crate::{Ino, Result};
use ondol_format::{Inode, Place, RoCompat, inode, orphan_file};

impl Checker<'_> {
    pub(super) fn check_orphans(&mut self) -> Result<()> {
        self.check_orphan_list()?;
        if let Some(ino) = self.sb.orphan_file_inum() {
            self.check_orphan_file(ino)?;
        } else if self.sb.has_ro_compat(RoCompat::ORPHAN_PRESENT) {
            self.problem("superblock", Where::NONE, "orphan_present without an orphan file");
        }
        self.report.orphans = self.orphans.len() as u64;
        Ok(())
    }

    fn check_orphan_list(&mut self) -> Result<()> {
        let mut ino = self.sb.last_orphan();
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
        let reserved = ino < self.sb.first_ino() || self.is_nameless(ino) || Some(ino) == self.sb.journal_inum();
        let inode = if reserved { None } else { self.read_inode(ino)? };
        let why = match &inode {
            _ if ino > self.sb.inodes_count() => "which does not exist",
            _ if reserved => "which is reserved",
            None => "which cannot be read",
            Some(inode) if inode.file_type().is_none() => "which is not in use",
            Some(_) if !self.orphans.insert(ino) => "which it has named before",
            Some(_) => return Ok(inode),
        };
        self.problem(structure, Where::NONE, format!("it names inode {ino}{after}, {why}"));
        Ok(None)
    }

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

    fn check_orphan_file(&mut self, ino: Ino) -> Result<()> {
        let place = Where::inode(ino);
        let Some(inode) = self.read_inode(ino)? else {
            self.problem("orphan file", place, "its inode cannot be read");
            return Ok(());
        };
        self.note_special(ino, &inode);
        let walk = self.check_reserved(ino, &inode)?;
        let blocks = inode.size / self.block_size() as u64;
        let whole = inode.size.is_multiple_of(self.block_size() as u64) && walk.data == blocks;
        if !whole || blocks == 0 || walk.runs.iter().any(|run| run.unwritten) {
            self.problem("orphan file", place, format!("{} bytes with {} blocks", inode.size, walk.data));
        }
        let seed = self.sb.inode_seed(ino, inode.generation);
        let present = self.sb.has_ro_compat(RoCompat::ORPHAN_PRESENT);
        for run in walk.runs.iter().filter(|_| walk.bad == 0) {
            for block in run.start..run.start + u64::from(run.len) {
                let bytes = self.read(block)?;
                let place = place.in_block(block);
                if let Err(e) = orphan_file::verify(&bytes, seed, Place::block(block)) {
                    self.broken(place, &e);
                    continue;
                }
                let named: Vec<Ino> = orphan_file::entries(&bytes).filter(|&ino| ino != 0).collect();
                if !present && !named.is_empty() {
                    self.problem("orphan file", place, "it names inodes, but orphan_present is not set");
                }
                for ino in named {
                    self.orphan(ino, None, "orphan file")?;
                }
            }
        }
        Ok(())
    }
}
