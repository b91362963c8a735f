//! An image before it is mounted: its superblock, descriptors, and where its journal lies.

use crate::shared::Shared;
use crate::{Error, Result};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_format::group::GroupDesc;
use ondol_format::{FormatError, Incompat, RoCompat, Superblock, superblock};

/// Incompatible features that a mount can carry.
pub(crate) const INCOMPAT: Incompat = Incompat::FILETYPE
    .union(Incompat::RECOVER)
    .union(Incompat::META_BG)
    .union(Incompat::EXTENTS)
    .union(Incompat::BIT64)
    .union(Incompat::FLEX_BG)
    .union(Incompat::LARGEDIR)
    .union(Incompat::CSUM_SEED);

/// Read-only-compatible features that a writing mount can carry.
pub(crate) const RO_COMPAT: RoCompat = RoCompat::SPARSE_SUPER
    .union(RoCompat::LARGE_FILE)
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::GDT_CSUM)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::EXTRA_ISIZE)
    .union(RoCompat::METADATA_CSUM)
    .union(RoCompat::ORPHAN_PRESENT);

/// An image whose superblock has been read and checked.
pub struct Image {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) sb: Superblock,
}

impl Image {
    /// Reads and checks the superblock.
    ///
    /// # Errors
    /// Not an ext4 image, corrupt, or an incompatible feature that is not known (named).
    pub fn open(store: Arc<dyn BlockStore>) -> Result<Self> {
        let sb = read_superblock(&*store)?;
        sb.features().require_incompat(INCOMPAT).map_err(unsupported)?;
        Ok(Self { store, sb })
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
        self.sb.features().require_ro_compat(RO_COMPAT).map_err(unsupported)
    }

    /// Reads and checks all group descriptors.
    ///
    /// # Errors
    /// Corruption, or the store's failure.
    pub fn shared(&self) -> Result<Arc<Shared>> {
        let sb = &self.sb;
        let size = usize::from(sb.desc_size());
        let csum = ondol_format::group::DescCsum::of(sb);
        let mut descs = Vec::with_capacity(sb.groups() as usize);
        let mut block = vec![0; sb.block_size() as usize];
        for g in 0..sb.groups() {
            let (at, offset) = sb.gdt_location(g);
            if g % sb.desc_per_block() == 0 {
                self.store.read(at * u64::from(sb.block_size()), &mut block)?;
            }
            let desc = block.get(offset..offset + size).unwrap_or_default();
            let parsed = csum.verify(g, desc).and_then(|()| GroupDesc::parse(desc));
            let checked = parsed.and_then(|d| d.check(sb, g).map(|()| d));
            descs.push(checked.map_err(|e| corrupt(at, &e))?);
        }
        // Without a sound journal nothing is written; then nothing has to be kept out of it either.
        let journal = self.journal_map().unwrap_or_default();
        Ok(Arc::new(Shared::new(sb.clone(), &descs, &journal)))
    }
}

fn read_superblock(store: &dyn BlockStore) -> Result<Superblock> {
    let mut bytes = [0; superblock::SIZE];
    if store.size() < superblock::OFFSET + superblock::SIZE as u64 {
        return Err(Error::Unsupported(format!("{} is too small to hold an ext4 image", store.name())));
    }
    store.read(superblock::OFFSET, &mut bytes)?;
    Superblock::parse(&bytes, store.size()).map_err(|e| match e {
        FormatError::BadMagic { .. } => Error::Unsupported(format!("{} holds no ext4 file system", store.name())),
        FormatError::Unsupported { .. } => unsupported(e),
        e => corrupt(0, &e),
    })
}

fn unsupported(e: FormatError) -> Error {
    Error::Unsupported(e.to_string())
}

pub(crate) fn corrupt(block: u64, e: &FormatError) -> Error {
    Error::corrupt("image", block, e.to_string())
}
