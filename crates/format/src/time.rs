//! ext4's timestamps: 32 bits of seconds, 2 epoch bits and 30 bits of nanoseconds.

/// A point in time since 1970-01-01 UTC, with the nanoseconds always counting forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub sec: i64,
    /// Nanoseconds, 0..1_000_000_000.
    pub nsec: u32,
}

/// First second an inode without extra fields can hold (and the first of any inode).
pub const MIN_SEC: i64 = i32::MIN as i64;
/// Last second an inode without extra fields can hold.
pub const MAX_SEC_OLD: i64 = i32::MAX as i64;
/// Last second an inode with the two epoch bits can hold.
pub const MAX_SEC: i64 = i32::MAX as i64 + (3i64 << 32);

impl Time {
    /// `sec` whole seconds.
    pub const fn from_secs(sec: i64) -> Time {
        Time { sec, nsec: 0 }
    }

    /// From the 32-bit field and, where the inode has it, the extra field. Out-of-range nanoseconds read as 0.
    pub fn decode(seconds: u32, extra: Option<u32>) -> Time {
        let low = i64::from(seconds as i32);
        match extra {
            None => Time { sec: low, nsec: 0 },
            Some(extra) => {
                let nsec = extra >> 2;
                let nsec = if nsec < 1_000_000_000 { nsec } else { 0 };
                Time { sec: low + (i64::from(extra & 3) << 32), nsec }
            }
        }
    }

    /// The 32-bit field and the extra field of this time, which is first clamped to what `has_extra` can hold.
    pub fn encode(self, has_extra: bool) -> (u32, u32) {
        let sec = self.sec.clamp(MIN_SEC, if has_extra { MAX_SEC } else { MAX_SEC_OLD });
        let low = sec as u32;
        let epoch = ((sec - i64::from(low as i32)) >> 32) as u32 & 3;
        (low, if has_extra { self.nsec.min(999_999_999) << 2 | epoch } else { 0 })
    }

    /// As an inode with (`has_extra`) or without the extra field stores and reads it back.
    pub fn clamped(self, has_extra: bool) -> Time {
        let (low, extra) = self.encode(has_extra);
        Time::decode(low, has_extra.then_some(extra))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_the_kernel_document() {
        // The table of Documentation/filesystems/ext4/inodes.rst.
        for (extra, low, sec) in [
            (0u32, 0x8000_0000u32, -0x8000_0000i64),
            (0, 0x7fff_ffff, 0x7fff_ffff),
            (1, 0x8000_0000, 0x8000_0000),
            (1, 0x7fff_ffff, 0x1_7fff_ffff),
            (2, 0x8000_0000, 0x1_8000_0000),
            (3, 0x7fff_ffff, 0x3_7fff_ffff),
        ] {
            let time = Time::decode(low, Some(extra));
            assert_eq!(time, Time::from_secs(sec));
            assert_eq!(time.encode(true), (low, extra));
        }
    }

    #[test]
    fn clamps_and_keeps_nanoseconds() {
        let late = Time { sec: i64::MAX, nsec: 5 };
        assert_eq!(late.clamped(true), Time { sec: MAX_SEC, nsec: 5 });
        assert_eq!(late.clamped(false), Time { sec: MAX_SEC_OLD, nsec: 0 });
        assert_eq!(Time { sec: -1, nsec: 999_999_999 }.clamped(true), Time { sec: -1, nsec: 999_999_999 });
    }
}
