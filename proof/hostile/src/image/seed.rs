//! The images that inputs begin with: small, always the same, with a little of everything, made by mkfs and the
//! library.

use super::atlas::{self, Structure};
use super::{made, mapped};
use ondol::{DataMode, Fallocate, Ino, ROOT, Volume};
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_format::mkfs::{Chunk, Options, Plan};
use ondol_format::{FormatError, Incompat, RawSuperblock, superblock};
use ondol_power::Layer;
use ondol_testkit::image;
use ondol_testkit::op::Acl;
use ondol_volume::{Caller, Device, Error, Volume as Inodes};
use std::sync::OnceLock;
use zerocopy::{FromZeros, IntoBytes};

/// What an image is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Blocks of 1 KiB, metadata checksums, an orphan file.
    Csum,
    /// Blocks of 1 KiB without any checksum: hostile pointers are followed at once.
    Plain,
    /// Checksums of group descriptors only.
    GdtCsum,
    /// Blocks of 4 KiB.
    Pages,
    /// Three groups, descriptors spread by meta_bg, no resize inode.
    Groups,
    /// As `Csum`, left with a log to be replayed and with orphans.
    Dirty,
    /// As `Plain`, left so.
    PlainDirty,
    /// As `Plain`, but contents are mapped block by block.
    Mapped,
    /// Nothing but zeros, for inputs that bring their own superblock.
    Bare,
    /// As `Csum`, with few files: cheap to compare with a model.
    Small,
    /// As `Plain`, with few files.
    SmallPlain,
    /// As `Pages`, with few files.
    SmallPages,
    /// As `Csum`, with values of attributes in inodes of their own, and room for large directories.
    Values,
    /// As `Csum`, with small contents in their inodes.
    Inline,
    /// As `Plain`, so.
    InlinePlain,
    /// As `Small`, so.
    SmallInline,
    /// As `Csum`, allocated in clusters of four blocks.
    Clusters,
    /// As `Csum`, with room for fast commits, inline contents, values in inodes and large directories.
    Fast,
    /// New files are mapped block by block, inodes have 128 bytes, no checksum at all.
    Maps,
    /// As `Clusters`, with few files.
    SmallClusters,
    /// New files are mapped block by block; few of them, and metadata checksums.
    SmallMaps,
}

impl Kind {
    /// All of them, in the order of their numbers in inputs: new ones are added at the end.
    pub(crate) const ALL: [Self; 21] = [
        Self::Csum,
        Self::Plain,
        Self::GdtCsum,
        Self::Pages,
        Self::Groups,
        Self::Dirty,
        Self::PlainDirty,
        Self::Mapped,
        Self::Bare,
        Self::Small,
        Self::SmallPlain,
        Self::SmallPages,
        Self::Values,
        Self::Inline,
        Self::InlinePlain,
        Self::SmallInline,
        Self::Clusters,
        Self::Fast,
        Self::Maps,
        Self::SmallClusters,
        Self::SmallMaps,
    ];

    /// Those that can be opened for writing and hold what every tree holds.
    pub(crate) const WHOLE: [Self; 14] = Self::those(false);

    /// Those with few files.
    pub(crate) const SMALL: [Self; 6] = Self::those(true);

    const fn those<const N: usize>(small: bool) -> [Self; N] {
        let mut kinds = [Self::Bare; N];
        let (mut i, mut n) = (0, 0);
        while i < Self::ALL.len() {
            let kind = Self::ALL[i];
            if kind.is_small() == small && !matches!(kind, Self::Bare) {
                kinds[n] = kind;
                n += 1;
            }
            i += 1;
        }
        assert!(n == N);
        kinds
    }

    const fn is_small(self) -> bool {
        matches!(
            self,
            Self::Small
                | Self::SmallPlain
                | Self::SmallPages
                | Self::SmallInline
                | Self::SmallClusters
                | Self::SmallMaps
        )
    }

    /// One of `kinds` that a byte stands for. Bytes below their number keep their meaning when there come to be more.
    pub(crate) fn one_of(kinds: &[Self], byte: u8) -> Self {
        kinds[usize::from(byte % 32) % kinds.len()]
    }

    fn is_dirty(self) -> bool {
        matches!(self, Self::Dirty | Self::PlainDirty)
    }

    /// What mke2fs made of it, if it did.
    fn made(self) -> Option<&'static [u8]> {
        match self {
            Self::Clusters | Self::SmallClusters => Some(made::CLUSTERS),
            Self::Fast => Some(made::FAST),
            Self::Maps => Some(made::OLD),
            Self::SmallMaps => Some(made::MAPS),
            _ => None,
        }
    }

    /// What our mkfs is asked for.
    fn features(self) -> &'static str {
        match self {
            Self::Csum | Self::Dirty | Self::Bare | Self::Small | Self::Values | Self::Inline | Self::SmallInline => {
                "orphan_file"
            }
            Self::Plain | Self::PlainDirty | Self::Mapped | Self::SmallPlain | Self::InlinePlain => {
                "^metadata_csum,^metadata_csum_seed,^orphan_file"
            }
            Self::GdtCsum => "^metadata_csum,^metadata_csum_seed,^orphan_file,uninit_bg",
            Self::Pages | Self::SmallPages => "^orphan_file",
            Self::Groups => "meta_bg,^resize_inode,^metadata_csum,^metadata_csum_seed,^orphan_file",
            Self::Clusters | Self::SmallClusters | Self::Fast | Self::Maps | Self::SmallMaps => "",
        }
    }

    fn block_size(self) -> u32 {
        if matches!(self, Self::Pages | Self::SmallPages) { 4096 } else { 1024 }
    }

    fn size(self) -> usize {
        match self {
            Self::Pages | Self::SmallPages => 12 << 20,
            Self::Groups => 20 << 20,
            Self::Bare => 256 << 10,
            _ => 4 << 20,
        }
    }

    /// An empty volume.
    fn mkfs(self) -> Result<Vec<u8>, FormatError> {
        if let Some(runs) = self.made() {
            return Ok(made::unpack(runs, self.size()));
        }
        let mut options = Options::new(*b"ondol fuzz seeds", *b"ondol hash seed.", 1_600_000_000);
        options.block_size = Some(self.block_size());
        options.inodes = Some(128);
        options.journal_blocks = Some(1024);
        options.features = options.features.apply(self.features())?;
        options.zeroed = true;
        let mut bytes = vec![0; self.size()];
        Plan::new(&options, bytes.len() as u64)?.emit(|chunk| {
            if let Chunk::Bytes { offset, bytes: content } = chunk {
                bytes[offset as usize..][..content.len()].copy_from_slice(content);
            }
            Ok::<(), FormatError>(())
        })?;
        match self {
            Self::Values => add_features(&mut bytes, Incompat::EA_INODE | Incompat::LARGEDIR),
            Self::Inline | Self::InlinePlain | Self::SmallInline => add_features(&mut bytes, Incompat::INLINE_DATA),
            _ => {}
        }
        Ok(bytes)
    }
}

/// Adds features that change nothing of an empty volume.
fn add_features(bytes: &mut [u8], more: Incompat) {
    let mut raw = RawSuperblock::new_zeroed();
    let range = superblock::OFFSET as usize..superblock::OFFSET as usize + superblock::SIZE;
    raw.as_mut_bytes().copy_from_slice(&bytes[range.clone()]);
    let mut features = raw.features();
    features.incompat |= more;
    raw.set_features(features);
    raw.seal();
    bytes[range].copy_from_slice(raw.as_bytes());
}

/// An image to begin with.
pub(crate) struct Seed {
    pub(crate) layer: Layer,
    /// Where everything lies.
    pub(crate) atlas: Vec<Structure>,
    /// Inodes in use that have names.
    pub(crate) inos: Vec<Ino>,
    pub(crate) block_size: u32,
    pub(crate) blocks: u64,
    pub(crate) inodes: u32,
}

impl Seed {
    /// The image of this kind; made once.
    pub(crate) fn of(kind: Kind) -> &'static Self {
        static SEEDS: [OnceLock<Seed>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];
        let at = Kind::ALL.iter().position(|k| *k == kind).unwrap_or(0);
        SEEDS[at].get_or_init(|| Self::make(kind))
    }

    fn make(kind: Kind) -> Self {
        if kind == Kind::Bare {
            let layer = Layer::new(vec![0; kind.size()]);
            let atlas = vec![Structure::bare(kind.size() as u64)];
            return Self { layer, atlas, inos: vec![ROOT], block_size: 1024, blocks: 256, inodes: 32 };
        }
        let bytes = kind.mkfs().expect("the features of a seed can be made");
        let store = Arc::new(LayerStore::new(Layer::new(bytes)));
        populate(kind, store.clone()).expect("a new volume takes a small tree");
        let mut bytes = store.layer().to_bytes();
        if kind == Kind::Mapped {
            mapped::convert(&mut bytes);
        }
        let found = atlas::draw(&bytes);
        let layer = Layer::new(bytes);
        Self {
            atlas: found.structures,
            inos: found.inos,
            block_size: found.block_size,
            blocks: found.blocks,
            inodes: found.inodes,
            layer,
        }
    }
}

/// Root makes everything.
pub(crate) const OWNER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

fn populate(kind: Kind, store: Arc<LayerStore>) -> ondol::Result<()> {
    let data = if kind.is_dirty() { DataMode::Journal } else { DataMode::Ordered };
    let options = image::options(data).with_cache(8 << 20);
    let store: Arc<dyn BlockStore> = store;
    let volume = Volume::open_stepped(store.clone(), &options, image::clock(1))?;
    if kind.is_small() {
        small(volume.inodes())?;
    } else {
        tree(kind, volume.inodes())?;
    }
    if !kind.is_dirty() {
        return volume.close();
    }
    volume.close()?;
    let volume = Volume::open_stepped(store, &options, image::clock(2))?;
    log(volume.inodes())?;
    volume.sync()
}

fn tree(kind: Kind, v: &Inodes) -> Result<(), Error> {
    let block = u64::from(kind.block_size());
    let create = |dir, name: &str| v.names().create(dir, name.as_bytes(), 0o644, OWNER).map(|a| a.ino);
    let mkdir = |dir, name: &str| v.names().mkdir(dir, name.as_bytes(), 0o755, OWNER).map(|a| a.ino);
    let (file, frag, pre) = (create(ROOT, "file")?, create(ROOT, "frag")?, create(ROOT, "pre")?);
    v.files().write(file, 0, &[1; 3000])?;
    let parts = if kind == Kind::Csum || kind == Kind::Plain { 360 } else { 40 };
    for i in 0..parts {
        v.files().write(frag, i * 2 * block, &[3; 700])?;
    }
    if kind != Kind::Maps {
        v.files().fallocate(pre, Fallocate::Allocate, 0, 12 * block)?;
    }
    v.files().write(pre, 2 * block, &[4; 100])?;
    let sparse = create(ROOT, "sparse")?;
    v.files().write(sparse, 100 << 20, &[5; 10])?;
    let (d, big, flat) = (mkdir(ROOT, "d")?, mkdir(ROOT, "big")?, mkdir(ROOT, "flat")?);
    let sub = mkdir(d, "sub")?;
    create(sub, "x")?;
    create(d, "one")?;
    let names = match kind {
        Kind::Plain => 1300,
        Kind::Pages => 200,
        _ => 60,
    };
    for i in 0..names {
        v.names().link(file, big, format!("name {i:04} {}", "n".repeat(60 - i % 50)).as_bytes())?;
    }
    for i in 0..6 {
        v.names().link(file, flat, format!("name {i:04}").as_bytes())?;
    }
    v.names().symlink(ROOT, b"fast", b"target", OWNER)?;
    v.names().symlink(ROOT, b"slow", &[b'x'; 300], OWNER)?;
    v.names().mknod(ROOT, b"pipe", 0o10_644, Device::default(), OWNER)?;
    v.names().mknod(ROOT, b"dev", 0o60_600, Device { major: 8, minor: 300 }, OWNER)?;
    attributes(v, create(ROOT, "attrs")?)?;
    v.files().write(create(ROOT, "tiny")?, 0, b"a hundred bytes and a few, which an inode can hold")?;
    if matches!(kind, Kind::Values | Kind::Fast) {
        let (one, other) = (create(ROOT, "values")?, create(ROOT, "same")?);
        v.xattrs().setxattr(one, b"user.huge", &[1; 20_000], Default::default())?;
        v.xattrs().setxattr(one, b"user.large", &[2; 3000], Default::default())?;
        v.xattrs().setxattr(other, b"user.large", &[2; 3000], Default::default())?;
    }
    // The model of the test grammar knows no ACLs: nothing else is in there.
    acls(v, create(ROOT, "acl")?, mkdir(ROOT, "acls")?)
}

fn small(v: &Inodes) -> Result<(), Error> {
    let file = v.names().create(ROOT, b"file", 0o644, OWNER)?.ino;
    v.files().write(file, 0, &[1; 3000])?;
    let d = v.names().mkdir(ROOT, b"d", 0o755, OWNER)?.ino;
    v.names().mkdir(d, b"sub", 0o755, OWNER)?;
    v.names().mkdir(ROOT, b"flat", 0o755, OWNER)?;
    v.names().symlink(ROOT, b"slow", &[b'x'; 300], OWNER)?;
    attributes(v, v.names().create(ROOT, b"attrs", 0o644, OWNER)?.ino)
}

fn attributes(v: &Inodes, file: Ino) -> Result<(), Error> {
    v.xattrs().setxattr(file, b"user.large", &[7; 500], Default::default())?;
    v.xattrs().setxattr(file, b"user.small", &[8; 20], Default::default())?;
    v.xattrs().setxattr(file, b"trusted.t", b"trusted", Default::default())
}

fn acls(v: &Inodes, file: Ino, dir: Ino) -> Result<(), Error> {
    let acl = "u::rw-,u:1000:r--,g::r--,m::rw-,o::r--".parse::<Acl>().map(|acl| acl.value());
    let acl = acl.map_err(|_| Error::Invalid("an ACL that is none"))?;
    v.xattrs().setxattr(file, b"system.posix_acl_access", &acl, Default::default())?;
    v.xattrs().setxattr(dir, b"system.posix_acl_default", &acl, Default::default())
}

/// Changes that stay in the log: new names, a revoke, an escaped block, and orphans.
fn log(v: &Inodes) -> Result<(), Error> {
    let a = v.names().create(ROOT, b"logged", 0o644, OWNER)?.ino;
    v.files().write(a, 0, &[&[0xC0, 0x3B, 0x39, 0x98][..], &[6; 3000]].concat())?;
    v.sync()?;
    let d = v.names().mkdir(ROOT, b"gone", 0o755, OWNER)?.ino;
    v.names().create(d, b"inner", 0o600, OWNER)?;
    v.sync()?;
    v.names().unlink(d, b"inner")?;
    v.names().rmdir(ROOT, b"gone")?;
    let (open, cut) = (v.names().lookup(ROOT, b"pre")?.ino, v.names().lookup(ROOT, b"frag")?.ino);
    v.inode_ops().open(open)?;
    v.names().unlink(ROOT, b"pre")?;
    v.files().truncate(cut, 5000)?;
    v.inode_ops().open(cut)?;
    v.names().unlink(ROOT, b"frag")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::What;

    #[test]
    fn seeds_are_sound_and_their_structures_are_found() {
        for kind in Kind::WHOLE {
            let seed = Seed::of(kind);
            let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(seed.layer.clone()));
            ondol::recover_media(&store).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
            let report = ondol::check_media(&store).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
            assert!(report.is_clean(), "{kind:?}: {:#?}", report.problems);
            let count = |what: fn(What) -> bool| seed.atlas.iter().filter(|s| what(s.what)).count();
            assert!(count(|w| w == What::Inode) > 12, "{kind:?}");
            assert!(count(|w| matches!(w, What::DxNode)) > 0, "{kind:?}");
            assert!(count(|w| matches!(w, What::ExtentNode | What::Indirect)) > 0, "{kind:?}");
            assert!(count(|w| w == What::Xattr) > 0, "{kind:?}");
            assert!(count(|w| w == What::Free) > 0, "{kind:?}");
            assert!(count(|w| matches!(w, What::Journal(_))) > 20, "{kind:?}");
            assert_eq!(
                count(|w| w == What::OrphanFile) > 0,
                matches!(kind, Kind::Csum | Kind::Dirty | Kind::Values | Kind::Inline | Kind::Clusters | Kind::Fast)
            );
            assert_eq!(count(|w| w == What::Indirect) > 0, matches!(kind, Kind::Mapped | Kind::Maps));
            let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(seed.layer.clone()));
            let opened = Volume::open_stepped(store, &image::options(DataMode::Ordered), image::clock(1));
            let opened = opened.unwrap_or_else(|e| panic!("{kind:?}: {e}"));
            assert_eq!(opened.recovered().transactions > 0, kind.is_dirty());
            assert_eq!(opened.recovered().orphans_deleted, if kind.is_dirty() { 2 } else { 0 });
        }
    }
}
