//! Slots: what all processes know of one file.
//!
//! The state is one word: trust, two flags that last, the incarnation, and how many plain writes are under way. So
//! nothing changes between the question whether a file is trusted and a plain write that must not fall into a trusted
//! one.

use crate::Log;
use crate::durable_word::DurableWord;
use crate::error::Result;
use crate::format::{IDENTITY, MAX_HANDLE, MAX_PATH, RawIdentity, SEQUENCES, checked_word, shared, slot, word_value};
use crate::lock::{self, Held};
use crate::look::{FileKind, Identity, Look};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use zerocopy::{FromZeros, IntoBytes};

const TRUSTED: u64 = 1;
/// Trust is over for good: somebody had to go round the lock.
const BROKEN: u64 = 2;
/// Somebody has it mapped and may store to it at any time.
const MAPPED: u64 = 4;
/// The disk has refused what is in the log: no later sync proves that it is there.
const FAILED: u64 = 8;
/// How many durable writes are left to the kernel at most before trust is tried again.
const LONGEST_PAUSE: u64 = 255;
const INCARNATION: u32 = 8;
const INCARNATIONS: u64 = (1 << 24) - 1;
/// One plain write under way.
const PLAIN: u64 = 1 << 32;

/// A slot of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'l> {
    pub(crate) log: &'l Log,
    pub(crate) index: u32,
    /// Where it lies in the pool.
    pub(crate) at: u64,
}

/// How far recovery is with a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Records behind this sequence are to be brought in.
    pub(crate) behind: u64,
    /// Nothing was changed yet: another directory could not be reached.
    pub(crate) waits: bool,
}

/// What a write is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enter {
    /// A plain write, which has been counted.
    Plain,
    /// To go by the lock.
    Trusted,
    /// The slot is another file's by now.
    Stale,
}

impl<'l> Slot<'l> {
    /// Makes the newest record of the file's names durable.
    pub(crate) fn persist_name(&self) -> Result<()> {
        self.log.lane(self.load(slot::NAME_LANE)? as u32).persist(self.load(slot::NAME_END)?)
    }

    pub(crate) fn load(&self, word: u64) -> Result<u64> {
        Ok(self.log.nvm.shared().load_u64(self.at + word)?)
    }

    pub(crate) fn set(&self, word: u64, value: u64) -> Result<()> {
        Ok(self.log.nvm.shared().store_u64(self.at + word, value)?)
    }

    fn change<T>(&self, mut change: impl FnMut(u64) -> (Option<u64>, T)) -> Result<T> {
        let mut seen = self.load(slot::STATE)?;
        loop {
            let (new, answer) = change(seen);
            let Some(new) = new else { return Ok(answer) };
            match self.log.nvm.shared().cas_u64(self.at + slot::STATE, seen, new)? {
                Ok(()) => return Ok(answer),
                Err(now) => seen = now,
            }
        }
    }

    /// Which file has the slot; 0 for none.
    pub(crate) fn incarnation(&self) -> Result<u64> {
        Ok(self.load(slot::STATE)? >> INCARNATION & INCARNATIONS)
    }

    /// Counts a plain write in, unless the file is trusted.
    pub(crate) fn enter(&self, incarnation: u64) -> Result<Enter> {
        self.change(|state| match state {
            _ if state >> INCARNATION & INCARNATIONS != incarnation => (None, Enter::Stale),
            _ if state & TRUSTED != 0 => (None, Enter::Trusted),
            _ => (Some(state.wrapping_add(PLAIN)), Enter::Plain),
        })
    }

    /// Counts a write in that goes round the lock, and takes the trust away for good.
    pub(crate) fn enter_broken(&self) -> Result<()> {
        self.change(|state| (Some((state & !TRUSTED | BROKEN).wrapping_add(PLAIN)), ()))
    }

    /// Takes the trust away for good.
    pub(crate) fn give_up(&self) -> Result<()> {
        self.change(|state| (Some(state & !TRUSTED | BROKEN), ()))
    }

    /// The lock is not waited for.
    pub(crate) fn is_broken(&self) -> Result<bool> {
        Ok(self.load(slot::STATE)? & BROKEN != 0)
    }

    /// The disk has refused what is in the log of the file, if it still has the slot.
    pub(crate) fn fail(&self, incarnation: u64) -> Result<()> {
        self.change(|state| match state >> INCARNATION & INCARNATIONS == incarnation {
            true => (Some(state & !TRUSTED | BROKEN | FAILED), ()),
            false => (None, ()),
        })
    }

    /// The disk has refused what is in the log of the file, and that is live still.
    pub(crate) fn has_failed(&self) -> Result<bool> {
        Ok(self.load(slot::STATE)? & FAILED != 0 && self.is_live()?)
    }

    /// Counts a plain write out.
    pub(crate) fn leave(&self) -> Result<()> {
        self.change(|state| (Some(state.saturating_sub(PLAIN)), ()))
    }

    pub(crate) fn is_trusted(&self) -> Result<bool> {
        Ok(self.load(slot::STATE)? & TRUSTED != 0)
    }

    /// The file is not trusted now, and may be.
    pub(crate) fn may_trust(&self) -> Result<bool> {
        Ok(self.load(slot::STATE)? & (TRUSTED | BROKEN | MAPPED) == 0)
    }

    /// A durable write has tried to begin trust: the next one that has to does so later, unless this one was of use.
    pub(crate) fn tried(&self) -> Result<()> {
        let pause = self.load(slot::NEXT_PAUSE)?;
        self.set(slot::NEXT_PAUSE, (2 * pause + 1).min(LONGEST_PAUSE))?;
        self.set(slot::PAUSE, pause)
    }

    /// A durable write ended in the log.
    pub(crate) fn served(&self) -> Result<()> {
        match self.load(slot::NEXT_PAUSE)? {
            0 => Ok(()),
            pause => {
                self.set(slot::NEXT_PAUSE, pause - 1)?;
                self.set(slot::PAUSE, pause - 1)
            }
        }
    }

    /// Somebody maps the file.
    pub(crate) fn map(&self) -> Result<()> {
        self.change(|state| (Some(state & !TRUSTED | MAPPED), ()))
    }

    pub(crate) fn distrust(&self) -> Result<()> {
        self.change(|state| (Some(state & !TRUSTED), ()))
    }

    /// Trusts the file, if nothing speaks against it.
    pub(crate) fn trust(&self) -> Result<bool> {
        self.change(|state| match state {
            _ if state & (BROKEN | MAPPED) != 0 || state >= PLAIN => (None, false),
            _ => (Some(state | TRUSTED), true),
        })
    }

    /// The file's lock. Who takes it from somebody that is gone finds the file untrusted.
    pub(crate) fn lock(&self, me: u64) -> Result<Option<Held<'l>>> {
        let held = lock::lock(&self.log.nvm, self.at + slot::LOCK, me);
        if held.as_ref().is_some_and(|held| held.relieved) {
            self.distrust()?;
        }
        Ok(held)
    }

    /// As [`Slot::lock`]. Whoever does not get it takes the trust away for good, and nobody waits for it again.
    pub(crate) fn lock_once(&self, me: u64) -> Result<Option<Held<'l>>> {
        let held = if self.is_broken()? { self.try_lock(me)? } else { self.lock(me)? };
        if held.is_none() {
            self.give_up()?;
        }
        Ok(held)
    }

    /// As [`Slot::lock`], if nobody has it.
    pub(crate) fn try_lock(&self, me: u64) -> Result<Option<Held<'l>>> {
        let held = lock::try_lock(&self.log.nvm, self.at + slot::LOCK, me);
        if held.as_ref().is_some_and(|held| held.relieved) {
            self.distrust()?;
        }
        Ok(held)
    }

    /// The look that is expected.
    pub(crate) fn expected(&self) -> Result<Look> {
        let [dev, ino, birth] = self.key()?;
        let [ctime, mtime, size] = [slot::CTIME, slot::MTIME, slot::SIZE].map(|word| self.load(word));
        let kind = FileKind::from_number(self.load(slot::KIND)?);
        Ok(Look { dev, ino, birth, ctime: ctime?, mtime: mtime?, size: size?, kind, set_id: false })
    }

    pub(crate) fn expect(&self, look: &Look) -> Result<()> {
        self.set(slot::CTIME, look.ctime)?;
        self.set(slot::MTIME, look.mtime)?;
        self.set(slot::SIZE, look.size)
    }

    /// The file is trusted from this look on: what is known of it by records begins here.
    pub(crate) fn begins_at(&self, look: &Look) -> Result<()> {
        // A program may have set either time, one of them to the future.
        self.set(slot::BASE_TIME, look.mtime.min(look.ctime))?;
        self.set(slot::BASE_SIZE, look.size)
    }

    /// Device, inode and birth of the file.
    pub(crate) fn key(&self) -> Result<[u64; 3]> {
        Ok([self.load(slot::DEV)?, self.load(slot::INO)?, self.load(slot::BIRTH)?])
    }

    /// The sequence up to which nothing counts.
    pub(crate) fn retired(&self, incarnation: u64) -> DurableWord<'l> {
        let (at, named) = ([slot::RETIRED, slot::SETTLED].map(|word| self.at + word), [self.index.into(), incarnation]);
        DurableWord::new(self.log, at, &named, "what a file has retired")
    }

    /// When recovery began to write to the file, or has said anew that it does: nanoseconds.
    pub(crate) fn recovering(&self, incarnation: u64) -> Result<Option<u64>> {
        let named = [self.index.into(), incarnation];
        let word = self.load(slot::RECOVERING)?;
        Ok(word_value(self.log.seal, &named, word).filter(|ms| *ms != 0).map(|ms| ms.saturating_mul(1_000_000)))
    }

    /// Recovery begins to write to the file; durable.
    pub(crate) fn begin_recovery(&self, incarnation: u64, now: u64) -> Result<()> {
        let word = checked_word(self.log.seal, &[self.index.into(), incarnation], now / 1_000_000);
        self.log.nvm.fenced_by_others().publish(self.at + slot::RECOVERING, word)?;
        Ok(())
    }

    /// How far recovery is with a directory, if it has looked at it before.
    pub(crate) fn names_begun(&self, incarnation: u64) -> Result<Option<Begun>> {
        let named = [self.index.into(), incarnation];
        let word = self.load(slot::RECOVERING)?;
        let value = word_value(self.log.seal, &named, word).filter(|value| *value > 0);
        Ok(value.map(|value| Begun { behind: value % SEQUENCES - 1, waits: value >= SEQUENCES }))
    }

    /// Recovery begins to bring records into a directory, or knows which and waits; durable.
    pub(crate) fn begin_names(&self, incarnation: u64, begun: Begun) -> Result<()> {
        let value = begun.behind + 1 + if begun.waits { SEQUENCES } else { 0 };
        let word = checked_word(self.log.seal, &[self.index.into(), incarnation], value);
        self.log.nvm.fenced_by_others().publish(self.at + slot::RECOVERING, word)?;
        Ok(())
    }

    /// There are records that recovery would bring into the file.
    pub(crate) fn is_live(&self) -> Result<bool> {
        let named = self.load(slot::NAMED)?;
        Ok(named != 0 && self.has_live(named, self.load(slot::LAST)?)?)
    }

    /// Recovery would bring the record of this sequence into the file of this incarnation.
    pub(crate) fn has_live(&self, incarnation: u64, sequence: u64) -> Result<bool> {
        if self.load(slot::NAMED)? != incarnation || self.incarnation()? != incarnation {
            return Ok(false);
        }
        match self.retired(incarnation).durable() {
            Ok(retired) => Ok(sequence > retired),
            // Given to another file meanwhile, which it is only when nothing is live: the word is that one's.
            Err(_) if self.incarnation()? != incarnation => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Records up to `sequence` count no more, durably: a real fsync that began after them is over. Does nothing if the
    /// slot is another file's by now.
    pub(crate) fn retire(&self, incarnation: u64, sequence: u64) -> Result<()> {
        let retired = self.retired(incarnation);
        while let Some(seen) = retired.stored_if_ours()? {
            if retired.grow(seen, sequence)? {
                break;
            }
        }
        Ok(())
    }

    /// No file has the slot.
    pub(crate) fn is_unused(&self) -> Result<bool> {
        Ok(self.incarnation()? == 0 || self.load(slot::INO)? == 0)
    }

    /// The file has no name any more, and nothing live: the slot is for others.
    pub(crate) fn free(&self) -> Result<()> {
        self.distrust()?;
        self.set(slot::INO, 0)
    }

    /// Gives the slot to a file, if it is nobody's or its file has nothing live. The caller has the lock of the table.
    pub(crate) fn give(&self, me: u64, look: &Look) -> Result<bool> {
        let Some(_held) = self.try_lock(me)? else { return Ok(false) };
        let next = |state: u64| {
            let next = (state >> INCARNATION & INCARNATIONS) + 1;
            let taken = state >= PLAIN || state & MAPPED != 0 || next > INCARNATIONS;
            (!taken).then_some(next << INCARNATION)
        };
        if self.is_live()? || next(self.load(slot::STATE)?).is_none() {
            return Ok(false);
        }
        // Before another file has the slot: who looks without the lock of the table must not take this one for it.
        let ino = self.load(slot::INO)?;
        self.set(slot::INO, 0)?;
        let given = self.change(|state| (next(state), next(state).is_some()))?;
        if !given {
            self.set(slot::INO, ino)?;
            // Who has not found it meanwhile looks again: it may be trusted.
            self.log.count(shared::GIVEN)?;
        }
        if given {
            for (word, value) in [(slot::DEV, look.dev), (slot::BIRTH, look.birth), (slot::INO, look.ino)] {
                self.set(word, value)?;
            }
            self.set(slot::KIND, look.kind.number().into())?;
            self.set(slot::LAST, 0)?;
            self.set(slot::ACKED, 0)?;
            self.set(slot::NAME_LANE, 0)?;
            self.set(slot::NAME_END, 0)?;
            self.set(slot::NAME_DIR, 0)?;
            // A file that is written to once would gain nothing.
            self.set(slot::PAUSE, 1)?;
            self.set(slot::NEXT_PAUSE, 0)?;
        }
        Ok(given)
    }

    /// Writes down which file has the slot, durably; before its first record.
    pub(crate) fn name(&self, incarnation: u64, look: &Look, identity: &Identity) -> Result<bool> {
        if identity.handle.bytes.len() > MAX_HANDLE {
            return Ok(false);
        }
        let path = identity.path.as_os_str().as_bytes();
        let path = if path.len() > MAX_PATH { &[] } else { path };
        let mut raw = RawIdentity {
            incarnation: (incarnation as u32).into(),
            fsid: identity.fsid.into(),
            ino: look.ino.into(),
            birth: look.birth.into(),
            dev: look.dev.into(),
            handle_type: identity.handle.kind.cast_unsigned().into(),
            handle_len: (identity.handle.bytes.len() as u32).into(),
            path_len: (path.len() as u32).into(),
            kind: look.kind.number().into(),
            ..RawIdentity::new_zeroed()
        };
        raw.handle.iter_mut().zip(&identity.handle.bytes).for_each(|(to, from)| *to = *from);
        raw.path.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
        raw.checksum = raw.sum(self.log.seal, self.index).into();
        let mut batch = self.log.nvm.stored();
        batch.store(self.at, raw.as_bytes())?;
        let fenced = batch.write_back().fence()?;
        // Only now: the old file's records have to stay retired until they name nobody.
        let word = checked_word(self.log.seal, &[self.index.into(), incarnation], 0);
        fenced.publish(self.at + slot::RETIRED, word)?;
        self.set(slot::SETTLED, word)?;
        // Before it can be trusted: whoever finds the same count behind a write has written to no file that is.
        self.log.count(shared::GIVEN)?;
        self.set(slot::NAMED, incarnation)?;
        Ok(true)
    }

    /// The identity on the medium with its incarnation and device number; none if it is not whole.
    pub(crate) fn identity(&self) -> Result<Option<(u64, u64, Identity)>> {
        let mut raw = RawIdentity::new_zeroed();
        debug_assert_eq!(raw.as_bytes().len(), IDENTITY);
        self.log.nvm.read(self.at, raw.as_mut_bytes())?;
        let (handle, path) =
            (raw.handle.get(..raw.handle_len.get() as usize), raw.path.get(..raw.path_len.get() as usize));
        let (Some(handle), Some(path)) = (handle, path) else { return Ok(None) };
        if raw.checksum.get() != raw.sum(self.log.seal, self.index) {
            return Ok(None);
        }
        let handle = crate::Handle { kind: raw.handle_type.get().cast_signed(), bytes: handle.to_vec() };
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        let kind = FileKind::from_number(raw.kind.get().into());
        let identity = Identity { fsid: raw.fsid.get(), ino: raw.ino.get(), kind, handle, path };
        Ok(Some((raw.incarnation.get().into(), raw.dev.get(), identity)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handle, LogOptions};
    use ondol_medium::{Nvm, Pool, PoolSpec};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// Whoever reads a slot while it goes from file to file finds no damage.
    #[test]
    fn a_slot_may_be_given_away_while_it_is_looked_at() {
        let mut pool = Pool::create(Nvm::volatile(2 << 20).unwrap(), &PoolSpec::default()).unwrap();
        let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
        let me = u64::from(std::process::id()) << 32 | log.token().unwrap();
        let (slot, done) = (log.slot(0), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for ino in 1..20_000 {
                    let look = Look { ino, ..Look::default() };
                    assert!(slot.give(me, &look).unwrap());
                    let handle = Handle { kind: 1, bytes: vec![1; 8] };
                    let identity = Identity { ino, handle, ..Identity::default() };
                    let incarnation = slot.incarnation().unwrap();
                    assert!(slot.name(incarnation, &look, &identity).unwrap());
                    slot.set(slot::LAST, ino).unwrap();
                    slot.retire(incarnation, ino).unwrap();
                }
                done.store(true, Relaxed);
            });
            while !done.load(Relaxed) {
                if let Err(e) = slot.is_live() {
                    done.store(true, Relaxed);
                    panic!("{e}");
                }
            }
        });
        assert!(!slot.is_live().unwrap());
    }
}
