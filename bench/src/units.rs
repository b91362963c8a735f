//! Sizes as people write them.

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
}
