//! Stored, written back, fenced, published: the order in which stores become durable, held by types.

use crate::nvm::exchange;
use crate::stats::LINE;
use crate::{Domain, Nvm, NvmError, Result};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Ranges of lines, of which most batches have few: those take no allocation, which a signal handler may not make.
type Lines = SmallVec<[Range<u64>; 4]>;

/// Neither `Send` nor `Sync`: write-backs and non-temporal stores are completed by a fence of the thread that began
/// them.
type OfThisThread = PhantomData<*const ()>;

/// Stores that may or may not survive a crash. One fence is enough for all of them.
///
/// Dropping it leaves the stores where they are: seen by every reader, durable by chance.
#[derive(Debug)]
#[must_use = "what is not written back and fenced may be lost"]
pub struct Stored<'n> {
    nvm: &'n Nvm,
    /// Numbers of the lines to write back, as ranges.
    lines: Lines,
    /// Bytes that were copied past the caches.
    copied: u64,
    thread: OfThisThread,
}

/// Stores whose way to the medium has begun.
#[derive(Debug)]
#[must_use = "what is not fenced may be lost"]
pub struct WrittenBack<'n> {
    nvm: &'n Nvm,
    /// Numbers of the lines that are left to `msync`.
    lines: Lines,
    bytes: u64,
    thread: OfThisThread,
}

/// The proof that everything stored in a batch is durable. What depends on it may now be published.
#[derive(Clone, Copy, Debug)]
pub struct Fenced<'n> {
    nvm: &'n Nvm,
}

/// The proof that a commit word is durable, and what it commits.
#[derive(Clone, Copy, Debug)]
pub struct Published<'n> {
    nvm: &'n Nvm,
}

impl<'n> Stored<'n> {
    pub(crate) fn new(nvm: &'n Nvm) -> Self {
        Self { nvm, lines: Lines::new(), copied: 0, thread: PhantomData }
    }

    /// Stores `bytes` at any `offset`: for a changed part of a line.
    ///
    /// # Errors
    /// `OutOfRange`, `ReadOnly`; `Poisoned` for a lost line of which some bytes were to be kept.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.nvm.put(offset, bytes)?;
        self.touched(offset, bytes.len() as u64);
        Ok(())
    }

    /// Stores `bytes` at any `offset`, whole lines past the caches: for blocks. From 256 bytes on this takes half as
    /// long as [`Stored::store`] and a write-back. Other threads may see these bytes in any order before the fence.
    ///
    /// Where caches survive it is an ordinary store, for non-temporal stores would leave the order in which those are
    /// durable.
    ///
    /// # Errors
    /// As for [`Stored::store`].
    pub fn copy(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let head = (offset.wrapping_neg() % LINE).min(bytes.len() as u64) as usize;
        let lines = (bytes.len() - head) / LINE as usize * LINE as usize;
        if self.nvm.domain().caches_survive() || lines == 0 {
            return self.store(offset, bytes);
        }
        self.nvm.mapped.check("store", offset, bytes.len() as u64)?;
        let (head, rest) = bytes.split_at(head);
        let (lines, tail) = rest.split_at(lines);
        let start = offset + head.len() as u64;
        let end = start + lines.len() as u64;
        self.store(offset, head)?;
        self.nvm.put_lines(start, lines)?;
        self.copied += lines.len() as u64;
        if self.nvm.domain() == Domain::Msync {
            self.touched(start, lines.len() as u64);
        }
        self.store(end, tail)
    }

    /// Stores zeros: as [`Stored::copy`].
    ///
    /// # Errors
    /// As for [`Stored::store`].
    pub fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut done = 0;
        while done < len {
            let part = (len - done).min(ZEROS.len() as u64);
            self.copy(offset.saturating_add(done), &ZEROS[..part as usize])?;
            done += part;
        }
        Ok(())
    }

    /// Stores a word that commits nothing, in one step.
    ///
    /// # Errors
    /// As for [`Stored::store`]; `Misaligned`.
    pub fn store_u64(&mut self, offset: u64, word: u64) -> Result<()> {
        self.nvm.change_word(offset, |at| (at.store(word.to_le(), Release), Some(word)))?;
        self.touched(offset, 8);
        Ok(())
    }

    /// Stores `new` if the word is `old`, in one step. Otherwise answers the word that is there.
    ///
    /// # Errors
    /// As for [`Stored::store_u64`].
    pub fn cas_u64(&mut self, offset: u64, old: u64, new: u64) -> Result<std::result::Result<(), u64>> {
        let answer = self.nvm.change_word(offset, |at| exchange(at, old, new))?;
        if answer.is_ok() {
            self.touched(offset, 8);
        }
        Ok(answer)
    }

    /// Adds to a word in one step, wrapping around; answers what it was.
    ///
    /// # Errors
    /// As for [`Stored::store_u64`].
    pub fn fetch_add(&mut self, offset: u64, add: u64) -> Result<u64> {
        let sum = |word: u64| u64::from_le(word).wrapping_add(add);
        let old = self.nvm.change_word(offset, |at| {
            let old = if cfg!(target_endian = "little") {
                at.fetch_add(add, AcqRel)
            } else {
                at.fetch_update(AcqRel, Acquire, |word| Some(sum(word).to_le())).unwrap_or_else(|word| word)
            };
            (u64::from_le(old), Some(sum(old)))
        })?;
        self.touched(offset, 8);
        Ok(old)
    }

    /// Takes in `len` bytes at `offset` that others have stored through the caches, with no write-back of their own:
    /// this batch makes them durable, as far as this thread sees them now.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn others(&mut self, offset: u64, len: u64) -> Result<()> {
        self.nvm.mapped.check("write back", offset, len)?;
        self.touched(offset, len);
        Ok(())
    }

    /// Begins the way of all stores of this batch to the medium, each line once. Nothing is to be done where caches
    /// survive.
    pub fn write_back(mut self) -> WrittenBack<'n> {
        merge(&mut self.lines);
        let bytes = self.lines.iter().map(|l| (l.end - l.start) * LINE).sum::<u64>() + self.copied;
        let mut lines = Lines::new();
        match self.nvm.domain() {
            Domain::Msync => lines = self.lines,
            domain if domain.caches_survive() => {}
            _ => self.lines.iter().for_each(|range| self.nvm.write_back(range)),
        }
        WrittenBack { nvm: self.nvm, lines, bytes, thread: PhantomData }
    }

    /// Remembers the lines of `len` bytes at `offset`.
    fn touched(&mut self, offset: u64, len: u64) {
        let lines = offset / LINE..(offset + len).div_ceil(LINE);
        match self.lines.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.start <= lines.start && lines.start <= last.end => last.end = last.end.max(lines.end),
            _ => self.lines.push(lines),
        }
    }
}

/// Sorts ranges and joins those that touch.
fn merge(lines: &mut Lines) {
    lines.sort_unstable_by_key(|range| range.start);
    lines.dedup_by(|next, range| {
        let joins = next.start <= range.end;
        if joins {
            range.end = range.end.max(next.end);
        }
        joins
    });
}

impl<'n> WrittenBack<'n> {
    /// Shares one fence with another batch of the same medium.
    ///
    /// # Errors
    /// `OtherMedium`.
    pub fn and(mut self, mut other: Self) -> Result<Self> {
        if !std::ptr::eq(self.nvm, other.nvm) {
            return Err(NvmError::OtherMedium { name: self.nvm.name().into(), other: other.nvm.name().into() });
        }
        self.lines.append(&mut other.lines);
        self.bytes += other.bytes;
        Ok(self)
    }

    /// Waits until all of it is in the persistence domain.
    ///
    /// # Errors
    /// `Msync`, `Stopped`: nothing is known of what was stored since the last fence.
    pub fn fence(mut self) -> Result<Fenced<'n>> {
        merge(&mut self.lines);
        self.nvm.complete(&self.lines, self.bytes)?;
        Ok(Fenced { nvm: self.nvm })
    }
}

impl<'n> Fenced<'n> {
    pub(crate) fn by_others(nvm: &'n Nvm) -> Self {
        Self { nvm }
    }

    /// Stores a commit word in one step, and makes it durable. Others see it before that: see [`Fenced::tell_if`].
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`, `ReadOnly`, `Poisoned`; `Msync` and `Stopped`, after which the word may be there or
    /// not.
    pub fn publish(&self, offset: u64, word: u64) -> Result<Published<'n>> {
        self.publish_all(&[(offset, word)])
    }

    /// Publishes several commit words under one fence: each of them at once, together in no order.
    ///
    /// # Errors
    /// As for [`Fenced::publish`].
    pub fn publish_all(&self, words: &[(u64, u64)]) -> Result<Published<'n>> {
        let mut stored = self.nvm.stored();
        for (offset, word) in words {
            stored.store_u64(*offset, *word)?;
        }
        stored.write_back().fence()?;
        Ok(Published { nvm: self.nvm })
    }

    /// Stores a record that checks itself, at any `offset`, and makes it durable: one fence. After a crash on the way
    /// any of its words may be there, and its own checksum must say so.
    ///
    /// # Errors
    /// As for [`Stored::store`]; `Msync` and `Stopped`, after which it may be there or not.
    pub fn publish_record(&self, offset: u64, record: &[u8]) -> Result<Published<'n>> {
        let mut stored = self.nvm.stored();
        stored.store(offset, record)?;
        stored.write_back().fence()?;
        Ok(Published { nvm: self.nvm })
    }

    /// Tells others that so much is durable: stores `new` if a word that they share is `old`, as
    /// [`crate::Shared::cas_u64`]. Only such a word may decide that room is used again or a sync answered; one on the
    /// medium is seen too early.
    ///
    /// # Errors
    /// As for [`crate::Shared::cas_u64`].
    pub fn tell_if(&self, offset: u64, old: u64, new: u64) -> Result<std::result::Result<(), u64>> {
        self.nvm.shared().cas_u64(offset, old, new)
    }
}

impl<'n> Published<'n> {
    /// What is published may be built on like what is fenced.
    pub fn fenced(self) -> Fenced<'n> {
        Fenced { nvm: self.nvm }
    }
}
