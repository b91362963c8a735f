//! The flush stage: dirty blocks go home by ordinary writes, neighbours together (papers/2, §3.1).
//!
//! The run of 64 LBNs that a block belongs to decides its queue, so that neighbours meet and files spread evenly. A
//! step takes up to 64 entries. A cut of the file that is pending is made first, while no write is under way.

use crate::file::FileState;
use crate::queue::{Due, Place};
use crate::shared::Core;
use crate::stats::Counters;
use crate::tree::Life;
use crate::{BufferError, Result};
use ondol_env::sync::Arc;
use ondol_env::{Bell, Progress, Step};

/// Entries of a dirty queue that one step takes.
const BATCH: usize = 64;

/// Most bytes of one write to the home.
const MOST_BYTES: usize = 1 << 20;

/// The flusher of one dirty queue.
#[derive(Debug)]
pub struct Flusher {
    pub(crate) core: Arc<Core>,
    pub(crate) queue: usize,
}

impl Step for Flusher {
    type Error = BufferError;

    fn name(&self) -> &'static str {
        "flush"
    }

    fn bell(&self) -> &Bell {
        &self.core.bell
    }

    /// Writes some of its queue home, if that has passed the low watermark or is old, or if there is need.
    ///
    /// # Errors
    /// `Home`: it stays queued and is noted in its file. The NVM's failure.
    fn step(&self) -> Result<Progress> {
        let core = &self.core;
        let (count, since) = core.dirty.state(self.queue);
        let is_old = |since: u64| core.env.monotonic_ns().saturating_sub(since) >= core.marks.age;
        if count < core.marks.low && !core.is_short() && !core.is_hurried() && !since.is_some_and(is_old) {
            return Ok(Progress::Idle);
        }
        let taken = core.dirty.take(self.queue, BATCH);
        if taken.is_empty() {
            return Ok(Progress::Idle);
        }
        core.flush(taken)?;
        Ok(Progress::Worked)
    }
}

/// Bytes that go home in one write.
#[derive(Debug)]
struct Run {
    offset: u64,
    bytes: Vec<u8>,
}

impl Core {
    /// Writes home what is in the dirty queues now.
    pub(crate) fn flush_all(&self) -> Result<()> {
        let mut result = Ok(());
        for queue in 0..self.dirty.count() {
            // Those that fail come back into the queue: each once.
            let mut left = self.dirty.state(queue).0;
            while left > 0 {
                let taken = self.dirty.take(queue, BATCH.min(left));
                if taken.is_empty() {
                    break;
                }
                left -= taken.len();
                result = result.and(self.flush(taken));
            }
        }
        result
    }

    fn flush(&self, mut taken: Vec<Due>) -> Result<()> {
        taken.sort_by_key(|due| (due.file.owner, due.place));
        let mut result = Ok(());
        for of_file in taken.chunk_by(|a, b| Arc::ptr_eq(&a.file, &b.file)) {
            let Some(Due { file, .. }) = of_file.first() else { continue };
            let blocks: Vec<u64> = of_file
                .iter()
                .filter_map(|due| if let Place::Block(lbn) = due.place { Some(lbn) } else { None })
                .collect();
            if blocks.len() < of_file.len() {
                file.whole.lock().length.take();
                result = result.and(self.flush_length(file, true));
            }
            result = result.and(self.flush_blocks(file, &blocks));
            self.flushed.push(file, of_file.len() as u64, self.env.monotonic_ns());
        }
        if self.is_short() && result.is_ok() {
            self.bell.ring();
        }
        result
    }

    /// Cuts home, and makes it as long as the file. `taken` says that the length was taken out of its queue.
    fn flush_length(&self, file: &Arc<FileState>, taken: bool) -> Result<()> {
        let _alone = file.order.write();
        let (cut, size) = {
            let whole = file.whole.lock();
            (whole.cut, whole.size)
        };
        let set = || {
            if let Some(cut) = cut {
                file.home.set_len(cut)?;
            }
            // With nothing else to say, a length that grew by writes needs no call.
            if taken || cut.is_some() { file.home.set_len(size) } else { Ok(()) }
        };
        let done = if file.life() == Life::Open { set() } else { Ok(()) };
        let mut whole = file.whole.lock();
        if done.is_ok() {
            whole.home_len = size;
            // A deeper cut since then is still to be made.
            whole.cut = whole.cut.filter(|now| Some(*now) != cut);
        }
        if taken && whole.length.landed(done.is_ok()) {
            self.push_again(file, Place::Length, done.is_ok());
        }
        drop(whole);
        done.map_err(|e| self.failed(file, "set the length of", e))
    }

    fn flush_blocks(&self, file: &Arc<FileState>, blocks: &[u64]) -> Result<()> {
        let mut at = 0;
        while at < blocks.len() {
            let order = file.order.read();
            let mut runs: Vec<Run> = Vec::new();
            let begin = at;
            let copied = self.copy_runs(file, blocks, &mut at, &mut runs);
            let written = copied.and_then(|()| self.write_runs(file, &runs));
            let end = runs.iter().map(|run| run.offset + run.bytes.len() as u64).max().unwrap_or(0);
            let is_cut = {
                let mut whole = file.whole.lock();
                if written.is_ok() {
                    whole.home_len = whole.home_len.max(end);
                }
                whole.cut.is_some()
            };
            for lbn in &blocks[begin..at] {
                land(self, file, *lbn, written.is_ok());
            }
            drop(order);
            let go_on = match written {
                Ok(()) if is_cut && at < blocks.len() => self.flush_length(file, false),
                other => other,
            };
            if go_on.is_err() {
                // Those that were not taken go back as they are.
                blocks[at..].iter().for_each(|lbn| self.push_again(file, Place::Block(*lbn), false));
                return go_on;
            }
        }
        Ok(())
    }

    /// Takes blocks, from number `at` on, and copies what is not flushed of them, joined where it touches. Ends before
    /// a pending cut, and before it is too much.
    fn copy_runs(&self, file: &Arc<FileState>, blocks: &[u64], at: &mut usize, runs: &mut Vec<Run>) -> Result<()> {
        let block_size = self.area.block_size();
        let mut bytes = 0;
        while let Some(lbn) = blocks.get(*at).filter(|_| bytes < MOST_BYTES) {
            let mut tree = file.shard(*lbn).write();
            if tree.life == Life::Open && file.whole.lock().cut.is_some() {
                return Ok(());
            }
            *at += 1;
            let is_open = tree.life == Life::Open;
            let Some(node) = tree.nodes.get_mut(lbn) else { continue };
            let Some(first) = node.phase.take().filter(|_| is_open) else { continue };
            for s in node.segments.iter().filter(|s| s.sequence >= first) {
                let offset = lbn * block_size + u64::from(s.start);
                let touches = runs.last().is_some_and(|run| run.offset + run.bytes.len() as u64 == offset);
                if !touches {
                    runs.push(Run { offset, bytes: Vec::new() });
                }
                if let Some(run) = runs.last_mut() {
                    let from = run.bytes.len();
                    run.bytes.resize(from + s.len() as usize, 0);
                    self.area.nvm().read(self.area.block_at(s.block) + u64::from(s.at), &mut run.bytes[from..])?;
                    bytes += s.len() as usize;
                }
            }
        }
        Ok(())
    }

    /// Queues what is dirty again after it was written, or was not.
    fn push_again(&self, file: &Arc<FileState>, place: Place, is_home: bool) {
        if is_home {
            self.push_due(file, place);
        } else {
            self.push_quietly(file, place);
        }
    }

    fn write_runs(&self, file: &Arc<FileState>, runs: &[Run]) -> Result<()> {
        for run in runs {
            Counters::add(&self.counters.home_writes, 1);
            Counters::add(&self.counters.home_write_bytes, run.bytes.len() as u64);
            file.home.write_at(run.offset, &run.bytes).map_err(|e| self.failed(file, "write", e))?;
        }
        Ok(())
    }

    pub(crate) fn failed(&self, file: &FileState, what: &'static str, source: std::io::Error) -> BufferError {
        Counters::add(&self.counters.home_errors, 1);
        file.note(what, source).into()
    }
}

/// The flush of a block is over.
fn land(core: &Core, file: &Arc<FileState>, lbn: u64, is_home: bool) {
    let mut tree = file.shard(lbn).write();
    if let Some(node) = tree.nodes.get_mut(&lbn)
        && node.phase.landed(is_home)
    {
        core.push_again(file, Place::Block(lbn), is_home);
    }
}
