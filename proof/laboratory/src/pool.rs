//! The life of an NVM pool as the subject of an exploration: made, attached, given areas, detached; cut everywhere.
//!
//! After a crash the pool is in the state after some number of its changes, at least all that had returned: each is
//! durable when it returns. Before it was made there may also be the older pool that it takes the place of, or it is
//! refused, as no pool or a damaged one, because nothing was promised yet. Areas begin with zeros, whatever was there.

use crate::subject::{Description, Subject, Told};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_medium::{AreaKind, Domain, Header, Nvm, Pool, PoolError, PoolSpec};
use ondol_power::{Event, Layer, Medium, PowerDomain};
use ondol_testkit::disks;

/// Bytes of the pool.
const SIZE: u64 = 64 << 10;

/// Bytes of both headers.
const HEADERS: u64 = 8 << 10;

const OLD: [u8; 16] = *b"the older UUID. ";

const VOLUME: [u8; 16] = *b"a volume's UUID.";

/// A recorded pool.
#[derive(Clone, Debug)]
pub struct PoolRun {
    domain: Domain,
    planted: Option<Defect>,
    media: Vec<Medium>,
    events: Vec<Event>,
    /// The header after each change; there is none before the first.
    headers: Vec<Header>,
}

impl PoolRun {
    /// Records a pool on memory of this persistence domain.
    ///
    /// # Errors
    /// The pool fails without any crash.
    pub fn record(domain: Domain) -> Result<Self, String> {
        let power = PowerDomain::new();
        let old = used().map_err(|e| e.to_string())?;
        let nvm = Nvm::from_bytes(&old).and_then(|nvm| nvm.with_domain(domain)).map_err(|e| e.to_string())?;
        let base = Layer::new(old);
        let headers = live(nvm.record(power.clone(), 0), &power).map_err(|e| e.to_string())?;
        Ok(Self {
            domain,
            planted: ondol_faults::current(),
            media: vec![Medium { base, kind: domain.crashes_as(), whole: None }],
            events: power.take(),
            headers,
        })
    }

    fn memory(&self, layers: &[Layer]) -> Result<Nvm, String> {
        let nvm = disks::nvm(&layers[0]).and_then(|nvm| nvm.with_domain(self.domain));
        nvm.map_err(|e| e.to_string())
    }

    /// Changes that have returned, and that have begun.
    fn allowed(&self, events: usize) -> (usize, usize) {
        let returned = self.events.iter().take(events).filter(|e| matches!(e, Event::Mark(_))).count();
        (returned, (returned + 1).min(self.headers.len()))
    }
}

/// Memory that held another pool, with something in its areas.
fn used() -> Result<Vec<u8>, PoolError> {
    let old = Pool::create(Nvm::volatile(SIZE)?, &PoolSpec { uuid: OLD, ..PoolSpec::default() })?;
    let mut batch = old.nvm().stored();
    batch.copy(HEADERS, &[0xEE; (SIZE - HEADERS) as usize])?;
    let _durable = batch.write_back().fence()?;
    Ok(old.nvm().to_bytes()?)
}

/// Every kind of change; a mark after each.
fn live(nvm: Nvm, power: &PowerDomain) -> Result<Vec<Header>, PoolError> {
    let areas = vec![(AreaKind::JOURNAL_LOG, 8 << 10), (AreaKind::PAGE_DATA, 16 << 10)];
    let spec = PoolSpec { uuid: *b"the pool's UUID.", areas, force: true, ..PoolSpec::default() };
    let mut pool = Pool::create(nvm, &spec)?;
    let mut headers = Vec::new();
    let mut done = |pool: &Pool| {
        power.mark(headers.len() as u64);
        headers.push(pool.header().clone());
    };
    done(&pool);
    for _ in 0..2 {
        pool.attach(VOLUME)?;
        done(&pool);
    }
    pool.allot(AreaKind::PAGE_MAP, 4 << 10)?;
    done(&pool);
    pool.detach()?;
    done(&pool);
    pool.attach(VOLUME)?;
    done(&pool);
    Ok(headers)
}

impl Subject for PoolRun {
    type Matched = usize;

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        match Pool::open(self.memory(layers)?) {
            Ok(pool) => Ok(vec![Layer::new(pool.nvm().to_bytes().map_err(|e| e.to_string())?)]),
            // Whether that is allowed, `judge` says.
            Err(_) => Ok(layers.to_vec()),
        }
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        let _opened_or_refused = Pool::open(self.memory(layers)?.record(domain.clone(), 0));
        Ok(())
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        recovered[0].fingerprint()
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<usize, String> {
        let (least, most) = self.allowed(events);
        let pool = match Pool::open(self.memory(recovered)?) {
            Ok(old) if least == 0 && old.header().uuid == OLD => return Ok(0),
            Ok(pool) => pool,
            Err(PoolError::NotAPool { .. } | PoolError::Damaged { .. }) if least == 0 => return Ok(0),
            Err(e) => return Err(format!("after {least} changes that returned: {e}")),
        };
        for area in &pool.header().areas {
            let mut start = [0; 4096];
            pool.nvm().read(area.start, &mut start).map_err(|e| e.to_string())?;
            if start != [0; 4096] {
                return Err(format!(
                    "after {least} changes that returned: the area at {} begins with what was there before",
                    area.start
                ));
            }
        }
        let found = (least.max(1)..=most).find(|n| self.headers[n - 1] == *pool.header());
        found
            .ok_or_else(|| format!("the pool is not in the state after {least} to {most} changes: {:?}", pool.header()))
    }

    fn still_allowed(&self, matched: &usize, events: usize) -> bool {
        let (least, most) = self.allowed(events);
        (least..=most).contains(matched)
    }

    fn is_narrowed(&self, events: usize) -> bool {
        matches!(self.events[events - 1], Event::Mark(_))
    }

    fn second_opinion(&self, _layers: &[Layer], _events: usize) -> Result<(), String> {
        Ok(())
    }
}

impl Told for PoolRun {
    fn describe(&self) -> Description {
        let text = format!("a pool of {SIZE} bytes on {} memory: made, attached, given areas, detached\n", self.domain);
        let mut arguments = format!("--workload pool --domain {}", self.domain);
        if let Some(defect) = self.planted {
            arguments += &format!(" --plant {defect}");
        }
        Description { arguments, text, ..Description::default() }
    }
}
