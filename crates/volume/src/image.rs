//! An image before it is mounted: its superblock, descriptors, and where its journal lies.

use crate::contents;
use crate::shared::Shared;
use crate::{Error, Result};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_format::group::{DescCsum, GroupDesc, INODE_ZEROED};
use ondol_format::{FormatError, Incompat, Place, RoCompat, Superblock, superblock};
use std::ops::Range;

/// Incompatible features that a mount can carry.
pub(crate) const INCOMPAT: Incompat = Incompat::FILETYPE
    .union(Incompat::RECOVER)
    .union(Incompat::META_BG)
    .union(Incompat::EXTENTS)
    .union(Incompat::BIT64)
    .union(Incompat::FLEX_BG)
    .union(Incompat::EA_INODE)
    .union(Incompat::LARGEDIR)
    .union(Incompat::MMP)
    .union(Incompat::INLINE_DATA)
    .union(Incompat::CSUM_SEED)
    .union(Incompat::ONDOL_JOURNAL);

/// Read-only-compatible features that a writing mount can carry.
pub(crate) const RO_COMPAT: RoCompat = RoCompat::SPARSE_SUPER
    .union(RoCompat::LARGE_FILE)
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::GDT_CSUM)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::EXTRA_ISIZE)
    .union(RoCompat::BIGALLOC)
    .union(RoCompat::METADATA_CSUM)
    .union(RoCompat::PROJECT)
    .union(RoCompat::ORPHAN_PRESENT);

/// Read-only-compatible features whose structures a check knows.
pub(crate) const CHECKABLE: RoCompat =
    RO_COMPAT.union(RoCompat::QUOTA).union(RoCompat::READONLY).union(RoCompat::VERITY).union(RoCompat::SHARED_BLOCKS);

/// An image whose superblock has been read and checked.
pub struct Image {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) sb: Superblock,
    /// The group whose copy of the superblock serves, if not the primary one.
    copy_of_group: Option<u32>,
}

impl Image {
    /// Reads and checks the superblock.
    ///
    /// # Errors
    /// Not an ext4 image, corrupt (with the place of a copy, if there is one), or an incompatible feature that is not
    /// known (named).
    pub fn open(store: Arc<dyn BlockStore>) -> Result<Self> {
        let sb = read_superblock(&*store)?;
        Self::with_features(store, sb, None)
    }

    /// As [`Image::open`], by the copy of the superblock that begins at byte `offset`. What lies in damaged descriptors
    /// is then taken from their copies. Such an image is not for writing.
    ///
    /// # Errors
    /// There is no superblock, or as [`Image::open`].
    pub fn open_copy(store: Arc<dyn BlockStore>, offset: u64) -> Result<Self> {
        let sb = read_superblock_at(&*store, offset)?.map_err(|e| superblock_error(&*store, e))?;
        let group = sb.group_of_block(offset / u64::from(sb.block_size()));
        Self::with_features(store, sb, if offset == superblock::OFFSET { None } else { group })
    }

    /// As [`Image::open_copy`], by the first copy of the superblock that can be believed.
    pub fn open_any_copy(store: Arc<dyn BlockStore>) -> Option<Self> {
        let (_, offset) = find_copy(&*store)?;
        Self::open_copy(store, offset).ok()
    }

    fn with_features(store: Arc<dyn BlockStore>, sb: Superblock, copy_of_group: Option<u32>) -> Result<Self> {
        sb.features().require_incompat(INCOMPAT).map_err(unsupported)?;
        Ok(Self { store, sb, copy_of_group })
    }

    /// Whether a copy of the superblock serves in place of the primary one.
    pub fn is_by_copy(&self) -> bool {
        self.copy_of_group.is_some()
    }

    /// The store that holds the image.
    pub fn store(&self) -> &dyn BlockStore {
        &*self.store
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// Why this image can only be mounted read-only, if so.
    ///
    /// # Errors
    /// A read-only-compatible feature that is not known, by name.
    pub fn require_writable(&self) -> Result<()> {
        self.sb.features().require_ro_compat(RO_COMPAT).map_err(unsupported)?;
        let whole = self.sb.blocks_count().is_multiple_of(self.sb.cluster_ratio().into());
        if self.sb.has_ro_compat(RoCompat::BIGALLOC) && !(whole && self.sb.has_incompat(Incompat::EXTENTS)) {
            return Err(Error::Unsupported("bigalloc without extents, or with a part of a cluster at the end".into()));
        }
        Ok(())
    }

    /// Reads and checks all group descriptors.
    ///
    /// # Errors
    /// Corruption, or the store's failure.
    pub fn shared(&self) -> Result<Arc<Shared>> {
        let sb = &self.sb;
        let descs = self.descriptors()?;
        // Without a sound journal nothing is written; then nothing has to be kept out of it either.
        let journal = self.journal_map().unwrap_or_default();
        Ok(Arc::new(Shared::new(sb.clone(), &descs, &journal)))
    }

    /// The blocks of inode tables that hold no inode in use and may hold anything, since nobody reads them before they
    /// are zeroed and a committed descriptor says so.
    ///
    /// # Errors
    /// As [`Image::shared`].
    pub fn unwritten_tables(&self) -> Result<Vec<Range<u64>>> {
        let tables = self.descriptors()?.into_iter().map(|desc| desc.unwritten_table(&self.sb));
        Ok(tables.filter(|blocks| !blocks.is_empty()).collect())
    }

    pub(crate) fn descriptors(&self) -> Result<Vec<GroupDesc>> {
        let sb = &self.sb;
        // No room is taken before the descriptors have shown that there are so many.
        let mut descs = Vec::new();
        let mut block = vec![0; sb.block_size() as usize];
        for g in 0..sb.groups() {
            let (at, offset) = sb.gdt().location(g);
            if g % sb.gdt().desc_per_block() == 0 {
                self.store.read(at * u64::from(sb.block_size()), &mut block)?;
            }
            let desc = self.judge_descriptor(g, &block, offset);
            let desc = match (desc, self.copy_of_group) {
                (Err(_), Some(copy)) => self.copied_descriptor(g, copy)?,
                (desc, _) => desc.map_err(|e| corrupt(at, &e))?,
            };
            descs.push(desc);
        }
        Ok(descs)
    }

    fn judge_descriptor(&self, g: u32, block: &[u8], offset: usize) -> std::result::Result<GroupDesc, FormatError> {
        let desc = block.get(offset..offset + usize::from(self.sb.gdt().desc_size())).unwrap_or_default();
        let parsed = DescCsum::of(&self.sb).verify(g, desc).and_then(|()| GroupDesc::parse(desc));
        parsed.and_then(|desc| desc.check(&self.sb, g).map(|()| desc))
    }

    /// The descriptor of group `g` as it can be had where the primary one is damaged and a copy of the superblock
    /// serves.
    pub(crate) fn rescued_descriptor(&self, g: u32) -> Option<GroupDesc> {
        self.copy_of_group.and_then(|copy| self.copied_descriptor(g, copy).ok())
    }

    /// The descriptor of group `g` as the copy in group `copy` has it. Where things lie never changes; which inodes and
    /// blocks are in use the copy does not know.
    fn copied_descriptor(&self, g: u32, copy: u32) -> Result<GroupDesc> {
        let (at, offset) = self.sb.gdt().copy_location(g, copy);
        let mut block = vec![0; self.sb.block_size() as usize];
        self.store.read(at * u64::from(self.sb.block_size()), &mut block)?;
        let desc = self.judge_descriptor(g, &block, offset).map_err(|e| corrupt(at, &e))?;
        Ok(GroupDesc { flags: desc.flags & INODE_ZEROED, itable_unused: 0, ..desc })
    }
}

/// Reads the primary superblock; where there is none that can be believed, the error names a copy that can.
fn read_superblock(store: &dyn BlockStore) -> Result<Superblock> {
    let damaged = match read_superblock_at(store, superblock::OFFSET)? {
        Ok(sb) => return Ok(sb),
        Err(e) => e,
    };
    if matches!(damaged, FormatError::BadMagic { .. } | FormatError::Corrupt(_) | FormatError::Checksum { .. })
        && let Some((size, at)) = find_copy(store)
    {
        let block = at / u64::from(size);
        let what = format!(
            "{damaged}; its copy in block {block} of {size} bytes is whole: `ro,sb={}` mounts by it, \
             `e2fsck -b {block} -B {size}` mends",
            at / 1024
        );
        return Err(Error::corrupt("image", 0, what));
    }
    Err(superblock_error(store, damaged))
}

/// Block size and byte offset of a copy of the superblock that can be believed.
fn find_copy(store: &dyn BlockStore) -> Option<(u32, u64)> {
    superblock::usual_backups().find(|&(size, at)| {
        read_superblock_at(store, at).is_ok_and(|found| {
            let Ok(sb) = found else { return false };
            let group = sb.group_of_block(at / u64::from(size));
            sb.block_size() == size && group.is_some_and(|g| u32::from(sb.raw().s_block_group_nr.get()) == g)
        })
    })
}

/// What lies there may be no superblock; that the store fails says nothing about it.
fn read_superblock_at(store: &dyn BlockStore, offset: u64) -> Result<std::result::Result<Superblock, FormatError>> {
    let mut bytes = [0; superblock::SIZE];
    if store.size() < offset.saturating_add(superblock::SIZE as u64) {
        return Ok(Err(Place::NONE.corrupt("superblock", "it would lie behind the end")));
    }
    store.read(offset, &mut bytes)?;
    Ok(Superblock::parse(&bytes, store.size()))
}

fn superblock_error(store: &dyn BlockStore, e: FormatError) -> Error {
    let name = store.name();
    match e {
        _ if store.size() < superblock::OFFSET + superblock::SIZE as u64 => {
            Error::Unsupported(format!("{name} is too small to hold an ext4 image{}", foreign(store)))
        }
        FormatError::BadMagic { .. } => {
            Error::Unsupported(format!("{name} holds no ext4 file system{}", foreign(store)))
        }
        FormatError::Unsupported { .. } => unsupported(e),
        e => corrupt(0, &e),
    }
}

/// What lies there in place of an ext4 file system, and how one is got out of it; empty where nobody can say.
fn foreign(store: &dyn BlockStore) -> String {
    match contents::format(store).ok().flatten() {
        Some(name) if name.ends_with("disk image") => {
            format!(", but {name}: `qemu-img convert -O raw` makes a raw image of it")
        }
        Some(name) => format!(", but {name}"),
        None => String::new(),
    }
}

fn unsupported(e: FormatError) -> Error {
    Error::Unsupported(e.to_string())
}

pub(crate) fn corrupt(block: u64, e: &FormatError) -> Error {
    Error::corrupt("image", block, e.to_string())
}
