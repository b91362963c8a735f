//! What is known of a file, as C has it.

use ondol::Metadata;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time: seconds and nanoseconds since 1970. Times before have negative seconds; nanoseconds always count forwards.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds, less than 1000000000.
    pub nsec: u32,
}

/// What stat(2) tells of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attr {
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Space held, in units of 512 bytes.
    pub blocks: u64,
    /// File type and permission bits, as st_mode.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file: major.
    pub rdev_major: u32,
    /// Device number of a device file: minor.
    pub rdev_minor: u32,
    /// Last access.
    pub accessed: Time,
    /// Last change of the contents.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// Creation; 0 where the image does not keep it.
    pub created: Time,
}

impl Attr {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            ino: metadata.ino().into(),
            size: metadata.len(),
            blocks: metadata.blocks(),
            mode: u32::from(metadata.file_type().mode_bits()) | u32::from(metadata.permissions()),
            nlink: metadata.nlink(),
            uid: metadata.uid(),
            gid: metadata.gid(),
            rdev_major: metadata.rdev().major,
            rdev_minor: metadata.rdev().minor,
            accessed: Time::of(metadata.accessed()),
            modified: Time::of(metadata.modified()),
            changed: Time::of(metadata.changed()),
            created: metadata.created().map_or(Time { sec: 0, nsec: 0 }, Time::of),
        }
    }
}

const SECOND: u32 = 1_000_000_000;

impl Time {
    fn of(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self { sec: since.as_secs().cast_signed(), nsec: since.subsec_nanos() },
            Err(e) => {
                let (before, nsec) = (e.duration().as_secs(), e.duration().subsec_nanos());
                let sec = 0_i64.saturating_sub_unsigned(before) - i64::from(nsec > 0);
                Self { sec, nsec: (SECOND - nsec) % SECOND }
            }
        }
    }

    /// None where it is no time.
    pub(crate) fn to_system(self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.sec.unsigned_abs());
        let whole = if self.sec < 0 { UNIX_EPOCH.checked_sub(seconds)? } else { UNIX_EPOCH.checked_add(seconds)? };
        if self.nsec < SECOND { whole.checked_add(Duration::from_nanos(self.nsec.into())) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_in_both_forms() {
        for (sec, nsec) in [(0, 0), (1, 999_999_999), (-1, 1), (-1, 0), (-2, 999_999_999), (15_000_000_000, 7)] {
            let time = Time { sec, nsec };
            assert_eq!(time.to_system().map(Time::of), Some(time));
        }
        assert_eq!(Time { sec: 0, nsec: SECOND }.to_system(), None);
    }
}
