//! A database file. What a transaction writes is kept here until SQLite says that it is whole, and then made by the
//! volume as one.
//!
//! ```text
//!   lock EXCLUSIVE ─▶ writes, also those of a spilled cache: pending
//!                       ├─▶ SYNC: one operation of the volume ─▶ sync: durable ─▶ unlock
//!                       └─▶ unlock, close or the end of the process: given up
//! ```
//!
//! SQLite sends SYNC at the end of every commit and of every rollback, whatever `synchronous` says, and never in the
//! midst of one.

use crate::call::{code, is_too_much};
use crate::codes::{
    Code, IOERR_COMMIT_ATOMIC, IOERR_FSTAT, IOERR_FSYNC, IOERR_READ, IOERR_SHMLOCK, IOERR_SHORT_READ, IOERR_TRUNCATE,
    IOERR_WRITE, NOTFOUND, READONLY, Result, control,
};
use crate::images::{Image, Node, Used};
use crate::journal::{self, Held, Super};
use crate::locks::Level;
use crate::shm::Has;
use ondol::inodes::Batch;
use ondol::{Error, File};
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::Arc;

/// What a transaction has written and is not made yet.
pub(crate) struct Pending {
    batch: Batch,
    /// The commit of several databases that makes it, when its super-journal is deleted.
    held: Option<Arc<Super>>,
    /// It could not be made. What SQLite now writes puts back what is stored, and nothing need be done for that.
    refused: bool,
}

impl Pending {
    pub(crate) fn is_held_by(&self, commit: &Super) -> bool {
        self.held.as_ref().is_some_and(|held| std::ptr::eq(&raw const **held, commit))
    }

    /// Gives it up, because a commit of several databases cannot be made.
    pub(crate) fn refuse(&mut self) {
        self.batch.clear();
        (self.held, self.refused) = (None, true);
    }
}

/// One connection's database.
pub(crate) struct Database {
    // Closed before the image.
    file: File,
    node: Arc<Node>,
    pending: Arc<Mutex<Pending>>,
    level: Level,
    shm: Option<Has>,
    /// A checkpoint of a write-ahead log writes: readers see what it writes at once, and a crash leaves the log.
    checkpoints: bool,
    /// It is opened with `nolock=1`: no lock says when a transaction begins.
    lockless: bool,
    read_only: bool,
    image: Used,
}

impl Database {
    pub(crate) fn new(file: File, image: Used, read_only: bool, lockless: bool) -> Self {
        let node = image.node(file.ino());
        let pending = Pending { batch: Batch::new(file.ino()), held: None, refused: false };
        let pending = Arc::new(Mutex::new(pending));
        let (level, shm, checkpoints) = (Level::None, None, false);
        Self { file, node, pending, level, shm, checkpoints, lockless, read_only, image }
    }

    /// Whether what is written is part of a transaction.
    fn is_in_transaction(&self) -> bool {
        (self.level == Level::Exclusive || self.lockless) && !self.checkpoints
    }

    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let pending = self.pending.lock();
        let n = self.image.inodes().ranges().read_with(&pending.batch, offset, buf);
        let n = n.map_err(|e| code(&e.into(), IOERR_READ))?;
        buf[n..].fill(0);
        if n == buf.len() { Ok(()) } else { Err(IOERR_SHORT_READ) }
    }

    pub(crate) fn write(&self, data: &[u8], offset: u64) -> Result<()> {
        if self.read_only {
            return Err(READONLY);
        }
        if !self.is_in_transaction() {
            return self.file.write_all_at(data, offset).map_err(|e| code(&e, IOERR_WRITE));
        }
        let mut pending = self.pending.lock();
        if pending.refused && self.holds(&pending.batch, data, offset)? {
            return Ok(());
        }
        pending.batch.write(offset, data).map_err(|e| code(&e.into(), IOERR_WRITE))
    }

    /// Whether these bytes are there already.
    fn holds(&self, batch: &Batch, data: &[u8], offset: u64) -> Result<bool> {
        let mut there = vec![0; data.len()];
        let n = self
            .image
            .inodes()
            .ranges()
            .read_with(batch, offset, &mut there)
            .map_err(|e| code(&e.into(), IOERR_READ))?;
        Ok(n == data.len() && there == data)
    }

    pub(crate) fn truncate(&self, size: u64) -> Result<()> {
        if self.read_only {
            return Err(READONLY);
        }
        if !self.is_in_transaction() {
            return self.file.set_len(size).map_err(|e| code(&e, IOERR_TRUNCATE));
        }
        if self.len()? != size {
            self.pending.lock().batch.set_len(size);
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> Result<u64> {
        let len = self.image.inodes().ranges().len_with(&self.pending.lock().batch);
        len.map_err(|e| code(&e.into(), IOERR_FSTAT))
    }

    /// Makes what was committed durable.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.pending.lock().held.is_some() {
            return Ok(());
        }
        self.make(IOERR_FSYNC)?;
        self.file.sync_data().map_err(|e| code(&e, IOERR_FSYNC))
    }

    /// Makes what is pending.
    fn make(&self, otherwise: Code) -> Result<()> {
        let pending = self.pending.lock();
        if pending.held.is_some() {
            return Ok(());
        }
        apply(&self.image, &mut [pending], otherwise)
    }

    /// What SQLite says of a transaction; `NOTFOUND` for everything else. Of SYNC, the super-journal of a commit of
    /// several databases.
    pub(crate) fn control(&mut self, what: i32, super_journal: Option<&str>) -> Result<()> {
        match what {
            control::SYNC => match super_journal.and_then(journal::super_journal) {
                Some(journal) => {
                    let (image, pending) = (self.image.weak(), Arc::downgrade(&self.pending));
                    journal.held.lock().push(Held { image, pending });
                    self.pending.lock().held = Some(journal);
                    Ok(())
                }
                None => {
                    // A commit of several databases that was held is rolled back by now.
                    self.pending.lock().held = None;
                    self.make(IOERR_FSYNC)
                }
            },
            // What is cut off behind the end after a commit, which is durable by then: that there is no space is not
            // said of it.
            control::COMMIT_PHASETWO => self.make(IOERR_TRUNCATE).map_err(|_| IOERR_TRUNCATE),
            control::BEGIN_ATOMIC_WRITE => match self.is_in_transaction() {
                true => Ok(()),
                false => Err(IOERR_WRITE),
            },
            // SQLite goes on with a journal after this one, and FULL would end its commit.
            control::COMMIT_ATOMIC_WRITE => self.make(IOERR_COMMIT_ATOMIC).map_err(|_| IOERR_COMMIT_ATOMIC),
            control::ROLLBACK_ATOMIC_WRITE => {
                self.pending.lock().batch.clear();
                Ok(())
            }
            control::CKPT_START => {
                self.make(IOERR_FSYNC)?;
                self.checkpoints = true;
                Ok(())
            }
            control::CKPT_DONE => {
                self.checkpoints = false;
                Ok(())
            }
            _ => Err(NOTFOUND),
        }
    }

    pub(crate) fn lock(&mut self, to: Level) -> Result<()> {
        self.checkpoints = false;
        self.node.locks.lock().raise(&mut self.level, to)
    }

    /// Gives up what is pending, with the lock under which it was written.
    pub(crate) fn unlock(&mut self, to: Level) {
        self.checkpoints = false;
        if self.level > Level::Shared && to <= Level::Shared {
            let mut pending = self.pending.lock();
            pending.batch.clear();
            (pending.held, pending.refused) = (None, false);
        }
        self.node.locks.lock().lower(&mut self.level, to);
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.node.locks.lock().is_reserved()
    }

    /// A region of shared memory; NULL where there is none.
    pub(crate) fn shm_map(&mut self, at: usize, size: usize, make: bool) -> *mut u8 {
        let mut shm = self.node.shm.lock();
        if self.shm.is_none() {
            self.shm = Some(Has::default());
            shm.users += 1;
        }
        shm.region(at, size, make).unwrap_or(std::ptr::null_mut())
    }

    pub(crate) fn shm_lock(&mut self, range: Range<usize>, take: bool, alone: bool) -> Result<()> {
        let has = self.shm.as_mut().ok_or(IOERR_SHMLOCK)?;
        self.node.shm.lock().lock(has, range, take, alone)
    }

    pub(crate) fn shm_unmap(&mut self) {
        let Some(mut has) = self.shm.take() else { return };
        let mut shm = self.node.shm.lock();
        // Giving back cannot fail.
        let _ = shm.lock(&mut has, 0..crate::codes::shm::LOCKS, false, false);
        shm.users -= 1;
        if shm.users == 0 {
            // Whoever comes next reads the log anew.
            *shm = crate::shm::Shm::default();
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.shm_unmap();
        self.unlock(Level::None);
    }
}

/// Makes what databases of one image have pending, as one.
///
/// # Errors
/// `FULL` for want of space, or if it is more than the volume can make as one. All of it is given up then.
pub(crate) fn apply(image: &Image, pending: &mut [MutexGuard<'_, Pending>], otherwise: Code) -> Result<()> {
    let all = |pending: &[MutexGuard<'_, Pending>]| {
        let batches: Vec<&Batch> = pending.iter().map(|pending| &pending.batch).collect();
        image.inodes().ranges().apply_batches(&batches).map_err(Error::from)
    };
    let mut done = all(pending);
    if done.as_ref().is_err_and(is_too_much) {
        // What a rollback puts back is there already, and needs no space.
        done = pending
            .iter_mut()
            .try_fold(false, |is_less, pending| {
                let less = changes_only(image, &pending.batch)?;
                Ok(less.map(|less| pending.batch = less).is_some() || is_less)
            })
            .and_then(|is_less| if is_less { all(pending) } else { done });
    }
    let done = done.map_err(|e| code(&e, otherwise));
    for pending in pending {
        let was_empty = pending.batch.is_empty();
        pending.batch.clear();
        pending.held = None;
        pending.refused = done.is_err() || (pending.refused && was_empty);
    }
    done
}

/// The parts of a batch that change bytes of a file whose size stays; `None` if these are all.
fn changes_only(image: &Image, batch: &Batch) -> ondol::Result<Option<Batch>> {
    const STEP: usize = 1 << 20;
    let (inodes, stored, mut less) = (image.inodes(), Batch::new(batch.ino()), Batch::new(batch.ino()));
    let len = inodes.ranges().len_with(&stored)?;
    if inodes.ranges().len_with(batch)? != len {
        return Ok(None);
    }
    let parts = batch.parts().map(|(offset, bytes)| offset..offset + bytes.len() as u64);
    // What was cut off and came back.
    let ranges = parts.chain(std::iter::once(batch.kept_of(len)..len));
    let steps = ranges.flat_map(|range| {
        let end = range.end;
        range.step_by(STEP).map(move |from| (from, (end - from).min(STEP as u64) as usize))
    });
    let (mut before, mut after) = (vec![0; STEP], vec![0; STEP]);
    for (from, n) in steps {
        let had = inodes.ranges().read_with(&stored, from, &mut before[..n])?;
        let has = inodes.ranges().read_with(batch, from, &mut after[..n])?;
        if before[..had] != after[..has] {
            less.write(from, &after[..has])?;
        }
    }
    Ok((less.bytes() < batch.bytes()).then_some(less))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use ondol::{FormatOptions, OpenOptions, Volume};

    #[test]
    fn a_cut_that_fails_after_a_commit_is_said_to_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        Volume::format(&target, &FormatOptions::new().size(32 << 20)).unwrap();
        let image = Used::of(&Name { image: target.to_str().unwrap().into(), path: "a.db".into() }).unwrap();
        let file = OpenOptions::new().read(true).write(true).create(true).open(image.volume(), "a.db").unwrap();
        let mut database = Database::new(file, image, false, true);
        database.write(&[1; 8192], 0).unwrap();
        assert_eq!((database.control(control::SYNC, None), database.sync()), (Ok(()), Ok(())));
        database.truncate(4096).unwrap();
        database.image.inodes().refuse_changes("a test wants it so");
        assert_eq!(database.control(control::COMMIT_PHASETWO, None), Err(IOERR_TRUNCATE));
        // What was committed is there, and the file is longer.
        let mut page = [0; 4096];
        assert_eq!((database.len(), database.read(&mut page, 0), page[0]), (Ok(8192), Ok(()), 1));
    }
}
