//! Changing what stat(2) tells: permissions, owner, times and size.

use crate::alloc::Need;
use crate::op::{Cost, Op, Reader};
use crate::{Attr, Error, Ino, InodeOps, Result, SetAttr, SetTime, time, xattr};
use ondol_env::Timestamp;
use ondol_format::inode::InodeFlags;
use ondol_format::time::{MAX_SEC, MIN_SEC};
use ondol_format::{Inode, Time};

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXEC: u16 = 0o0010;

impl InodeOps<'_> {
    /// Changes attributes. Everything but the size is one atomic operation; a change of size comes before it and is
    /// atomic for itself. Times that the inode cannot hold become the nearest that it can.
    ///
    /// # Errors
    /// `NotPermitted` on an immutable or append-only inode; `IsDirectory` or `Invalid` for the size of what is no file;
    /// `FileTooBig`; `NoSpace` when an ACL has to be copied; corruption.
    pub fn setattr(self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.vol.check_writable()?;
        check_times(set)?;
        let attr = self.set_locked(ino, set).map_err(|e| self.vol.noted(e))?;
        self.vol.xattrs().bury_values();
        Ok(attr)
    }

    fn set_locked(self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let mut guard = self.vol.node(ino)?.write()?;
        may_set(&guard.state.inode, set)?;
        if let Some(size) = set.size {
            let old = guard.state.inode.size;
            guard = self.vol.files().truncate_locked(guard, size)?;
            self.vol.page_cache().note_resized(ino, old, size);
        }
        let rest = SetAttr { size: None, ..*set };
        if rest == SetAttr::default() {
            return self.vol.attr(ino, &guard.state.inode);
        }
        let (xattrs, cost) = plan_setattr(&mut &*self.vol, ino, &guard.state.inode, &rest)?;
        let mut op = Op::begin(self.vol, vec![guard], cost)?;
        do_setattr(&mut op, ino, set, xattrs)?;
        let guard = op.close_holding(ino)?;
        self.vol.attr(ino, &guard.state.inode)
    }
}

/// Checks whether everything but the size can be set, and says what it takes, and whether the inode has attributes that
/// go with its permissions or its owner.
///
/// # Errors
/// As [`InodeOps::setattr`].
pub(crate) fn plan_setattr(reader: &mut dyn Reader, ino: Ino, inode: &Inode, set: &SetAttr) -> Result<(bool, Cost)> {
    may_set(inode, set)?;
    let owner = set.uid.is_some() || set.gid.is_some();
    let drops = set.kill_suid || owner;
    let mut cost = Cost { journal: 1, blocks: 0, need: Need::Privileged };
    if set.perm.is_none() && !drops {
        return Ok((false, cost));
    }
    let changes = xattr::permission_changes(reader, ino, inode, set.perm, drops)?;
    for change in &changes {
        let needs = xattr::needs(reader, ino, inode, change)?;
        (cost.journal, cost.blocks) = (cost.journal + needs.journal, cost.blocks + needs.blocks);
    }
    Ok((!changes.is_empty(), cost))
}

/// Sets everything but the size of a locked inode; `xattrs` says whether it has attributes that go with its permissions
/// or its owner.
///
/// # Errors
/// Corruption of its attributes.
pub(crate) fn do_setattr(op: &mut Op<'_>, ino: Ino, set: &SetAttr, xattrs: bool) -> Result<()> {
    let now = op.now();
    let inode = op.inode_mut(ino)?;
    let mut perm = set.perm.map_or(inode.mode & 0o7777, |perm| perm & 0o7777);
    let new_owner = (set.uid.is_some() || set.gid.is_some()) && set.perm.is_none();
    if (set.kill_suid && inode.is_regular()) || (new_owner && !inode.is_dir()) {
        perm = without_suid(perm);
    }
    inode.mode = inode.mode & !0o7777 | perm;
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    let stamp = |set: SetTime| match set {
        SetTime::Now => now,
        SetTime::To(t) => t,
    };
    if let Some(atime) = set.atime {
        inode.atime = held(stamp(atime));
    }
    if let Some(mtime) = set.mtime {
        inode.mtime = held(stamp(mtime));
    }
    inode.ctime = time::to_disk(now);
    if xattrs {
        let inode = op.inode(ino)?.clone();
        let drops = set.kill_suid || set.uid.is_some() || set.gid.is_some();
        let changes = xattr::permission_changes(op, ino, &inode, set.perm.map(|_| perm), drops)?;
        changes.iter().try_for_each(|change| xattr::change(op, ino, change))?;
    }
    Ok(())
}

/// Permission bits as a write by somebody without privilege leaves them: setgid without group execution is no
/// privilege.
fn without_suid(perm: u16) -> u16 {
    if perm & GROUP_EXEC != 0 { perm & !(SETUID | SETGID) } else { perm & !SETUID }
}

/// The nearest time that an inode can hold. As in Linux, the first and the last second have no fractions.
fn held(t: Timestamp) -> Time {
    let mut held = time::to_disk(t).clamped(true);
    if matches!(held.sec, MIN_SEC | MAX_SEC) {
        held.nsec = 0;
    }
    held
}

fn check_times(set: &SetAttr) -> Result<()> {
    let sound = |t: Option<SetTime>| !matches!(t, Some(SetTime::To(t)) if t.nsec >= 1_000_000_000);
    if sound(set.atime) && sound(set.mtime) { Ok(()) } else { Err(Error::Invalid("nanoseconds of a second or more")) }
}

/// What `chattr +i` and `+a` forbid.
fn may_set(inode: &Inode, set: &SetAttr) -> Result<()> {
    if inode.flags.contains(InodeFlags::IMMUTABLE) {
        return Err(Error::NotPermitted("the inode is immutable"));
    }
    // Both times together may be set to now by whoever may write.
    let now = set.atime == Some(SetTime::Now) && set.mtime == Some(SetTime::Now);
    let times = !now && (set.atime.is_some() || set.mtime.is_some());
    let owner = set.uid.is_some() || set.gid.is_some();
    let forbidden = set.perm.is_some() || owner || set.size.is_some() || times;
    if inode.flags.contains(InodeFlags::APPEND) && forbidden {
        return Err(Error::NotPermitted("the inode is append-only"));
    }
    Ok(())
}
