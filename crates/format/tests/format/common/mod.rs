//! What the tests share: running e2fsprogs, and reading images through this crate.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod image;

use ondol_format::mkfs::{Chunk, Options, Plan};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a program of e2fsprogs can be run; the test is noted as skipped if not.
pub(crate) fn have(program: &str) -> bool {
    !ondol_skips::skips(ondol_skips::missing(&[program]))
}

/// Runs a program; its exit code, and both outputs together.
pub(crate) fn run(program: &str, args: &[&str]) -> (i32, String) {
    let path = ondol_skips::find(program).unwrap_or_else(|| panic!("{program} is not installed"));
    let out = Command::new(path).args(args).stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = [out.stdout, out.stderr].concat();
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// Runs a program that must succeed; both outputs together.
pub(crate) fn must(program: &str, args: &[&str]) -> String {
    let (code, text) = run(program, args);
    assert_eq!(code, 0, "{program} {args:?}:\n{text}");
    text
}

/// A sparse file of `size` bytes.
pub(crate) fn sparse(path: &Path, size: u64) -> File {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(size).unwrap();
    file
}

/// Makes an image with this crate.
pub(crate) fn make(path: &Path, size: u64, options: &Options) -> Plan {
    let file = sparse(path, size);
    write_plan(&file, size, options)
}

/// Writes a plan over what `file` holds.
pub(crate) fn write_plan(file: &File, size: u64, options: &Options) -> Plan {
    let plan = Plan::new(options, size).unwrap_or_else(|e| panic!("{size} bytes, {options:?}: {e}"));
    plan.emit(|chunk| match chunk {
        Chunk::Bytes { offset, bytes } => {
            assert!(offset + bytes.len() as u64 <= size, "a write past the end");
            file.write_all_at(bytes, offset)
        }
        Chunk::Zeros { offset, len } => {
            assert!(!options.zeroed && offset + len <= size, "zeros where none belong");
            let zeros = vec![0; 1 << 16];
            let mut at = offset;
            while at < offset + len {
                let part = (offset + len - at).min(zeros.len() as u64) as usize;
                file.write_all_at(&zeros[..part], at)?;
                at += part as u64;
            }
            Ok(())
        }
    })
    .unwrap();
    plan
}

/// Options with a fixed identity, for an image that is known to be zeros.
pub(crate) fn options() -> Options {
    let mut options = Options::new(*b"\x11\x22\x33\x44ONDOL-TEST!!", *b"0123456789abcdef", 1_700_000_000);
    options.zeroed = true;
    options
}

/// e2fsck must find nothing to mend.
pub(crate) fn assert_clean(path: &Path, what: &str) {
    let (code, text) = run("e2fsck", &["-fn", path.to_str().unwrap()]);
    assert_eq!(code, 0, "{what}:\n{text}");
}

/// So much memory the largest images take, and what the system has beside them.
const ROOM: u64 = 2 << 30;

/// A directory in memory, where a huge sparse image costs no seeks, or else where temporary files live.
pub(crate) fn directory() -> tempfile::TempDir {
    let memory = "/dev/shm";
    let has_room = rustix::fs::statvfs(memory).is_ok_and(|now| now.f_bavail * now.f_frsize >= ROOM);
    if has_room { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}
