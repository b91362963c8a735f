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

/// A size in few characters, as `ls -h` has it: rounded up, with one decimal below ten.
pub(crate) fn short(bytes: u64) -> String {
    let mut shift = 0;
    while shift < 60 && bytes >> shift >= 1024 {
        shift += 10;
    }
    let Some(letter) = (shift > 0).then(|| char::from(b"KMGTPE"[shift / 10 - 1])) else { return bytes.to_string() };
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << shift);
    if tenths < 100 {
        format!("{}.{}{letter}", tenths / 10, tenths % 10)
    } else {
        format!("{}{letter}", tenths.div_ceil(10))
    }
}

/// A size in the largest unit of which there is one, with one decimal where that says more: `100 MiB`, `1.5 GiB`.
pub(crate) fn human(bytes: u64) -> String {
    let mut shift = 0;
    while shift < 60 && bytes >> shift >= 1024 {
        shift += 10;
    }
    let Some(letter) = (shift > 0).then(|| char::from(b"KMGTPE"[shift / 10 - 1])) else {
        return format!("{bytes} bytes");
    };
    let tenths = (u128::from(bytes) * 10 + (1 << (shift - 1))) >> shift;
    match tenths % 10 {
        0 => format!("{} {letter}iB", tenths / 10),
        rest => format!("{}.{rest} {letter}iB", tenths / 10),
    }
}

fn wrong(text: &str) -> String {
    format!("`{text}` is not a size: write a number with K, M, G or T, as in 512M or 4G")
}

#[cfg(test)]
mod tests {
    use super::{human, parse, short};

    #[test]
    fn human_sizes_have_one_decimal_at_most() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (100 << 20, "100 MiB"),
            ((1 << 30) + (1 << 29), "1.5 GiB"),
            (1_073_741_823, "1024 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn short_sizes_are_those_of_ls() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 << 10, "10K"),
            (10_241, "11K"),
            (1_048_575, "1024K"),
            (1 << 20, "1.0M"),
            (3 << 30, "3.0G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(short(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn sizes_are_above_nothing() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        for text in ["", "G", "-1", "4X", "0"] {
            assert!(parse(text).unwrap_err().contains("512M"), "{text}");
        }
    }
}
