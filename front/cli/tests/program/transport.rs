//! Which transport a mount of the tests has: `/dev/fuse`, or io_uring, which the kernel has to be told to offer.

use crate::place::{AGAIN, Place, ondol, succeeds, transport};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// FUSE over io_uring, switched on in the kernel for as long as this lives. One test at a time has it.
pub(crate) struct Offered {
    _alone: File,
    before: String,
}

impl Offered {
    /// `None`, noted as skipped, where this kernel has none, or this user may not switch it on.
    pub(crate) fn now() -> Option<Self> {
        let opened = File::open(SWITCH).and_then(|alone| {
            flock(&alone, FlockOperation::LockExclusive)?;
            let before = fs::read_to_string(SWITCH)?;
            if !before.starts_with('Y') {
                fs::write(SWITCH, "Y")?;
            }
            Ok(Self { _alone: alone, before })
        });
        opened.inspect_err(|e| ondol_skips::skip(format!("FUSE over io_uring cannot be switched on: {e}"))).ok()
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        if !self.before.starts_with('Y')
            && let Err(e) = fs::write(SWITCH, &self.before)
        {
            eprintln!("{SWITCH} is left switched on: {e}");
        }
    }
}

/// Calls `test` for each transport that can be had, by the mount option that asks for it.
pub(crate) fn on_each(test: impl Fn(&str)) {
    if std::env::var_os(AGAIN).is_some() {
        return test(&format!("transport={}", transport()));
    }
    test("transport=dev");
    if let Some(_offered) = Offered::now() {
        test("transport=uring");
    }
}

/// What a mount says of itself.
pub(crate) fn told(place: &Place) -> serde_json::Value {
    let said = succeeds(ondol().args(["info", "--json"]).arg(place.mount_point()));
    let mut said: serde_json::Value = serde_json::from_str(&said).unwrap();
    said["mount"].take()
}
