//! How tests open images: with little memory, and with a clock and random numbers that are always the same.

use ondol::{DataMode, DeviceClass, OnError, Options};
use ondol_env::sync::Arc;
use ondol_env::{Fixed, Timestamp};

/// Small caches, so that they are left and entered often, as much new data waits as may, and units are compressed.
/// Access times stay as they are.
pub fn options(data: DataMode) -> Options {
    let options = Options::default().with_data(data).with_on_error(OnError::RemountReadOnly).with_atime(false);
    options.with_cache(512 * 1024).with_cached_inodes(4).with_kept(u64::MAX).with_device(DeviceClass::Disk)
}

/// A clock that starts at a fixed moment and the random numbers of `seed`.
pub fn clock(seed: u64) -> Arc<Fixed> {
    Arc::new(Fixed::new(Timestamp { sec: 1_700_000_000, nsec: 0 }, seed))
}
