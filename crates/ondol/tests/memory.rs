//! What memory does not hold is an error. The limit is the whole process's: alone in its file.

use ondol::{FormatOptions, Volume};
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn a_file_that_memory_does_not_hold_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    Volume::format(&image, &FormatOptions::new().size(16 << 20)).unwrap();
    let volume = Volume::open(&image).unwrap();
    volume.create("/sparse").unwrap().set_len(3 << 40).unwrap();
    let limit = Rlimit { current: Some(4 << 30), maximum: Some(4 << 30) };
    setrlimit(Resource::As, limit).unwrap();
    let refused = volume.read("/sparse").unwrap_err();
    assert_eq!(refused.errno(), rustix::io::Errno::FBIG.raw_os_error(), "{refused}");
    volume.close().unwrap();
}
