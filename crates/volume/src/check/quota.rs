//! The files of quotas: that each is an inode which may hold one. What they count is e2fsck's matter: a volume that
//! has them is not written to.

use super::Checker;
use super::report::Where;
use crate::Ino;
use ondol_format::RoCompat;
use ondol_format::inode::FileType;

/// Reserved inodes that hold quotas of users and groups.
const OWN: [Ino; 2] = [3, 4];

impl Checker<'_> {
    /// With the feature, the superblock names the files.
    pub(super) fn check_quota_files(&mut self) {
        if !self.sb.has_ro_compat(RoCompat::QUOTA) {
            return;
        }
        let raw = self.sb.raw();
        let files =
            [("user", raw.s_usr_quota_inum), ("group", raw.s_grp_quota_inum), ("project", raw.s_prj_quota_inum)];
        for (whose, ino) in files.map(|(whose, ino)| (whose, ino.get())).into_iter().filter(|&(_, ino)| ino != 0) {
            let ordinary = (self.sb.first_ino()..=self.sb.inodes_count()).contains(&ino);
            if !ordinary && !OWN.contains(&ino) {
                self.problem("superblock", Where::inode(ino), format!("no inode that may hold {whose} quotas"));
            } else if self.found.get(ino).and_then(|found| found.file_type) != Some(FileType::Regular) {
                let text = format!("it is to hold {whose} quotas, and is no regular file");
                self.problem("inode", Where::inode(ino), text);
            }
        }
    }
}
