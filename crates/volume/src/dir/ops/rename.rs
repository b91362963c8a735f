//! rename: within and across directories, over what is there, and exchange.

use super::above::{Circle, meet};
use super::unlink::{Fate, check_empty, drop_link};
use super::{add_subdir, check_movable, check_name, check_project, check_removable, check_subdirs, drop_subdir};
use super::{find, is_dots, plain, plan_new, touch_dir, touch_inode};
use crate::alloc::Need;
use crate::behalf;
use crate::dir::init::NewInode;
use crate::dir::insert::insert;
use crate::dir::lock::Locked;
use crate::dir::remove::{remove, replace, set_parent};
use crate::dir::{Entry, Needs, NewEntry, Search, Slot, init};
use crate::op::{Cost, Op, View};
use crate::xattr::Inherited;
use crate::{Caller, Error, Ino, Namespace, Rename, Result};
use ondol_env::sync::MutexGuard;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::Inode;
use ondol_format::inode::{FileType, InodeFlags};

/// Where from and where to, by directory and name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) from: Ino,
    pub(crate) from_name: &'a [u8],
    pub(crate) to: Ino,
    pub(crate) to_name: &'a [u8],
}

/// A rename, planned under the locks of both directories.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The entry that moves.
    source: Entry,
    /// What is at the target.
    target: Search,
    /// What becomes of the inode that is replaced.
    fate: Option<Fate>,
    exchange: bool,
    /// What stays under the old name.
    whiteout: Option<Whiteout>,
}

/// A whiteout to be made.
#[derive(Clone, Debug)]
struct Whiteout {
    new: NewInode<'static>,
    inherited: Inherited,
    needs: Needs,
}

impl Whiteout {
    fn plan(view: &mut dyn View, dir: Ino, owner: Caller) -> Result<Self> {
        let new = plain(FileType::CharDevice, 0, owner);
        let (inherited, needs) = new.plan(view, dir)?;
        Ok(Self { new, inherited, needs })
    }

    /// Puts it in the place of `source`, which moves away from directory `dir`: the old entry points at it from then
    /// on, so the slot of the new name, which was planned before, stays where it is.
    fn put(&self, op: &mut Op<'_>, dir: Ino, source: &Entry) -> Result<()> {
        let ino = init::make(op, dir, &self.new, &self.inherited)?;
        let code = init::code_of(op, ino)?;
        replace(op, dir, source, ino, code)
    }
}

impl Plan {
    /// The inodes that it needs beside the directories.
    pub(crate) fn inodes(&self) -> impl Iterator<Item = Ino> {
        std::iter::once(self.source.ino).chain(self.target().map(|target| target.ino))
    }

    fn target(&self) -> Option<Entry> {
        match self.target {
            Search::Found(entry) => Some(entry),
            Search::Absent(_) => None,
        }
    }

    /// Source and target are the same inode already.
    pub(crate) fn is_done(&self) -> bool {
        self.target().is_some_and(|target| target.ino == self.source.ino)
    }

    /// Checks what the names alone do not tell, and says what the rename takes; all inodes are locked.
    ///
    /// # Errors
    /// As [`Namespace::rename`].
    pub(crate) fn settle(&mut self, view: &mut dyn View, names: &Names<'_>, circle: &Circle) -> Result<Cost> {
        let victim = self.check(view, names, circle)?;
        let need =
            self.whiteout.as_ref().map_or(Need::Ordinary, |w| behalf::of_owner(&view.volume().shared.sb, w.new.caller));
        Ok(Cost { need, ..self.cost(view.inode(names.to)?, victim)? })
    }

    /// Returns the journal blocks that what is replaced takes.
    fn check(&mut self, view: &mut dyn View, names: &Names<'_>, circle: &Circle) -> Result<u32> {
        let vol = view.volume();
        let source = self.source.ino;
        let source_is_dir = view.inode(source)?.is_dir();
        let (from, to) = (view.inode(names.from)?, view.inode(names.to)?);
        let target = self.target();
        if circle.above_target.contains(&source) {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        if self.exchange && target.is_some_and(|target| circle.above_source.contains(&target.ino)) {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        check_removable(from)?;
        check_movable(view.inode(source)?)?;
        let Some(target) = target else {
            if to.flags.contains(InodeFlags::IMMUTABLE) {
                return Err(Error::NotPermitted("the directory is immutable"));
            }
            check_project(to, view.inode(source)?)?;
            if source_is_dir && names.from != names.to {
                check_subdirs(vol, names.to, to)?;
            }
            return Ok(0);
        };
        let target_is_dir = view.inode(target.ino)?.is_dir();
        check_removable(to)?;
        check_movable(view.inode(target.ino)?)?;
        if self.exchange {
            check_project(to, view.inode(source)?)?;
            check_project(from, view.inode(target.ino)?)?;
            match (source_is_dir, target_is_dir) {
                (true, false) if names.from != names.to => check_subdirs(vol, names.to, to)?,
                (false, true) if names.from != names.to => check_subdirs(vol, names.from, from)?,
                _ => {}
            }
            return Ok(1);
        }
        match (source_is_dir, target_is_dir) {
            (true, false) => return Err(Error::NotDirectory(target.ino)),
            (false, true) => return Err(Error::IsDirectory(target.ino)),
            (true, true) => check_empty(view, target.ino)?,
            (false, false) => {}
        }
        check_project(view.inode(names.to)?, view.inode(source)?)?;
        let (fate, cost) = Fate::of(view, target.ino)?;
        self.fate = Some(fate);
        Ok(cost)
    }

    /// What the rename into directory `to` takes, with `victim` journal blocks for what is there.
    fn cost(&self, to: &Inode, victim: u32) -> Result<Cost> {
        let target = match &self.target {
            Search::Found(_) => Needs { journal: 1, blocks: 0 },
            Search::Absent(slot) => slot.needs(to)?,
        };
        // Both directories' inodes, the moved inode, the source's leaf, and the first block of each moved directory.
        let journal = target.journal + victim + 2 + 1 + 1 + 2;
        let whiteout = self.whiteout.as_ref().map_or(Needs::default(), |w| w.needs);
        let (journal, blocks) = (journal + whiteout.journal, target.blocks + whiteout.blocks);
        Ok(Cost { journal, blocks, need: Need::Ordinary })
    }
}

/// Looks for both names of a rename in locked directories.
///
/// # Errors
/// As [`Namespace::rename`].
pub(crate) fn plan_rename(view: &mut dyn View, names: &Names<'_>, how: Rename, circle: &Circle) -> Result<Plan> {
    let source = find(view, names.from, names.from_name)?.found()?;
    let target = find(view, names.to, names.to_name)?;
    match (how, &target) {
        (Rename::NoReplace | Rename::Whiteout { replace: false, .. }, Search::Found(_)) => return Err(Error::Exists),
        (Rename::Exchange, Search::Absent(_)) => return Err(Error::NotFound),
        (Rename::Replace | Rename::Whiteout { .. }, Search::Found(at)) if circle.above_source.contains(&at.ino) => {
            return Err(Error::NotEmpty(at.ino));
        }
        _ => {}
    }
    let whiteout = match how {
        Rename::Whiteout { owner, .. } => Some(Whiteout::plan(view, names.from, owner)?),
        _ => None,
    };
    Ok(Plan { source, target, fate: None, exchange: how == Rename::Exchange, whiteout })
}

/// Does what has been planned; `op` holds both directories, the source, and the target if there is one. Returns what
/// was replaced, and what has become of it.
pub(crate) fn do_rename(op: &mut Op<'_>, names: &Names<'_>, plan: Plan) -> Result<Option<(Ino, Fate)>> {
    let target_ino = plan.target().map(|target| target.ino);
    let Plan { source, mut fate, exchange, whiteout, target } = plan;
    let leave = |op: &mut Op<'_>| match &whiteout {
        Some(whiteout) => whiteout.put(op, names.from, &source),
        None => remove(op, names.from, &source),
    };
    let across = names.from != names.to;
    let moved_dir = op.inode(source.ino)?.is_dir();
    let code = init::code_of(op, source.ino)?;
    match target {
        Search::Found(target) if exchange => {
            let other = init::code_of(op, target.ino)?;
            replace(op, names.to, &target, source.ino, code)?;
            replace(op, names.from, &source, target.ino, other)?;
            touch_inode(op, target.ino)?;
            if across && op.inode(target.ino)?.is_dir() {
                move_dir(op, target.ino, names.to, names.from)?;
            }
        }
        Search::Found(target) => {
            replace(op, names.to, &target, source.ino, code)?;
            leave(op)?;
            if op.inode(target.ino)?.is_dir() {
                drop_subdir(op.inode_mut(names.to)?);
            }
            fate = Some(drop_link(op, target.ino, fate.unwrap_or(Fate::Orphan))?);
        }
        Search::Absent(slot) => {
            leave(op)?;
            // Its block may be another one since.
            let slot = match slot {
                Slot::Leaf { block, .. } if block == source.block => plan_new(op, names.to, names.to_name)?,
                slot => slot,
            };
            insert(op, names.to, slot, NewEntry { name: names.to_name, ino: source.ino, file_type: code })?;
        }
    }
    if across && moved_dir {
        move_dir(op, source.ino, names.from, names.to)?;
    }
    touch_inode(op, source.ino)?;
    touch_dir(op, names.from)?;
    touch_dir(op, names.to)?;
    Ok(target_ino.zip(fate))
}

/// A directory has another parent from now on.
fn move_dir(op: &mut Op<'_>, ino: Ino, from: Ino, to: Ino) -> Result<()> {
    set_parent(op, ino, to)?;
    drop_subdir(op.inode_mut(from)?);
    add_subdir(op.inode_mut(to)?);
    Ok(())
}

impl<'v> Namespace<'v> {
    /// Moves a name, replacing what `to_name` names unless `how` says otherwise, in one step, a whiteout included. Two
    /// names of one inode stay as they are.
    ///
    /// # Errors
    /// `NotFound`, `Exists` (`NoReplace`), `NotEmpty`, `NotDirectory` and `IsDirectory` when only one of the two is a
    /// directory, `Invalid` when a directory would come to lie below itself or a name is ".", ".." or impossible,
    /// `NameTooLong`, `TooManyLinks`, `OtherProject`, `NoSpace`, `ReadOnly`, `NotPermitted`; corruption. Nothing has
    /// changed then.
    pub fn rename(self, from: Ino, from_name: &[u8], to: Ino, to_name: &[u8], how: Rename) -> Result<()> {
        self.try_rename(&Names { from, from_name, to, to_name }, how).map_err(|e| self.vol.noted(e))
    }

    fn try_rename(self, names: &Names<'_>, how: Rename) -> Result<()> {
        check_name(names.from_name)?;
        check_name(names.to_name)?;
        if is_dots(names.from_name) || is_dots(names.to_name) {
            return Err(Error::Invalid("\".\" and \"..\" cannot be renamed"));
        }
        let across = names.from != names.to;
        let (circle, _rename) = if across {
            let (circle, rename) = self.circle(names)?;
            (circle, Some(rename))
        } else {
            (Circle::default(), None)
        };
        let (mut locked, mut plan) = Locked::with(self.vol, &[names.from, names.to], |locked| {
            let plan = plan_rename(locked, names, how, &circle)?;
            let inodes = plan.inodes().collect();
            Ok((plan, inodes))
        })?;
        self.vol.check_writable()?;
        if plan.is_done() {
            return Ok(());
        }
        let cost = plan.settle(&mut locked, names, &circle)?;
        let mut op = Op::begin(self.vol, locked.into_guards(), cost)?;
        let replaced = do_rename(&mut op, names, plan)?;
        op.close()?;
        if let Some((target, fate)) = replaced {
            self.bury(target, fate);
        }
        Ok(())
    }

    /// The directories above both sides, and the rename lock, as long as which they stay that. Who moves a directory
    /// waits for nobody's way up but where a directory has moved meanwhile.
    fn circle(self, names: &Names<'_>) -> Result<(Circle, MutexGuard<'v, ()>)> {
        let walk = || meet(names.from, names.to, |ino| self.parent_of(ino));
        let moves = self.vol.moves.load(SeqCst);
        let before = walk();
        let rename = self.vol.rename_lock.lock();
        let circle = if self.vol.moves.load(SeqCst) == moves { before? } else { walk()? };
        Ok((circle, rename))
    }
}
