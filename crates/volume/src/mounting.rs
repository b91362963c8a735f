//! What mounting and unmounting write into the superblock.
//!
//! The superblock is written directly and never through the journal here: before an engine has been opened, or after
//! it has emptied its log. In between it is an ordinary journaled block (it heads the orphan list).

use crate::{Error, Image, Result, Volume};
use ondol_env::Timestamp;
use ondol_format::superblock::{
    ERRCODE_UNKNOWN, FLAG_SIGNED_HASH, FLAG_UNSIGNED_HASH, FoundError, OFFSET, STATE_ERROR, STATE_VALID,
};
use ondol_format::{Incompat, RawSuperblock, RoCompat};
use zerocopy::{FromZeros, IntoBytes};

/// Who can replay what the journal of a mounted image may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Whoever knows jbd2.
    Anybody,
    /// Ondol alone: everybody else must refuse the image.
    Ondol,
    /// Nobody has to: there is no log, and every state is consistent by itself.
    Nobody,
}

impl Image {
    /// How the user named the image.
    pub fn name(&self) -> &str {
        self.store.name()
    }

    /// Free blocks and inodes, summed over the descriptors.
    ///
    /// # Errors
    /// Corrupt descriptors, or the store's failure.
    pub fn free_counts(&self) -> Result<(u64, u64)> {
        let shared = self.shared()?;
        Ok((shared.groups.visible_free(), shared.groups.free_inodes()))
    }

    /// Whether the superblock says that the journal holds transactions to replay.
    pub fn needs_recovery(&self) -> bool {
        self.sb.has_incompat(Incompat::RECOVER)
    }

    /// Marks the image as mounted for writing, on the directory `mounted_on` if it is known: the journal may hold
    /// transactions from now on, which `replay` can bring home, if anybody has to. Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn mark_mounted(&self, now: Timestamp, mounted_on: Option<&[u8]>, replay: Replay) -> Result<()> {
        self.edit_superblock(|sb| {
            let mut features = sb.features();
            if replay != Replay::Nobody {
                features.incompat |= Incompat::RECOVER;
                if replay == Replay::Ondol {
                    features.incompat |= Incompat::ONDOL_JOURNAL;
                }
            }
            sb.set_features(features);
            sb.note_hash(FLAG_UNSIGNED_HASH);
            sb.set_mtime(now.sec);
            sb.set_wtime(now.sec);
            sb.s_mnt_count.set(sb.s_mnt_count.get().saturating_add(1));
            if let Some(path) = mounted_on {
                // Zero-terminated, as the kernel keeps it.
                sb.s_last_mounted = std::array::from_fn(|i| if i < 63 { path.get(i).copied().unwrap_or(0) } else { 0 });
            }
        })
    }

    /// Marks the image as one whose journal may hold transactions, without a mount. Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) fn mark_changing(&self, replay: Replay) -> Result<()> {
        self.edit_superblock(|sb| {
            let mut features = sb.features();
            features.incompat.insert(Incompat::RECOVER);
            features.incompat.set(Incompat::ONDOL_JOURNAL, replay == Replay::Ondol);
            sb.set_features(features);
        })
    }

    /// Takes over the error with which a journal was given up (a negative errno), before the journal forgets it.
    /// Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn mark_journal_error(&self, now: Timestamp, errno: i32) -> Result<()> {
        tracing::warn!("{}: its journal was given up with error {errno}: it should be checked", self.name());
        let found = FoundError::new(now.sec, "journal", 0, ERRCODE_UNKNOWN);
        self.edit_superblock(|sb| {
            sb.note_errors(&found, &found, 1);
            sb.s_state.set(sb.s_state.get() | STATE_ERROR);
        })
    }

    /// Marks the image as recovered: its journal is empty. The free counts are taken from the descriptors, since those
    /// in the superblock are not journaled; where the descriptors are damaged, the counts stay, for e2fsck to mend with
    /// them. Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn mark_recovered(&self) -> Result<()> {
        let counts = match self.free_counts() {
            Ok(counts) => Some(counts),
            Err(e @ Error::Block(_)) => return Err(e),
            Err(_) => None,
        };
        self.edit_superblock(|sb| {
            let mut features = sb.features();
            features.incompat.remove(Incompat::RECOVER | Incompat::ONDOL_JOURNAL);
            sb.set_features(features);
            if let Some((blocks, inodes)) = counts {
                sb.set_free_blocks_count(blocks);
                sb.s_free_inodes_count.set(inodes as u32);
            }
        })
    }

    /// Says that something of it is given up, before what could tell of that goes. Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn mark_losses(&self) -> Result<()> {
        self.edit_superblock(|sb| sb.s_state.set((sb.s_state.get() & !STATE_VALID) | STATE_ERROR))
    }

    /// Takes the marks of a mounted volume away, of one that could not be recovered whole. If something was given up,
    /// the image is marked as one with errors, which everybody looks at. Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn mark_salvaged(&self, with_losses: bool) -> Result<()> {
        self.edit_superblock(|sb| {
            let mut features = sb.features();
            features.incompat.remove(Incompat::RECOVER | Incompat::ONDOL_JOURNAL);
            sb.set_features(features);
            if with_losses {
                sb.s_state.set((sb.s_state.get() & !STATE_VALID) | STATE_ERROR);
            }
        })
    }

    /// Forgets the orphan list. The orphans on it are then for e2fsck to find. Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn forget_orphan_list(&self) -> Result<()> {
        self.edit_superblock(|sb| {
            sb.s_last_orphan.set(0);
            sb.s_state.set((sb.s_state.get() & !STATE_VALID) | STATE_ERROR);
        })
    }

    /// Marks the image as unmounted: as cleanly, or as one with errors. The volume's engine must have emptied its log.
    /// Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn mark_unmounted(&self, volume: &Volume) -> Result<()> {
        let groups = &volume.shared.groups;
        let (free_blocks, free_inodes) = (groups.stored_free(), groups.free_inodes());
        let (now, error) = (volume.now(), volume.stopped().is_some());
        let kbytes = self.store.stats().written_bytes / 1024;
        // Orphans that cannot be read stay announced.
        let orphans = !volume.inode_ops().orphans_empty().unwrap_or(false);
        self.edit_superblock(|sb| {
            let mut features = sb.features();
            features.incompat.remove(Incompat::RECOVER | Incompat::ONDOL_JOURNAL);
            if !orphans {
                features.ro_compat.remove(RoCompat::ORPHAN_PRESENT);
            }
            sb.set_features(features);
            sb.set_free_blocks_count(free_blocks);
            sb.s_free_inodes_count.set(free_inodes as u32);
            sb.set_wtime(now.sec);
            sb.s_kbytes_written.set(sb.s_kbytes_written.get().saturating_add(kbytes));
            let state = sb.s_state.get() | STATE_VALID;
            sb.s_state.set(if error { state | STATE_ERROR } else { state });
        })
    }

    /// Records that a full check found nothing wrong: earlier errors are forgotten. Durable when this returns.
    ///
    /// # Errors
    /// The store's failure.
    pub fn mark_checked(&self, now: Timestamp) -> Result<()> {
        self.edit_superblock(|sb| {
            sb.s_state.set((sb.s_state.get() | STATE_VALID) & !STATE_ERROR);
            sb.forget_errors();
            // So the check has taken names, and so e2fsck takes them and writes it down.
            sb.note_hash(FLAG_SIGNED_HASH);
            sb.set_lastcheck(now.sec);
        })
    }

    fn edit_superblock(&self, edit: impl FnOnce(&mut RawSuperblock)) -> Result<()> {
        let mut raw = RawSuperblock::new_zeroed();
        self.store.read(OFFSET, raw.as_mut_bytes())?;
        edit(&mut raw);
        raw.seal();
        self.store.write(OFFSET, raw.as_bytes())?;
        Ok(self.store.flush()?)
    }
}
