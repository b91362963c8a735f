//! Recovery of what a cut has left; cut, or refused by the disk, and done again.

use super::disk::{Disk, State};
use super::judge::{Contents, births, contents, judge};
use super::kernel::{Kernel, Moment};
use super::{Random, Recorded, medium};
use ondol_env::sync::Arc;
use ondol_medium::Domain;
use ondol_power::{Layer, PowerDomain, Sampling};
use ondol_run_log::{Log, Outcome, found, recover_to};

/// States of each recovery that is cut.
const STATES: u64 = 24;

/// A cut of what programs did.
pub(crate) struct Cut<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) moment: &'k Moment,
    pub(crate) domain: Domain,
}

/// A log and a disk.
struct Rig {
    log: Log,
    disk: Disk,
}

impl Rig {
    fn new(pool: &Layer, domain: Domain, disk: State) -> Result<Self, String> {
        let power = PowerDomain::new();
        let nvm = medium(&pool.to_bytes(), domain).record(Arc::clone(&power), 0);
        Ok(Self { log: Log::join(nvm).map_err(|e| e.to_string())?, disk: Disk::new(power, disk) })
    }

    /// Recovers; what is there then.
    fn recover(&self) -> Result<Contents, String> {
        let told = recover_to(&self.log, &self.disk).map_err(|e| e.to_string())?;
        let is_whole = told.files.iter().all(|(_, outcome)| !matches!(outcome, Outcome::Beside(_)));
        if !is_whole || !told.is_complete() || !found(&self.log).map_err(|e| e.to_string())?.is_empty() {
            return Err(format!("{told:?}"));
        }
        contents(&self.disk.live())
    }
}

fn same(found: &Contents, again: &Contents) -> Result<(), String> {
    let differs = |name: &&(usize, u8)| found.get(name) != again.get(name);
    let tell = |contents: &Contents, name| contents.get(name).map(|(file, bytes)| (*file, bytes.len()));
    found.keys().chain(again.keys()).find(differs).map_or(Ok(()), |name| {
        Err(format!("{name:?} is {:?}, after one recovery {:?}", tell(again, name), tell(found, name)))
    })
}

impl Cut<'_> {
    /// What recovery makes of it.
    pub(crate) fn recover(&self, pool: &Layer) -> Result<Contents, String> {
        let rig = Rig::new(pool, self.domain, State::of(self.kernel, self.moment))?;
        births(self.kernel, self.moment, &found(&rig.log).map_err(|e| e.to_string())?)?;
        let found = rig.recover()?;
        judge(self.kernel, self.moment, &found)?;
        Ok(found)
    }

    /// As [`Again::recover`], of the first recovery.
    pub(crate) fn recover_again(&self, pool: &Layer, found: &Contents, random: &mut Random) -> Result<usize, String> {
        let again = Again { domain: self.domain, found };
        again.recover(pool, State::of(self.kernel, self.moment), 2, random)
    }
}

/// Recoveries that are done again.
struct Again<'f> {
    domain: Domain,
    /// What one recovery comes to.
    found: &'f Contents,
}

impl Again<'_> {
    /// Cuts of a recovery come to the same by another one, which is seldom cut itself, to this depth. Before the
    /// first the disk may refuse one something. Answers how many recoveries there were.
    fn recover(&self, pool: &Layer, disk: State, depth: u32, random: &mut Random) -> Result<usize, String> {
        let rig = Rig::new(pool, self.domain, disk)?;
        if random.below(3) == 0 {
            // The first of all look for the directories.
            let (most, len) = ([6, 40][random.below(2) as usize], [1, 2, 3, u64::MAX][random.below(4) as usize]);
            let from = random.below(most);
            rig.disk.refuses(from..from.saturating_add(len));
            recover_to(&rig.log, &rig.disk).map_err(|e| e.to_string())?;
            rig.disk.is_well();
        }
        let mut done = 1;
        same(self.found, &rig.recover()?)?;
        let recorded = Recorded {
            base: pool.clone(),
            events: rig.disk.power.take(),
            domain: self.domain,
            sampling: Sampling { seed: random.below(1 << 30), ..Sampling::default().at_most(4) },
        };
        let (states, wrong) = recorded.each(STATES, |pool, steps| {
            let left = rig.disk.cut(steps, random);
            if depth > 1 && random.below(10) == 0 {
                done += self.recover(pool, left, depth - 1, random)?;
                return Ok(());
            }
            let again = Rig::new(pool, self.domain, left)?.recover().and_then(|again| same(self.found, &again));
            again.map_err(|wrong| format!("{wrong}, after {:?} of a recovery", &rig.disk.steps()[..steps as usize]))
        });
        wrong.map_or(Ok(done + states), Err)
    }
}
