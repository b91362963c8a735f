//! Numbers in sentences, for whoever speaks to people.

/// A number and what it counts: `1 transaction`, `2 transactions`. `what` takes an s for its plural.
pub fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_plural() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "block")), ["0 blocks", "1 block", "2 blocks"]);
    }
}
