//! Another journal in the place of the old one: a file without a name whose blocks the journal's inode takes, and which
//! takes the journal's.
//!
//! Blocks of an extent tree carry the number and the generation of their inode in their checksums. The file gets the
//! one generation with which its own are right for the journal's inode, too, and the other way round: so only the two
//! inodes change, and what the superblocks say of them.

use crate::image::{Image, corrupt};
use crate::{Attr, Caller, Error, Ino, ROOT, Result, Volume};
use ondol_format::inode::{FileType, InodeFlags, seal};
use ondol_format::{Inode, RawSuperblock};
use std::collections::BTreeMap;
use zerocopy::FromBytes;

/// Flags that say how an inode's contents are to be found and counted.
const FORM: InodeFlags = InodeFlags::EXTENTS.union(InodeFlags::HUGE_FILE);

const ACL: &[u8] = b"system.posix_acl_access";

impl Volume {
    /// As [`crate::Namespace::tmpfile`]: a file that can change places with the journal of `image`, which is this
    /// volume's, once it has been written as a whole (see [`Image::exchanged`]).
    ///
    /// # Errors
    /// As [`crate::Namespace::tmpfile`]; `Unsupported` without an internal journal.
    pub fn journal_twin(&self, image: &Image) -> Result<Attr> {
        let ino = image.journal_ino()?;
        let generation = image.read_inode(ino)?.generation;
        let owner = Caller::new(0, 0);
        let attr = self.names().try_tmpfile(ROOT, 0o600, owner, Some((ino, generation))).map_err(|e| self.noted(e))?;
        // What a directory passes on has no place in a journal.
        match self.xattrs().removexattr(attr.ino, ACL) {
            Ok(()) | Err(Error::NoAttribute | Error::Unsupported(_)) => Ok(attr),
            Err(e) => Err(e),
        }
    }
}

impl Image {
    /// The runs of the file that is to become the journal, as [`Image::journal_map`].
    ///
    /// # Errors
    /// As [`Image::journal_map`].
    pub fn twin_map(&self, twin: Ino) -> Result<Vec<(u64, u64)>> {
        self.runs_of(twin, &self.read_inode(twin)?)
    }

    /// The blocks that change when the journal's inode and `twin`, made by [`Volume::journal_twin`], change places, as
    /// they are then: those of the two inodes, and those of the superblock and its copies, which know where the journal
    /// lies. Nothing is written, and nothing else may be written to these blocks before they are.
    ///
    /// # Errors
    /// `twin` is no such file; corruption, or the store's failure.
    pub fn exchanged(&self, twin: Ino) -> Result<Vec<(u64, Vec<u8>)>> {
        let (sb, ino) = (self.superblock(), self.journal_ino()?);
        let (mut journal, mut other) = (self.read_inode(ino)?, self.read_inode(twin)?);
        let like = sb.generation_like(twin, ino, journal.generation);
        let plain = |inode: &Inode| {
            inode.file_type() == Some(FileType::Regular)
                && inode.file_acl == 0
                && !inode.flags.contains(InodeFlags::INLINE_DATA)
        };
        if !plain(&journal) || !plain(&other) || like.is_some_and(|like| like != other.generation) || other.links > 0 {
            return Err(Error::Unsupported(format!("inodes {ino} and {twin} in each other's place")));
        }
        exchange(&mut journal, &mut other);
        let mut blocks = BTreeMap::new();
        for (ino, inode) in [(ino, &journal), (twin, &other)] {
            let (block, offset) = self.place_of_inode(ino)?;
            let bytes = self.block_for(&mut blocks, block)?;
            let format = sb.inode_format();
            let bytes = bytes.get_mut(offset..).and_then(|rest| rest.get_mut(..usize::from(sb.inode_size())));
            let bytes = bytes.ok_or_else(|| Error::corrupt("image", block, "an inode over the end of its block"))?;
            inode.write(bytes, &format).map_err(|e| corrupt(block, &e))?;
            seal(bytes, ino, &format);
        }
        let primary = sb.superblock_location();
        for (block, offset) in std::iter::once(primary).chain(sb.backups().map(|(_, block)| (block, 0))) {
            let bytes = self.block_for(&mut blocks, block)?;
            let Some(Ok(raw)) = bytes.get_mut(offset..).map(RawSuperblock::mut_from_prefix) else { continue };
            // A copy that serves nobody stays as it is.
            if raw.0.s_magic == sb.raw().s_magic && raw.0.verify().is_ok() {
                raw.0.set_jnl_blocks(&journal);
                raw.0.seal();
            }
        }
        Ok(blocks.into_iter().collect())
    }

    fn block_for<'b>(&self, blocks: &'b mut BTreeMap<u64, Vec<u8>>, block: u64) -> Result<&'b mut Vec<u8>> {
        use std::collections::btree_map::Entry;
        match blocks.entry(block) {
            Entry::Occupied(found) => Ok(found.into_mut()),
            Entry::Vacant(place) => {
                let mut bytes = vec![0; self.superblock().block_size() as usize];
                self.store().read(block * bytes.len() as u64, &mut bytes)?;
                Ok(place.insert(bytes))
            }
        }
    }
}

/// Each inode gets the other's contents.
fn exchange(a: &mut Inode, b: &mut Inode) {
    std::mem::swap(&mut a.i_block, &mut b.i_block);
    std::mem::swap(&mut a.size, &mut b.size);
    std::mem::swap(&mut a.blocks, &mut b.blocks);
    let (of_a, of_b) = (a.flags & FORM, b.flags & FORM);
    a.flags = (a.flags - FORM) | of_b;
    b.flags = (b.flags - FORM) | of_a;
}
