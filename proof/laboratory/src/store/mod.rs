//! Volumes in object storage, as they ship: an engine `batch` on a database over a store in memory, which notes every
//! request; and before it, with `durable=local`, a log on this machine.
//!
//! ```text
//!   record     the calls of a workload; requests of the store, the log's writes and flushes, and calls in one sequence
//!   explore    cut anywhere: the log loses what disks lose, or nothing (a process is killed), or all of it (a machine
//!              is lost); the store has, of what was not answered, anything that its rule allows
//!              (`ondol_stores::unruly`)
//!   judge      the objects in a new store in memory, taken over by the code that ships; export, e2fsck, our check,
//!              the model
//!   kept       a state that breaks the contract, as files
//! ```
//!
//! The database's tasks run in an order of their own. So a run cannot be repeated, and a state is kept as what it
//! holds.

mod explore;
mod judge;
mod kept;
mod record;
mod tape;

use crate::explore::{CasePath, Limits, Report, Violation, Watch};
use crate::prey::{Prey, caught};
use crate::workload::{Mount, Workload};
use ondol::Durable;
use ondol_object_home::object_store::path::Path;
use ondol_object_home::{Bucket, Local, LogMedium, Opening};
use ondol_power::Layer;
use ondol_stores::unruly::Unruly;
use std::sync::Arc;
use std::time::Duration;

/// Objects of the volume have names that begin like this.
const PREFIX: &str = "volume";

/// Nothing is shipped unless somebody waits for it.
const NEVER: Duration = Duration::from_secs(36_000);

/// How the volume of a run is opened.
#[derive(Clone, Debug)]
struct Terms {
    durable: Durable,
    /// Bytes of the log's ring.
    ring: usize,
    /// So long what is acknowledged waits for more before it is shipped.
    gather: Duration,
}

impl Terms {
    /// With much memory the log is long, too; the others come to their end again and again. Some mounts ship at once,
    /// the others when they must.
    fn of(durable: Durable, mount: Mount) -> Self {
        let ring = if matches!(mount, Mount::Roomy | Mount::Zeroing) { 2 << 20 } else { 128 << 10 };
        let gather = if matches!(mount, Mount::Tight | Mount::File) { NEVER } else { Duration::from_millis(1) };
        Self { durable, ring, gather }
    }

    /// Takes the volume over, with this log, and without the one that is given up. Memory is short, so that the
    /// database has objects beside its log, and large batches bypass that.
    fn opening(&self, log: Option<Arc<dyn LogMedium>>, given_up: Option<[u8; 16]>) -> Opening {
        let give_up = given_up.into_iter().collect();
        let local = log.map(|medium| Local { gather: self.gather, lag_time: NEVER, ..Local::new(medium) });
        let timeout = Some(Duration::from_secs(60));
        Opening { take_over: true, timeout, cache: 1 << 20, object: 128 << 10, local, give_up, ..Opening::default() }
    }
}

/// The volume in `store`.
fn bucket(store: &Unruly) -> Bucket {
    Bucket::new(Arc::new(store.clone()), "the volume in the store", Path::from(PREFIX))
}

/// Of so many times more states others are asked, and openings crashed: there are fewer of them than of a medium.
const CLOSER: u64 = 20;

/// Records and explores one workload of one thread, as [`Prey::explore`].
pub(crate) fn explore(prey: &Prey, durable: Durable, disks: &[Layer], workload: &Workload, watch: &Watch) -> Report {
    let terms = Terms::of(durable, workload.mount);
    let recorded = caught(|| {
        let image = Prey::image_in_store(disks, workload)?;
        record::record(prey, &image, workload, terms)
    });
    let violation = |what: String, state: Option<String>, events: String| {
        let (path, run) = (CasePath::default(), prey.describe(workload));
        Violation { what, path, run, state, events, times: 1 }
    };
    let recording = match recorded {
        Ok(recording) => recording,
        Err(what) => {
            return Report { violations: vec![violation(what, None, String::new())], ..Report::default() };
        }
    };
    let Limits { second_opinion_every, recrash_every, .. } = prey.limits;
    let limits = Limits {
        second_opinion_every: second_opinion_every.div_ceil(CLOSER),
        recrash_every: recrash_every.div_ceil(CLOSER),
        ..prey.limits
    };
    let (mut report, found) = explore::explore(&recording, &limits, watch);
    for wrong in found {
        // What a planted defect leaves is of no use to anybody.
        let kept = prey.plant.is_none().then(|| kept::keep(&wrong.state));
        let state = kept.unwrap_or_else(|| format!("a state of {}", wrong.state.told()));
        report.violations.push(violation(wrong.what, Some(state), wrong.events));
    }
    report
}
