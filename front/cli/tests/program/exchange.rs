//! `ondol exchange` and its tickets on a mount: what the kernel keeps of both files, and who may.

use crate::place::{Place, fails, needs_root, ondol, output, succeeds};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const NOBODY: u32 = 65534;

fn exchange(place: &Place, args: &[&str]) -> Command {
    let mut command = ondol();
    command.arg("exchange").args(args).current_dir(place.mount_point());
    command
}

/// Runs a script of Python on the mount; false, noted as skipped, without it.
fn python(place: &Place, script: &str) -> bool {
    match Command::new("python3").args(["-c", script]).current_dir(place.mount_point()).output() {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => {
            ondol_skips::skip(format!("no python3: {e}"));
            return false;
        }
    }
    true
}

/// The beginning of scripts: an exchange as any program can do it.
const TICKETS: &str = "
import ctypes, mmap, os, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def present(f, ticket):
    if libc.fallocate(f.fileno(), 1, *map(ctypes.c_long, ticket)):
        raise OSError(ctypes.get_errno(), 'fallocate')
def exchange(one, other, at=0, to=0, length=0, flags=1):
    ticket = struct.unpack('QQ', os.getxattr(other.fileno(), f'ondol.exchange.{flags}.{at}.{to}.{length}'))
    os.getxattr(one.fileno(), 'ondol.exchange.%d.%d' % ticket)
    for f in one, other: present(f, ticket)
";

#[test]
fn files_of_different_sizes_change_places() {
    let Some(place) = Place::mounted("rw") else { return };
    let (a, b) = (vec![b'a'; 10_000], vec![b'b'; 50_000]);
    fs::write(place.on("a"), &a).unwrap();
    fs::write(place.on("b"), &b).unwrap();
    // Both are cached.
    assert!(fs::read(place.on("a")).unwrap() == a && fs::read(place.on("b")).unwrap() == b);
    succeeds(&mut exchange(&place, &["-n", "a", "b"]));
    assert!(fs::read(place.on("a")).unwrap() == a);
    succeeds(&mut exchange(&place, &["--sync", "a", "b"]));
    assert_eq!(fs::metadata(place.on("a")).unwrap().size(), 50_000);
    assert!(fs::read(place.on("a")).unwrap() == b && fs::read(place.on("b")).unwrap() == a);
    succeeds(&mut exchange(&place, &["--length", "4K", "--offset", "8K", "--other-offset", "4K", "a", "b"]));
    let seen = fs::read(place.on("a")).unwrap();
    assert!(seen[..8192] == b[..8192] && seen[8192..12_288] == a[..4096] && seen[12_288..] == b[12_288..]);
    assert!(fs::read(place.on("b")).unwrap()[4096..8192] == b[..4096]);
    fs::write(place.on("sparse"), vec![0; 0]).unwrap();
    let sparse = fs::File::options().write(true).open(place.on("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, &[b's'; 4096], 4096).unwrap();
    sparse.set_len(50_000).unwrap();
    drop(sparse);
    succeeds(&mut exchange(&place, &["--written", "sparse", "a"]));
    let now = fs::read(place.on("a")).unwrap();
    assert!(now[4096..8192] == [b's'; 4096] && now[..4096] == seen[..4096] && now[8192..] == seen[8192..]);
    place.umount();
    place.is_clean();
    place.mount("ro");
    assert!(fs::read(place.on("a")).unwrap() == now);
    place.umount();
}

#[test]
fn what_cannot_be_exchanged_is_refused_by_name() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::write(place.on("a"), vec![b'a'; 10_000]).unwrap();
    fs::write(place.on("b"), vec![b'b'; 50_000]).unwrap();
    fs::create_dir(place.on("d")).unwrap();
    let refused = |args: &[&str], why: &str| {
        let said = fails(&mut exchange(&place, args), 1);
        assert!(said.contains(why), "{args:?}: {said}");
    };
    refused(&["--offset", "100", "a", "b"], "whole blocks");
    refused(&["--length", "100", "a", "b"], "whole blocks");
    refused(&["--length", "12K", "a", "b"], "inside both files");
    refused(&["a", "a"], "must not overlap");
    refused(&["--written", "a", "b"], "whole blocks");
    refused(&["a", "d"], "directory");
    refused(&["a", "nothing"], "nothing");
    refused(&["a", "/etc/hostname"], "/etc/hostname");
    let wrong = "
for what in [dict(flags=16), dict(at=-1), dict(length=1 << 63, flags=0)]:
    try: exchange(open('a', 'r+b'), open('b', 'r+b'), **what)
    except OSError as e: assert e.errno in (22, 27), e
    else: raise AssertionError(what)
assert open('a', 'rb').read() == b'a' * 10000
";
    python(&place, &(TICKETS.to_owned() + wrong));
    place.umount();
    place.is_clean();
}

#[test]
fn pages_that_are_mapped_or_changed_follow() {
    for options in ["rw", "open_requests", "writeback_cache"] {
        let Some(place) = Place::mounted(options) else { return };
        let script = "
flags = int(sys.argv[1])
for name in 'ab':
    with open(name, 'wb') as f: f.write(name.encode() * 40960)
files = [open(name, 'r+b') for name in 'ab']
maps = [mmap.mmap(f.fileno(), 40960) for f in files]
assert maps[0][:1] == b'a' and maps[1][40000:40001] == b'b'
maps[0][100:105] = b'hello'          # changed, and nobody has written it
maps[1][8192:8196] = b'page'
os.pwrite(files[1].fileno(), b'write', 20000)
exchange(*files, length=40960, flags=flags)
assert maps[0][8192:8196] == b'page' and maps[0][20000:20005] == b'write', maps[0][8192:8196]
assert maps[1][100:105] == b'hello' and maps[1][8192:8193] == b'a'
assert os.pread(files[1].fileno(), 5, 100) == b'hello'
maps[0][0:3] = b'new'                # goes where the first file's contents are now
maps[0].flush()
assert open('a', 'rb').read(3) == b'new' and open('b', 'rb').read(3) == b'aaa'
"
        .replace("int(sys.argv[1])", if options == "writeback_cache" { "0" } else { "1" });
        if !python(&place, &(TICKETS.to_owned() + &script)) {
            return;
        }
        place.umount();
        place.is_clean();
        place.mount("ro");
        let (a, b) = (fs::read(place.on("a")).unwrap(), fs::read(place.on("b")).unwrap());
        assert_eq!((&a[..3], &a[8192..8196], &b[100..105], b[8192]), (&b"new"[..], &b"page"[..], &b"hello"[..], b'a'));
        place.umount();
    }
}

#[test]
fn mounts_that_cannot_keep_pages_right_refuse() {
    let Some(place) = Place::mounted("max_threads=1") else { return };
    let say = |options: &str| {
        fs::write(place.on("a"), [1; 4096]).unwrap();
        fs::write(place.on("b"), [2; 9000]).unwrap();
        let said = fails(&mut exchange(&place, &["a", "b"]), 1);
        assert!(said.contains("this mount"), "{options}: {said}");
        assert_eq!(fs::read(place.on("a")).unwrap(), [1; 4096]);
        place.umount();
    };
    say("max_threads=1");
    place.mount("writeback_cache");
    say("writeback_cache");
    place.is_clean();
}

#[test]
fn both_files_must_be_open_to_the_caller() {
    use std::os::unix::process::CommandExt;
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("allow_other,suid") else { return };
    fs::set_permissions(place.mount_point().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.mount_point(), Permissions::from_mode(0o777)).unwrap();
    let make = |name: &str, owner: u32, mode: u32| {
        fs::write(place.on(name), vec![name.as_bytes()[0]; 5000]).unwrap();
        chown(place.on(name), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(place.on(name), Permissions::from_mode(mode)).unwrap();
    };
    make("own", NOBODY, 0o600);
    make("program", NOBODY, 0o4700);
    make("roots", 0, 0o666);
    make("shown", 0, 0o644);
    make("unreadable", NOBODY, 0o200);
    let as_nobody = |script: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", &(TICKETS.to_owned() + script)]).current_dir(place.mount_point());
        command.uid(NOBODY).gid(NOBODY).output()
    };
    let Ok(out) = as_nobody("exchange(open('own', 'r+b'), open('program', 'r+b'))") else {
        return ondol_skips::skip("no python3");
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(fs::read(place.on("own")).unwrap(), [b'p'; 5000]);
    assert_eq!(fs::metadata(place.on("program")).unwrap().mode() & 0o7777, 0o700, "as by a write");
    // Who may not write to one of them, or has it open for reading only, and who may not read one.
    let refused = "
def refused(one, other, why):
    for pair in (one, other), (other, one):
        try: exchange(*pair)
        except OSError as e: assert e.errno == why, e
        else: raise AssertionError('not refused')
own, roots, shown = open('own', 'r+b'), open('roots', 'r+b'), open('shown', 'rb')
refused(roots, open('own', 'rb'), 9); refused(own, shown, 9)
refused(own, os.fdopen(os.open('unreadable', os.O_WRONLY), 'wb', closefd=False), 13)
# A ticket is of the thread that asked for it.
ticket = struct.unpack('QQ', os.getxattr('own', 'ondol.exchange.1.0.0.0'))
os.getxattr('own', 'ondol.exchange.%d.%d' % ticket)
if os.fork() == 0:
    try: present(own, ticket)
    except OSError as e: os._exit(e.errno)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 27
present(own, ticket)
exchange(own, roots)
";
    let out = as_nobody(refused).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(fs::read(place.on("roots")).unwrap(), [b'p'; 5000]);
    assert_eq!(fs::read(place.on("shown")).unwrap(), [b's'; 5000]);
    succeeds(&mut exchange(&place, &["own", "shown"]));
    assert_eq!(fs::read(place.on("shown")).unwrap(), [b'r'; 5000]);
    place.umount();
    place.is_clean();
}

/// Files are replaced as wholes while others read: each reader sees one content or the other.
#[test]
fn readers_see_one_content_or_the_other() {
    let Some(place) = Place::mounted("rw") else { return };
    let script = "
for name in 'ab':
    with open(name, 'wb') as f: f.write(name.encode() * 65536)
reader = subprocess.Popen([sys.executable, '-c', '''
import os
f = os.open('a', os.O_RDONLY)
seen = set()
for _ in range(3000):
    seen.add(os.pread(f, 4096, 4096 * (_ % 16))[:1])
    whole = os.pread(f, 4096, 0)
    assert whole in (b'a' * 4096, b'b' * 4096)
assert seen <= {b'a', b'b'}
'''])
files = [open(name, 'r+b') for name in 'ab']
for _ in range(200):
    try: exchange(*files)
    except BlockingIOError: pass
assert reader.wait() == 0
both = {open(name, 'rb').read() for name in 'ab'}
assert both == {b'a' * 65536, b'b' * 65536}
";
    if python(&place, &(TICKETS.to_owned() + script)) {
        place.umount();
        place.is_clean();
    }
}

/// The help names what it takes, and files that are on no mount are said to be.
#[test]
fn other_places_are_named() {
    let said = fails(ondol().args(["exchange", "/proc/self/status", "/proc/self/maps"]), 1);
    assert!(said.contains("/proc/self/status") && !Path::new("/nothing").exists(), "{said}");
    let out = output(ondol().args(["exchange", "--help"]));
    assert!(String::from_utf8_lossy(&out.stdout).contains("--other-offset"));
}
