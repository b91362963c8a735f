//! A slower NVM than the one at hand: reads, fences and bytes take as long as they would there.

use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::{Env, System};
use std::fmt;
use std::str::FromStr;

/// Latencies and bandwidth of a modelled NVM; zero is "as it is". As text: `read=300ns,write=100ns,bandwidth=2G`, each
/// part optional, `off` for none. In a list of options, which has commas of its own, `+` joins the parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmModel {
    /// Nanoseconds that each read waits, whatever its length: lines that follow are fetched ahead.
    pub read_ns: u64,
    /// Nanoseconds that a fence waits if anything was to be written back: lines of one fence overlap.
    pub write_ns: u64,
    /// Bytes a second that all threads together read, write back and copy.
    pub bandwidth: u64,
}

/// A model that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no part of an NVM model: write read=300ns, write=100ns or bandwidth=2G")]
pub struct ModelError(pub String);

impl NvmModel {
    /// Nothing is slowed down.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for NvmModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_off() {
            return f.write_str("off");
        }
        let parts = [("read", self.read_ns, "ns"), ("write", self.write_ns, "ns"), ("bandwidth", self.bandwidth, "")];
        let parts = parts.iter().filter(|(_, value, _)| *value > 0);
        let parts: Vec<String> = parts.map(|(name, value, unit)| format!("{name}={value}{unit}")).collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for NvmModel {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut model = Self::default();
        if text == "off" {
            return Ok(model);
        }
        for part in text.split([',', '+']) {
            let bad = || ModelError(part.into());
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            let (place, units) = match name {
                "read" => (&mut model.read_ns, TIMES.as_slice()),
                "write" => (&mut model.write_ns, TIMES.as_slice()),
                "bandwidth" => (&mut model.bandwidth, SIZES.as_slice()),
                _ => return Err(bad()),
            };
            *place = number(value, units).ok_or_else(bad)?;
        }
        Ok(model)
    }
}

const TIMES: [(&str, u64); 3] = [("ns", 1), ("us", 1000), ("ms", 1_000_000)];
const SIZES: [(&str, u64); 5] = [("", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40)];

fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The model at work.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    model: NvmModel,
    /// When the medium has carried all bytes handed to it, on the monotonic clock.
    free_at: AtomicU64,
}

impl Pace {
    pub(crate) fn new(model: NvmModel) -> Self {
        Self { model, free_at: AtomicU64::new(0) }
    }

    /// Takes as long as reading `bytes` would.
    pub(crate) fn read(&self, bytes: u64) {
        self.wait(self.model.read_ns, bytes);
    }

    /// Takes as long as a fence after `bytes` would.
    pub(crate) fn write(&self, bytes: u64) {
        if bytes > 0 {
            self.wait(self.model.write_ns, bytes);
        }
    }

    fn wait(&self, latency: u64, bytes: u64) {
        if self.model.is_off() {
            return;
        }
        let start = System.monotonic_ns();
        let end = self.carry(start, bytes).saturating_add(latency);
        while System.monotonic_ns() < end {
            std::hint::spin_loop();
        }
    }

    /// Enters `bytes` into the queue of the one channel; returns when they are through.
    fn carry(&self, now: u64, bytes: u64) -> u64 {
        let Some(nanoseconds) = bytes.saturating_mul(1_000_000_000).checked_div(self.model.bandwidth) else {
            return now;
        };
        let through = |free: u64| free.max(now).saturating_add(nanoseconds);
        // The closure always has a value.
        self.free_at.fetch_update(Relaxed, Relaxed, |free| Some(through(free))).map_or(now, through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_its_text() {
        let model: NvmModel = "read=300ns,write=1us,bandwidth=2G".parse().unwrap();
        assert_eq!(model, NvmModel { read_ns: 300, write_ns: 1000, bandwidth: 2 << 30 });
        assert_eq!(model.to_string().parse(), Ok(model));
        assert_eq!("read=300ns+write=1us+bandwidth=2G".parse(), Ok(model));
        assert_eq!("off".parse(), Ok(NvmModel::default()));
        assert_eq!(NvmModel::default().to_string(), "off");
        for text in ["", "read", "read=3", "speed=3ns", "bandwidth=2X", "read=99999999999999999999ns"] {
            assert_eq!(text.parse::<NvmModel>(), Err(ModelError(text.into())));
        }
    }

    #[test]
    fn bytes_queue_for_one_channel() {
        let pace = Pace::new(NvmModel { bandwidth: 1_000_000_000, ..NvmModel::default() });
        assert_eq!((pace.carry(100, 50), pace.carry(120, 50), pace.carry(1000, 1)), (150, 200, 1001));
    }
}
