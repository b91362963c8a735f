//! The volumes that are crashed: small, so that a state costs little, and always the same bytes.

use ondol_env::sync::Arc;
use ondol_format::mkfs::{Chunk, Options, Plan};
use std::fmt;
use std::str::FromStr;

/// A kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// 4 MiB in blocks of 1 KiB, orphans in a list, a journal of 1,024 blocks.
    Small,
    /// The same with an orphan file.
    OrphanFile,
    /// 16 MiB in blocks of 4 KiB, an orphan file, a journal of 1,024 blocks.
    Pages,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Small, Self::OrphanFile, Self::Pages];

    fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::OrphanFile => "orphan-file",
            Self::Pages => "pages",
        }
    }

    /// Makes the volume.
    ///
    /// # Errors
    /// A defect of mkfs.
    pub fn make(self) -> Result<Arc<[u8]>, ondol_format::FormatError> {
        // UUID, hash seed and time are fixed: equal runs on equal images.
        let mut options = Options::new(*b"ondol laboratory", *b"ondol hash seed.", 1_600_000_000);
        let (size, block_size, inodes, features) = match self {
            Self::Small => (4 << 20, 1024, 128, "^orphan_file"),
            Self::OrphanFile => (4 << 20, 1024, 128, "orphan_file"),
            Self::Pages => (16 << 20, 4096, 256, "orphan_file"),
        };
        options.block_size = Some(block_size);
        options.inodes = Some(inodes);
        options.journal_blocks = Some(1024);
        options.features = options.features.apply(features)?;
        options.zeroed = true;
        let mut bytes = vec![0; size];
        Plan::new(&options, size as u64)?.emit(|chunk| {
            if let Chunk::Bytes { offset, bytes: content } = chunk {
                bytes[offset as usize..][..content.len()].copy_from_slice(content);
            }
            Ok::<(), ondol_format::FormatError>(())
        })?;
        Ok(bytes.into())
    }
}

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
