//! What a mount has done, for who is in the process that serves it.

use crate::ops::Ops;
use serde_json::Value;
use std::sync::Arc;

/// Reads what a mount has done. It may outlive the mount, and keeps nothing open.
#[derive(Clone)]
pub struct Meter(Arc<Ops>);

impl Meter {
    pub(crate) fn new(ops: &Arc<Ops>) -> Self {
        Self(Arc::clone(ops))
    }

    /// Counters, requests, errors, latencies, and how it is mounted, as the attribute [`crate::client::STATS`] has
    /// them. `None` when the mount has ended, or ends.
    pub fn read(&self) -> Option<Value> {
        self.0.measure()
    }

    /// Has all requests timed from now on.
    pub fn time_all(&self) {
        self.0.time_all();
    }
}
