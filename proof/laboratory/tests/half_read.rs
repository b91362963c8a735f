//! What recovery reads and may be there in part is found where nothing covers it, whatever else would allow it.

use ondol_env::sync::Arc;
use ondol_laboratory::explore::{CasePath, Limits, Watch, explore, replay};
use ondol_laboratory::{Description, Subject, Told};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain, UNIT};

/// A record of two units, another write that nobody reads, and home, which gets what the record says.
struct System {
    media: Vec<Medium>,
    events: Vec<Event>,
    /// Recovery takes no record whose units differ.
    is_checked: bool,
}

const OTHER: usize = 2 * UNIT;
const HOME: usize = 3 * UNIT;

impl System {
    fn new(is_checked: bool) -> Self {
        let media = vec![Medium { base: Layer::new(vec![0; HOME + 2]), kind: Kind::Block, whole: None }];
        let write =
            |offset: usize, bytes: &[u8]| Event::Write { medium: 0, offset: offset as u64, bytes: bytes.into() };
        let events = vec![write(0, &[1; 2 * UNIT]), write(OTHER, &[1; UNIT]), Event::Mark(0)];
        Self { media, events, is_checked }
    }

    /// The first byte of each unit, if recovery takes them.
    fn record(&self, layer: &Layer, domain: Option<&PowerDomain>) -> [u8; 2] {
        let mut record = [0; 2];
        for (unit, byte) in record.iter_mut().enumerate() {
            domain.iter().for_each(|domain| domain.note_read(0, (unit * UNIT) as u64, 1));
            layer.read(unit * UNIT, std::slice::from_mut(byte));
        }
        if self.is_checked && record[0] != record[1] { [0; 2] } else { record }
    }
}

impl Subject for System {
    type Matched = ();

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        let mut layer = self.media[0].base.clone();
        layer.write(HOME, &self.record(&layers[0], None));
        Ok(vec![layer])
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        let _record = self.record(&layers[0], Some(domain));
        Ok(())
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        recovered[0].fingerprint()
    }

    fn is_same(&self, one: &[Layer], other: &[Layer]) -> Result<bool, String> {
        Ok(self.essence(&mut one.to_vec()) == self.essence(&mut other.to_vec()))
    }

    fn judge(&self, _: &[Layer], _: usize) -> Result<(), String> {
        Ok(())
    }

    fn still_allowed(&self, (): &(), _: usize) -> bool {
        true
    }

    fn is_narrowed(&self, _: usize) -> bool {
        false
    }

    fn second_opinion(&self, _: &[Layer], _: usize) -> Result<(), String> {
        Ok(())
    }
}

impl Told for System {
    fn describe(&self) -> Description {
        Description::default()
    }
}

#[test]
fn a_part_that_nothing_covers_is_found() {
    let covered = explore(&System::new(true), &Limits::default(), &Watch::default());
    assert!(covered.violations.is_empty() && covered.read > 0, "{:?}", covered.violations);
    let system = System::new(false);
    let found = explore(&system, &Limits::default(), &Watch::default());
    let violation = found.violations.first().expect("half a record is found");
    let path: CasePath = violation.path.to_string().parse().unwrap();
    assert!(path == violation.path && path.to_string().ends_with("/~0"), "{path}");
    assert!(replay(&system, &path).unwrap().is_some());
}
