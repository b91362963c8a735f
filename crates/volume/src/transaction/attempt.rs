//! One attempt at a transaction: its locks, its space, and what it has to be begun anew with.

use super::{Plan, Step};
use crate::behalf;
use crate::dir::lock::{dangling, in_order};
use crate::dir::ops::Fate;
use crate::node::{NodeGuard, NodeState};
use crate::op::{Cost, Op};
use crate::{Error, Ino, Result, Volume};
use ondol_env::sync::OwnedReadGuard;
use std::collections::{BTreeMap, HashMap};

/// Why an attempt ended early.
pub(super) enum Stop {
    /// The transaction cannot be done; at this step, if it is that step's fault.
    Failed(Option<usize>, Error),
    /// Somebody else has this inode locked; `true` if it is needed exclusively.
    Busy(Ino, bool),
    /// More space is needed than there is without waiting: this much for everything so far.
    Short(Cost),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(None, error)
    }
}

/// The result of a part of an attempt.
pub(super) type Tried<T> = std::result::Result<T, Stop>;

/// What an attempt begins with.
pub(super) struct Want {
    /// Inodes to lock first; `true` for exclusively.
    locks: BTreeMap<Ino, bool>,
    cost: Cost,
}

impl Want {
    /// For the first attempt: no locks, and as much space as is usual.
    pub(super) fn usual(vol: &Volume, plan: &Plan<'_>) -> Self {
        let need = behalf::of_owner(&vol.shared.sb, plan.caller);
        Self { locks: BTreeMap::new(), cost: Cost { journal: plan.usual(vol), blocks: 0, need } }
    }

    /// Locks everything, in the lock order.
    fn lock(&mut self, vol: &Volume) -> Result<(Vec<NodeGuard>, Shared)> {
        loop {
            match self.try_lock(vol) {
                // What was there is gone: the attempt will find what is there now.
                Err(Error::NotFound) if !self.locks.is_empty() => self.locks.clear(),
                locked => return locked,
            }
        }
    }

    fn try_lock(&self, vol: &Volume) -> Result<(Vec<NodeGuard>, Shared)> {
        let (mut exclusive, mut shared) = (Vec::new(), Shared::new());
        let inos: Vec<Ino> = self.locks.keys().copied().collect();
        for node in in_order(vol, &inos)? {
            if self.locks.get(&node.ino) == Some(&true) {
                exclusive.push(node.write()?);
            } else {
                shared.insert(node.ino, node.read()?);
            }
        }
        Ok((exclusive, shared))
    }
}

/// Directories that are on the way and do not change.
type Shared = HashMap<Ino, OwnedReadGuard<NodeState>>;

/// An attempt under way.
pub(super) struct Attempt<'v, 's> {
    pub(super) plan: &'s Plan<'s>,
    pub(super) op: Op<'v>,
    pub(super) shared: Shared,
    /// Inodes that have lost a name.
    pub(super) victims: Vec<(Ino, Fate)>,
}

/// Tries to do the whole transaction. If it is to be tried again, `want` is what the next attempt needs.
pub(super) fn attempt(vol: &Volume, plan: &Plan<'_>, want: &mut Want) -> Tried<Vec<(Ino, Fate)>> {
    let (exclusive, shared) = want.lock(vol)?;
    let mut op = Op::begin(vol, exclusive, want.cost)?;
    op.write_over_late();
    let mut attempt = Attempt { plan, op, shared, victims: Vec::new() };
    let done = plan.steps.iter().enumerate().try_for_each(|(i, step)| attempt.numbered(i, step));
    match done {
        Ok(()) => {}
        Err(Stop::Busy(ino, exclusive)) => {
            want.locks = attempt.locks();
            want.locks.insert(ino, exclusive);
            return Err(Stop::Busy(ino, exclusive));
        }
        Err(Stop::Short(cost)) => {
            // More than what was missing, so that few attempts find out how much it is.
            let journal = cost.journal.saturating_add(cost.journal / 2).min(vol.engine.max_blocks());
            want.cost = Cost { journal, ..cost };
            return Err(Stop::Short(cost));
        }
        failed => failed?,
    }
    let Attempt { op, victims, .. } = attempt;
    op.close()?;
    Ok(victims)
}

impl<'v> Attempt<'v, '_> {
    fn numbered(&mut self, number: usize, step: &Step) -> Tried<()> {
        self.step(step).map_err(|stop| match stop {
            Stop::Failed(_, e @ Error::TooBig { .. }) => Stop::Failed(None, e),
            Stop::Failed(_, e) => Stop::Failed(Some(number), e),
            stop => stop,
        })
    }

    pub(super) fn vol(&self) -> &'v Volume {
        self.op.vol()
    }

    /// What is locked now.
    fn locks(&self) -> BTreeMap<Ino, bool> {
        let shared = self.shared.keys().map(|&ino| (ino, false));
        shared.chain(self.op.joined().map(|ino| (ino, true))).collect()
    }

    /// Locks an inode that an entry of a locked directory names, unless that would mean to wait.
    pub(super) fn hold(&mut self, ino: Ino, exclusive: bool) -> Tried<()> {
        if self.op.holds(ino) {
            return Ok(());
        }
        match self.shared.contains_key(&ino) {
            true if exclusive => return Err(Stop::Busy(ino, true)),
            true => return Ok(()),
            false => {}
        }
        let node = self.vol().node(ino).map_err(|e| dangling(e, ino))?;
        if exclusive {
            let guard = node.try_write().map_err(|e| dangling(e, ino))?;
            self.op.join(guard.ok_or(Stop::Busy(ino, true))?);
        } else {
            let guard = node.try_read().map_err(|e| dangling(e, ino))?;
            self.shared.insert(ino, guard.ok_or(Stop::Busy(ino, false))?);
        }
        Ok(())
    }

    /// Makes sure that there is space for `cost` more.
    pub(super) fn grant(&mut self, cost: Cost) -> Tried<()> {
        match self.op.grant(cost)? {
            None => Ok(()),
            Some(total) => Err(Stop::Short(total)),
        }
    }
}
