//! What recovery reads of what a crash may leave: states that differ in that alone, and values that nothing covers.
//!
//! Of thousands of lines and blocks that are on their way, recovery reads a few. At places of a run the power coming
//! back is recorded with its reads. What it reads and is not durable (a cross-failure race) is then varied alone: there
//! or not, in parts, with all else there, or lost, or only what is older. What is covered, by a checksum or by being
//! one word, has no half: recovery makes of a part what it makes of some whole. A third outcome is a finding by itself.
//! Where there are two copies of something, both are torn, too.

use super::{CasePath, Explorer, Place, Then};
use crate::subject::Subject;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_power::{Case, Cut, Event, Item, Keep, Layer, PowerDomain, Reads};
use std::collections::HashSet;

/// One of so many states of a run is of these; a few are in any case.
const PART: u64 = 8;
const FEW: u64 = 16;

/// What of one place is varied at most, and how often each is torn beside the same others.
const MOST: usize = 12;
const TORN: usize = 3;

impl<S: Subject> Explorer<'_, S> {
    /// Varies what recovery reads, at places of the run that are chosen by its seed.
    pub(super) fn directed(&mut self, place: &Place<'_>) {
        let states = (self.report.states / PART).max(FEW);
        let most = self.report.states + states;
        let mut random = Fixed::new(Timestamp::default(), self.every.sampling.seed ^ 0x5EAD);
        let ends = |event: &Event| matches!(event, Event::Flush { .. } | Event::Fence { .. } | Event::Settled { .. });
        let mut places: Vec<usize> = (1..=place.events.len())
            .filter(|n| self.subject.is_narrowed(*n) || place.events.get(*n).is_none_or(ends))
            .collect();
        // A few of them, in their order.
        while places.len() as u64 > (states / (4 * MOST as u64)).max(1) {
            places.swap_remove(random.random_u32() as usize % places.len());
        }
        places.sort_unstable();
        let mut cut = Cut::new(place.media);
        let mut places = places.into_iter().peekable();
        for (n, event) in (1..).zip(place.events) {
            cut.advance(event);
            let is_place = places.next_if_eq(&n).is_some() && cut.items().len() > 1;
            if is_place && !self.vary(place, &cut, &mut random, most) {
                return;
            }
        }
    }

    /// Varies what recovery reads at one place, until there are so many states; whether to go on.
    fn vary(&mut self, place: &Place<'_>, cut: &Cut<'_>, random: &mut Fixed, most: u64) -> bool {
        let mut read = self.read(cut);
        self.report.read += read.len() as u64;
        while read.len() > MOST {
            read.swap_remove(random.random_u32() as usize % read.len());
        }
        let goes_on = read.iter().all(|at| self.report.states < most && self.vary_one(place, cut, *at, random));
        goes_on && self.tear_all(place, cut, &read, random)
    }

    /// All that recovery reads is there in part, at once: two copies of the same are no more than one then.
    fn tear_all(&mut self, place: &Place<'_>, cut: &Cut<'_>, read: &[usize], random: &mut Fixed) -> bool {
        let (items, n) = (cut.items(), cut.items().len());
        let mut states = (0..2 * TORN).map(|i| vec![if i % 2 == 0 { Keep::None } else { Keep::All }; n]);
        read.is_empty()
            || states.all(|mut keep| {
                for &at in read {
                    keep[at] = items[at].torn(|_| random.random_u32() as usize % items[at].choices());
                }
                self.state(place, cut, keep)
            })
    }

    /// Which items recovery reads, where nothing or all of what may be there is.
    fn read(&self, cut: &Cut<'_>) -> Vec<usize> {
        let n = cut.items().len();
        let reads = [Keep::None, Keep::All].map(|keep| noted(self.subject, &cut.build(&vec![keep; n])));
        let reads = reads.concat();
        let is_read =
            |item: &Item<'_>| reads.iter().any(|(medium, bytes)| *medium == item.medium() && item.meets(bytes));
        (0..n).filter(|at| is_read(&cut.items()[*at])).collect()
    }

    fn vary_one(&mut self, place: &Place<'_>, cut: &Cut<'_>, at: usize, random: &mut Fixed) -> bool {
        let (item, n) = (&cut.items()[at], cut.items().len());
        let older = (0..n).map(|other| if other < at { Keep::All } else { Keep::None }).collect();
        for mut keep in [vec![Keep::None; n], vec![Keep::All; n], older] {
            let mut wholes = HashSet::new();
            for choice in 0..item.choices() {
                keep[at] = item.choice(choice);
                match self.essence(place, cut, &keep) {
                    Some(essence) => wholes.insert(essence),
                    None => return false,
                };
            }
            let torn = if item.parts() > 1 { TORN } else { 0 };
            for _ in 0..torn {
                keep[at] = item.torn(|_| random.random_u32() as usize % item.choices());
                match self.essence(place, cut, &keep) {
                    None => return false,
                    Some(essence) if wholes.contains(&essence) => {}
                    Some(_) => {
                        if let Err(what) = half(self.subject, cut, &keep, at) {
                            let path = CasePath(vec![Case { events: cut.events(), keep }], Some(Then::Half(at)));
                            self.found(what, path);
                            return !self.done;
                        }
                    }
                }
            }
        }
        true
    }

    /// What recovery makes of a state, which is judged; `None`: enough.
    fn essence(&mut self, place: &Place<'_>, cut: &Cut<'_>, keep: &[Keep]) -> Option<u128> {
        let fingerprint = Layer::fingerprint_of(&mut cut.build(keep));
        let goes_on = self.state(place, cut, keep.to_vec());
        self.seen.get(&fingerprint).copied().filter(|_| goes_on)
    }
}

const HALF: &str = "recovery reads what may be there in part, and no checksum or order covers it: \
                    of this part it makes what it makes of no whole";

/// What the coming back from a state reads; nothing where it fails, which is judged elsewhere.
fn noted<S: Subject>(subject: &S, layers: &[Layer]) -> Reads {
    let domain = PowerDomain::with_reads();
    let came_back = subject.come_back(layers, &domain);
    came_back.map(|()| domain.take_reads()).unwrap_or_default()
}

/// Whether recovery makes of the part that is there of an item what it makes of some whole of it.
fn half<S: Subject>(subject: &S, cut: &Cut<'_>, keep: &[Keep], at: usize) -> Result<(), String> {
    let (item, made) = (&cut.items()[at], subject.recover(&cut.build(keep))?);
    for choice in 0..item.choices() {
        let mut keep = keep.to_vec();
        keep[at] = item.choice(choice);
        if subject.is_same(&made, &subject.recover(&cut.build(&keep))?)? {
            return Ok(());
        }
    }
    Err(HALF.into())
}

/// The same of [`Then::Half`].
pub(super) fn half_again<S: Subject>(subject: &S, case: &Case, at: usize) -> Result<Result<(), String>, String> {
    let cut = Cut::after(subject.media(), &subject.events()[..case.events.min(subject.events().len())]);
    if at >= cut.items().len() || case.keep.len() != cut.items().len() {
        return Err("no such loss in this state".into());
    }
    Ok(half(subject, &cut, &case.keep, at))
}
