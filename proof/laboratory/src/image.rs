//! The volumes that are crashed: small, so that a state costs little, and always the same bytes.

use ondol_format::FormatError;
use ondol_format::csum::crc32c;
use ondol_format::hash::{DxHash, HashVersion};
use ondol_format::mkfs::{Chunk, Options, Plan};
use ondol_power::Layer;
use ondol_testkit::image::{Spec, ToolError, foreign, missing};
use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, OnceLock};

/// A kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// 4 MiB in blocks of 1 KiB, orphans in a list, a journal of 1,024 blocks.
    Small,
    /// The same with an orphan file, mounted with `discard`.
    OrphanFile,
    /// 16 MiB in blocks of 4 KiB, an orphan file, a journal of 1,024 blocks.
    Pages,
    /// As small, with a journal that holds more blocks than one checkpoint takes.
    WideLog,
    /// Inodes of 128 bytes, without room for parts of seconds: bytes can be overwritten without any change of metadata.
    /// Made by mke2fs.
    WholeSeconds,
    /// So many block bitmaps that one operation cannot free a file that lies in all groups. Made by mke2fs.
    ManyGroups,
    /// As small, with ext2's block maps instead of extents, the first hash of names (legacy), and without what ext3
    /// does not know. Made by mke2fs.
    BlockMap,
    /// As small, with contents in the inode where they fit. Made by mke2fs.
    InlineData,
    /// As small, allocated in clusters of four blocks. Made by mke2fs.
    Clusters,
    /// Clusters that are longer than what is written early. Made by mke2fs.
    WideClusters,
    /// As small, with large values of attributes in inodes of their own. Made by mke2fs.
    Values,
    /// As small, with inodes of 512 bytes. Made by mke2fs.
    LargeInodes,
    /// As small, with directories that have no index. Made by mke2fs.
    Linear,
    /// As small, with its journal on a disk of its own. Made by mke2fs.
    JournalDevice,
    /// With files that other programs have made, which share a block of attributes, and a short orphan file. Made by
    /// mke2fs, debugfs and e2fsck.
    Foreign,
    /// 8 MiB in blocks of 4 KiB, in an NVM pool under a page table, with a journal of 1,024 blocks, mounted with
    /// `discard`.
    Pool,
}

/// What mke2fs makes of `-t ext3`.
const EXT3: &str = "-O ^extent,^metadata_csum,^64bit,^flex_bg,^huge_file,^dir_nlink,^extra_isize";

impl Kind {
    /// Those that workloads take turns with.
    pub const USUAL: [Self; 3] = [Self::Small, Self::OrphanFile, Self::Pages];

    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Small,
        Self::OrphanFile,
        Self::Pages,
        Self::WideLog,
        Self::WholeSeconds,
        Self::ManyGroups,
        Self::BlockMap,
        Self::InlineData,
        Self::Clusters,
        Self::WideClusters,
        Self::Values,
        Self::LargeInodes,
        Self::Linear,
        Self::JournalDevice,
        Self::Foreign,
        Self::Pool,
    ];

    /// Those on disks.
    const ON_DISKS: &[Self] = Self::ALL.split_at(15).0;

    /// Those whose files are mapped in other ways than by extents of blocks, or whose log is on another disk.
    pub const FORMS: [Self; 5] =
        [Self::BlockMap, Self::InlineData, Self::Clusters, Self::WideClusters, Self::JournalDevice];

    /// Whether it can be made here: most need mke2fs.
    pub fn is_possible(self) -> bool {
        static E2FSPROGS: LazyLock<bool> = LazyLock::new(|| missing(&["mke2fs", "debugfs", "e2fsck"]).is_none());
        matches!(self, Self::Small | Self::OrphanFile | Self::Pages | Self::WideLog | Self::Pool) || *E2FSPROGS
    }

    /// One of all, the usual ones more often.
    pub(crate) fn in_turn(n: u64) -> Self {
        let of = |kinds: &[Self]| kinds[(n / 2) as usize % kinds.len()];
        if n.is_multiple_of(2) { of(&Self::USUAL) } else { of(Self::ON_DISKS) }
    }

    /// As [`Kind::make`], in blocks that are pages: what lies in a pool instead. A log on a disk of its own is none of
    /// these. Made once.
    ///
    /// # Errors
    /// As for [`Kind::make`].
    pub(crate) fn in_pages(self) -> Result<Layer, String> {
        static MADE: [OnceLock<Result<Layer, String>>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];
        MADE[self as usize].get_or_init(|| self.make_in_pages()).clone()
    }

    fn make_in_pages(self) -> Result<Layer, String> {
        let small = || Spec::new(12 << 20, 4096).journal(4).with("-N 128");
        let spec = match self {
            Self::WholeSeconds => small().with("-I 128"),
            // More groups than what a step may change.
            Self::ManyGroups => Spec::new(96 << 20, 4096).journal(4).with("-N 1536 -g 256"),
            Self::BlockMap => small().with(EXT3),
            Self::InlineData => small().with("-O inline_data"),
            Self::Clusters => small().with("-O bigalloc -C 16384"),
            Self::WideClusters => small().with("-O bigalloc -C 131072"),
            Self::Values => small().with("-O ea_inode"),
            Self::LargeInodes => small().with("-I 512"),
            Self::Linear => small().with("-O ^dir_index"),
            Self::Foreign => {
                let made = foreign(12 << 20, 4096, 4);
                return made.map(|bytes| self.hashed(bytes)).map_err(|e| format!("image {self} in pages: {e}"));
            }
            Self::WideLog => {
                return self.by_mkfs(16 << 20, 4096, 256, 2048, "^orphan_file").map(|mut made| made.remove(0));
            }
            Self::Small => {
                return self.by_mkfs(8 << 20, 4096, 128, 1024, "^orphan_file").map(|mut made| made.remove(0));
            }
            Self::OrphanFile | Self::Pages | Self::JournalDevice | Self::Pool => {
                let as_it_is = if self == Self::Pages { self } else { Self::Pool };
                return as_it_is.make_zeroed().map(|mut made| made.remove(0));
            }
        };
        spec.make().map(|bytes| self.hashed(bytes)).map_err(|e| format!("image {self} in pages: {e}"))
    }

    /// How directories hash names.
    pub(crate) fn hash_version(self) -> HashVersion {
        if self == Self::BlockMap { HashVersion::Legacy } else { HashVersion::HalfMd4 }
    }

    /// That function with the seed that all volumes have.
    pub(crate) fn hash_of(version: HashVersion) -> DxHash {
        let word = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|at| HASH_SEED[4 * n + at]));
        DxHash { version, unsigned: false, seed: [0, 1, 2, 3].map(word) }
    }

    /// What mke2fs made, with this hash of names, which it cannot be told. Where it is another one than its own, the
    /// superblock has no checksum.
    fn hashed(self, mut bytes: Vec<u8>) -> Layer {
        if self.hash_version() != HashVersion::HalfMd4 {
            bytes[1024 + 0xFC] = self.hash_version() as u8;
        }
        Layer::new(bytes)
    }

    /// Bytes of its blocks.
    pub fn block_size(self) -> u64 {
        if matches!(self, Self::Pages | Self::Pool) { 4096 } else { 1024 }
    }

    /// Whether freed blocks are discarded.
    pub fn discards(self) -> bool {
        matches!(self, Self::OrphanFile | Self::Pool)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::OrphanFile => "orphan-file",
            Self::Pages => "pages",
            Self::WideLog => "wide-log",
            Self::WholeSeconds => "whole-seconds",
            Self::ManyGroups => "many-groups",
            Self::BlockMap => "block-map",
            Self::InlineData => "inline-data",
            Self::Clusters => "clusters",
            Self::WideClusters => "wide-clusters",
            Self::Values => "values",
            Self::LargeInodes => "large-inodes",
            Self::Linear => "linear",
            Self::JournalDevice => "journal-device",
            Self::Foreign => "foreign",
            Self::Pool => "pool",
        }
    }

    /// Makes the volume: its image, and behind it its journal's device where that is another disk. Whoever records it
    /// puts it into its pool.
    ///
    /// # Errors
    /// mke2fs is needed and missing; or a defect of mkfs.
    pub fn make(self) -> Result<Vec<Layer>, String> {
        let mut made = self.make_zeroed()?;
        // What lies in a pool has pages for what is in use alone.
        if !matches!(self, Self::Pages | Self::Pool) {
            made[0] = with_garbage(&made[0]);
        }
        Ok(made)
    }

    fn make_zeroed(self) -> Result<Vec<Layer>, String> {
        let by_mke2fs =
            |spec: Spec| spec.make().map(|bytes| vec![self.hashed(bytes)]).map_err(|e| format!("image {self}: {e}"));
        match self {
            Self::Small => self.by_mkfs(4 << 20, 1024, 128, 1024, "^orphan_file"),
            Self::OrphanFile => self.by_mkfs(4 << 20, 1024, 128, 1024, "orphan_file"),
            Self::Pages => self.by_mkfs(16 << 20, 4096, 256, 1024, "orphan_file"),
            Self::Pool => self.by_mkfs(8 << 20, 4096, 128, 1024, "orphan_file"),
            Self::WideLog => self.by_mkfs(8 << 20, 1024, 256, 2048, "^orphan_file"),
            Self::WholeSeconds => by_mke2fs(Spec::small().with("-I 128")),
            Self::ManyGroups => by_mke2fs(Spec::new(24 << 20, 1024).journal(1).with("-N 256 -g 256")),
            Self::BlockMap => by_mke2fs(Spec::new(4 << 20, 1024).journal(1).with("-N 128").with(EXT3)),
            Self::InlineData => by_mke2fs(Spec::new(4 << 20, 1024).journal(1).with("-N 128 -O inline_data")),
            Self::Clusters => by_mke2fs(Spec::new(4 << 20, 1024).journal(1).with("-N 128 -O bigalloc -C 4096")),
            Self::WideClusters => by_mke2fs(Spec::new(8 << 20, 1024).journal(1).with("-N 128 -O bigalloc -C 65536")),
            Self::Values => by_mke2fs(Spec::new(4 << 20, 1024).journal(1).with("-N 128 -O ea_inode")),
            Self::LargeInodes => by_mke2fs(Spec::new(4 << 20, 1024).journal(1).with("-N 128 -I 512")),
            Self::Linear => by_mke2fs(Spec::new(4 << 20, 1024).journal(1).with("-N 128 -O ^dir_index")),
            Self::JournalDevice => with_journal_device().map_err(|e| format!("image {self}: {e}")),
            Self::Foreign => {
                let made = foreign(4 << 20, 1024, 1);
                made.map(|bytes| vec![self.hashed(bytes)]).map_err(|e| format!("image {self}: {e}"))
            }
        }
    }

    fn by_mkfs(self, size: usize, block: u32, inodes: u32, journal: u32, features: &str) -> Result<Vec<Layer>, String> {
        let written = write(size, block, inodes, journal, features);
        written.map(|layer| vec![layer]).map_err(|e| format!("image {self}: {e}"))
    }
}

/// Of the names in directories: equal ones collide everywhere. Those of mke2fs have it, too.
const HASH_SEED: [u8; 16] = *b"ondol hash seed.";

fn write(size: usize, block: u32, inodes: u32, journal: u32, features: &str) -> Result<Layer, FormatError> {
    // UUID, hash seed and time are fixed: equal runs on equal images.
    let mut options = Options::new(*b"ondol laboratory", HASH_SEED, 1_600_000_000);
    options.block_size = Some(block);
    options.inodes = Some(inodes);
    options.journal_blocks = Some(journal);
    options.features = options.features.apply(features)?;
    options.zeroed = true;
    let mut bytes = vec![0; size];
    Plan::new(&options, size as u64)?.emit(|chunk| {
        if let Chunk::Bytes { offset, bytes: content } = chunk {
            bytes[offset as usize..][..content.len()].copy_from_slice(content);
        }
        Ok::<(), FormatError>(())
    })?;
    Ok(Layer::new(bytes))
}

/// With free blocks as former owners leave them: whoever shows a block that he was only given shows this.
fn with_garbage(image: &Layer) -> Layer {
    let mut bytes = image.to_bytes();
    let at = |offset: usize| u32::from_le_bytes(bytes[offset..][..4].try_into().expect("four bytes"));
    let superblock = |offset: usize| at(1024 + offset) as usize;
    let (block, cluster) = (1024 << superblock(0x18), 1024 << superblock(0x1C));
    let (first, per_group) = (superblock(0x14) * block, superblock(0x20) * block);
    // Descriptors that lie together are simple to find.
    if superblock(0x60) & INCOMPAT_META_BG > 0 {
        return image.clone();
    }
    let desc_size = if superblock(0x60) & INCOMPAT_64BIT > 0 { superblock(0xFE) & 0xFFFF } else { 32 };
    let groups = (bytes.len() - first).div_ceil(per_group);
    let mut free = Vec::new();
    for group in 0..groups {
        let desc = (1024 / block + 1) * block + group * desc_size;
        let is_built = bytes[desc + 0x12] & BLOCK_UNINIT == 0;
        let bitmap = at(desc) as usize * block;
        let start = first + group * per_group;
        let end = (start + per_group).min(superblock(4) * block);
        let clusters = (start..end).step_by(cluster).enumerate();
        let is_free = |n: usize| bytes[bitmap + n / 8] & 1 << (n % 8) == 0;
        free.extend(clusters.filter(|(n, _)| is_built && is_free(*n)).map(|(_, at)| at..end.min(at + cluster)));
    }
    for range in free {
        bytes[range.clone()].iter_mut().zip(range).for_each(|(byte, at)| *byte = (at / block % 251) as u8 | 1);
    }
    Layer::new(bytes)
}

/// Group descriptors lie in many places.
const INCOMPAT_META_BG: usize = 0x10;

/// Group descriptors are longer than 32 bytes.
const INCOMPAT_64BIT: usize = 0x80;

/// A group's block bitmap is not written yet.
const BLOCK_UNINIT: u8 = 2;

/// mke2fs joins the two on block devices alone. What it would write is this: the image knows the journal's UUID, the
/// journal the image's.
fn with_journal_device() -> Result<Vec<Layer>, ToolError> {
    let mut image = Spec::new(4 << 20, 1024).with("-N 128 -O ^has_journal").make()?;
    let mut journal =
        Spec::new(JOURNAL_BYTES, 1024).with("-O journal_dev -U 6f6e646f-6c00-4000-8000-000000000003").make()?;
    let uuid = |image: &[u8]| image[1024 + 0x68..][..16].to_vec();
    let (of_image, of_journal) = (uuid(&image), uuid(&journal));
    let superblock = &mut image[1024..2048];
    superblock[0x5C] |= HAS_JOURNAL;
    superblock[0xD0..0xE0].copy_from_slice(&of_journal);
    superblock[0xE4..0xE8].copy_from_slice(&SOME_DEVICE.to_le_bytes());
    let sum = crc32c(!0, &superblock[..0x3FC]);
    superblock[0x3FC..].copy_from_slice(&sum.to_le_bytes());
    // The journal's superblock follows the device's.
    let log = &mut journal[2048..3072];
    log[0x40..0x44].copy_from_slice(&1u32.to_be_bytes());
    log[0x100..0x110].copy_from_slice(&of_image);
    Ok(vec![Layer::new(image), Layer::new(journal)])
}

/// Size of a journal's device: as many blocks for the log as in the other small images.
const JOURNAL_BYTES: u64 = (1024 + 3) << 10;

/// `COMPAT_HAS_JOURNAL`.
const HAS_JOURNAL: u8 = 4;

/// The number of the device that had the journal last, which nobody asks for who names the device.
const SOME_DEVICE: u32 = 0x700;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|k| k.name() == text)
            .ok_or_else(|| format!("no such image: {text} (one of {names})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_format::Superblock;

    #[test]
    fn all_volumes_hash_names_as_they_say() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_possible()) {
            for image in [kind.make().unwrap().remove(0), kind.in_pages().unwrap()] {
                let (size, bytes) = (image.to_bytes().len() as u64, image.to_bytes());
                let sb = Superblock::parse(bytes[1024..2048].try_into().unwrap(), size).unwrap();
                let hash = Kind::hash_of(kind.hash_version());
                let name = b"a name of more than thirty-two characters";
                assert_eq!(sb.dx_hash().hash(name), hash.hash(name), "{kind}");
            }
        }
    }
}
