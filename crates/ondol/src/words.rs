//! Numbers and UUIDs in sentences, for whoever speaks to people.

/// A number and what it counts: `1 transaction`, `2 transactions`. `what` takes an s for its plural.
pub fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

/// A UUID as people write it.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_plural() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "block")), ["0 blocks", "1 block", "2 blocks"]);
    }
}
