//! Letting the client come back to where it was served.
//!
//! A sender waits while its request is served, and the kernel wakes it on a processor that is idle, if there is one:
//! across from the thread that has served it. Then each request costs two wake-ups of a processor that has gone idle,
//! on virtual machines 90 µs, and nothing that the server does with its own processor helps. But a processor that runs
//! nothing except `SCHED_IDLE` threads counts as idle itself, and is tried first. So the sender of a request that such
//! a thread serves comes back to that processor, takes it at once, and leaves it again with its next request.
//!
//! Where every processor has work, a `SCHED_IDLE` thread would get next to nothing. There no processor is idle, so that
//! nobody is woken across either: serving threads stand aside only while threads that could run are fewer than
//! processors. Several clients keep the processors busy by themselves, and a server that each of them pushes aside
//! serves fewer requests between two switches: threads stand aside for one client alone. The foreman looks at each of
//! its ticks, and they are ordinary threads whenever it does not look.
//!
//! Without `CAP_SYS_NICE` or an `RLIMIT_NICE` of 20 the kernel lets no thread leave `SCHED_IDLE`. There a thread that
//! has stood aside is *spent* when it should be an ordinary one again: it ends with its next request, and another is
//! started in its place, if its kind can be replaced.

use parking_lot::Mutex;
use rustix::thread::gettid;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// So many looks one after the other must find a processor free before threads stand aside, and so many none before
/// they are ordinary ones again.
const CALM: u32 = 3;
const BUSY: u32 = 2;

/// The serving threads of a connection, and how they are scheduled.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Says how many threads could run on the whole machine; `None` where threads stay as they are.
    load: Option<File>,
    processors: usize,
    /// Threads may come back from `SCHED_IDLE`.
    comes_back: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    threads: Vec<Thread>,
    aside: bool,
    /// Looks that found other than `aside` says, without a break.
    against: u32,
}

#[derive(Clone, Debug)]
struct Thread {
    id: u32,
    spent: Arc<AtomicBool>,
}

/// A serving thread, while it is one.
pub(crate) struct Member<'s> {
    standing: &'s Standing,
    thread: Thread,
}

impl Member<'_> {
    /// It stands aside, should not, and cannot change that: another is to serve in its place.
    pub(crate) fn is_spent(&self) -> bool {
        self.thread.spent.load(Relaxed)
    }
}

/// What the kernel lets threads do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    None,
    Out,
    OutAndBack,
}

impl Standing {
    /// For this machine and threads that can be replaced, or not. Where none may come back from `SCHED_IDLE` or be
    /// replaced, or nothing says what there is to do, nobody stands aside.
    pub(crate) fn new(replaceable: bool) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // By a thread that ends: it may find that there is no way back.
        let trying = || thread::Builder::new().spawn(|| try_it(this_thread())).ok()?.join().ok();
        let way = if processors > 1 { trying().unwrap_or(Way::None) } else { Way::None };
        let comes_back = way == Way::OutAndBack;
        let stands_aside = comes_back || (replaceable && way == Way::Out);
        let load = if stands_aside { File::open("/proc/loadavg").ok() } else { None };
        Self { load, processors, comes_back, state: Mutex::default() }
    }

    /// The calling thread serves from now on.
    pub(crate) fn join(&self) -> Member<'_> {
        let thread = Thread { id: this_thread(), spent: Arc::default() };
        if self.load.is_some() {
            let mut state = self.state.lock();
            if state.aside {
                set(thread.id, true);
            }
            state.threads.push(thread.clone());
        }
        Member { standing: self, thread }
    }

    /// Looks what there is to do on the machine beside the `serving` threads that serve a request now, and beside the
    /// caller. With `company` there are several clients.
    pub(crate) fn look(&self, serving: usize, company: bool) {
        let Some(load) = &self.load else { return };
        let has_free = || able_to_run(load).is_some_and(|able| able.saturating_sub(1 + serving) < self.processors);
        self.note(!company && has_free());
    }

    /// Nobody looks any more for a while.
    pub(crate) fn rest(&self) {
        let mut state = self.state.lock();
        state.against = 0;
        self.all(&mut state, false);
    }

    fn note(&self, calm: bool) {
        let mut state = self.state.lock();
        if calm == state.aside {
            state.against = 0;
            return;
        }
        state.against += 1;
        if state.against == if calm { CALM } else { BUSY } {
            state.against = 0;
            self.all(&mut state, calm);
        }
    }

    fn all(&self, state: &mut State, aside: bool) {
        if state.aside == aside {
            return;
        }
        state.aside = aside;
        if aside || self.comes_back {
            state.threads.iter().for_each(|thread| set(thread.id, aside));
        } else {
            state.threads.drain(..).for_each(|thread| thread.spent.store(true, Relaxed));
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.standing.state.lock().threads.retain(|thread| thread.id != self.thread.id);
    }
}

fn this_thread() -> u32 {
    gettid().as_raw_pid().cast_unsigned()
}

fn set(thread: u32, aside: bool) {
    if let Err(e) = ondol_ring::set_idle(thread, aside) {
        tracing::debug!("a serving thread is scheduled as before: {e}");
    }
}

/// There and back, as far as it goes.
fn try_it(thread: u32) -> Way {
    if ondol_ring::set_idle(thread, true).is_err() {
        return Way::None;
    }
    if ondol_ring::set_idle(thread, false).is_ok() { Way::OutAndBack } else { Way::Out }
}

/// Threads that run or could: the number before the slash in `0.20 0.18 0.12 3/240 11206`.
fn able_to_run(load: &File) -> Option<usize> {
    let mut text = [0; 128];
    let n = load.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..n)?).ok()?;
    text.split_ascii_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::*;

    /// The policy of a thread, as /proc tells it: the 41st field of its state.
    fn is_idle(thread: u32) -> bool {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        let fields = &text[text.rfind(')').unwrap() + 2..];
        fields.split_ascii_whitespace().nth(38) == Some("5")
    }

    #[test]
    fn threads_stand_aside_while_there_is_a_processor_free_and_somebody_looks() {
        let standing = Standing::new(false);
        if standing.load.is_none() {
            let tried = thread::spawn(|| try_it(this_thread())).join().unwrap();
            assert!(standing.processors == 1 || tried != Way::OutAndBack, "it may, and does not");
            return;
        }
        thread::spawn(move || {
            let me = this_thread();
            let member = standing.join();
            assert!(!is_idle(me));
            (1..CALM).for_each(|_| standing.note(true));
            assert!(!is_idle(me), "not yet");
            standing.note(true);
            assert!(is_idle(me));
            thread::scope(|s| {
                let late = || {
                    let _member = standing.join();
                    is_idle(this_thread())
                };
                assert!(s.spawn(late).join().unwrap(), "whoever comes later does as the others");
            });
            standing.note(false);
            standing.note(true);
            (1..BUSY).for_each(|_| standing.note(false));
            assert!(is_idle(me), "one look is not enough");
            standing.note(false);
            assert!(!is_idle(me));
            (0..CALM).for_each(|_| standing.note(true));
            assert!(is_idle(me));
            standing.rest();
            assert!(!is_idle(me), "nobody looks");
            assert!(!member.is_spent());
            drop(member);
            assert!(standing.state.lock().threads.is_empty());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn who_may_not_come_back_is_spent() {
        let standing = Standing {
            load: Some(File::open("/proc/loadavg").unwrap()),
            processors: 2,
            comes_back: false,
            state: Mutex::default(),
        };
        let (served, members) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let serve = || {
            let member = standing.join();
            served.send(member.thread.clone()).unwrap();
            let _ = ended.lock().recv();
            assert!(member.is_spent());
        };
        thread::scope(|s| {
            // Both are started by this thread, which is an ordinary one: threads inherit how they are scheduled.
            s.spawn(serve);
            let first = members.recv().unwrap();
            (0..CALM).for_each(|_| standing.note(true));
            assert!(is_idle(first.id) && !first.spent.load(Relaxed), "it serves while it stands aside");
            (0..BUSY).for_each(|_| standing.note(false));
            assert!(first.spent.load(Relaxed), "and no longer");
            s.spawn(serve);
            let second = members.recv().unwrap();
            assert!(!is_idle(second.id) && !second.spent.load(Relaxed));
            (0..CALM).for_each(|_| standing.note(true));
            assert!(is_idle(second.id) && !second.spent.load(Relaxed));
            standing.rest();
            assert!(second.spent.load(Relaxed), "nobody looks");
            drop(end);
        });
        assert!(standing.state.lock().threads.is_empty());
    }

    #[test]
    fn what_there_is_to_do_is_read() {
        let load = File::open("/proc/loadavg").unwrap();
        assert!(able_to_run(&load).is_some_and(|n| n > 0));
        assert!(able_to_run(&load).is_some_and(|n| n > 0), "again");
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let standing = Standing { load: Some(load), processors, comes_back: true, state: Mutex::default() };
        standing.look(usize::MAX - 1, false);
        assert_eq!(standing.state.lock().against, 1, "all of it is ours");
        standing.look(usize::MAX - 1, true);
        assert_eq!(standing.state.lock().against, 0, "company");
        let busy = Standing { processors: 0, ..standing };
        busy.look(0, false);
        assert_eq!(busy.state.lock().against, 0, "no processor is ever free");
    }
}
