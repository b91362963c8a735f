//! What a mount tells of itself: JSON for `ondol info`, `ondol top` and metrics.

use super::Ops;
use super::timing::now;
use ondol::inodes::Error;
use ondol::{Info, Volume};
use serde_json::{Map, Value, json};

/// What a volume is, which does not change while it is mounted.
#[derive(Debug, Default)]
pub(super) struct Identity {
    target: String,
    uuid: String,
    label: String,
}

impl Identity {
    /// Reads it from the medium, once: later there may be nothing to read any more, and then all the more to tell.
    pub(super) fn of(volume: &Volume) -> Self {
        match volume.info() {
            Ok(Info { target, uuid, label, .. }) => Self { target, uuid, label },
            Err(e) => {
                tracing::warn!("what is mounted cannot be told by name: {e}");
                Self::default()
            }
        }
    }
}

fn wrong(_: serde_json::Error) -> Error {
    Error::Invalid("the volume's state has no JSON form")
}

impl Ops {
    /// The volume's state with the requests counted here.
    pub(super) fn info(&self, volume: &Volume) -> Result<Vec<u8>, Error> {
        let state = volume.state().info_with_usage().map_err(|e| Error::Unsupported(e.to_string()))?;
        let mut info = serde_json::to_value(state).map_err(wrong)?;
        self.add_own(&mut info);
        serde_json::to_vec(&info).map_err(wrong)
    }

    /// What the mount has done, and has to do. Requests are timed for some time from now on.
    pub(super) fn stats(&self, volume: &Volume) -> Result<Vec<u8>, Error> {
        self.timing.ask();
        serde_json::to_vec(&self.counted(volume)?).map_err(wrong)
    }

    /// The same for who is within this process, of whom requests do not count. `None` when the volume is being closed.
    pub(crate) fn measure(&self) -> Option<Value> {
        match self.gate.enter(|volume| self.counted(volume)) {
            Some(Ok(stats)) => Some(stats),
            Some(Err(e)) => {
                tracing::warn!("what the mount has done cannot be told: {e}");
                None
            }
            None => None,
        }
    }

    /// Times all requests from now on.
    pub(crate) fn time_all(&self) {
        self.timing.ask_for_ever();
    }

    /// Notes the options that whoever serves has taken himself.
    pub(crate) fn is_served_with(&self, options: &str) {
        // Nobody says it twice.
        let _ = self.served_with.set(options.to_owned());
    }

    fn counted(&self, volume: &Volume) -> Result<Value, Error> {
        let Identity { target, uuid, label } = &self.identity;
        let space = volume.inodes().statfs();
        let mut stats = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "since_ns": self.since,
            "now_ns": now(),
            "target": target,
            "uuid": uuid,
            "label": label,
            "block_size": space.block_size,
            "blocks": space.blocks,
            "free_blocks": space.free,
            "available_blocks": space.available,
            "inodes": space.files,
            "free_inodes": space.files_free,
            "mount": volume.state().mount(),
            "pages": volume.state().pages(),
            "counters": volume.state().counters(),
            "latencies": self.timing.read(),
        });
        if let (Some(bucket), Some(fields)) = (volume.state().bucket(), stats.as_object_mut()) {
            fields.insert("bucket".into(), serde_json::to_value(bucket).map_err(wrong)?);
        }
        self.add_own(&mut stats);
        Ok(stats)
    }

    /// Adds what is known here and not to the volume.
    fn add_own(&self, state: &mut Value) {
        let requests = self.counters.read();
        let total: u64 = requests.iter().map(|(_, n)| n).sum();
        if let Some(mount) = state.get_mut("mount").and_then(Value::as_object_mut) {
            self.carried.tell(mount);
            if let Some(options) = self.served_with.get().filter(|options| !options.is_empty()) {
                mount.insert("served_with".into(), options.as_str().into());
            }
        }
        if let Some(counters) = state.get_mut("counters").and_then(Value::as_object_mut) {
            counters.insert("fuse_requests".into(), total.into());
        }
        if let Some(fields) = state.as_object_mut() {
            let requests: Map<String, Value> = requests.into_iter().map(|(kind, n)| (kind.into(), n.into())).collect();
            fields.insert("requests".into(), requests.into());
            fields.insert("errors".into(), self.failed.read());
        }
    }
}
