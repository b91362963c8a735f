//! One run: the tasks inside `shuttle`, and what `ondol_env::sync` asks.

use super::Schedule;
use super::choose::{At, Choice, Policy};
use ondol_env::sync;
use shuttle::scheduler::TaskId;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

/// What one task does.
pub type Task = Box<dyn FnOnce() + Send>;

/// What a run was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The seed of the schedule.
    pub seed: u64,
    /// Tasks that were chosen, also where there was no choice.
    pub steps: u64,
    /// Of these, choices that took the turn from a task that could have gone on.
    pub taken: u64,
    /// Choices where a task had done something that it had not told yet, and others were ready.
    pub untold: u64,
    /// Equal for equal sequences of choices, and for others practically never.
    pub fingerprint: u64,
    /// Of tasks that ran in turn: each place in the program where a task could have lost its turn, in the order in
    /// which they came there, and at which points.
    pub sites: Vec<Vec<u32>>,
}

/// Why a run came to no good end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// These tasks wait, and none is left that could end that.
    Deadlock(Vec<u32>),
    /// The limit of choices was reached.
    Endless(u64),
    /// A task panicked.
    Panicked {
        /// Which.
        task: u32,
        /// What it said.
        what: String,
    },
    /// A task of a schedule cannot run a schedule.
    Nested,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock(tasks) => write!(f, "tasks {tasks:?} wait for each other"),
            Self::Endless(limit) => write!(f, "no end after {limit} steps"),
            Self::Panicked { task, what } => write!(f, "task {task} panicked: {what}"),
            Self::Nested => f.write_str("inside of another schedule"),
        }
    }
}

/// The run of this operating system thread.
struct Run {
    limit: u64,
    choice: Choice,
    stats: Stats,
    why: Option<Why>,
    /// Tasks by number, until they start.
    bodies: Vec<Option<Task>>,
    handles: Vec<shuttle::thread::JoinHandle<()>>,
    /// Tasks that have not ended.
    live: usize,
    /// By task: how often it could not go on since any task did something.
    waits: BTreeMap<u32, u32>,
    /// The next choice is made where a task has done something that it has not told yet.
    is_untold: bool,
    /// Whether sites are noted, and which number each has.
    sites: Option<HashMap<u64, usize>>,
    /// Where the task is that has come to a point.
    site: Option<u64>,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Never across a switch of tasks.
fn with_run<T>(f: impl FnOnce(&mut Run) -> T) -> T {
    RUN.with_borrow_mut(|run| f(run.as_mut().expect("tasks run inside of a run")))
}

/// Bytes of a task's stack, which is only mapped where it is used.
const STACK: usize = 4 << 20;

pub(super) fn run(schedule: Schedule, tasks: Vec<Task>) -> Result<Stats, Why> {
    let Some(installed) = sync::install(Rc::new(Hook)) else { return Err(Why::Nested) };
    RUN.set(Some(Run {
        limit: schedule.limit,
        choice: Choice::new(schedule.policy, schedule.seed),
        stats: Stats { seed: schedule.seed, ..Stats::default() },
        why: None,
        live: tasks.len(),
        bodies: tasks.into_iter().map(Some).collect(),
        handles: Vec::new(),
        waits: BTreeMap::new(),
        is_untold: false,
        sites: matches!(schedule.policy, Policy::Priorities { depth: 1, .. }).then(HashMap::new),
        site: None,
    }));
    let mut config = shuttle::Config::new();
    config.stack_size = STACK;
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.max_steps = shuttle::MaxSteps::None;
    config.silence_warnings = true;
    let runner = shuttle::Runner::new(Once(false), config);
    let ended = catch_unwind(AssertUnwindSafe(|| runner.run(start_all)));
    drop(installed);
    let mut run = RUN.take().expect("the run was put there above");
    if let Err(payload) = ended {
        run.why.get_or_insert_with(|| Why::Panicked { task: 0, what: text_of(&*payload) });
    }
    match run.why {
        None => Ok(run.stats),
        Some(why) => {
            // They may share what the stopped tasks hold locked.
            std::mem::forget((run.bodies, run.handles));
            Err(why)
        }
    }
}

/// What the first task does: starts the others and waits for them, and for those that they start.
fn start_all() {
    for task in 0..with_run(|run| run.bodies.len()) {
        start(task);
    }
    while let Some(handle) = with_run(|run| run.handles.pop()) {
        drop(handle.join());
    }
}

fn start(task: usize) {
    let handle = shuttle::thread::spawn(move || {
        let Some(body) = with_run(|run| run.bodies[task].take()) else { return };
        let done = catch_unwind(AssertUnwindSafe(body));
        with_run(|run| {
            run.live -= 1;
            run.waits.clear();
            if let Err(payload) = done {
                run.why.get_or_insert_with(|| Why::Panicked { task: task as u32, what: text_of(&*payload) });
            }
        });
    });
    with_run(|run| run.handles.push(handle));
}

fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something without words".into())
}

/// The number of the calling task: `shuttle`'s first is the one that starts all others.
fn current() -> u32 {
    shuttle::current::try_get_current_task().map_or(0, |id| usize::from(id).saturating_sub(1) as u32)
}

/// So many callers make a place in the program, the scheduler's own among them.
const CALLERS: usize = 16;

/// Where in the program the calling task is.
fn site() -> u64 {
    let (mut hasher, mut callers) = (DefaultHasher::new(), 0);
    backtrace::trace(|frame| {
        (frame.ip() as usize).hash(&mut hasher);
        callers += 1;
        callers < CALLERS
    });
    hasher.finish()
}

/// Answers `ondol_env::sync`.
struct Hook;

impl sync::Scheduler for Hook {
    fn point(&self) {
        // Destructors of a task that panics run to their end at once.
        if std::thread::panicking() || !with_run(|run| run.goes_on()) {
            return;
        }
        if with_run(|run| run.sites.is_some()) {
            let site = site();
            with_run(|run| run.site = Some(site));
        }
        // For shuttle a sleep is a switch and nothing else.
        shuttle::thread::sleep(Duration::ZERO);
    }

    fn untold(&self) {
        with_run(|run| run.is_untold = true);
        self.point();
        with_run(|run| run.is_untold = false);
    }

    fn blocked(&self) {
        with_run(|run| run.waits(current()));
        shuttle::thread::yield_now();
    }

    fn task(&self) -> u32 {
        current()
    }

    fn spawn(&self, body: Box<dyn FnOnce() + Send>) {
        let task = with_run(|run| {
            run.live += 1;
            run.waits.clear();
            run.bodies.push(Some(body));
            run.bodies.len() - 1
        });
        start(task);
    }
}

impl Run {
    /// A task does something.
    fn goes_on(&mut self) -> bool {
        self.waits.clear();
        self.why.is_none()
    }

    /// A task cannot go on. When all have found that twice with nothing done in between, none ever will.
    fn waits(&mut self, task: u32) {
        *self.waits.entry(task).or_insert(0) += 1;
        if self.waits.len() >= self.live && self.waits.values().all(|times| *times >= 2) {
            self.why.get_or_insert(Why::Deadlock(self.waits.keys().copied().collect()));
        }
    }

    fn next(&mut self, ready: &[usize], current: Option<usize>, gave_way: bool) -> Option<usize> {
        if self.stats.steps >= self.limit {
            self.why.get_or_insert(Why::Endless(self.limit));
        }
        if self.why.is_some() {
            return None;
        }
        let at = match (gave_way, std::mem::take(&mut self.is_untold)) {
            (true, _) => At::GaveWay,
            (false, true) => At::Untold,
            (false, false) => At::Point,
        };
        self.stats.untold += u64::from(at == At::Untold && ready.len() > 1);
        let point = self.choice.points();
        let next = self.choice.next(ready, current, at);
        let site = self.site.take().filter(|_| at != At::GaveWay && self.choice.points() > point);
        if let (Some(numbers), Some(site)) = (&mut self.sites, site) {
            let number = *numbers.entry(site).or_insert(self.stats.sites.len());
            if number == self.stats.sites.len() {
                self.stats.sites.push(Vec::new());
            }
            self.stats.sites[number].push(point as u32);
        }
        let could_go_on = !gave_way && current.is_some_and(|current| ready.contains(&current));
        self.stats.taken += u64::from(could_go_on && current != Some(next));
        self.stats.steps += 1;
        self.stats.fingerprint =
            (self.stats.fingerprint.rotate_left(5) ^ next as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Some(next)
    }
}

/// Lets `shuttle` run once, with the run's choices. `true` once it has.
#[derive(Debug)]
struct Once(bool);

impl shuttle::scheduler::Scheduler for Once {
    fn new_execution(&mut self) -> Option<shuttle::scheduler::Schedule> {
        (!std::mem::replace(&mut self.0, true)).then(|| shuttle::scheduler::Schedule::new(0))
    }

    fn next_task(
        &mut self,
        ready: &[&shuttle::scheduler::Task],
        current: Option<TaskId>,
        gave_way: bool,
    ) -> Option<TaskId> {
        let ready: Vec<usize> = ready.iter().map(|task| task.id().into()).collect();
        with_run(|run| run.next(&ready, current.map(usize::from), gave_way)).map(TaskId::from)
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}
