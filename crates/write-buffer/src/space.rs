//! Free blocks, who holds the others, and the line of those who wait for some.

use crate::Result;
use crate::area::Area;
use crate::format::BLOCK_BYTES;
use crate::tree::Gone;
use ondol_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use ondol_env::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// A fragment block that is still written to is held by this beside its live bytes.
const OPEN: u64 = 1 << 32;

/// Blocks that only compaction takes.
pub(crate) const RESERVE: usize = 1;

/// How long the first in line waits for work that others do, before it looks for work again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Space {
    area: Arc<Area>,
    /// For each block: live bytes, and [`OPEN`].
    held: Vec<AtomicU64>,
    /// For each block that is held, whether it has fragments.
    has_fragments: Vec<AtomicBool>,
    /// Blocks that can be had.
    available: AtomicU32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: VecDeque<u32>,
    /// Nothing refers to them; their lines are not cleared yet.
    given_up: Vec<u32>,
    /// Who waits, in the order of asking.
    line: VecDeque<u64>,
    next: u64,
}

/// Blocks that were taken and are not in use yet. What is left in it when it is dropped is given back.
#[derive(Debug)]
pub(crate) struct Taken<'s> {
    space: &'s Space,
    blocks: Vec<u32>,
}

impl Taken<'_> {
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.blocks.pop()
    }

    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// The first `count` are in use.
    pub(crate) fn used(&mut self, count: usize) {
        self.blocks.drain(..count);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.space.give_up(&self.blocks);
    }
}

/// A place in the line; left when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'s> {
    space: &'s Space,
    ticket: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.space.state.lock().line.retain(|ticket| *ticket != self.ticket);
        self.space.changed.notify_all();
    }
}

impl Space {
    /// All blocks are free.
    pub(crate) fn new(area: Arc<Area>) -> Self {
        let blocks = area.header.blocks;
        let state = State { free: (0..blocks).collect(), given_up: Vec::new(), line: VecDeque::new(), next: 0 };
        Self {
            area,
            held: (0..blocks).map(|_| AtomicU64::new(0)).collect(),
            has_fragments: (0..blocks).map(|_| AtomicBool::new(false)).collect(),
            available: AtomicU32::new(blocks),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn available(&self) -> u32 {
        self.available.load(SeqCst)
    }

    /// Takes `count` blocks if they are there and nobody stands in line.
    pub(crate) fn try_take(&self, count: usize) -> Result<Option<Taken<'_>>> {
        self.take(count, RESERVE, |line| line.is_empty())
    }

    /// Takes one block for compaction, the reserve if need be.
    pub(crate) fn take_reserve(&self) -> Result<Option<Taken<'_>>> {
        self.take(1, 0, |_| true)
    }

    /// Stands in line.
    pub(crate) fn queue(&self) -> Turn<'_> {
        let mut state = self.state.lock();
        let ticket = state.next;
        state.next += 1;
        state.line.push_back(ticket);
        Turn { space: self, ticket }
    }

    fn take(&self, count: usize, reserve: usize, may: impl Fn(&VecDeque<u64>) -> bool) -> Result<Option<Taken<'_>>> {
        let mut state = self.state.lock();
        if !may(&state.line) || state.free.len() + state.given_up.len() < count + reserve {
            return Ok(None);
        }
        if state.free.len() < count {
            self.clear_lines(&state.given_up)?;
            let cleared = std::mem::take(&mut state.given_up);
            state.free.extend(cleared);
        }
        let blocks: Vec<u32> = state.free.drain(..count).collect();
        blocks.iter().for_each(|block| self.has_fragments[*block as usize].store(false, SeqCst));
        self.available.fetch_sub(count as u32, SeqCst);
        Ok(Some(Taken { space: self, blocks }))
    }

    /// Before blocks are used again, it is durable that nothing in them counts. One fence for all.
    fn clear_lines(&self, blocks: &[u32]) -> Result<()> {
        let mut batch = self.area.nvm().stored();
        for block in blocks {
            batch.store(self.area.line_at(*block), &[0; BLOCK_BYTES as usize])?;
        }
        batch.write_back().fence()?;
        Ok(())
    }

    fn give_up(&self, blocks: &[u32]) {
        if blocks.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        state.given_up.extend(blocks);
        self.available.fetch_add(blocks.len() as u32, SeqCst);
        drop(state);
        self.changed.notify_all();
    }

    /// A block holds so many live bytes more.
    pub(crate) fn hold(&self, block: u32, bytes: u32) {
        self.held[block as usize].fetch_add(bytes.into(), SeqCst);
    }

    /// A fragment block is written to from now on.
    pub(crate) fn open(&self, block: u32) {
        self.has_fragments[block as usize].store(true, SeqCst);
        self.held[block as usize].fetch_add(OPEN, SeqCst);
    }

    /// A fragment block is not written to any more.
    pub(crate) fn close(&self, block: u32) {
        self.release(block, OPEN);
    }

    /// Bytes are let go of; blocks without any are given up.
    pub(crate) fn let_go(&self, gone: &[Gone]) {
        gone.iter().for_each(|g| self.release(g.block, g.bytes.into()));
    }

    fn release(&self, block: u32, held: u64) {
        if self.held[block as usize].fetch_sub(held, SeqCst) == held {
            self.give_up(&[block]);
        }
    }

    /// Closed fragment blocks with at most so many live bytes, those with the fewest first.
    pub(crate) fn emptiest(&self, most: u64) -> Vec<u32> {
        let closed = (0..).zip(&self.held).zip(&self.has_fragments);
        let live = closed.filter_map(|((block, held), has_fragments)| {
            let held = held.load(SeqCst);
            (held > 0 && held <= most && has_fragments.load(SeqCst)).then_some((held, block))
        });
        let mut live: Vec<(u64, u32)> = live.collect();
        live.sort_unstable();
        live.into_iter().map(|(_, block)| block).collect()
    }

    /// Live bytes of each block, and whether it is open.
    pub(crate) fn all_held(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        let held = self.held.iter().map(|held| held.load(SeqCst));
        held.map(|held| (held & (OPEN - 1), held >= OPEN))
    }

    /// Blocks that nobody holds, for `check`.
    pub(crate) fn not_held(&self) -> Vec<u32> {
        let state = self.state.lock();
        state.free.iter().chain(&state.given_up).copied().collect()
    }
}

impl<'s> Turn<'s> {
    /// Takes `count` blocks if it is this one's turn and they are there.
    pub(crate) fn take(&self, count: usize) -> Result<Option<Taken<'s>>> {
        self.space.take(count, RESERVE, |line| line.front() == Some(&self.ticket))
    }

    pub(crate) fn is_first(&self) -> bool {
        self.space.state.lock().line.front() == Some(&self.ticket)
    }

    /// Waits until it is first in line.
    pub(crate) fn wait_to_be_first(&self) {
        let mut state = self.space.state.lock();
        while state.line.front() != Some(&self.ticket) {
            self.space.changed.wait(&mut state);
        }
    }

    /// Waits until a block is given up, for a while.
    pub(crate) fn wait_for_others(&self) {
        let mut state = self.space.state.lock();
        self.space.changed.wait_for(&mut state, LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::{Opened, Shape};
    use ondol_medium::{Nvm, Pool, PoolSpec};

    fn space() -> Space {
        let shape = Shape { block_size: 512, files: 2 };
        let spec = PoolSpec { areas: shape.areas(8 * 512).to_vec(), ..PoolSpec::default() };
        let pool = Pool::create(Nvm::volatile(1 << 16).unwrap(), &spec).unwrap();
        let Opened::Empty(area) = Area::open(&pool, shape).unwrap() else { panic!("it is new") };
        Space::new(Arc::new(area))
    }

    #[test]
    fn blocks_are_given_in_the_order_of_asking() {
        let space = space();
        let all = space.try_take(7).unwrap().unwrap();
        assert!(space.try_take(1).unwrap().is_none(), "one is reserved");
        let (first, second) = (space.queue(), space.queue());
        drop(all);
        assert!(space.try_take(1).unwrap().is_none(), "nobody overtakes");
        assert!(second.take(1).unwrap().is_none() && !second.is_first());
        let taken = first.take(4).unwrap().unwrap();
        drop(first);
        assert!(second.is_first() && second.take(4).unwrap().is_none(), "whole or not at all");
        assert_eq!(second.take(3).unwrap().unwrap().blocks().len(), 3);
        drop((second, taken));
        assert_eq!((space.available(), space.try_take(7).unwrap().unwrap().blocks().len()), (8, 7));
        assert_eq!(space.take_reserve().unwrap().unwrap().blocks().len(), 1);
    }

    #[test]
    fn a_block_is_given_up_with_its_last_byte() {
        let space = space();
        let block = space.try_take(1).unwrap().unwrap().next().unwrap();
        space.open(block);
        space.hold(block, 5);
        space.let_go(&[Gone { block, bytes: 5 }]);
        assert_eq!(space.available(), 7, "it is open");
        space.hold(block, 2);
        space.close(block);
        assert_eq!((space.available(), space.emptiest(2), space.emptiest(1)), (7, vec![block], vec![]));
        space.let_go(&[Gone { block, bytes: 1 }, Gone { block, bytes: 1 }]);
        assert_eq!((space.available(), space.not_held().len()), (8, 8));
    }
}
