//! Sizes on the command line: `4096`, `512M`, `4G`, `1T`; powers of 1024.

/// Parses a size in bytes.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    or_nothing(text).ok().filter(|bytes| *bytes > 0).ok_or_else(|| wrong(text))
}

/// As [`parse`], and 0.
///
/// # Errors
/// As [`parse`].
pub(crate) fn or_nothing(text: &str) -> Result<u64, String> {
    ondol::parse_size(text).ok_or_else(|| wrong(text))
}

fn wrong(text: &str) -> String {
    format!("`{text}` is not a size: write a number with K, M, G or T, as in 512M or 4G")
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_above_nothing() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        for text in ["", "G", "-1", "4X", "0"] {
            assert!(parse(text).unwrap_err().contains("512M"), "{text}");
        }
    }
}
