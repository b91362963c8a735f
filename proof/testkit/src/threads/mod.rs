//! Several threads on one volume, in an interleaving that a seed decides, and what must hold after a crash then.
//!
//! **Without a crash.** The calls are as if they had been done one after the other, in an order in which a call comes
//! after all that had returned before it began, and in which each returns what it did return ([`Orders`]: all such
//! orders). A call on a file that it names by path is two: the path is followed, then the file it led to is changed,
//! wherever that is by then. A commit of a map is one more: the map is made of the file as it is then, and its stores
//! are there with the last step.
//!
//! **After a crash.** A recovered volume is the model after a beginning of such an order: without calls that had not
//! begun, and with all that had returned before a `fsync` or `sync` began that had completed. What is found of data in
//! place is as for one thread: `ordered` may show bytes of a later call, `writeback` any that a call since the last
//! sync could change. What a map's commit has made of bytes is there with the whole call in every data mode, and
//! durable when it has returned.
//!
//! ```text
//!   Program ──▶ perform: tasks of a Schedule over an open volume, marks in its power domain ──▶ calls, events
//!                                                                                                   │
//!   model before, calls, events, volume after ──▶ Orders::find ──▶ Orders ──▶ judge(events, found) ◀┘
//! ```

mod by_file;
mod judge;
mod order;
mod perform;
pub mod random;
mod record;
mod step;

pub use judge::Matched;
pub use order::{Orders, Unexplained};
pub use perform::{Call, Machine, PerformError, Performed, perform};
pub use record::{RecordError, Setup, Threads, Trace, record, trace};

use crate::op::{Fallocate, File, Op, text};
use crate::shrink;
use std::fmt;

/// What each thread calls, one call after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    threads: Vec<Vec<Op>>,
    /// So many calls of the first thread are done before the others begin.
    lead: usize,
}

/// A call that threads cannot do at the same time and still be compared with the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{op}` is not for several threads: {why}")]
pub struct Unfit {
    /// The call.
    pub op: Op,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Handles of one thread; the last is for what a call holds while it runs.
const HANDLES: u8 = 32;
/// Most threads of a program.
pub const MOST_THREADS: usize = 8;

impl Program {
    /// Each thread's calls. Every thread has handles of its own, numbered from 0 to 30.
    ///
    /// A path is looked up when a call begins and not again, as the kernel does it. For files that is taken into
    /// account; a program in which one thread renames or removes directories that lie on another's paths may look as if
    /// calls were not done one after the other.
    ///
    /// # Errors
    /// A call that is not atomic, or whose bytes depend on where it meets another, or a remount.
    pub fn new(threads: Vec<Vec<Op>>) -> Result<Self, Unfit> {
        let mut program = Self { threads, lead: 0 };
        for (thread, ops) in program.threads.iter_mut().enumerate() {
            for op in ops {
                check(op, thread).map_err(|why| Unfit { op: op.clone(), why })?;
                for handle in handles(op) {
                    *handle += thread as u8 * HANDLES;
                }
            }
        }
        Ok(program)
    }

    /// The same, of which so many calls of the first thread are done before the others begin: schedules then are about
    /// the rest.
    #[must_use]
    pub fn with_lead(self, lead: usize) -> Self {
        Self { lead, ..self }
    }

    /// Each thread's calls; handles are numbered so that no two threads share one.
    pub fn threads(&self) -> &[Vec<Op>] {
        &self.threads
    }

    /// The program without every call that it fails without; `fails` says whether a program still does, under any
    /// schedule.
    #[must_use]
    pub fn shrink(&self, fails: impl Fn(&Self) -> bool) -> Self {
        let count = self.threads.len();
        let numbered = |(thread, ops): (usize, &Vec<Op>)| ops.iter().map(move |op| (thread, op.clone())).collect();
        let calls: Vec<(usize, Op)> = self.threads.iter().enumerate().flat_map(|t| -> Vec<_> { numbered(t) }).collect();
        let of = |calls: &[(usize, Op)]| {
            let mut threads = vec![Vec::new(); count];
            calls.iter().for_each(|(thread, op)| threads[*thread].push(op.clone()));
            Self { threads, lead: self.lead }
        };
        of(&shrink::without(calls, &|calls: &[(usize, Op)]| fails(&of(calls))))
    }
}

/// One call a line, under the number of its thread.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.threads.iter().enumerate().try_for_each(|(i, ops)| write!(f, "# thread {i}\n{}", text::print(ops)))
    }
}

/// Bytes that a write may have and still be atomic on the smallest volume that threads work on.
const ATOMIC_WRITE: u64 = 64 << 10;

fn check(op: &mut Op, thread: usize) -> Result<(), &'static str> {
    match op {
        _ if thread >= MOST_THREADS => return Err("there are too many threads"),
        Op::Append { .. } => return Err("what it writes depends on where"),
        Op::Remount => return Err("the others are on the volume"),
        Op::Fallocate { how: Fallocate::CollapseRange | Fallocate::InsertRange, .. } => {
            return Err("bytes that move cannot be followed through every order");
        }
        Op::Exchange { file, other, .. } if file.is_path() || other.is_path() => {
            return Err("only handles are exchanged: two paths are looked up one after the other");
        }
        op if op.is_stepwise(ATOMIC_WRITE) => return Err("it is not atomic"),
        _ => {}
    }
    if handles(op).iter().any(|handle| **handle >= HANDLES - 1) { Err("there is no such handle") } else { Ok(()) }
}

fn handles(op: &mut Op) -> Vec<&mut u8> {
    let file = match op {
        Op::Exchange { file, other, .. } => return [file, other].into_iter().filter_map(File::handle_mut).collect(),
        Op::Open { handle, .. } | Op::Tmpfile { handle, .. } | Op::Close { handle } => return vec![handle],
        Op::Link { from, .. } => Some(from),
        op => op.file_mut(),
    };
    file.and_then(File::handle_mut).into_iter().collect()
}

/// A point in the life of one call, as the id of a mark in the event sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose call.
    pub thread: usize,
    /// Which of its calls.
    pub call: usize,
    /// It has returned; otherwise it is about to begin.
    pub returned: bool,
}

impl Mark {
    /// As the id of an event: the thread above bit 32, then the call, then whether it has returned.
    pub fn id(self) -> u64 {
        (self.thread as u64) << 32 | (self.call as u64) << 1 | u64::from(self.returned)
    }

    /// From the id of an event.
    pub fn from_id(id: u64) -> Self {
        Self { thread: (id >> 32) as usize, call: (id as u32 >> 1) as usize, returned: id & 1 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        for (thread, call, returned) in [(0, 0, false), (7, 300, true), (1, 0, true)] {
            let mark = Mark { thread, call, returned };
            assert_eq!(Mark::from_id(mark.id()), mark);
        }
    }

    #[test]
    fn handles_of_two_threads_differ_and_what_is_not_atomic_is_refused() {
        let ops = |lines| text::parse(lines).unwrap();
        let program = Program::new(vec![ops("open @1 /a"), ops("open @1 /a\nwrite @1 0 5 #1\nclose @1")]).unwrap();
        assert_eq!(program.threads()[0], ops("open @1 /a"));
        assert_eq!(program.threads()[1], ops("open @33 /a\nwrite @33 0 5 #1\nclose @33"));
        let all = "link @1 /b\nchattr @1 A\nsetacl @1 -\nmap-commit @1 0 4 8 2 #1\ntmpfile @2 / 0600\nfsync @1";
        let program = Program::new(vec![Vec::new(), ops(all)]).unwrap();
        let numbered = all.replace("@1", "@33").replace("@2", "@34");
        assert_eq!(program.threads()[1], ops(&numbered));
        for line in ["append /a 5 #1", "write /a 0 70000 #1", "remount", "close @31"] {
            assert!(Program::new(vec![Vec::new(), ops(line)]).is_err(), "{line}");
        }
    }
}
