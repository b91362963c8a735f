//! A disk and NVM in one power domain: a cut hits both at the same instant, and the laboratory sees what only that
//! shows.
//!
//! The subject is the smallest system that needs both: a record goes to NVM, which makes it count; later it goes home
//! to the disk; only then is the record given up.

use ondol::{DataMode, JournalEngine};
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_laboratory::explore::{Limits, Report, Watch, explore, replay, smallest};
use ondol_laboratory::workload::from_text;
use ondol_laboratory::{Description, Image, Prey, Subject, Told};
use ondol_medium::{Domain, Nvm};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain};
use ondol_stores::Recorder;

/// A rule that the system breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The record is published together with its bytes.
    PublishedUnfenced,
    /// The record is given up before the disk has flushed it.
    GivenUpUnflushed,
    /// The write home comes before the record counts.
    HomeFirst,
}

/// On NVM: a word that is the number of the record, or 0, then its bytes. On the disk: the bytes, in two sectors.
const RECORD: usize = 1024;

struct System {
    media: Vec<Medium>,
    events: Vec<Event>,
}

fn bytes(n: u64) -> [u8; RECORD] {
    [n as u8; RECORD]
}

/// Writes 1, 2, 3 … over each other, each durable when its mark comes.
fn record(broken: Broken, domain: Domain) -> System {
    let power = PowerDomain::new();
    let disk = LayerStore::new(Layer::new(vec![0; 4096]));
    let kind = domain.crashes_as();
    let media = vec![
        Medium { base: disk.layer(), kind: Kind::Block, whole: None },
        Medium { base: Layer::new(vec![0; 4096]), kind, whole: None },
    ];
    let disk = Recorder::new(disk, 0, power.clone());
    let nvm = Nvm::volatile(4096).unwrap().with_domain(domain).unwrap().record(power.clone(), 1);
    for n in 1..=3 {
        if broken == Broken::HomeFirst {
            disk.write(0, &bytes(n)).unwrap();
        }
        let mut stored = nvm.stored();
        stored.store(64, &bytes(n)).unwrap();
        if broken == Broken::PublishedUnfenced {
            stored.store_u64(0, n).unwrap();
            let _durable = stored.write_back().fence().unwrap();
        } else {
            let _durable = stored.write_back().fence().unwrap().publish(0, n).unwrap();
        }
        power.mark(n);
        if broken != Broken::HomeFirst {
            disk.write(0, &bytes(n)).unwrap();
        }
        if broken != Broken::GivenUpUnflushed {
            disk.flush().unwrap();
        }
        let mut stored = nvm.stored();
        stored.store_u64(0, 0).unwrap();
        let _durable = stored.write_back().fence().unwrap();
        if broken == Broken::GivenUpUnflushed {
            disk.flush().unwrap();
        }
    }
    System { media, events: power.take() }
}

impl System {
    fn redo(&self, layers: &[Layer], power: &Arc<PowerDomain>) -> Vec<Layer> {
        let disk = Recorder::new(LayerStore::new(layers[0].clone()), 0, power.clone());
        let nvm = Nvm::from_bytes(&layers[1].to_bytes()).unwrap();
        let nvm = nvm.with_domain(Domain::Adr).unwrap().record(power.clone(), 1);
        if nvm.load_u64(0).unwrap() != 0 {
            let mut found = [0; RECORD];
            nvm.read(64, &mut found).unwrap();
            disk.write(0, &found).unwrap();
            disk.flush().unwrap();
            let mut stored = nvm.stored();
            stored.store_u64(0, 0).unwrap();
            let _durable = stored.write_back().fence().unwrap();
        }
        vec![disk.inner().layer(), Layer::new(nvm.to_bytes().unwrap())]
    }
}

impl Subject for System {
    type Matched = u64;

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        Ok(self.redo(layers, &PowerDomain::new()))
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        drop(self.redo(layers, domain));
        Ok(())
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        recovered[0].fingerprint()
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<u64, String> {
        let mut found = [0; RECORD];
        recovered[0].read(0, &mut found);
        let n = u64::from(found[0]);
        if found != bytes(n) {
            return Err(format!("half a record: {found:?}"));
        }
        if self.still_allowed(&n, events) { Ok(n) } else { Err(format!("record {n} after {events} events")) }
    }

    fn still_allowed(&self, matched: &u64, events: usize) -> bool {
        let done = self.events[..events].iter().filter(|e| matches!(e, Event::Mark(_))).count() as u64;
        (done..=done + 1).contains(matched)
    }

    fn is_narrowed(&self, events: usize) -> bool {
        matches!(self.events[events - 1], Event::Mark(_))
    }

    fn second_opinion(&self, _layers: &[Layer], _events: usize) -> Result<(), String> {
        Ok(())
    }
}

impl Told for System {
    fn describe(&self) -> Description {
        Description::default()
    }
}

fn explored(broken: Broken, domain: Domain) -> (System, Report) {
    let system = record(broken, domain);
    let limits = Limits { recrash_every: 3, ..Limits::default() };
    let report = explore(&system, &limits, &Watch::default());
    (system, report)
}

#[test]
fn a_system_that_keeps_the_rules_is_right_in_every_state() {
    for domain in [Domain::Adr, Domain::Eadr] {
        let (_, report) = explored(Broken::Nothing, domain);
        assert!(report.violations.is_empty(), "{domain}: {}", report.violations[0]);
        assert!(report.distinct > 20 && report.nested > 0, "{domain}: {} states", report.distinct);
    }
}

#[test]
fn each_broken_rule_is_found_and_shrunk() {
    for broken in [Broken::PublishedUnfenced, Broken::GivenUpUnflushed, Broken::HomeFirst] {
        let (system, mut report) = explored(broken, Domain::Adr);
        let violation = report.violations.pop().unwrap_or_else(|| panic!("{broken:?} is not found"));
        let small = smallest(&system, violation);
        let again =
            replay(&system, &small.path).unwrap().unwrap_or_else(|| panic!("{broken:?}: {} is right", small.path));
        assert_eq!(again.what, small.what);
    }
}

#[test]
fn caches_that_survive_need_no_fence_between_bytes_and_publication() {
    let (_, report) = explored(Broken::PublishedUnfenced, Domain::Eadr);
    assert!(report.violations.is_empty(), "{}", report.violations[0]);
    let (_, report) = explored(Broken::GivenUpUnflushed, Domain::Eadr);
    assert!(!report.violations.is_empty(), "the disk's cache does not survive");
}

/// What is not written back is lost where caches die with the power, and is there where they survive.
#[test]
fn a_volume_has_a_pool_on_memory_of_either_domain() {
    let found = |domain, plant| {
        let limits = Limits { about: Some(150), recrash_every: 20, second_opinion_every: 0, ..Limits::default() };
        let (engine, data) = (JournalEngine::Scalable, DataMode::Journal);
        let prey = Prey { engine, data, plant, seed: 1, limits, fault: None, domain, store: None };
        let calls = "create /a 0644 ; write /a 0 3000 #1 ; fsync /a ; rename /a /b ; fsync /b";
        let workload = from_text("a few calls", calls, Image::Small).unwrap();
        let report = prey.explore(&workload.image.make().unwrap(), &workload, &Watch::default()).unwrap();
        assert!(report.distinct > 50 || !report.violations.is_empty(), "{}", report.distinct);
        report.violations.first().map(|violation| (violation.what.clone(), violation.run.arguments.clone()))
    };
    assert_eq!((found(Domain::Adr, None), found(Domain::Eadr, None)), (None, None));
    let lost = Some(Defect::LogMissingWriteBack);
    let (_, arguments) = found(Domain::Adr, lost).expect("a violation");
    assert!(!arguments.contains("--domain"), "{arguments}");
    assert_eq!(found(Domain::Eadr, lost), None);
}
