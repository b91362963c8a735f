//! What the volume and its journal both need: the geometry, the groups, and how blocks are verified and sealed.

use crate::Ino;
use crate::alloc::Groups;
use crate::geometry::Geometry;
use crate::kind::class;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use ondol_format::group::{BLOCK_UNINIT, DescCsum, GroupDesc, INODE_UNINIT};
use ondol_format::inode::InodeFormat;
use ondol_format::{FormatError, Place, RawSuperblock, Superblock, bitmap};
use ondol_journal::{Client, Corrupt, Derived, Extent, Images, Kind, Patches, Ranges};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, IntoBytes};

/// The geometry and the groups of one volume; the journal's [`Client`].
#[derive(Debug)]
pub struct Shared {
    pub(crate) sb: Geometry,
    pub(crate) inode_format: InodeFormat,
    pub(crate) desc_csum: DescCsum,
    pub(crate) groups: Groups,
    /// Blocks of the journal in the image.
    pub(crate) journal_blocks: u64,
    /// Inodes whose checksum was wrong when their table block was read, with the reason. Checked then, because a block
    /// in memory has checksums only as new as its last seal.
    bad_inodes: Mutex<BTreeMap<Ino, String>>,
    /// How many there are. Nearly always none, and then nobody takes the lock.
    bad_count: AtomicUsize,
}

impl Shared {
    /// From the superblock and all descriptors, checksums verified, and the runs of the journal.
    pub(crate) fn new(sb: Superblock, descs: &[GroupDesc], journal: &[(u64, u64)]) -> Self {
        let owned: Vec<(u64, u64)> = journal.iter().copied().chain(sb.mmp_block().map(|block| (block, 1))).collect();
        let groups = Groups::new(&sb, descs, &owned);
        Self {
            inode_format: sb.inode_format(),
            desc_csum: DescCsum::of(&sb),
            groups,
            journal_blocks: journal.iter().map(|(_, blocks)| blocks).sum(),
            sb: Geometry::new(sb),
            bad_inodes: Mutex::default(),
            bad_count: AtomicUsize::new(0),
        }
    }

    /// Why this inode's bytes cannot be trusted, if so.
    pub(crate) fn bad_inode(&self, ino: Ino) -> Option<String> {
        if self.bad_count.load(SeqCst) == 0 {
            return None;
        }
        self.bad_inodes.lock().get(&ino).cloned()
    }

    /// The inode is written anew.
    pub(crate) fn inode_replaced(&self, ino: Ino) {
        if self.bad_count.load(SeqCst) > 0 {
            let mut bad = self.bad_inodes.lock();
            bad.remove(&ino);
            self.bad_count.store(bad.len(), SeqCst);
        }
    }

    /// Whether this is the journal's inode.
    pub(crate) fn is_journal(&self, ino: Ino) -> bool {
        self.sb.journal_inum() == Some(ino)
    }

    /// Whether a run of blocks can belong to a file: it lies on the volume and touches none of the file system's own
    /// structures.
    pub(crate) fn may_own(&self, start: u64, len: u64) -> bool {
        let blocks = start..start.saturating_add(len);
        self.sb.contains_blocks(&blocks) && !self.groups.touches_metadata(start, len)
    }

    /// The block with the descriptor of group `g`, and where in it that lies.
    pub(crate) fn descriptor(&self, g: u32) -> (u64, Kind, usize) {
        let (block, offset) = self.sb.gdt().location(g);
        (block, crate::kind::group_descs(g - g % self.sb.gdt().desc_per_block()), offset)
    }

    fn verify_inodes(&self, first_ino: Ino, bytes: &[u8]) {
        let inodes = (first_ino..).zip(bytes.chunks_exact(usize::from(self.sb.inode_size())));
        let mut judged =
            inodes.map(|(ino, inode)| (ino, ondol_format::inode::verify(inode, ino, &self.inode_format))).peekable();
        while self.bad_count.load(SeqCst) == 0 && judged.next_if(|(_, verdict)| verdict.is_ok()).is_some() {}
        if judged.peek().is_none() {
            return;
        }
        let mut bad = self.bad_inodes.lock();
        for (ino, verdict) in judged {
            match verdict {
                Ok(()) => drop(bad.remove(&ino)),
                Err(e) => drop(bad.insert(ino, e.to_string())),
            }
        }
        self.bad_count.store(bad.len(), SeqCst);
    }

    fn verify_block_bitmap(&self, g: u32, bytes: &[u8]) -> Result<(), String> {
        let (stored, _) = self.groups.get(g).map_err(|e| e.to_string())?.bitmap_csums();
        self.check_bitmap(bytes, self.sb.clusters_per_group(), stored)
    }

    fn verify_inode_bitmap(&self, g: u32, bytes: &[u8]) -> Result<(), String> {
        let (_, stored) = self.groups.get(g).map_err(|e| e.to_string())?.bitmap_csums();
        self.check_bitmap(bytes, self.sb.inodes_per_group(), stored)
    }

    fn check_bitmap(&self, bytes: &[u8], bits: u32, stored: u32) -> Result<(), String> {
        let Some(seed) = self.sb.csum_seed() else { return Ok(()) };
        let computed = bitmap::checksum(seed, bytes, bits);
        if GroupDesc::bitmap_csum_matches(stored, computed, self.sb.gdt().desc_size()) {
            return Ok(());
        }
        Err(format!("checksum {stored:#010x}, computed {computed:#010x}"))
    }

    /// Recomputes what a descriptor says about bitmaps that are part of the transaction.
    fn derive_descriptor(&self, g: u32, desc: &mut [u8], tx: &dyn Images) -> Result<(), FormatError> {
        let Ok(info) = self.groups.get(g) else { return Ok(()) };
        let mut d = GroupDesc::parse(desc)?;
        let checksummed = self.sb.features().has_group_desc_csum();
        if let Some(map) = tx.image(info.block_bitmap) {
            d.free_blocks = bitmap::count_zeros(map, self.sb.clusters_in_group(g) as usize) as u32;
            d.block_bitmap_csum = self.bitmap_csum(map, self.sb.clusters_per_group());
            d.flags &= if checksummed { !BLOCK_UNINIT } else { !0 };
        }
        if let Some(map) = tx.image(info.inode_bitmap) {
            let inodes = self.sb.inodes_per_group() as usize;
            d.free_inodes = bitmap::count_zeros(map, inodes) as u32;
            d.inode_bitmap_csum = self.bitmap_csum(map, self.sb.inodes_per_group());
            if checksummed {
                let was_unused = if d.flags & INODE_UNINIT != 0 { inodes as u32 } else { d.itable_unused };
                d.flags &= !INODE_UNINIT;
                d.itable_unused = was_unused.min(trailing_zeros(map, inodes));
            }
        }
        d.write(desc)?;
        self.desc_csum.seal(g, desc);
        info.sealed(&d);
        Ok(())
    }

    fn bitmap_csum(&self, map: &[u8], bits: u32) -> u32 {
        self.sb.csum_seed().map_or(0, |seed| bitmap::checksum(seed, map, bits))
    }

    fn seal_descriptors(&self, first: u32, image: &[u8], dirty: &Ranges, tx: &dyn Images, out: &mut Patches) {
        let size = usize::from(self.sb.gdt().desc_size());
        for (i, desc) in image.chunks_exact(size).enumerate() {
            let at = i * size;
            let g = first + i as u32;
            if g >= self.groups.count() || !dirty.overlaps(at as u32..(at + size) as u32) {
                continue;
            }
            let mut sealed = desc.to_vec();
            if self.derive_descriptor(g, &mut sealed, tx).is_ok() {
                put_derived(at, desc, &sealed, out);
            }
        }
    }

    fn seal_inodes(&self, first_ino: u32, image: &[u8], dirty: &Ranges, out: &mut Patches) {
        let size = usize::from(self.sb.inode_size());
        for (i, inode) in image.chunks_exact(size).enumerate() {
            let at = i * size;
            if dirty.overlaps(at as u32..(at + size) as u32) {
                let mut sealed = inode.to_vec();
                ondol_format::inode::seal(&mut sealed, first_ino + i as u32, &self.inode_format);
                put_derived(at, inode, &sealed, out);
            }
        }
    }

    /// Seals a block whose checksum covers the whole of it.
    fn seal_whole(&self, block: u64, kind: Kind, image: &[u8], out: &mut Patches) {
        let seed = self.sb.inode_seed(kind.owner, kind.salt);
        let seal: &dyn Fn(&mut [u8]) = match (kind.class, seed, self.sb.csum_seed()) {
            (class::EXTENT_NODE, Some(seed), _) => &move |b| ondol_format::extent::seal(b, seed),
            (class::DIR_LEAF, Some(seed), _) => &move |b| ondol_format::dirent::seal(b, seed),
            (class::DX_ROOT | class::DX_NODE, Some(seed), _) => &move |b| ondol_format::htree::seal(b, seed),
            (class::ORPHAN_FILE, Some(seed), _) => &move |b| ondol_format::orphan_file::seal(b, seed, block),
            (class::XATTR, _, Some(seed)) => &move |b| ondol_format::xattr::seal_block(b, seed, block),
            _ => return,
        };
        let mut sealed = image.to_vec();
        seal(&mut sealed);
        put_derived(0, image, &sealed, out);
    }

    fn judge(&self, block: u64, kind: Kind, bytes: &[u8]) -> Result<(), String> {
        let place = Place { block: Some(block), inode: Some(kind.owner), group: None };
        let seed = self.sb.inode_seed(kind.owner, kind.salt);
        let checked = match (kind.class, seed, self.sb.csum_seed()) {
            (class::BLOCK_BITMAP, ..) => return self.verify_block_bitmap(kind.owner, bytes),
            (class::INODE_BITMAP, ..) => return self.verify_inode_bitmap(kind.owner, bytes),
            (class::INODE_TABLE, Some(_), _) => {
                self.verify_inodes(kind.owner, bytes);
                return Ok(());
            }
            (class::EXTENT_NODE, seed, _) => seed
                .map_or(Ok(()), |seed| ondol_format::extent::verify(bytes, seed, place))
                // All entries here, once: look-ups then check only what they follow.
                .and_then(|()| ondol_format::extent::Node::parse(bytes, None, place))
                .and_then(|node| node.check_blocks(&self.sb, place)),
            (class::DIR_LEAF, Some(seed), _) => ondol_format::dirent::verify(bytes, seed, place),
            (class::DX_ROOT | class::DX_NODE, Some(seed), _) => ondol_format::htree::verify(bytes, seed, place),
            (class::ORPHAN_FILE, seed, _) => ondol_format::orphan_file::verify(bytes, seed, place),
            (class::XATTR, _, Some(seed)) => ondol_format::xattr::verify_block(bytes, seed, block, place),
            _ => Ok(()),
        };
        checked.map_err(|e| e.to_string())
    }
}

/// Hands over the bytes that a seal changed, and no others: they also go into the live block, where operations that are
/// not part of the sealed image may have changed everything else since.
fn put_derived(at: usize, image: &[u8], sealed: &[u8], out: &mut Patches) {
    // Nearly all of a block is equal: compare large pieces before small ones.
    for (i, (old, new)) in image.chunks(256).zip(sealed.chunks(256)).enumerate() {
        if old == new {
            continue;
        }
        for (j, (old, new)) in old.chunks(16).zip(new.chunks(16)).enumerate().filter(|(_, (old, new))| old != new) {
            for (k, (old, new)) in old.iter().zip(new).enumerate() {
                if old != new {
                    out.put(at + i * 256 + j * 16 + k, &[*new]);
                }
            }
        }
    }
}

/// Clear bits at the end of the first `bits` bits.
fn trailing_zeros(map: &[u8], bits: usize) -> u32 {
    let mut n = bits;
    while n >= 8 && n.is_multiple_of(8) && map.get(n / 8 - 1) == Some(&0) {
        n -= 8;
    }
    while n > 0 && !bitmap::test(map, n - 1) {
        n -= 1;
    }
    (bits - n) as u32
}

/// The inodes that changes of these bytes of a block concern, if it holds any.
pub fn inodes_changed(sb: &Superblock, kind: Kind, ranges: &Ranges) -> Vec<Ino> {
    let size = u32::from(sb.inode_size());
    let inodes = if kind.class == class::INODE_TABLE { sb.block_size() / size } else { 0 };
    (0..inodes).filter(|i| ranges.overlaps(i * size..(i + 1) * size)).map(|i| kind.owner + i).collect()
}

fn structure(kind: Kind) -> String {
    let owner = kind.owner;
    match kind.class {
        class::SUPERBLOCK => "superblock".into(),
        class::GROUP_DESCS => format!("group descriptors from group {owner}"),
        class::BLOCK_BITMAP => format!("block bitmap of group {owner}"),
        class::INODE_BITMAP => format!("inode bitmap of group {owner}"),
        class::INODE_TABLE => format!("inode table from inode {owner}"),
        class::EXTENT_NODE => format!("extent node of inode {owner}"),
        class::DIR_LEAF => format!("directory block of inode {owner}"),
        class::DX_ROOT => format!("htree root of directory {owner}"),
        class::DX_NODE => format!("htree node of directory {owner}"),
        class::XATTR => "xattr block".into(),
        class::ORPHAN_FILE => format!("orphan file (inode {owner})"),
        _ => "block".into(),
    }
}

impl Client for Shared {
    fn build(&self, kind: Kind, bytes: &mut [u8]) -> bool {
        let group = self.groups.get(kind.owner);
        match (kind.class, group) {
            (class::BLOCK_BITMAP, Ok(info)) if info.block_uninit() => {
                self.groups.initial_block_bitmap(&self.sb, kind.owner, bytes);
            }
            (class::INODE_BITMAP, Ok(info)) if info.inode_uninit() => {
                bytes.fill(0);
                bitmap::pad(bytes, self.sb.inodes_per_group() as usize);
            }
            _ => return false,
        }
        true
    }

    fn verify(&self, block: u64, kind: Kind, bytes: &[u8]) -> Result<(), Corrupt> {
        self.judge(block, kind, bytes).map_err(|what| Corrupt { structure: structure(kind), block, what })
    }

    fn seal(&self, block: u64, kind: Kind, image: &[u8], dirty: &Ranges, tx: &dyn Images) -> Patches {
        let mut out = Patches::default();
        match kind.class {
            class::GROUP_DESCS => self.seal_descriptors(kind.owner, image, dirty, tx, &mut out),
            class::INODE_TABLE => self.seal_inodes(kind.owner, image, dirty, &mut out),
            class::SUPERBLOCK => {
                let at = self.sb.superblock_location().1;
                if let Some(Ok((raw, _))) = image.get(at..).map(RawSuperblock::read_from_prefix) {
                    let mut raw: RawSuperblock = raw;
                    raw.seal();
                    put_derived(at, &image[at..], raw.as_bytes(), &mut out);
                }
            }
            _ => self.seal_whole(block, kind, image, &mut out),
        }
        out
    }

    fn derived(&self, kind: Kind) -> Option<Derived> {
        if !matches!(kind.class, class::BLOCK_BITMAP | class::INODE_BITMAP) || kind.owner >= self.groups.count() {
            return None;
        }
        let (block, kind, offset) = self.descriptor(kind.owner);
        let offset = offset as u32;
        Some(Derived { block, kind, bytes: offset..offset + u32::from(self.sb.gdt().desc_size()) })
    }

    fn may_tear(&self, kind: Kind) -> bool {
        match kind.class {
            // Recovery begins with these.
            class::SUPERBLOCK | class::GROUP_DESCS => false,
            // It finds the journal by its inode.
            class::INODE_TABLE => kind.owner > self.sb.journal_inum().unwrap_or(0),
            // A page is given to it, where it is not bytes over one.
            0 => false,
            _ => true,
        }
    }

    fn release(&self, freed: &[Extent]) {
        for &extent in freed {
            let clusters = crate::alloc::clusters(&self.sb, extent);
            self.groups.return_blocks(&self.sb, extent);
            // In this order they count twice for a moment, and not never: see `visible_free`.
            self.groups.give_back(clusters);
            self.groups.pending_free.fetch_sub(clusters, SeqCst);
        }
    }
}
