//! A process that writes: which of its calls may end in the log.
//!
//! - *No slot*: a write is plain. It costs two loads: of what the last write to the descriptor found, and of how often
//!   a slot's file was written down, which comes before the file is first trusted. If the count has changed after the
//!   write and the file has a slot by now, trust is taken away, since the write may have fallen between two looks; a
//!   durable write is followed by a real fsync, too, before it returns.
//! - *Not trusted*: a plain write is counted while it runs. A real fsync makes the file trusted if the looks before and
//!   after it are equal, no plain write runs, and unseen ones under way at the first look are over. For that the
//!   library writes no bytes: the kernel sets ctime and copies under the inode's lock, and such a write takes that
//!   lock, too.
//! - *Trusted*: look, write, look, log, under the file's lock; whatever does not fit is a real fsync and the end of
//!   trust. Looks that lie further apart than `LONGEST_LOOK_NS` do not fit: a thread that lost its processor between
//!   them would give unseen writers milliseconds.
//!
//! A file that has a slot is handled by it wherever its path is now: later promises must retire its records.

use crate::Log;
use crate::call::{Call, Place, WriteCall, Written};
use crate::error::Result;
use crate::format::{RecordHead, SlotKey, shared, slot};
use crate::lock::{self, Held};
use crate::look::{FileKind, Look};
use crate::own::{Own, own};
use crate::slot::{Enter, Slot};
use ondol_env::sync::atomic::{AtomicU32, AtomicU64};
use ondol_env::{Env, System};
use ondol_medium::SharedWord;

/// How old acknowledged live records may be when another write is logged: nanoseconds. The rest of the horizon is for a
/// thread that loses its processor.
const OLDEST_NS: u64 = 3_000_000_000;
/// So long two looks with a write between them may take, and a nanosecond more for each byte. A thread that loses its
/// processor there is away for longer, and others could write unseen meanwhile.
pub(crate) const LONGEST_LOOK_NS: u64 = 200_000;
/// In how many places a file may have its slot.
const PROBES: u32 = 16;
/// A record takes at most this part of a lane.
const LARGEST: u64 = 8;

/// The log, as one process uses it.
#[derive(Debug)]
pub struct Client {
    pub(crate) log: Log,
    pub(crate) me: AtomicU64,
    /// The process whose memory this is.
    pub(crate) process: AtomicU32,
    pub(crate) lanes: Own,
    /// It is always this process, for simulators.
    pub(crate) fixed: bool,
}

impl Client {
    /// A process that uses the log.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn new(log: Log) -> Result<Self> {
        let me = own(&log, std::process::id())?;
        Ok(Self::of(log, me, false))
    }

    /// As if another process used the log, for tests and simulators: one that lives.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn of_process(log: Log, pid: u32) -> Result<Self> {
        let me = u64::from(pid) << 32 | log.token()?;
        Ok(Self::of(log, me, true))
    }

    fn of(log: Log, me: u64, fixed: bool) -> Self {
        let process = AtomicU32::new(std::process::id());
        Self { log, me: AtomicU64::new(me), process, lanes: Own::new(), fixed }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The slot of a file; one is given to it if there is one. None: the file goes the slow way.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn slot(&self, look: &Look) -> Result<Option<SlotKey>> {
        let me = self.me(std::process::id())?;
        let Some(_held) = self.lock_table(me)? else { return Ok(None) };
        if let Some(found) = self.find(look)? {
            return Ok(Some(found));
        }
        // Unused ones first.
        for unused in [true, false] {
            for slot in self.probes(look) {
                if (slot.is_unused()? || !unused) && slot.give(me, look)? {
                    return Ok(Some(SlotKey { index: slot.index, incarnation: slot.incarnation()? }));
                }
            }
        }
        Ok(None)
    }

    /// The lock of the table.
    fn lock_table(&self, me: u64) -> Result<Option<Held<'_>>> {
        Ok(lock::lock(&self.log.nvm, self.log.shared(shared::TABLE_LOCK), me))
    }

    /// Where a file may have its slot.
    fn probes(&self, look: &Look) -> impl Iterator<Item = Slot<'_>> {
        let slots = self.log.header.slots;
        let hash = (look.dev ^ look.ino.rotate_left(17) ^ look.birth).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (0..PROBES.min(slots)).map(move |n| self.log.slot(((hash + u64::from(n)) % u64::from(slots)) as u32))
    }

    /// How often a slot's file was written down, in this epoch, which is before it is first trusted. For as long as
    /// that is the same, a file without a slot has none that counts. A write to it that finds another number
    /// afterwards came to a file that may be trusted by then, and is [`Client::appeared`].
    pub fn given(&self) -> u64 {
        // If the memory fails nothing is trusted anyway.
        self.log.nvm.shared().load_u64(self.log.shared(shared::GIVEN)).unwrap_or_default()
    }

    /// [`Client::given`], to be read at each write.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn given_word(&self) -> Result<SharedWord<'_>> {
        Ok(self.log.nvm.shared().word(self.log.shared(shared::GIVEN))?)
    }

    /// A file without a slot was written to, and has one now: its next sync is real.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn unseen(&self, SlotKey { index, incarnation }: SlotKey) -> Result<()> {
        let slot = self.log.slot(index);
        if slot.incarnation()? == incarnation { slot.distrust() } else { Ok(()) }
    }

    /// The slot of a file, if it has one.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn find(&self, look: &Look) -> Result<Option<SlotKey>> {
        for slot in self.probes(look) {
            let incarnation = slot.incarnation()?;
            if incarnation != 0 && slot.key()? == [look.dev, look.ino, look.birth] {
                return Ok(Some(SlotKey { index: slot.index, incarnation }));
            }
        }
        Ok(None)
    }

    /// The file has records that recovery would bring into it, or is trusted.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn is_logged(&self, look: &Look) -> Result<bool> {
        let me = self.me(std::process::id())?;
        let Some(_held) = self.lock_table(me)? else { return Ok(true) };
        let slot = self.find(look)?.map(|key| self.log.slot(key.index));
        slot.map_or(Ok(false), |slot| Ok(slot.is_live()? || slot.is_trusted()?))
    }

    /// Writes to the file in a slot: as the kernel does it, and if the file is trusted into the log, too.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write<C: WriteCall>(&self, key: SlotKey, call: &C) -> std::result::Result<Written<usize>, C::Fail> {
        let file = self.tracked(key);
        let slot = &file.slot;
        // A second round comes after trust was lost or won meanwhile; whoever has no luck then takes it away.
        for _ in 0..3 {
            let begins = file.begins(call).unwrap_or(false);
            if !begins {
                match slot.enter(key.incarnation) {
                    Ok(Enter::Stale) => return Ok(Written::Stale),
                    Ok(Enter::Plain) if call.may_be_durable() && !file.is_of(call) => {
                        let _ = slot.leave();
                        return Ok(Written::Stale);
                    }
                    Ok(Enter::Plain) => return file.plain(call),
                    Ok(Enter::Trusted) => {}
                    Err(_) => return call.write().map(Written::Done),
                }
            }
            if let Some(answer) = file.logged(call, begins) {
                return answer;
            }
        }
        file.around(call)
    }

    /// Stores a record of `len` bytes behind the last one of its file or directory, whose lock the caller has; of a
    /// move behind those of both directories, which `head` names the second of. False if there is no room.
    pub(crate) fn record(
        &self,
        me: u64,
        slots: &[&Slot<'_>],
        head: RecordHead,
        len: u64,
        bytes: impl FnOnce(&mut dyn FnMut(&[&[u8]])),
    ) -> Result<bool> {
        let (Some(first), Some(lane)) = (slots.first(), self.lane(me, RecordHead::span(len))?) else {
            return Ok(false);
        };
        for slot in slots {
            if slot.load(slot::NAME_LANE)? != u64::from(lane) {
                slot.persist_name()?;
            }
            // Another lane that is not durable would end recovery's walk before what this one acknowledges.
            let last = slot.load(slot::LAST_LANE)?;
            if slot.is_live()? && last != u64::from(lane) {
                self.log.lane(last as u32).persist(slot.load(slot::LAST_END)?)?;
            }
        }
        let sequence = self.log.sequence()?;
        let head = RecordHead { sequence: sequence.into(), slot: first.index.into(), ..head };
        for slot in slots {
            if !slot.is_live()? {
                slot.set(slot::SINCE, wall_ns())?;
            }
            // Before the record is there: whoever is killed behind it must not leave one that nobody retires.
            slot.set(slot::LAST, sequence)?;
        }
        let mut appended = Ok(None);
        bytes(&mut |parts| appended = self.log.lane(lane).append(me, head, parts));
        let Some(end) = appended? else { return Ok(false) };
        for slot in slots {
            slot.set(slot::LAST_LANE, lane.into())?;
            slot.set(slot::LAST_END, end)?;
        }
        Ok(true)
    }

    /// Makes durable what was written to the file: in the log, if all of it is there. True if it was.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sync<C: Call>(&self, key: SlotKey, call: &C) -> std::result::Result<bool, C::Fail> {
        let file = self.tracked(key);
        let slot = &file.slot;
        let Some(_held) = self.me(call.process()).and_then(|me| slot.lock_once(me)).ok().flatten() else {
            return file.sync_and_retire(call).map(|()| false);
        };
        if file.logged_all(call) {
            return Ok(true);
        }
        file.sync_for_real(call).map(|()| false)
    }

    /// A file, as its slot was given to it.
    pub(crate) fn tracked(&self, key: SlotKey) -> Tracked<'_> {
        Tracked { client: self, slot: self.log.slot(key.index), incarnation: key.incarnation }
    }

    /// Somebody maps the file in a slot, to store to it: it is never trusted again.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn map(&self, SlotKey { index, incarnation }: SlotKey) -> Result<()> {
        let slot = self.log.slot(index);
        if slot.incarnation()? == incarnation { slot.map() } else { Ok(()) }
    }
}

/// A file that has a slot, as one process handles it.
pub(crate) struct Tracked<'c> {
    pub(crate) client: &'c Client,
    pub(crate) slot: Slot<'c>,
    pub(crate) incarnation: u64,
}

impl Tracked<'_> {
    /// The slot is that of the file that a call is on: what is known of a descriptor may be of another one, which had
    /// its number before.
    pub(crate) fn is_of<C: Call>(&self, call: &C) -> bool {
        call.look().is_ok_and(|look| self.slot.key().is_ok_and(|key| key == [look.dev, look.ino, look.birth]))
    }

    /// As [`Tracked::is_of`], and nobody else has got it since.
    pub(crate) fn is_still<C: Call>(&self, call: &C) -> bool {
        self.is_of(call) && self.slot.incarnation().is_ok_and(|now| now == self.incarnation)
    }

    /// A plain write that has been counted in.
    fn plain<C: WriteCall>(&self, call: &C) -> std::result::Result<Written<usize>, C::Fail> {
        let answer = call.write();
        // If the memory fails, the file is never trusted again.
        let _ = self.slot.leave();
        self.promised(call, answer).map(Written::Done)
    }

    /// A write that cannot have the lock.
    fn around<C: WriteCall>(&self, call: &C) -> std::result::Result<Written<usize>, C::Fail> {
        if call.may_be_durable() && !self.is_of(call) {
            return Ok(Written::Stale);
        }
        let entered = self.slot.enter_broken();
        let answer = call.write();
        if entered.is_ok() {
            let _ = self.slot.leave();
        }
        self.promised(call, answer).map(Written::Done)
    }

    /// A write to a trusted file, under its lock; or one that `begins` trust. None if it is not trusted after all, and
    /// nothing was written.
    fn logged<C: WriteCall>(&self, call: &C, begins: bool) -> Option<std::result::Result<Written<usize>, C::Fail>> {
        let locked = self.client.me(call.process()).and_then(|me| Ok(self.slot.lock(me)?.map(|held| (me, held))));
        let Some((me, held)) = locked.ok().flatten() else { return Some(self.around(call)) };
        if !self.slot.is_trusted().unwrap_or(false) {
            return begins.then(|| self.begin(call));
        }
        let began = call.now_ns();
        let before = match call.look() {
            Ok(look) => look,
            Err(e) => return Some(Err(e)),
        };
        let expected = self.slot.expected().unwrap_or_default();
        if !before.same(&expected) {
            return Some(Ok(Written::Stale));
        }
        let place = call.place().filter(|_| before == expected && self.fits(call.len()));
        let start = match place {
            Some(Place::At(offset)) => Some(offset),
            Some(Place::Append) => Some(before.size),
            Some(Place::Cursor) => call.cursor(),
            None => None,
        };
        let Some((start, place)) = start.zip(place) else {
            // The kernel tells an error of a sync once: it is this write's.
            return self.give_up(call).err().map(Err);
        };
        let durable = call.durable();
        let wrote = match if durable { call.write_lazily(start) } else { call.write() } {
            Ok(wrote) if wrote > 0 => wrote,
            other => return Some(self.told(call, other).map(Written::Done)),
        };
        let after = call.look().ok().filter(|_| call.now_ns().saturating_sub(began) <= LONGEST_LOOK_NS + wrote as u64);
        // Whatever the look has said: the offset has to move.
        let moved = place != Place::Cursor || call.moved(start + wrote as u64);
        let noted = match after {
            Some(after) if moved => {
                let wrote = Wrote { start, len: wrote as u64, before, after };
                self.note(me, call, &wrote).unwrap_or(false)
            }
            _ => false,
        };
        let synced = match noted {
            true if !durable => Ok(()),
            true if self.acknowledge().is_ok() && self.slot.is_trusted().unwrap_or(false) => {
                let _ = self.slot.served();
                Ok(())
            }
            // Whatever the log has: the bytes are in the page cache alone.
            _ if durable => self.sync_for_real(call),
            _ => self.give_up(call),
        };
        drop(held);
        Some(synced.map(|()| Written::Done(wrote)))
    }

    /// From now on writes are plain, until the program syncs. What is in the log goes home before, for real.
    pub(crate) fn give_up<C: Call>(&self, call: &C) -> std::result::Result<(), C::Fail> {
        let live = self.slot.is_live().unwrap_or(true);
        let synced = if live { self.sync_for_real(call) } else { Ok(()) };
        let _ = self.slot.distrust();
        // What the disk has refused the next sync will say.
        if self.slot.has_failed().unwrap_or(false) { Ok(()) } else { synced }
    }

    /// A write of `len` bytes can be logged now.
    pub(crate) fn fits(&self, len: u64) -> bool {
        let young = || -> Result<bool> {
            let acked = self.slot.load(slot::ACKED)?;
            let live = acked > self.slot.retired(self.incarnation).durable()?;
            Ok(!live || wall_ns() < self.slot.load(slot::ACKED_CTIME)? + OLDEST_NS)
        };
        len <= self.client.log.header.lane_len / LARGEST && young().unwrap_or(false)
    }

    /// Logs what was written. False if the file does not look afterwards as that write alone makes it, or if there is
    /// no room.
    fn note<C: WriteCall>(&self, me: u64, call: &C, wrote: &Wrote) -> Result<bool> {
        let (after, end) = (&wrote.after, wrote.start + wrote.len);
        let as_expected =
            after.same(&wrote.before) && after.size == wrote.before.size.max(end) && after.ctime >= wrote.before.ctime;
        if !as_expected {
            return Ok(false);
        }
        let head = RecordHead { offset: wrote.start.into(), ..self.head(after.ctime)? };
        if !self.client.record(me, &[&self.slot], head, wrote.len, |show| call.bytes(wrote.len as usize, show))? {
            return Ok(false);
        }
        self.slot.expect(after)?;
        // A write that went round the lock meanwhile has taken the trust away.
        self.slot.is_trusted()
    }

    /// All of a file is in the log, and durable. The caller has the lock.
    pub(crate) fn logged_all<C: Call>(&self, call: &C) -> bool {
        let trusted =
            self.slot.is_trusted().unwrap_or(false) && self.slot.incarnation().is_ok_and(|now| now == self.incarnation);
        trusted
            && self.slot.expected().is_ok_and(|expected| call.look().is_ok_and(|now| now == expected))
            && self.acknowledge().is_ok()
            && self.slot.is_trusted().unwrap_or(false)
    }

    pub(crate) fn acknowledge(&self) -> Result<()> {
        // As ext4 does it: with a file its name is durable; and before it, so that no bytes are there without.
        self.slot.persist_name()?;
        let last = self.slot.load(slot::LAST)?;
        if last > self.slot.retired(self.incarnation).durable()? {
            self.client.log.lane(self.slot.load(slot::LAST_LANE)? as u32).persist(self.slot.load(slot::LAST_END)?)?;
            self.slot.set(slot::ACKED_CTIME, self.slot.load(slot::CTIME)?)?;
            self.slot.set(slot::ACKED, last)?;
        }
        Ok(())
    }

    /// Syncs for real, retires the file's records, and trusts it if nothing changed meanwhile. The caller has the lock.
    pub(crate) fn sync_for_real<C: Call>(&self, call: &C) -> std::result::Result<(), C::Fail> {
        let last = self.slot.distrust().and_then(|()| self.slot.load(slot::LAST));
        let before = call.look();
        // A write has its ctime before its bytes: one that is under way now would change the file without another
        // ctime.
        let settled = call.settle();
        self.sync_file(call)?;
        let trusted = || -> Result<bool> {
            // The slot may have gone to another file, which is not the one that was synced.
            let (before, after) = match (before, call.look()) {
                (Ok(before), Ok(after)) => (before, after),
                _ => return Ok(false),
            };
            if self.slot.incarnation()? != self.incarnation || self.slot.key()? != [after.dev, after.ino, after.birth] {
                return Ok(false);
            }
            self.slot.retire(self.incarnation, last?)?;
            if before != after || !settled || after.set_id {
                return Ok(false);
            }
            if self.slot.load(slot::NAMED)? != self.incarnation {
                let Some(identity) = call.identity() else { return Ok(false) };
                if !self.slot.name(self.incarnation, &after, &identity)? {
                    return Ok(false);
                }
            }
            self.slot.expect(&after)?;
            self.slot.begins_at(&after)?;
            if after.kind == FileKind::Directory {
                self.client.log.count(shared::NAMES)?;
            }
            self.slot.trust()
        };
        // Whatever fails here, the file is synced, and untrusted.
        let _ = trusted();
        Ok(())
    }
}

/// A write that the kernel has done.
struct Wrote {
    start: u64,
    len: u64,
    before: Look,
    after: Look,
}

/// Nanoseconds since 1970.
pub(crate) fn wall_ns() -> u64 {
    let now = System.now();
    now.sec.cast_unsigned().wrapping_mul(1_000_000_000) + u64::from(now.nsec)
}
