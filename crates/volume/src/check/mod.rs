//! Checking an image as e2fsck does: every structure against its rules and against every other.
//!
//! ```text
//!   descriptors ─▶ orphans ─▶ inodes (maps, xattrs) ─▶ directories ─▶ links ─▶ bitmaps and counts
//! ```
//!
//! Nothing is written and nothing is believed: a hostile image gives problems, never a panic or an endless loop. Every
//! block is claimed once, and only a first claim is followed, so that the work is bounded by the size of the image.
//! Memory goes with what is in use: a bit for a block, twelve bytes for an inode, sixteen for a run of a directory.

mod backups;
mod bitmaps;
mod dir;
mod groups;
mod htree;
mod inline;
mod inode;
mod inodes;
mod links;
mod map;
mod orphans;
mod quota;
mod report;
mod space;
mod special;
mod values;
mod xattrs;

pub use report::{CheckReport, Pass, Problem, Progress};

use crate::image::CHECKABLE;
use crate::{Error, Image, Ino, Result};
use bitmaps::BitmapPass;
use dir::DirectoryPass;
use groups::GroupPass;
use inodes::Found;
use links::LinkPass;
use map::Run;
use ondol_block::BlockStore;
use ondol_format::group::GroupDesc;
use ondol_format::inode::InodeFormat;
use ondol_format::{FormatError, Incompat, RoCompat, Superblock};
use orphans::OrphanPass;
use report::Where;
use space::Space;
use std::collections::{HashMap, HashSet};
use values::Values;

/// A directory that was found, to be read when all inodes are known.
struct Dir {
    ino: Ino,
    generation: u32,
    indexed: bool,
    runs: Vec<Run>,
    blocks: u32,
    /// What the inode stores, if that is where the entries are; taken when they are read.
    inline: Option<Vec<u8>>,
    /// What its ".." names; 0 if there is none.
    dotdot: Ino,
    /// The directory that has an entry for it; 0 if none has.
    parent: Ino,
}

/// An xattr block: the users it says it has, and those found.
struct SharedXattrs {
    refcount: u32,
    found: u32,
    /// What it adds to the `i_blocks` of each user.
    sectors: u64,
    first_user: Ino,
}

/// What is known so far.
struct Checker<'a> {
    image: &'a Image,
    store: &'a dyn BlockStore,
    sb: &'a Superblock,
    format: InodeFormat,
    /// Descriptors by group; None where one cannot be believed.
    descs: Vec<Option<GroupDesc>>,
    space: Space,
    found: Found,
    dirs: Vec<Dir>,
    dir_index: HashMap<Ino, usize>,
    xattrs: HashMap<u64, SharedXattrs>,
    values: Values,
    orphans: HashSet<Ino>,
    report: CheckReport,
    progress: &'a mut dyn FnMut(Progress),
}

/// Checks a quiescent image: one that nobody has mounted and whose journal is empty. While it holds transactions, the
/// image is not what it will be after their recovery, and what is found here says nothing.
///
/// # Errors
/// A feature whose structures are not known here (named); the store's failure.
pub fn check(image: &Image, progress: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
    let sb = image.superblock();
    sb.features().require_ro_compat(CHECKABLE).map_err(|e| Error::Unsupported(e.to_string()))?;
    let mut checker = Checker {
        image,
        store: image.store(),
        sb,
        format: sb.inode_format(),
        descs: Vec::new(),
        space: Space::new(sb),
        found: Found::new(sb),
        dirs: Vec::new(),
        dir_index: HashMap::new(),
        xattrs: HashMap::new(),
        values: Values::default(),
        orphans: HashSet::new(),
        report: CheckReport::default(),
        progress,
    };
    GroupPass { checker: &mut checker }.check_groups()?;
    OrphanPass { checker: &mut checker }.check_orphans()?;
    checker.check_inodes()?;
    checker.check_has_journal();
    checker.check_quota_files();
    checker.check_xattr_counts();
    checker.check_values();
    DirectoryPass { checker: &mut checker }.check_directories()?;
    LinkPass { checker: &mut checker }.check_links();
    BitmapPass { checker: &mut checker }.check_bitmaps()?;
    checker.tell(Pass::Done, 1, 1);
    Ok(checker.report)
}

impl Checker<'_> {
    fn problem(&mut self, structure: impl Into<String>, place: Where, text: impl Into<String>) {
        self.report.add(Problem {
            structure: structure.into(),
            block: place.block,
            inode: place.inode,
            text: text.into(),
        });
    }

    /// Takes a rule that the format crate found broken.
    fn broken(&mut self, place: Where, error: &FormatError) {
        let (structure, text) = report::words(error);
        self.problem(structure, place, text);
    }

    fn tell(&mut self, pass: Pass, done: u64, total: u64) {
        (self.progress)(Progress { pass, done, total });
    }

    /// Reads a block that lies on the volume.
    fn read(&self, block: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.block_size()];
        self.store.read(block * self.block_size() as u64, &mut bytes)?;
        Ok(bytes)
    }

    fn block_size(&self) -> usize {
        self.sb.block_size() as usize
    }

    fn cluster_size(&self) -> u64 {
        u64::from(self.sb.cluster_ratio()) * u64::from(self.sb.block_size())
    }

    fn has_csum(&self) -> bool {
        self.sb.csum_seed().is_some()
    }

    /// Whether a block can be anything but the primary superblock.
    fn on_volume(&self, start: u64, len: u64) -> bool {
        self.sb.contains_blocks(&(start..start.saturating_add(len)))
    }

    /// Whether an inode is the file system's own, without a name.
    fn is_nameless(&self, ino: Ino) -> bool {
        !self.sb.may_be_named(ino)
    }

    fn has_filetype(&self) -> bool {
        self.sb.has_incompat(Incompat::FILETYPE)
    }

    fn has_dir_nlink(&self) -> bool {
        self.sb.has_ro_compat(RoCompat::DIR_NLINK)
    }
}

/// Something that an error of the store interrupts, but a corrupt structure does not.
fn unless_store(result: Result<()>) -> Result<Option<Error>> {
    match result {
        Ok(()) => Ok(None),
        Err(e @ Error::Block(_)) => Err(e),
        Err(e) => Ok(Some(e)),
    }
}
