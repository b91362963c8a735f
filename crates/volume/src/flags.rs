//! chattr: the flags of an inode as programs see and set them, and what they forbid.
//!
//! Programs speak of flags in two ways: in ext4's bits (`FS_IOC_GETFLAGS`), and in the bits that all Linux file systems
//! share, with the project (`FS_IOC_FSGETXATTR`). Both come to one change here.

use crate::alloc::Need;
use crate::op::{Cost, Op};
use crate::{Error, Ino, InodeOps, Result};
use ondol_format::inode::InodeFlags as F;
use ondol_format::{Incompat, Inode, RoCompat};

/// Flags that programs can change, kernel: `EXT4_FL_USER_MODIFIABLE`. 0x400000 is EOFBLOCKS.
const MODIFIABLE: F = F::SECRM
    .union(F::UNRM)
    .union(F::COMPR)
    .union(F::SYNC)
    .union(F::IMMUTABLE)
    .union(F::APPEND)
    .union(F::NODUMP)
    .union(F::NOATIME)
    .union(F::JOURNAL_DATA)
    .union(F::NOTAIL)
    .union(F::DIRSYNC)
    .union(F::TOPDIR)
    .union(F::EXTENTS)
    .union(F::from_bits_retain(0x40_0000))
    .union(F::DAX)
    .union(F::PROJINHERIT)
    .union(F::CASEFOLD);

/// Flags that programs see, kernel: `EXT4_FL_USER_VISIBLE`. 0x700 are DIRTY, COMPRBLK and NOCOMPR.
const VISIBLE: F = MODIFIABLE
    .union(F::from_bits_retain(0x700))
    .union(F::ENCRYPT)
    .union(F::INDEX)
    .union(F::VERITY)
    .union(F::INLINE_DATA);

/// Flags that only directories have, and those that a device, pipe, socket or symlink can have.
const DIRECTORY_ONLY: F = F::DIRSYNC.union(F::TOPDIR).union(F::CASEFOLD).union(F::PROJINHERIT);
const OTHER: F = F::NODUMP.union(F::NOATIME);

/// Flags that not everybody may change.
const GUARDED: F = F::IMMUTABLE.union(F::APPEND).union(F::JOURNAL_DATA);

/// ext4's flags, and the bits of `fsx_xflags` that stand for the same.
const SHARED: [(F, u32); 7] = [
    (F::IMMUTABLE, 0x8),
    (F::APPEND, 0x10),
    (F::SYNC, 0x20),
    (F::NOATIME, 0x40),
    (F::NODUMP, 0x80),
    (F::PROJINHERIT, 0x200),
    (F::DAX, 0x8000),
];

/// Bytes of extra fields of an inode that has a project.
const WITH_PROJECT: u16 = 32;

/// `struct fsxattr` of Linux: flags in the bits that all file systems share, and the project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsxAttr {
    /// `FS_XFLAG_…`.
    pub xflags: u32,
    /// Hint for the size of extents, bytes; ext4 has none: 0.
    pub extsize: u32,
    /// Number of extents; ext4 does not tell: 0.
    pub nextents: u32,
    /// Project, 0 on volumes without projects.
    pub projid: u32,
    /// Hint for the size of copied extents, bytes; ext4 has none: 0.
    pub cowextsize: u32,
}

impl InodeOps<'_> {
    /// The flags that programs see, in ext4's bits.
    ///
    /// # Errors
    /// `NotFound`; corruption, or the store's failure.
    pub fn flags(self, ino: Ino) -> Result<u32> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        Ok(visible(&state.inode).bits())
    }

    /// Makes `flags` (ext4's bits) the flags of an inode; bits that nobody can change are left as they are. Immutable
    /// and append-only (CAP_LINUX_IMMUTABLE) and data journaling (CAP_SYS_RESOURCE) can be changed as far as they are
    /// in `guarded`.
    ///
    /// # Errors
    /// `Unsupported` for flags that ext4 does not have, and that this type of file or volume cannot have; also for a
    /// change between extents and block map, after all other flags have been set, as with ext4; `NotPermitted` without
    /// privilege, and for another change of what stays immutable; `ReadOnly`; corruption.
    pub fn set_flags(self, ino: Ino, flags: u32, guarded: u32) -> Result<()> {
        self.change_flags(ino, guarded, |_| Ok((F::from_bits_retain(flags), None))).map_err(|e| self.vol.noted(e))
    }

    /// As [`InodeOps::flags`], in the bits that all file systems share, with the project.
    ///
    /// # Errors
    /// As [`InodeOps::flags`].
    pub fn fsxattr(self, ino: Ino) -> Result<FsxAttr> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let flags = visible(&state.inode);
        let xflags = SHARED.iter().filter(|(flag, _)| flags.contains(*flag)).fold(0, |bits, (_, bit)| bits | bit);
        let projid = if self.has_projects() { state.inode.project } else { 0 };
        Ok(FsxAttr { xflags, projid, ..FsxAttr::default() })
    }

    /// Sets the flags that all file systems share, and the project. Other flags stay, and hints for extents are
    /// ignored.
    ///
    /// # Errors
    /// As [`InodeOps::set_flags`]; `Unsupported` for a project on a volume or in an inode that has none; `Invalid` for
    /// DAX of what is neither file nor directory.
    pub fn set_fsxattr(self, ino: Ino, set: &FsxAttr, guarded: u32) -> Result<()> {
        let new = |inode: &Inode| {
            let shared = SHARED.iter().fold(F::empty(), |all, (flag, _)| all | *flag);
            let given = SHARED.iter().filter(|(_, bit)| set.xflags & bit != 0).fold(F::empty(), |all, (f, _)| all | *f);
            if given.contains(F::DAX) && !(inode.is_regular() || inode.is_dir()) {
                return Err(Error::Invalid("DAX is for files and directories"));
            }
            Ok((visible(inode).difference(shared) | given, Some(set.projid)))
        };
        self.change_flags(ino, guarded, new).map_err(|e| self.vol.noted(e))
    }

    /// Whether flags let an inode be opened: for writing, for appending only, to be emptied.
    ///
    /// # Errors
    /// `NotPermitted` when it is immutable, or append-only and would be written otherwise; `NotFound`.
    pub fn check_open(self, ino: Ino, write: bool, append: bool, truncate: bool) -> Result<()> {
        let node = self.vol.node(ino)?;
        let flags = node.read()?.inode.flags;
        if flags.contains(F::IMMUTABLE) && (write || truncate) {
            return Err(Error::NotPermitted("the inode is immutable"));
        }
        if flags.contains(F::APPEND) && ((write && !append) || truncate) {
            return Err(Error::NotPermitted("the inode is append-only"));
        }
        Ok(())
    }

    fn has_projects(self) -> bool {
        self.vol.shared.sb.has_ro_compat(RoCompat::PROJECT)
    }

    fn change_flags(self, ino: Ino, guarded: u32, new: impl FnOnce(&Inode) -> Result<(F, Option<u32>)>) -> Result<()> {
        self.vol.check_writable()?;
        if self.vol.shared.is_journal(ino) {
            return Err(Error::NotPermitted("the journal's inode is not to be changed"));
        }
        let guard = self.vol.node(ino)?.write()?;
        let inode = &guard.state.inode;
        let (wanted, project) = new(inode)?;
        let flags = self.plan_flags(inode, wanted, guarded)?;
        let form = inode.flags & F::EXTENTS;
        let converts = flags & F::EXTENTS != form;
        let flags = flags.difference(F::EXTENTS) | form;
        let project = project.filter(|&project| project != inode.project || !self.has_projects());
        self.check_project_change(inode, flags, project)?;
        let mut op = Op::begin(self.vol, vec![guard], Cost { journal: 1, blocks: 0, need: Need::Privileged })?;
        let now = crate::time::to_disk(op.now());
        let inode = op.inode_mut(ino)?;
        let was_journaled = inode.flags.contains(F::JOURNAL_DATA);
        inode.flags = inode.flags.difference(MODIFIABLE) | flags;
        inode.ctime = now;
        if let Some(project) = project.filter(|_| self.has_projects()) {
            inode.grow_extra(WITH_PROJECT);
            inode.project = project;
        }
        if was_journaled && !inode.flags.contains(F::JOURNAL_DATA) {
            self.vol.once_journaled.add(ino);
        }
        op.close()?;
        // ext4 converts last of all, and has set the other flags when it cannot.
        if converts { unsupported(wanted, "a file keeps its extents or its block map") } else { Ok(()) }
    }

    /// The modifiable flags that `wanted` comes to.
    fn plan_flags(self, inode: &Inode, wanted: F, guarded: u32) -> Result<F> {
        let unsupported = |what| unsupported(wanted, what);
        if !VISIBLE.contains(wanted) {
            return unsupported("ext4 has no such flags");
        }
        let (old, flags) = (inode.flags, wanted & MODIFIABLE);
        let changed = flags ^ (old & MODIFIABLE);
        if changed.intersects(GUARDED.difference(F::from_bits_retain(guarded))) {
            return Err(Error::NotPermitted("immutable, append-only and data journaling need a capability"));
        }
        if flags != flags & of_type(inode) {
            return unsupported("not for this type of file");
        }
        if old.contains(F::IMMUTABLE) && flags.contains(F::IMMUTABLE) && old != flags {
            return Err(Error::NotPermitted("the inode is immutable"));
        }
        let exclusive = F::VERITY | F::ENCRYPT | F::JOURNAL_DATA | F::INLINE_DATA;
        if (flags.contains(F::DAX) && old.intersects(exclusive))
            || (old.contains(F::DAX) && flags.intersects(exclusive))
        {
            return unsupported("DAX excludes data journaling");
        }
        if changed.contains(F::CASEFOLD) && !self.vol.shared.sb.has_incompat(Incompat::CASEFOLD) {
            return unsupported("the volume has no case folding");
        }
        Ok(flags)
    }

    fn check_project_change(self, inode: &Inode, flags: F, project: Option<u32>) -> Result<()> {
        let Some(project) = project else { return Ok(()) };
        if !self.has_projects() {
            return if project == 0 { Ok(()) } else { Err(Error::Unsupported("a project on this volume".into())) };
        }
        if inode.flags.contains(F::IMMUTABLE) && flags.contains(F::IMMUTABLE) {
            return Err(Error::NotPermitted("the inode is immutable"));
        }
        if inode.extra_isize < WITH_PROJECT && !inode.clone().grow_extra(WITH_PROJECT) {
            return Err(Error::Unsupported("a project of an inode without room for it".into()));
        }
        Ok(())
    }
}

fn unsupported<T>(flags: F, what: &str) -> Result<T> {
    Err(Error::Unsupported(format!("the flags {:#x}: {what}", flags.bits())))
}

/// The flags of an inode as programs see them.
fn visible(inode: &Inode) -> F {
    let hidden = if inode.is_regular() { F::PROJINHERIT } else { F::empty() };
    (inode.flags & VISIBLE).difference(hidden)
}

/// The flags that an inode of this type can have.
fn of_type(inode: &Inode) -> F {
    match () {
        () if inode.is_dir() => F::all(),
        () if inode.is_regular() => F::all().difference(DIRECTORY_ONLY),
        () => OTHER,
    }
}
