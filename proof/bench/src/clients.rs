//! Clients: processes that work at the same time, as many programs on one file system do.
//!
//! ```text
//!   bench run ── starts ──▶ bench client 0 … N-1, each in a directory of its own: prepares, says `ready`
//!             ◀─ ready ───
//!             ── one byte for each, in one write ──▶ all begin
//!             ◀─ one line of JSON each: what it did
//! ```
//!
//! Each is a run of the workload of its own, as if the original program had been started so often: files, choices and directories are its own. What
//! they did is put together as threads' is: operations and bytes add up, latencies go into one distribution, and time runs from the first
//! one's begin to the last one's end. A client that ends before it has said what it did is an error that names it, and ends all others.
//! So does a signal. A client whose bench has died ends by itself.

use crate::BenchError;
use crate::args::ClientArgs;
use crate::background::Background;
use crate::command::Program;
use crate::contents::Contents;
use crate::error::Context;
use crate::fs::std_fs::StdFs;
use crate::interrupt::Interrupt;
use crate::measure::{self, Asked, DIGITS, Limit, Sample};
use crate::rng::Rng;
use crate::workload::{self, Params, Plan};
use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// What a client says when it is prepared.
const READY: &str = "ready";
/// How long a client may take to end when it has been told to.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What a client says when it has worked. Times are nanoseconds of the machine's monotonic clock.
#[derive(Debug, Serialize, Deserialize)]
struct Done {
    begin: u64,
    end: u64,
    ops: u64,
    user_bytes: u64,
    fsyncs: u64,
    asked: Asked,
    /// Latencies in nanoseconds, and how often.
    latency: Vec<(u64, u64)>,
    sync: Vec<(u64, u64)>,
}

impl Done {
    fn of(sample: &Sample) -> Self {
        let counts = |of: &Histogram<u64>| {
            of.iter_recorded().map(|at| (at.value_iterated_to(), at.count_since_last_iteration())).collect()
        };
        let begin = monotonic(sample.begin);
        let length = u64::try_from(sample.elapsed.as_nanos()).unwrap_or(u64::MAX);
        Self {
            begin,
            end: begin.saturating_add(length),
            ops: sample.ops,
            user_bytes: sample.user_bytes,
            fsyncs: sample.fsyncs,
            asked: sample.asked,
            latency: counts(&sample.latency),
            sync: counts(&sample.sync),
        }
    }
}

/// A moment on the clock that all processes share.
fn monotonic(moment: Instant) -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec.cast_unsigned().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.cast_unsigned());
    now.saturating_sub(u64::try_from(moment.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// What several clients did.
fn sum(all: &[Done]) -> io::Result<Sample> {
    let histogram = || Histogram::new(DIGITS).map_err(io::Error::other);
    let begin = all.iter().map(|done| done.begin).min().unwrap_or(0);
    let end = all.iter().map(|done| done.end).max().unwrap_or(0);
    let elapsed = Duration::from_nanos(end.saturating_sub(begin));
    let (latency, sync) = (histogram()?, histogram()?);
    let begin = Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now);
    let mut sum = Sample { asked: Asked::default(), ops: 0, user_bytes: 0, fsyncs: 0, begin, elapsed, latency, sync };
    for done in all {
        sum.ops += done.ops;
        sum.user_bytes += done.user_bytes;
        sum.fsyncs += done.fsyncs;
        sum.asked = sum.asked.with(done.asked, u64::saturating_add);
        for (into, from) in [(&mut sum.latency, &done.latency), (&mut sum.sync, &done.sync)] {
            from.iter().try_for_each(|&(value, count)| into.record_n(value, count)).map_err(io::Error::other)?;
        }
    }
    Ok(sum)
}

/// `ondol bench client`: one client, from its directory to what it did.
pub(crate) fn work(args: &ClientArgs) -> Result<(), BenchError> {
    // A bench that is killed cannot end its clients.
    set_parent_process_death_signal(Some(Signal::TERM)).context(|| "prctl")?;
    let interrupt = Interrupt::catch()?;
    let definition = workload::find(&args.workload)?;
    let params = Params::new(definition, args.setting.as_deref(), &args.params)?;
    let workload = (definition.build)(&params)?;
    // Clients of one run choose differently, and every run alike.
    let seed = Rng::new(params.number("seed"), u64::from(args.number) | 1 << 48).next();
    let contents = Arc::new(Contents::new(args.class, seed, workload.longest()));
    let plan = Plan { threads: args.threads, ops: args.ops, seed, contents };
    let dir = || args.dir.display().to_string();
    let fs = StdFs::new(&args.dir).context(dir)?;
    let prepared = workload.prepare(&fs, &plan).context(|| "preparing")?;
    let mut out = io::stdout().lock();
    writeln!(out, "{READY}").and_then(|()| out.flush()).context(|| "standard output")?;
    let mut go = [0];
    // One byte and no more: the next ones are other clients'.
    if rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut go)).context(|| "standard input")? == 0 {
        // The bench has given up.
        return Err(BenchError::Interrupted);
    }
    let time = args.seconds.map(Duration::try_from_secs_f64).transpose().map_err(io::Error::other);
    let limit = Limit { ops: args.ops, time: time.context(|| "--seconds")? };
    let sample = measure::run(prepared.as_ref(), args.threads, limit, &interrupt).context(dir)?;
    let done = serde_json::to_string(&Done::of(&sample)).map_err(io::Error::from).context(|| "JSON")?;
    writeln!(out, "{done}").and_then(|()| out.flush()).context(|| "standard output")
}

/// Clients that are prepared and wait. Dropping them ends them.
pub(crate) struct Clients {
    running: Vec<Background>,
    said: Receiver<Said>,
    /// Those that have said their last, by number.
    gone: Vec<usize>,
    /// One byte for each lets them begin.
    go: Option<PipeWriter>,
}

/// A client's number and a line; `None` when there will be no more.
type Said = (usize, Option<String>);

impl Clients {
    /// Starts `count` clients in `dir`, and waits until they are prepared. `common` is what they all are told.
    ///
    /// # Errors
    /// One cannot be started or prepared, or a signal came; none is left then.
    pub(crate) fn start(dir: &Path, count: u32, common: &[String], interrupt: &Interrupt) -> Result<Self, BenchError> {
        let (barrier, go) = io::pipe().context(|| "a pipe")?;
        let (tell, said) = mpsc::channel();
        let mut clients = Self { running: Vec::new(), said, gone: Vec::new(), go: Some(go) };
        for number in 0..count {
            let own = dir.join(format!("client{number:03}"));
            std::fs::create_dir(&own).context(|| format!("making {}", own.display()))?;
            let client = Program::own()?.args(["bench", "client"]).args(common);
            let client = client.args(["--number", &number.to_string()]).arg("--dir").arg(&own);
            let name = format!("client {} of {count}", number + 1);
            let stdin = barrier.try_clone().context(|| "a pipe")?;
            let mut client = Background::start(client, Some(name), stdin.into(), Stdio::piped())?;
            let (_, out) = client.take_pipes();
            clients.running.push(client);
            if let Some(out) = out {
                let tell = tell.clone();
                thread::spawn(move || listen(number as usize, out, &tell));
            }
        }
        drop(barrier);
        drop(tell);
        for line in clients.lines(interrupt)? {
            if line != READY {
                return Err(BenchError::Unfit(format!("a client says `{line}` instead of `{READY}`")));
            }
        }
        Ok(clients)
    }

    /// Lets them begin, and puts together what they did.
    ///
    /// # Errors
    /// One has failed or died, or a signal came. All have ended in any case.
    pub(crate) fn run(mut self, interrupt: &Interrupt) -> Result<Sample, BenchError> {
        if let Some(mut go) = self.go.take() {
            go.write_all(&vec![b'!'; self.running.len()]).context(|| "starting the clients")?;
            // The pipe stays open: a client that comes late finds its byte, not an end.
            let lines = self.lines(interrupt)?;
            drop(go);
            let parsed = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<Vec<Done>, _>>();
            let all = parsed.map_err(io::Error::from).context(|| "what a client did")?;
            for client in &mut self.running {
                client.end(PATIENCE, "did not end after its work and was killed")?;
            }
            self.running.clear();
            return sum(&all).context(|| "what the clients did");
        }
        Err(BenchError::Unfit("the clients have worked".into()))
    }

    /// The next line of each.
    fn lines(&mut self, interrupt: &Interrupt) -> Result<Vec<String>, BenchError> {
        let mut lines: Vec<Option<String>> = vec![None; self.running.len()];
        while lines.iter().any(Option::is_none) {
            interrupt.check()?;
            // Who has said what it was to say may be gone, while others are waited for.
            let missed = |number: &usize| lines.get(*number).is_some_and(Option::is_none);
            if let Some(number) = self.gone.iter().copied().find(missed) {
                return Err(self.died(number, interrupt));
            }
            match self.said.recv_timeout(LOOK) {
                Ok((number, Some(line))) => {
                    if let Some(place) = lines.get_mut(number) {
                        *place = Some(line);
                    }
                }
                Ok((number, None)) => self.gone.push(number),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BenchError::Unfit("the clients say nothing any more".into()));
                }
            }
        }
        Ok(lines.into_iter().flatten().collect())
    }

    /// Why a client ended before its time.
    fn died(&mut self, number: usize, interrupt: &Interrupt) -> BenchError {
        if interrupt.came() {
            return BenchError::Interrupted;
        }
        let Some(client) = self.running.get_mut(number) else { return BenchError::Unfit("no such client".into()) };
        let pid = client.pid();
        match client.wait(PATIENCE) {
            Ok(Some(status)) => client.failed(format!("process {pid} ended before its work was done, {status}")),
            Ok(None) => client.failed(format!("process {pid} says nothing any more")),
            Err(e) => e,
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // Those that wait for their byte see an end.
        self.go = None;
        for client in &self.running {
            if let Some(pid) = i32::try_from(client.pid()).ok().and_then(Pid::from_raw) {
                // It is a child that was not waited for: the number is its own still.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        for client in &mut self.running {
            let ended = client.wait(PATIENCE);
            if !matches!(ended, Ok(Some(_)))
                && let Err(e) = client.kill()
            {
                eprintln!("ondol bench: {e}");
            }
        }
    }
}

/// Passes on what a client says, line by line.
fn listen(number: usize, out: ChildStdout, tell: &Sender<Said>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if tell.send((number, Some(line))).is_err() {
            return;
        }
    }
    // Nobody may listen any more.
    let _ = tell.send((number, None));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_did_is_put_together() {
        let done = |begin, end, value: u64| Done {
            begin,
            end,
            ops: 10,
            user_bytes: 100,
            fsyncs: 2,
            asked: Asked { calls: 7, ..Asked::default() },
            latency: vec![(value, 9), (2 * value, 1)],
            sync: vec![(value, 2)],
        };
        let sum = sum(&[done(1_000, 5_000, 100), done(3_000, 9_000, 1_000)]).expect("sum");
        assert_eq!((sum.ops, sum.user_bytes, sum.fsyncs, sum.asked.calls), (20, 200, 4, 14));
        assert_eq!(sum.elapsed, Duration::from_nanos(8_000));
        assert_eq!((sum.latency.len(), sum.sync.len(), sum.latency.value_at_quantile(0.25)), (20, 4, 100));
        // What is told of a sample is the sample.
        let again = Done::of(&sum);
        assert_eq!((again.end - again.begin, again.latency.iter().map(|(_, n)| n).sum::<u64>()), (8_000, 20));
        let text = serde_json::to_string(&again).expect("JSON");
        let read: Done = serde_json::from_str(&text).expect("read");
        assert_eq!(read.latency, again.latency);
    }
}
