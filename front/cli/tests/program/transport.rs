//! Which transport a mount of the tests has: `/dev/fuse`, or io_uring, which the kernel has to be told to offer.

use crate::place::{AGAIN, Place, ondol, succeeds, transport};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

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

/// Where the kernel offers the other transport it is taken; in a hunt (`cargo xtask hunt`), all tests of the program pass with it too.
#[test]
fn everything_works_over_io_uring() {
    if std::env::var_os(AGAIN).is_some() {
        return;
    }
    let Some(_offered) = Offered::now() else { return };
    the_transport_is_chosen_by_what_there_is();
    if std::env::var_os("ONDOL_HUNT").is_none() {
        return;
    }
    let mut tests = Command::new(std::env::current_exe().unwrap());
    let mut tests = tests.env(AGAIN, "uring").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    for line in BufReader::new(tests.stdout.take().unwrap()).lines().map(Result::unwrap) {
        if line.ends_with("has been running for over 60 seconds") {
            // Not `eprintln`, which shows it with the result: a test that hangs has none.
            let _ = writeln!(std::io::stderr(), "over io_uring: {line}");
        }
        said += &line;
        said.push('\n');
    }
    assert!(tests.wait().unwrap().success(), "{said}");
    assert!(said.contains("test flags::a_large_write_comes_whole ... ok"), "{said}");
}

/// By default it is io_uring.
fn the_transport_is_chosen_by_what_there_is() {
    let Some(place) = Place::new() else { return };
    place.mount("transport=auto");
    assert_eq!(told(&place)["transport"], "uring");
    place.umount();
    place.is_clean();
}

#[test]
fn a_mount_says_what_carries_its_requests() {
    on_each(|transport| {
        let Some(place) = Place::mounted(transport) else { return };
        assert_eq!(told(&place)["transport"], transport.strip_prefix("transport=").unwrap());
        let lines = succeeds(ondol().arg("info").arg(place.mount_point()));
        assert!(lines.lines().any(|line| line.trim_start().starts_with("transport ")), "{lines}");
        place.umount();
        place.is_clean();
    });
}
