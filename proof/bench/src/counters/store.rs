//! What a volume in object storage asked of its store.

use super::counts;
use serde::Serialize;
use serde_json::Value;

counts! {
    /// Requests, and bytes that went either way.
    Store {
        /// Objects that were put, parts of large ones included.
        puts,
        /// Objects that were read, or parts of them.
        gets,
        /// Objects that were only looked at.
        heads,
        /// Lists.
        lists,
        /// Objects that were deleted.
        deletes,
        /// Copies within the store.
        copies,
        /// Beginnings and ends of uploads in parts.
        uploads,
        /// Bytes up.
        up,
        /// Bytes down.
        down,
        /// Requests that a client made again.
        repeated,
        /// Requests that failed.
        failed,
    }
}

impl Store {
    /// From what a volume tells of itself; `None` if it is in no object storage.
    pub(super) fn of_info(info: &Value) -> Option<Self> {
        info.pointer("/bucket/requests").map(Self::of)
    }

    /// All requests.
    pub(crate) fn requests(&self) -> u64 {
        [self.puts, self.gets, self.heads, self.lists, self.deletes, self.copies, self.uploads]
            .into_iter()
            .fold(0, u64::saturating_add)
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
