//! A state that was seen before a promise is looked at again after it, and so is its recovery.

use ondol_env::sync::Arc;
use ondol_laboratory::explore::{Limits, Watch, explore, replay};
use ondol_laboratory::{Description, Subject, Told};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain, UNIT};

const LOG: u64 = 0;
const HOME: u64 = UNIT as u64;

/// One unit of log, one of home. The log holds 1, which goes home; the promise that 1 is there comes when the log is
/// durable.
struct System {
    media: Vec<Medium>,
    events: Vec<Event>,
    /// Recovery empties the log before what it wrote home is durable.
    hasty: bool,
}

fn write(offset: u64, byte: u8) -> Event {
    Event::Write { medium: 0, offset, bytes: [byte; UNIT].into() }
}

const FLUSH: Event = Event::Flush { medium: 0 };

impl System {
    fn new(hasty: bool) -> Self {
        let media = vec![Medium { base: Layer::new(vec![0; 2 * UNIT]), kind: Kind::Block, whole: None }];
        let events = vec![write(LOG, 1), FLUSH, Event::Mark(0)];
        Self { media, events, hasty }
    }

    /// What recovery does to a medium that holds `layer`.
    fn redo(&self, layer: &Layer) -> Vec<Event> {
        let mut log = [0];
        layer.read(LOG as usize, &mut log);
        match log {
            [0] => Vec::new(),
            _ if self.hasty => vec![write(HOME, 1), write(LOG, 0), FLUSH],
            _ => vec![write(HOME, 1), FLUSH, write(LOG, 0), FLUSH],
        }
    }
}

impl Subject for System {
    type Matched = u8;

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        let mut layer = layers[0].clone();
        for event in self.redo(&layers[0]) {
            if let Event::Write { offset, bytes, .. } = event {
                layer.write(offset as usize, &bytes);
            }
        }
        Ok(vec![layer])
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        self.redo(&layers[0]).into_iter().for_each(|event| domain.push(event));
        Ok(())
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        recovered[0].fingerprint()
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<u8, String> {
        let mut home = [0];
        recovered[0].read(HOME as usize, &mut home);
        match self.still_allowed(&home[0], events) {
            true => Ok(home[0]),
            false => Err(format!("{} at home after {events} events", home[0])),
        }
    }

    fn still_allowed(&self, matched: &u8, events: usize) -> bool {
        *matched == 1 || events < self.events.len()
    }

    fn is_narrowed(&self, events: usize) -> bool {
        events == self.events.len()
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
fn the_recovery_of_a_state_is_crashed_again_once_less_is_allowed() {
    let limits = Limits { recrash_every: 1, ..Limits::default() };
    let right = explore(&System::new(false), &limits, &Watch::default());
    assert!(right.violations.is_empty() && right.nested > 0, "{:?}", right.violations);
    let hasty = System::new(true);
    let found = explore(&hasty, &limits, &Watch::default());
    let violation = found.violations.first().expect("a recovery that forgets is found");
    assert_eq!(violation.path.0.len(), 2, "{}", violation.path);
    assert!(replay(&hasty, &violation.path).unwrap().is_some());
}

#[test]
fn so_many_states_and_no_more() {
    let limits = Limits { states: Some(2), ..Limits::default() };
    let found = explore(&System::new(false), &limits, &Watch::default());
    assert_eq!((found.seen.len(), found.distinct), (2, 2));
}
