//! Mounts over io_uring, and what a mount says of how its requests come.

use crate::place::{AGAIN, Place, ondol, succeeds};
use crate::transport::{Offered, on_each, told};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Where the kernel offers the other transport it is taken; in a hunt (`cargo xtask hunt`), all tests of the program
/// pass with it too.
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
