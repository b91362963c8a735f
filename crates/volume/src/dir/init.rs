//! New inodes, and the first block of a directory.

use super::{FIRST_BLOCK, Needs, new_block, type_code};
use crate::op::{Op, View};
use crate::xattr::{self, Inherited};
use crate::{Caller, Device, Error, Ino, Result, Volume, file, kind};
use ondol_format::dirent::{DirBlockMut, Dots};
use ondol_format::inode::{FAST_SYMLINK_MAX, FileType, InodeFlags};
use ondol_format::{Incompat, Place, RoCompat};

/// Journal blocks of a new inode, its table block included.
pub(super) const INODE_COST: u32 = 3;

/// What a new inode is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewInode<'a> {
    /// Its type.
    pub(crate) file_type: FileType,
    /// Permission bits (0o7777) as asked for.
    pub(crate) perm: u16,
    /// Device number of a device file.
    pub(crate) device: Device,
    /// Target of a symlink.
    pub(crate) target: &'a [u8],
    /// Its owner.
    pub(crate) caller: Caller,
}

/// Flags that everything inherits from its directory, as the kernel's `EXT4_FL_INHERITED`. 0x400 is NOCOMPR.
const INHERITED: InodeFlags = InodeFlags::SECRM
    .union(InodeFlags::UNRM)
    .union(InodeFlags::COMPR)
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::from_bits_retain(0x400))
    .union(InodeFlags::JOURNAL_DATA)
    .union(InodeFlags::NOTAIL)
    .union(InodeFlags::DIRSYNC)
    .union(InodeFlags::PROJINHERIT)
    .union(InodeFlags::CASEFOLD)
    .union(InodeFlags::DAX);
/// Of these, what only directories inherit.
const DIRECTORY_ONLY: InodeFlags =
    InodeFlags::DIRSYNC.union(InodeFlags::TOPDIR).union(InodeFlags::CASEFOLD).union(InodeFlags::PROJINHERIT);
/// Of these, what devices, pipes, sockets and symlinks inherit.
const OTHER: InodeFlags = InodeFlags::NODUMP.union(InodeFlags::NOATIME);

impl NewInode<'_> {
    /// What making it in a locked directory takes, without its name, and what it gets from there.
    ///
    /// # Errors
    /// `NoSpace` when inherited ACLs fit nowhere; corruption.
    pub(super) fn plan(&self, view: &mut dyn View, parent: Ino) -> Result<(Inherited, Needs)> {
        let inherited = xattr::inherit(view, parent, self.file_type, self.perm, self.caller)?;
        let acls = inherited.needs(view)?;
        let mut needs = Needs { journal: INODE_COST + acls.journal, blocks: acls.blocks };
        if self.file_type == FileType::Directory || self.target.len() > FAST_SYMLINK_MAX {
            needs = needs + FIRST_BLOCK;
        }
        Ok((inherited, needs))
    }
}

/// Allocates and fills an inode for a name in directory `parent`, which `op` holds, with what it inherits from there.
pub(super) fn make(op: &mut Op<'_>, parent: Ino, new: &NewInode<'_>, inherited: &Inherited) -> Result<Ino> {
    let dir = op.inode(parent)?;
    let (dir_mode, dir_gid, dir_flags, project) = (dir.mode, dir.gid, dir.flags, dir.project);
    let is_dir = new.file_type == FileType::Directory;
    let grpid = op.vol().options.grpid;
    let projects = op.vol().shared.sb.has_ro_compat(RoCompat::PROJECT);
    let ino = op.alloc_inode(parent, is_dir)?;
    let inode = op.inode_mut(ino)?;
    inode.mode = new.file_type.mode_bits() | (inherited.perm & 0o7777);
    (inode.uid, inode.gid, inode.links) = (new.caller.uid, new.caller.gid, 1);
    if grpid || dir_mode & SETGID != 0 {
        inode.gid = dir_gid;
    }
    // Under `grpid` the group goes down all the same, and the bit need not.
    if dir_mode & SETGID != 0 && is_dir && !grpid {
        inode.mode |= SETGID;
    }
    inode.flags = dir_flags & inherited_flags(new.file_type);
    if projects && dir_flags.contains(InodeFlags::PROJINHERIT) {
        inode.project = project;
    }
    match new.file_type {
        FileType::Regular => init_file(op, ino)?,
        FileType::Directory => init_dir(op, ino, parent)?,
        FileType::Symlink => init_symlink(op, ino, new.target)?,
        FileType::CharDevice | FileType::BlockDevice => inode.set_device(new.device),
        FileType::Fifo | FileType::Socket => {}
    }
    inherited.apply(op, ino)?;
    Ok(ino)
}

const SETGID: u16 = 0o2000;

fn inherited_flags(file_type: FileType) -> InodeFlags {
    match file_type {
        FileType::Directory => INHERITED,
        FileType::Regular => INHERITED.difference(DIRECTORY_ONLY),
        _ => INHERITED & OTHER,
    }
}

/// Whether new contents begin in the inode.
fn inline_first(vol: &Volume) -> bool {
    vol.shared.sb.has_incompat(Incompat::INLINE_DATA)
}

fn init_file(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let vol = op.vol();
    let inode = op.inode_mut(ino)?;
    if !inline_first(vol) || !crate::inline::store(inode, &[]) {
        file::init_mapping(vol, inode);
    }
    Ok(())
}

/// Gives a new directory below `parent` its first contents, "." and "..".
pub(crate) fn init_dir(op: &mut Op<'_>, ino: Ino, parent: Ino) -> Result<()> {
    let vol = op.vol();
    let inode = op.inode_mut(ino)?;
    inode.links = 2;
    if inline_first(vol) && super::inline::init(inode, parent) {
        return Ok(());
    }
    file::init_mapping(vol, inode);
    let generation = inode.generation;
    let sb = &op.vol().shared.sb;
    let mut bytes = vec![0; sb.block_size() as usize];
    let (filetype, csum) = (sb.has_incompat(Incompat::FILETYPE), sb.features().has_metadata_csum());
    DirBlockMut::init_dot_dotdot(&mut bytes, Dots { ino, parent, filetype }, csum, Place::inode(ino));
    new_block(op, ino, kind::dir_leaf(ino, generation), &bytes).map(|_| ())
}

/// The longest target, for a block size in bytes: it lies in one block, and PATH_MAX counts a terminating zero.
fn longest_target(block_size: u32) -> usize {
    (block_size as usize).min(4096) - 1
}

fn init_symlink(op: &mut Op<'_>, ino: Ino, target: &[u8]) -> Result<()> {
    let vol = op.vol();
    let inode = op.inode_mut(ino)?;
    if inode.set_fast_symlink(target) {
        return Ok(());
    }
    if inline_first(vol) && crate::inline::store(inode, target) {
        inode.size = target.len() as u64;
        return Ok(());
    }
    file::init_mapping(vol, inode);
    new_block(op, ino, kind::SYMLINK, target)?;
    op.inode_mut(ino)?.size = target.len() as u64;
    Ok(())
}

/// Checks a symlink's target.
pub(super) fn check_target(vol: &Volume, target: &[u8]) -> Result<()> {
    if target.is_empty() {
        return Err(Error::NotFound);
    }
    if target.contains(&0) {
        return Err(Error::Invalid("a symlink's target contains a zero byte"));
    }
    if target.len() > longest_target(vol.shared.sb.block_size()) {
        return Err(Error::NameTooLong);
    }
    Ok(())
}

/// The file type code for an entry that names `ino`.
pub(crate) fn code_of(op: &Op<'_>, ino: Ino) -> Result<u8> {
    Ok(op.inode(ino)?.file_type().map_or(0, |file_type| type_code(op.vol(), file_type)))
}
