//! Programs that make, write, sync, rename, link and remove files of two directories, with power cut after every
//! event, and recoveries that are cut, or refused something by the disk, and done again. Recovery finds all that was
//! acknowledged, of each directory's names a beginning of what was done, moves done in both or in none, no file twice
//! and none without a name that was not removed; and however often it was cut it comes to the same.
//!
//! Kernel ([`kernel`]) and disk ([`disk`]) are models. The log is the real one, on recorded NVM, and so is recovery.

mod disk;
mod judge;
mod kernel;
mod program;
mod recovery;

use ondol_medium::{Domain, Nvm};
use ondol_power::{Event, Layer, Medium, Sampling};

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What cuts of one run have shown.
#[derive(Default)]
pub(crate) struct Cuts {
    /// States that were recovered.
    pub(crate) states: usize,
    /// Syncs and changes that ended in the log.
    pub(crate) fast: usize,
    /// What is wrong with one of the states.
    pub(crate) wrong: Option<String>,
}

fn medium(base: &[u8], domain: Domain) -> Nvm {
    Nvm::from_bytes(base).unwrap().with_domain(domain).unwrap()
}

/// A pool, what was done to it, and how much of it a cut loses.
struct Recorded {
    base: Layer,
    events: Vec<Event>,
    domain: Domain,
    sampling: Sampling,
}

impl Recorded {
    /// So many states that cuts leave, until one is wrong.
    fn each(self, most: u64, mut judge: impl FnMut(&Layer, u64) -> Result<(), String>) -> (usize, Option<String>) {
        let kind = self.domain.crashes_as();
        let media = [Medium { base: self.base, kind, whole: None }];
        let mut wrong = None;
        let sampling = self.sampling.spread(&media, &self.events, |_| false, most);
        let states = sampling.each(&media, &self.events, |layers, mark| {
            if wrong.is_none() {
                wrong = judge(&layers[0], mark).err();
            }
        });
        (states, wrong)
    }
}

/// What programs do by a seed, and so many cuts of it; of one in `seldom` the recovery is cut, too.
pub(crate) fn cuts(seed: u64, most: u64, seldom: u64) -> Cuts {
    let domain = if seed % 4 == 3 { Domain::Eadr } else { Domain::Adr };
    let program::Run { kernel, base, fast } = program::record(seed, domain, 150);
    let recorded = Recorded {
        base: Layer::new(base),
        events: kernel.power.take(),
        domain,
        sampling: Sampling { seed, ..Sampling::default().at_most(16) },
    };
    let mut random = Random(seed ^ 0x5EED);
    let mut again = 0;
    let (states, wrong) = recorded.each(most, |pool, mark| {
        let cut = recovery::Cut { kernel: &kernel, moment: &kernel.moments[mark as usize], domain };
        let found = cut.recover(pool)?;
        if random.below(seldom) == 0 {
            again += cut.recover_again(pool, &found, &mut random)?;
        }
        Ok(())
    });
    Cuts { states: states + again, fast, wrong }
}
