//! Pages of a medium that somebody has for himself, as memory: at addresses that lie in a row, to be read and stored to in any way.
//!
//! To everybody else such a page is pinned: no store of the medium reaches it, and nobody gets a slice of it (`pinnable.rs`). Who reads it through the medium all the same, word by word,
//! sees bytes of some moment. Argument: `docs/design/direct.md`.
#![expect(unsafe_code, reason = "lends mapped bytes")]

use crate::stretch::Stretch;
use crate::windows::Mappings;
use crate::{Nvm, NvmError, PAGE, Result};
use ondol_env::sync::Arc;
use std::ops::{Deref, DerefMut, Range};

/// See the module documentation. Nothing of it is durable, and after a crash its pages hold anything. It holds the medium, and its lock.
#[derive(Debug)]
pub struct Owned {
    stretch: Stretch,
    held: Held,
    _mappings: Mappings,
}

/// What is given back behind the mapping.
#[derive(Debug)]
struct Held {
    nvm: Arc<Nvm>,
    runs: Vec<Range<u64>>,
}

impl Owned {
    /// Takes pages, as they are: ranges of bytes of the medium, whole pages, one behind the other. `None` where that cannot be: one of them is pinned, stored to or owned, or cannot be pinned; the medium
    /// cannot be mapped again; the process or the kernel has no more mappings.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`.
    pub fn new(nvm: &Arc<Nvm>, runs: &[Range<u64>]) -> Result<Option<Self>> {
        for run in runs {
            nvm.check("own", run.start, run.end.saturating_sub(run.start))?;
            if !run.start.is_multiple_of(PAGE) || !run.end.is_multiple_of(PAGE) || run.is_empty() {
                return Err(NvmError::Misaligned { name: nvm.name().into(), offset: run.start });
            }
        }
        let bytes = runs.iter().map(|run| run.end - run.start).sum::<u64>();
        let (Some(pages), Some(file), Ok(len)) = (nvm.pinnable(), nvm.file(), usize::try_from(bytes)) else {
            return Ok(None);
        };
        if nvm.is_read_only() || runs.is_empty() || rustix::param::page_size() as u64 != PAGE {
            return Ok(None);
        }
        let Some(mappings) = Mappings::take(2 * runs.len() as u64) else { return Ok(None) };
        let Ok(mut stretch) = Stretch::reserve(len, runs[0].start) else { return Ok(None) };
        let mut held = Held { nvm: nvm.clone(), runs: Vec::with_capacity(runs.len()) };
        let mut at = 0;
        for run in runs {
            if !pages.own(run) {
                return Ok(None);
            }
            held.runs.push(run.clone());
            let len = (run.end - run.start) as usize;
            if stretch.map_stored(at, len, file, run.start).is_err() {
                return Ok(None);
            }
            at += len;
        }
        Ok(Some(Self { stretch, held, _mappings: mappings }))
    }

    /// Makes all of it zeros, and whole again what it had lost.
    pub fn clear(&mut self) {
        self.held.runs.iter().for_each(|run| self.held.nvm.clear(run.clone()));
    }
}

impl Deref for Owned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: every page of the mapping is owned by `self` (`new` has looked): stores of this process through the medium are refused, those before have ended, visibly, since `Pinnable::own` found
        // none, and no other slice of it exists or can be made, here or elsewhere. Other processes have no right to store (as for `Pinned`). Only `deref_mut` changes bytes, through `&mut`.
        unsafe { self.stretch.bytes() }
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `self` is borrowed as `&mut` as long as the slice lives. Who reads these pages through the medium meanwhile loads atomic words at other addresses, of which this slice
        // has none, and makes nothing of them that has to be whole.
        unsafe { self.stretch.bytes_mut(0..usize::MAX) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let pages = self.nvm.pinnable();
        self.runs.iter().for_each(|run| pages.into_iter().for_each(|pages| pages.disown(run)));
    }
}
