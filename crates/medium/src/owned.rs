//! Pages of a medium that somebody has for himself, as memory: at addresses that lie in a row, to be read and stored to
//! in any way.
//!
//! A `&mut [u8]` over pages of a pool promises that nobody else reads or stores there, whatever safe code does:
//!
//! - To everybody else such a page is pinned: no store of the medium reaches it, and nobody gets a slice of it
//!   (`pinnable.rs`). A page becomes owned by one compare-and-swap from zero: only if nobody pins it or stores to it.
//! - Who reads it through the medium all the same (a check, an export, a window) loads atomic words at other addresses,
//!   and gets bytes of some moment. Nobody uses a free block's bytes for anything.
//! - The mapping goes before the ownership, and keeps the medium open. A child of fork(2) does not get it
//!   (`MADV_DONTFORK`): it could store there after the parent has given the page back.
//!
//! The page begins as zeros that are stored through the medium, so lost lines are whole again, and a recorder sees the
//! stores. `docs/design/direct.md`, *Why it is sound*.
#![expect(unsafe_code, reason = "lends mapped bytes")]

use crate::stretch::Stretch;
use crate::windows::Mappings;
use crate::{Nvm, NvmError, PAGE, Result};
use ondol_env::sync::Arc;
use std::ops::{Deref, DerefMut, Range};

/// Pages that somebody has for himself, and nobody maps yet. It holds the medium, and its lock.
#[derive(Debug)]
pub struct Ownership {
    nvm: Arc<Nvm>,
    runs: Vec<Range<u64>>,
}

/// See the module documentation. Nothing of it is durable, and after a crash its pages hold anything. A child of
/// fork(2) has no part in it.
#[derive(Debug)]
pub struct Owned {
    /// Given back before the pages are.
    stretch: Stretch,
    _held: Ownership,
    _mappings: Mappings,
}

impl Ownership {
    /// Takes pages, as they are: ranges of bytes of the medium, whole pages. `None` if one of them is pinned, stored to
    /// or owned, or cannot be pinned at all.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`.
    pub fn new(nvm: &Arc<Nvm>, runs: &[Range<u64>]) -> Result<Option<Self>> {
        for run in runs {
            nvm.mapped.check("own", run.start, run.end.saturating_sub(run.start))?;
            if !run.start.is_multiple_of(PAGE) || !run.end.is_multiple_of(PAGE) || run.is_empty() {
                return Err(NvmError::Misaligned { name: nvm.name().into(), offset: run.start });
            }
        }
        let Some(pages) = nvm.pinnable.as_ref().filter(|_| !nvm.is_read_only() && !runs.is_empty()) else {
            return Ok(None);
        };
        let mut held = Self { nvm: nvm.clone(), runs: Vec::with_capacity(runs.len()) };
        for run in runs {
            if !pages.own(run) {
                return Ok(None);
            }
            held.runs.push(run.clone());
        }
        Ok(Some(held))
    }

    /// Makes all of them zeros, and whole again what they had lost.
    pub fn clear(&mut self) {
        self.runs.iter().for_each(|run| self.nvm.clear(run.clone()));
    }

    /// Maps them, one behind the other. `None`: the process or the kernel has no more mappings, or the medium cannot be
    /// mapped again, or not in such pieces.
    pub fn map(self) -> Option<Owned> {
        let file = self.nvm.file().filter(|_| rustix::param::page_size() as u64 == PAGE)?;
        let len = usize::try_from(self.runs.iter().map(|run| run.end - run.start).sum::<u64>()).ok()?;
        let mappings = Mappings::take(2 * self.runs.len() as u64)?;
        let mut stretch = Stretch::reserve(len, self.runs.first()?.start).ok()?;
        let mut at = 0;
        for run in &self.runs {
            let len = (run.end - run.start) as usize;
            stretch.map_stored(at, len, file, run.start).ok()?;
            at += len;
        }
        stretch.keep_from_children().ok()?;
        Some(Owned { stretch, _held: self, _mappings: mappings })
    }
}

impl Deref for Owned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: every page of the mapping is owned by `self` (`Ownership::new` has looked): stores of this process
        // through the medium are refused, those before have ended, visibly, since `Pinnable::own` found none, and no
        // other slice of it exists or can be made, here or elsewhere. Other processes have no right to store (as for
        // `Pinned`), and a child of this one does not have the mapping. Only `deref_mut` changes bytes, through `&mut`.
        unsafe { self.stretch.bytes() }
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `self` is borrowed as `&mut` as long as the slice lives. Who reads these pages through the
        // medium meanwhile loads atomic words at other addresses, of which this slice has none, and makes nothing of
        // them that has to be whole.
        unsafe { self.stretch.bytes_mut(0..usize::MAX) }
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        let pages = &self.nvm.pinnable;
        self.runs.iter().for_each(|run| pages.iter().for_each(|pages| pages.disown(run)));
    }
}
