//! Workloads for blocks of 1 KiB, as they are in blocks that are pages: what they write is as many blocks there.

use super::Workload;
use ondol_medium::PAGE;
use ondol_testkit::op::Op;

impl Workload {
    /// The same with offsets and lengths as much larger as its blocks are in a pool; nothing where that changes
    /// nothing, nor of several threads, whose writes have to be atomic.
    pub(super) fn in_pages(self) -> Option<Self> {
        let times = PAGE / self.image.block_size();
        let mut larger = self.clone();
        larger.before.iter_mut().chain(&mut larger.calls).for_each(|op| enlarge(op, times));
        let is_same = self.before == larger.before && self.calls == larger.calls;
        larger.name = format!("{} in pages", self.name);
        (!is_same && self.others.is_none()).then_some(larger)
    }
}

/// Contents alone: names and values of attributes stay as they are.
fn enlarge(op: &mut Op, times: u64) {
    match op {
        Op::Write { at, len, .. } | Op::WriteBack { at, len, .. } | Op::Fallocate { at, len, .. } => {
            (*at, *len) = (*at * times, *len * times)
        }
        Op::Append { len, .. } => *len *= times,
        Op::Truncate { size, .. } => *size *= times,
        Op::Copy { at, to_at, len, .. } => (*at, *to_at, *len) = (*at * times, *to_at * times, *len * times),
        Op::Exchange { at, other_at, len, .. } => {
            (*at, *other_at) = (*at * times, *other_at * times);
            *len = len.map(|len| len * times);
        }
        Op::Transaction(steps) => steps.iter_mut().for_each(|op| enlarge(op, times)),
        _ => {}
    }
}
