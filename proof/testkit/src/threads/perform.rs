//! A program done by tasks of a schedule.

use super::{Mark, Program};
use crate::Outcome;
use crate::op::Op;
use crate::target::{Target, User};
use ondol::Volume;
use ondol_env::Fixed;
use ondol_env::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, thread};
use ondol_power::PowerDomain;
use ondol_schedule::{Schedule, ScheduleError, Stats, Task};

/// A call that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was called.
    pub op: Op,
    /// What it returned.
    pub outcome: Outcome,
    /// What the volume said when it failed.
    pub failure: Option<String>,
}

/// A program that was done.
pub struct Performed {
    /// The volume, still open.
    pub volume: Volume,
    /// Each thread's calls.
    pub calls: Vec<Vec<Call>>,
    /// What the schedule was like.
    pub stats: Stats,
    /// Why background work has failed, if it has.
    pub background: Option<String>,
}

/// A program could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PerformError {
    /// The threads wait for each other, panic, or do not end.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Somebody kept the volume.
    #[error("the volume is still in use")]
    Kept,
}

/// What all tasks share.
struct Shared {
    volume: Arc<Volume>,
    clock: Arc<Fixed>,
    domain: Arc<PowerDomain>,
    calls: Vec<Mutex<Vec<Call>>>,
    /// Threads that have not come to their end.
    live: AtomicUsize,
    background: Mutex<Option<String>>,
}

/// What a volume runs on: its clock, and the memory that keeps something when the power fails.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The clock.
    pub clock: &'a Arc<Fixed>,
    /// The memory.
    pub domain: &'a Arc<PowerDomain>,
}

/// Does `program` on an open volume, each thread a task of `schedule`, with a [`Mark`] in the domain before and after
/// each call.
///
/// With `background`, another task does the volume's background work for as long as they run; at each turn of it so
/// many seconds have gone by.
///
/// # Errors
/// The schedule comes to no good end; the volume then is never closed.
pub fn perform(
    volume: Volume,
    machine: Machine<'_>,
    program: &Program,
    schedule: Schedule,
    background: Option<u64>,
) -> Result<Performed, PerformError> {
    let shared = Arc::new(Shared {
        volume: Arc::new(volume),
        clock: machine.clock.clone(),
        domain: machine.domain.clone(),
        calls: program.threads.iter().map(|_| Mutex::default()).collect(),
        live: AtomicUsize::new(program.threads.len()),
        background: Mutex::default(),
    });
    let mut tasks: Vec<Task> = Vec::new();
    for (i, ops) in program.threads.iter().enumerate() {
        let (shared, mut ops) = (shared.clone(), ops.clone());
        let mut user = User::new(shared.volume.clone(), shared.clock.clone());
        let lead = if i == 0 { program.lead.min(ops.len()) } else { 0 };
        let rest = ops.split_off(lead);
        shared.call_all(i, &mut user, ops);
        tasks.push(Box::new(move || {
            shared.call_all(i, &mut user, rest);
            drop(user);
            shared.live.fetch_sub(1, SeqCst);
        }));
    }
    if let Some(seconds) = background {
        let shared = shared.clone();
        tasks.push(Box::new(move || shared.work(seconds)));
    }
    let stats = schedule.run(tasks)?;
    let shared = Arc::into_inner(shared).ok_or(PerformError::Kept)?;
    let volume = Arc::into_inner(shared.volume).ok_or(PerformError::Kept)?;
    let (calls, background) = (shared.calls.into_iter().map(Mutex::into_inner), shared.background.into_inner());
    Ok(Performed { volume, calls: calls.collect(), stats, background })
}

impl Shared {
    /// What a thread calls next.
    fn call_all(&self, thread: usize, user: &mut User, ops: Vec<Op>) {
        let first = self.calls[thread].lock().len();
        for (call, op) in (first..).zip(ops) {
            self.domain.mark(Mark { thread, call, returned: false }.id());
            let outcome = user.apply(&op);
            self.domain.mark(Mark { thread, call, returned: true }.id());
            let failure =
                outcome.is_err().then(|| user.failure().unwrap_or("refused by the caller's kernel").to_owned());
            self.calls[thread].lock().push(Call { op, outcome, failure });
        }
    }

    fn work(&self, seconds: u64) {
        while self.live.load(SeqCst) > 0 {
            self.clock.advance(seconds.saturating_mul(1_000_000_000));
            if let Err(e) = self.volume.step_until_idle() {
                *self.background.lock() = Some(e.to_string());
                return;
            }
            thread::yield_now();
        }
    }
}
