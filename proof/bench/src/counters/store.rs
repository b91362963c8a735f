//! What a volume in object storage asked of its store.

use ondol::Counts;
use serde_json::Value;

ondol_env::counters! {
    /// Requests, and bytes that went either way.
    pub(crate) struct Store, "";
    puts: Counter, Number, "Objects that were put, parts of large ones included.";
    gets: Counter, Number, "Objects that were read, or parts of them.";
    heads: Counter, Number, "Objects that were only looked at.";
    lists: Counter, Number, "Lists.";
    deletes: Counter, Number, "Objects that were deleted.";
    copies: Counter, Number, "Copies within the store.";
    uploads: Counter, Number, "Beginnings and ends of uploads in parts.";
    up: Counter, Bytes, "Bytes up.";
    down: Counter, Bytes, "Bytes down.";
    repeated: Counter, Number, "Requests that a client made again.";
    failed: Counter, Number, "Requests that failed.";
}

impl Store {
    /// From what a volume tells of itself; `None` if it is in no object storage.
    pub(super) fn of_info(info: &Value) -> Option<Self> {
        let requests = info.pointer("/bucket/requests")?;
        Some(Self::from_rows(|row| requests.get(row.name).and_then(Value::as_u64).unwrap_or(0)))
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
        assert_eq!(store.since(&store), Store::default());
    }
}
