//! Sizes and numbers as people write them.

/// Bytes in a KiB.
pub(crate) const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub(crate) const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) use ondol::parse_size;

/// `bytes` with the largest unit that leaves a whole number.
pub(crate) fn format_size(bytes: u64) -> String {
    for (unit, name) in [(GIB, "G"), (MIB, "M"), (KIB, "K")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// With three digits, or all that stand before the point.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.abs().to_string();
    }
    let whole = value == value.trunc();
    let digits = if whole { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize };
    let text = format!("{value:.digits$}");
    let (before, after) = text.split_once('.').map_or((text.as_str(), None), |(before, after)| (before, Some(after)));
    let (sign, before) = before.strip_prefix('-').map_or(("", before), |before| ("-", before));
    let mut out = String::from(sign);
    for (at, digit) in before.chars().enumerate() {
        if at > 0 && (before.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    after.map_or(out.clone(), |after| format!("{out}.{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("4k", 4096), ("64M", 64 << 20), ("1GiB", 1 << 30), ("2t", 2 << 40)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "k", "4x", "-1", "1.5G", "99999999999999999999", "17179869184G"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!(format_size(1 << 30), "1G");
        assert_eq!(format_size(1536 << 20), "1536M");
        assert_eq!(format_size(4097), "4097");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (1_234_567.8, "1,234,568"),
            (999.0, "999"),
            (1000.0, "1,000"),
            (-1234.5, "-1,234"),
            (12.345, "12.3"),
            (1.0 / 3.0, "0.333"),
            (0.000_123, "0.000123"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
