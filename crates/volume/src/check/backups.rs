//! Copies of the superblock and of the group descriptors: e2fsck needs them when the primary ones are lost.

use super::groups::GroupPass;
use super::report::Where;
use crate::Result;
use ondol_format::group::GroupDesc;
use ondol_format::superblock::{BackupFault, SIZE};

impl GroupPass<'_, '_> {
    /// What does not change while a volume is mounted must be the same in every copy. The kernel and e2fsck write the
    /// rest (counts, times, state) to the primary ones alone.
    pub(super) fn check_backups(&mut self) -> Result<()> {
        let sb = self.checker.sb;
        let copies: Vec<(u32, u64)> = sb.backups().collect();
        for &(g, block) in &copies {
            let bytes = self.checker.read(block)?;
            let Some(bytes) = bytes.first_chunk::<SIZE>() else { continue };
            match sb.check_backup(g, bytes) {
                Ok(()) => {}
                Err(BackupFault::Useless(why)) => {
                    self.checker.problem(format!("backup superblock of group {g}"), Where::block(block), why);
                }
                Err(BackupFault::Stale(why)) => {
                    self.checker
                        .report
                        .notes
                        .push(format!("the backup superblock of group {g} in block {block}: {why}"));
                }
            }
        }
        // In its own meta group a copy of the superblock stands alone.
        for (copy, _) in copies.into_iter().filter(|&(copy, _)| !sb.gdt().is_in_meta_bg(copy)) {
            self.check_descriptor_copies((0..sb.groups()).filter(|&g| !sb.gdt().is_in_meta_bg(g)), copy)?;
        }
        self.check_descriptor_copies((0..sb.groups()).filter(|&g| sb.gdt().is_in_meta_bg(g)), 0)
    }

    /// Compares where the copies with group `copy` say that bitmaps and tables lie.
    fn check_descriptor_copies(&mut self, groups: impl Iterator<Item = u32>, copy: u32) -> Result<()> {
        let (mut read, mut bytes, mut reported) = (0, Vec::new(), 0);
        for g in groups {
            let (at, offset) = self.checker.sb.gdt().copy_location(g, copy);
            if read != at || bytes.is_empty() {
                if !self.checker.on_volume(at, 1) {
                    continue;
                }
                (read, bytes) = (at, self.checker.read(at)?);
            }
            let end = offset + usize::from(self.checker.sb.gdt().desc_size());
            let places = |d: GroupDesc| (d.block_bitmap, d.inode_bitmap, d.inode_table);
            let copied = GroupDesc::parse(bytes.get(offset..end).unwrap_or_default()).ok().map(places);
            let Some(primary) = self.checker.descs.get(g as usize).copied().flatten().map(places) else { continue };
            // One wrong block of copies is one problem.
            if copied != Some(primary) && reported != at {
                reported = at;
                let text = format!("it has other places for group {g} than the primary descriptor");
                self.checker.problem("copy of group descriptors", Where::block(at), text);
            }
        }
        Ok(())
    }
}
