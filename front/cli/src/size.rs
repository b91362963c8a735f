//! Sizes on the command line: `4096`, `512M`, `4G`, `1T`; powers of 1024.

/// Parses a size in bytes.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: write a number with K, M, G, T or P, as in 512M or 4G");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.strip_suffix("iB").unwrap_or(unit);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        "P" | "p" => 50,
        _ => return Err(wrong()),
    };
    let bytes = number.checked_mul(1u64 << shift).ok_or_else(wrong)?;
    if bytes == 0 { Err(wrong()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("4g"), Ok(4 << 30));
        assert_eq!(parse("1TiB"), Ok(1 << 40));
    }

    #[test]
    fn nonsense() {
        for text in ["", "G", "-1", "1.5G", "4X", "4GB", "0", "99999999999P", "1é"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
