//! What carries the requests, as far as the volume's state tells of it.

use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What carries requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// `/dev/fuse`.
    Device,
    /// io_uring.
    Rings,
}

/// What carries the requests of one mount now.
#[derive(Debug, Default)]
pub(super) struct Carried {
    by_rings: AtomicBool,
    excess: AtomicUsize,
}

impl Carried {
    pub(super) fn set(&self, carrier: Carrier, excess: usize) {
        self.by_rings.store(carrier == Carrier::Rings, Relaxed);
        self.excess.store(excess, Relaxed);
    }

    /// Names it as the option `transport=` does, and adds what its messages take beyond the volume's share to the bound
    /// of memory.
    pub(super) fn tell(&self, mount: &mut Map<String, Value>) {
        mount.insert("transport".into(), if self.by_rings.load(Relaxed) { "uring" } else { "dev" }.into());
        if let Some(bound) = mount.get("memory_bound").and_then(Value::as_u64) {
            mount.insert("memory_bound".into(), (bound + self.excess.load(Relaxed) as u64).into());
        }
    }
}
