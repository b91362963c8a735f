//! Serving where the requests come from.
//!
//! A sender waits while its request is served. On one processor that is a switch there and back, about 3 µs; from one
//! to another it is two wake-ups of a processor that has gone idle, about 14 µs. The scheduler sees an idle processor
//! and spreads the two, and FUSE gives it no hint. So a serving thread whose requests all come from one thread goes to
//! that thread's processor and stays until they come from several, or until they carry so much data that copying it
//! side by side with the sender is worth more.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs::File;
use std::io::Read;

/// Requests between two decisions.
const WINDOW: u32 = 32;

/// Bytes in one request from which data counts as a stream.
const STREAM: u32 = 64 << 10;

/// Where one serving thread runs.
pub(crate) struct Follow {
    /// Where it may run at all; `None` if there is no choice.
    allowed: Option<CpuSet>,
    /// Where it has gone.
    at: Option<usize>,
    sender: u32,
    seen: u32,
    /// Of the requests seen, those that came from another sender than the one before, or with a stream.
    others: u32,
}

impl Follow {
    /// For the calling thread.
    pub(crate) fn new() -> Self {
        let allowed = sched_getaffinity(None).ok().filter(|set| set.count() > 1);
        Self { allowed, at: None, sender: 0, seen: 0, others: 0 }
    }

    /// Takes note of a request: of its sender's thread (0: the kernel's own), and of the bytes that it carries or asks
    /// for.
    pub(crate) fn note(&mut self, sender: u32, bytes: u32) {
        if self.allowed.is_none() || sender == 0 {
            return;
        }
        self.seen += 1;
        if sender != self.sender || bytes >= STREAM {
            self.others += 1;
            self.sender = sender;
        }
        if self.seen == WINDOW {
            // The first of a new sender counts as another.
            let steady = self.others <= 1;
            (self.seen, self.others) = (0, 0);
            self.go_to(if steady { processor_of(sender) } else { None });
        }
    }

    /// Binds the thread to a processor, or to none.
    fn go_to(&mut self, processor: Option<usize>) {
        let Some(allowed) = &self.allowed else { return };
        let processor = processor.filter(|&cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu));
        if processor == self.at {
            return;
        }
        let set = processor.map_or(*allowed, |cpu| {
            let mut one = CpuSet::new();
            one.set(cpu);
            one
        });
        match sched_setaffinity(None, &set) {
            Ok(()) => self.at = processor,
            Err(e) => {
                tracing::debug!("serving threads stay where they are: {e}");
                self.allowed = None;
            }
        }
    }
}

/// The processor on which a thread ran last: the 39th field of its state, counted after the command's closing
/// parenthesis.
fn processor_of(thread: u32) -> Option<usize> {
    let mut text = [0; 1024];
    let n = File::open(format!("/proc/{thread}/stat")).and_then(|mut f| f.read(&mut text)).ok()?;
    let text = text.get(..n)?;
    let end = text.iter().rposition(|b| *b == b')')?;
    let fields = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    fields.split_ascii_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::*;

    fn allowed() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn a_thread_goes_to_a_steady_sender_and_leaves_it_for_several() {
        let me = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let before = allowed();
        std::thread::spawn(move || {
            let mut follow = Follow::new();
            let mut window =
                |sender: &dyn Fn(u32) -> u32, bytes| (0..WINDOW).for_each(|n| follow.note(sender(n), bytes));
            window(&|_| me, 4096);
            let bound = if before.count() > 1 { 1 } else { before.count() };
            assert_eq!(allowed().count(), bound);
            window(&|_| 0, 0);
            assert_eq!(allowed().count(), bound);
            window(&|n| me + n % 2, 0);
            assert_eq!(allowed(), before);
            window(&|_| me, 0);
            assert_eq!(allowed().count(), bound);
            window(&|_| me, STREAM);
            assert_eq!(allowed(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_processor_is_known_for_threads_that_exist() {
        let me = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        assert!(processor_of(me).is_some());
        assert_eq!(processor_of(u32::MAX), None);
    }
}
