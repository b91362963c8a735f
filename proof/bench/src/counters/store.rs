//! What a volume in object storage asked of its store.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests, and bytes that went either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Store {
    /// Objects that were put, parts of large ones included.
    pub(crate) puts: u64,
    /// Objects that were read, or parts of them.
    pub(crate) gets: u64,
    /// Objects that were only looked at.
    pub(crate) heads: u64,
    /// Lists.
    pub(crate) lists: u64,
    /// Objects that were deleted.
    pub(crate) deletes: u64,
    /// Copies within the store, beginnings and ends of uploads in parts.
    pub(crate) others: u64,
    /// Bytes up.
    pub(crate) up: u64,
    /// Bytes down.
    pub(crate) down: u64,
    /// Requests that a client made again.
    pub(crate) repeated: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
}

impl Store {
    /// From what a volume tells of itself; `None` if it is in no object storage.
    pub(super) fn of_info(info: &Value) -> Option<Self> {
        let requests = info.pointer("/bucket/requests")?;
        let get = |name: &str| requests.get(name).and_then(Value::as_u64).unwrap_or(0);
        Some(Self {
            puts: get("puts"),
            gets: get("gets"),
            heads: get("heads"),
            lists: get("lists"),
            deletes: get("deletes"),
            others: get("copies").saturating_add(get("uploads")),
            up: get("up"),
            down: get("down"),
            repeated: get("repeated"),
            failed: get("failed"),
        })
    }

    /// All requests.
    pub(crate) fn requests(&self) -> u64 {
        [self.puts, self.gets, self.heads, self.lists, self.deletes, self.others]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    pub(super) fn with(self, other: Self, how: fn(u64, u64) -> u64) -> Self {
        Self {
            puts: how(self.puts, other.puts),
            gets: how(self.gets, other.gets),
            heads: how(self.heads, other.heads),
            lists: how(self.lists, other.lists),
            deletes: how(self.deletes, other.deletes),
            others: how(self.others, other.others),
            up: how(self.up, other.up),
            down: how(self.down, other.down),
            repeated: how(self.repeated, other.repeated),
            failed: how(self.failed, other.failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_volume_tells_is_mapped_and_others_tell_nothing() {
        assert_eq!(Store::of_info(&json!({"counters": {}})), None);
        let requests = json!({"puts": 5, "gets": 2, "lists": 1, "copies": 1, "uploads": 2, "up": 700, "down": 30});
        let store = Store::of_info(&json!({"bucket": {"requests": requests}})).expect("a store");
        assert_eq!((store.requests(), store.puts, store.up, store.down), (11, 5, 700, 30));
        assert_eq!(store.with(store, u64::saturating_sub), Store::default());
    }
}
