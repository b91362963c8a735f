//! Between the clock's time and the inode's.

use ondol_env::Timestamp;
use ondol_format::Time;

/// As an inode stores it.
pub(crate) fn to_disk(t: Timestamp) -> Time {
    Time { sec: t.sec, nsec: t.nsec }
}

/// As callers see it.
pub(crate) fn from_disk(t: Time) -> Timestamp {
    Timestamp { sec: t.sec, nsec: t.nsec }
}
