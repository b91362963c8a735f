//! What the kernel has in pages that it has not written yet: files are copied with it, and what was stored behind their
//! end stays out.

use crate::place::{Place, needs_root, ondol, output, succeeds};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a script of Python in a directory; what it printed, or `None`, noted as skipped, where there is no Python.
fn python(dir: &Path, script: &str, words: &[&str]) -> Option<String> {
    match Command::new("python3").args(["-c", script]).args(words).current_dir(dir).output() {
        Ok(out) => {
            let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(out.status.success(), "{words:?}: {}", said(&out.stderr));
            Some(said(&out.stdout))
        }
        Err(e) => {
            ondol_skips::skip(format!("no python3: {e}"));
            None
        }
    }
}

/// Makes files whose contents are in the kernel's pages alone, in part, and copies them in every way while they are.
const COPIES: &str = r"
import mmap, os, subprocess, sys
SIZE, collected, out = 1 << 20, sys.argv[1] == 'writeback_cache', sys.argv[2]
class Made:
    def __init__(self, name):
        self.name, self.fd = name, os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
        self.resize(SIZE)
        # Somebody has asked before.
        assert os.stat(name).st_size == SIZE
    def resize(self, size):
        os.ftruncate(self.fd, size)
        self.want = bytearray(size)
    def write(self, at, data):
        self.want[at:at + len(data)] = data
        os.pwrite(self.fd, data, at)
    def map(self): self.m = mmap.mmap(self.fd, len(self.want))
    def store(self, at, data):
        self.want[at:at + len(data)] = data
        self.m[at:at + len(data)] = data
def stored(f):
    f.map()
    f.store(0, b'x' * 300000)
    f.store(700000, b'end')
def punched(f):
    # Holes where the kernel keeps pages, if blocks are smaller.
    f.write(0, b'o' * 65536)
    f.map()
    assert f.m[0:1] == b'o'
    subprocess.run(['fallocate', '-p', '-o', '9216', '-l', '15360', f.name], check=True)
    f.want[9216:24576] = bytes(15360)
    f.store(9300, b'y' * 10)
    f.store(24000, b'z' * 10)
def grown(f):
    # What is behind the end in its page may be a hole.
    f.resize(700)
    f.write(0, b's' * 700)
    f.map()
    assert f.m[0:1] == b's'
    f.want += bytes(3390)
    f.write(4080, b'e' * 10)
    f.map()
    f.store(2100, b'g' * 10)
def written(f):
    f.write(100000, b'w' * 300000)
    f.map()
def found(f):
    fd, seen, at = os.open(f.name, os.O_RDONLY), bytearray(len(f.want)), 0
    while True:
        try: at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError: break
        end = os.lseek(fd, at, os.SEEK_HOLE)
        assert end > at, (f.name, at, end)
        seen[at:end] = f.want[at:end]
        at = end
    os.close(fd)
    return seen
def spaced(f):
    blocks = sum(1 for at in range(0, len(f.want), 1024) if any(f.want[at:at + 1024]))
    space = os.stat(f.name).st_blocks * 512
    assert space > 0, f.name
    if not collected: assert space >= min(blocks * 1024, len(f.want)), (f.name, space, blocks)
    return f.want
def content(name):
    with open(name, 'rb') as f: return f.read()
def tar(f):
    subprocess.run('tar -cSf - %s | tar -xOf - %s > %s/tar' % (f.name, f.name, out), shell=True, check=True)
    return content(out + '/tar')
def cp(f):
    subprocess.run(['cp', '--sparse=auto', f.name, out + '/cp'], check=True)
    return content(out + '/cp')
def inside(f):
    subprocess.run(['cp', f.name, f.name + '.copy'], check=True)
    return content(f.name + '.copy')
def ranged(f):
    source, target = os.open(f.name, os.O_RDONLY), os.open(f.name + '.range', os.O_RDWR | os.O_CREAT)
    at = 0
    while at < len(f.want): at += os.copy_file_range(source, target, len(f.want) - at)
    os.close(source); os.close(target)
    return content(f.name + '.range')
for make in [stored, punched, grown, written]:
    for copy in [found, spaced, tar, cp, inside, ranged]:
        f = Made('%s-%s' % (make.__name__, copy.__name__))
        make(f)
        assert copy(f) == f.want, f.name
        assert f.m[:] == f.want, f.name
        f.m.close(); os.close(f.fd)
";

#[test]
fn copies_have_what_is_in_the_kernels_pages_alone() {
    let missing = ondol_skips::missing(&["cp", "tar", "fallocate", "mke2fs"]);
    if ondol_skips::skips(missing) {
        return;
    }
    for block_size in ["1024", "4096"] {
        for options in ["rw", "open_requests", "writeback_cache"] {
            let Some(place) = Place::new() else { return };
            succeeds(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4", "-b", block_size]).arg(place.image()));
            place.mount(options);
            let out = tempfile::tempdir().unwrap();
            if python(&place.mount_point(), COPIES, &[options, out.path().to_str().unwrap()]).is_none() {
                return;
            }
            place.umount();
            place.is_clean();
        }
    }
}

/// Grows files in every way after something was stored behind their end, through a mapping, and stores something into
/// the new part. Prints the ways in which that shows, or in which anything else is lost; or, the second time, those in
/// which it has come to the medium.
const WAYS: &str = r"
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
KEEP, ZERO, END, MAPPED = 1, 16, 5000, 32768
def fallocate(fd, mode, at, n):
    if libc.fallocate(fd, mode, ctypes.c_long(at), ctypes.c_long(n)): raise OSError(ctypes.get_errno(), 'fallocate')
def copy(fd, at):
    source = os.open('source', os.O_RDONLY)
    assert os.copy_file_range(source, fd, 500, 0, at) == 500
    os.close(source)
def direct(fd, at):
    other, page = os.open('f', os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096)
    page[:] = b'd' * 4096
    assert os.pwritev(other, [page], at) == 4096
    os.close(other)
def append(fd):
    other = os.open('f', os.O_WRONLY | os.O_APPEND)
    os.write(other, b'a' * 100)
    os.close(other)
def splice(fd, at):
    r, w = os.pipe()
    os.write(w, b's' * 10)
    assert os.splice(r, fd, 10, offset_dst=at) == 10
WAYS = {
    'truncate in the page': lambda fd: os.ftruncate(fd, 7000),
    'truncate beyond': lambda fd: os.ftruncate(fd, 9000),
    'truncate far': lambda fd: os.ftruncate(fd, 1 << 20),
    'truncate twice': lambda fd: (os.ftruncate(fd, 6000), os.ftruncate(fd, 20000)),
    'truncate by name': lambda fd: os.truncate('f', 8192),
    'allocate in the page': lambda fd: fallocate(fd, 0, 0, 7000),
    'allocate beyond': lambda fd: fallocate(fd, 0, 4096, 20000),
    'allocate far': lambda fd: fallocate(fd, 0, 100000, 20000),
    'allocate, then truncate': lambda fd: (fallocate(fd, KEEP, 0, 50000), os.ftruncate(fd, 50000)),
    'zero from the end': lambda fd: fallocate(fd, ZERO, END, 3000),
    'zero over the end': lambda fd: fallocate(fd, ZERO, 4500, 9000),
    'zero beyond': lambda fd: fallocate(fd, ZERO, 10000, 9000),
    'write in the page': lambda fd: os.pwrite(fd, b'w' * 10, 7000),
    'write beyond': lambda fd: os.pwrite(fd, b'w' * 10, 9000),
    'write far': lambda fd: os.pwrite(fd, b'w' * 10, 1 << 20),
    'write the next page': lambda fd: os.pwrite(fd, b'w' * 4096, 8192),
    'write past pages': lambda fd: direct(fd, 8192),
    'write past pages, far': lambda fd: direct(fd, 65536),
    'splice beyond': lambda fd: splice(fd, 9000),
    'append, then truncate': lambda fd: (append(fd), os.ftruncate(fd, 9000)),
    'append, then write beyond': lambda fd: (append(fd), os.pwrite(fd, b'w' * 10, 9000)),
    'copy in the page': lambda fd: copy(fd, 7000),
    'copy beyond': lambda fd: copy(fd, 9000),
    'copy far': lambda fd: copy(fd, 1 << 20),
}
def content(name):
    with open(name, 'rb') as f: return f.read()
def after(grow, synced, behind):
    fd = os.open('f', os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, b'o' * END)
    at = libc.mmap(None, MAPPED, 3, 1, fd, ctypes.c_long(0))
    pages = (ctypes.c_char * MAPPED).from_address(at)
    pages[100:110] = b'i' * 10
    if behind:
        pages[5500:5510] = b'Z' * 10
        pages[7990:8000] = b'Z' * 10
        if synced: libc.msync(ctypes.c_void_p(at), 8192, 4)
    grow(fd)
    # Into the new part, and then again where it was read.
    if os.fstat(fd).st_size > 6110: pages[6100:6110] = b'n' * 10
    seen = content('f')
    pages[5100:5110] = b'm' * 10
    libc.munmap(ctypes.c_void_p(at), MAPPED)
    os.close(fd)
    return seen, content('f')
def name(n, synced): return '%d-%d' % (n, synced)
again = sys.argv[1] == 'again'
if not again:
    with open('source', 'wb') as f: f.write(b'c' * 500)
for n, (way, grow) in enumerate(WAYS.items()):
    wrong = False
    for synced in (0, 1):
        kept = name(n, synced)
        if again:
            wrong |= content(kept) != content('want-' + kept)
            continue
        want = after(grow, synced, False)
        assert want[1].count(b'i') == 10 and want[1].count(b'm') == 10, way
        got = after(grow, synced, True)
        wrong |= got != want
        for one, other in zip(got, want):
            assert len(one) == len(other), (way, len(one), len(other))
            # Nothing else is lost or comes to light.
            assert all(a == b or (a == 90 and b == 0) for a, b in zip(one, other)), way
        os.rename('f', kept)
        with open('want-' + kept, 'wb') as f: f.write(want[1])
    if wrong: print(way)
";

/// The ways in which the kernel has the page locked that it would have to write.
const LOCKED: &[&str] = &["write in the page"];

/// The ways in which it shows on a mount, and on its medium; none is worse than the other.
fn ways(place: &Place, options: &str) -> Option<Vec<String>> {
    place.mount(options);
    let lines = |said: String| said.lines().map(str::to_owned).collect::<Vec<_>>();
    let wrong = lines(python(&place.mount_point(), WAYS, &["once"])?);
    place.umount();
    place.is_clean();
    place.mount("ro");
    let stored = lines(python(&place.mount_point(), WAYS, &["again"])?);
    place.umount();
    assert!(stored.iter().all(|way| wrong.contains(way)), "{options}: {stored:?} on the medium, {wrong:?} before");
    Some(wrong)
}

#[test]
fn what_is_stored_behind_the_end_does_not_become_contents() {
    for options in ["rw", "open_requests", "data=journal", "max_threads=4"] {
        let Some(place) = Place::new() else { return };
        let Some(wrong) = ways(&place, options) else { return };
        assert_eq!(wrong, LOCKED, "{options}");
    }
}

#[test]
fn mounts_that_let_it_become_contents_lose_nothing_else() {
    for options in ["max_threads=1", "writeback_cache", "writeback_cache,max_threads=1"] {
        let Some(place) = Place::new() else { return };
        let Some(wrong) = ways(&place, options) else { return };
        let right = |of: &str| !wrong.iter().any(|way| way.starts_with(of) && !way.contains("then"));
        assert!(options.starts_with("writeback_cache") || right("truncate"), "{options}: {wrong:?}");
        assert!(options.ends_with("max_threads=1") || (right("allocate") && right("copy")), "{options}: {wrong:?}");
    }
}

/// The kernel's own ext4 as the oracle: files grow there as here, and what it keeps out is kept out here.
#[test]
fn files_grow_as_on_the_kernels_ext4() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let (Some(kernels), Some(own)) = (Place::new(), Place::mounted("rw")) else { return };
    let mounted = output(Command::new("mount").args(["-o", "loop"]).arg(kernels.image()).arg(kernels.mount_point()));
    if !mounted.status.success() {
        return ondol_skips::skip(String::from_utf8_lossy(&mounted.stderr));
    }
    let grown = |place: &Place| {
        let wrong = python(&place.mount_point(), WAYS, &["once"])?;
        let files = fs::read_dir(place.mount_point()).unwrap().map(Result::unwrap);
        let wanted = files.filter(|e| e.file_name().to_string_lossy().starts_with("want"));
        let wanted = wanted.map(|e| (e.file_name(), fs::read(e.path()).unwrap())).collect::<BTreeMap<_, _>>();
        Some((wrong, wanted))
    };
    let there = grown(&kernels);
    succeeds(Command::new("umount").arg(kernels.mount_point()));
    let (Some((let_in, there)), Some((wrong, here))) = (there, grown(&own)) else { return };
    assert!(there.len() > 40 && there == here);
    for way in wrong.lines().filter(|way| !LOCKED.contains(way)) {
        assert!(let_in.lines().any(|other| other == way), "only here: {way}");
    }
    own.umount();
    own.is_clean();
}

#[test]
fn contents_of_inodes_have_space() {
    if ondol_skips::skips(ondol_skips::missing(&["mke2fs", "tar"])) {
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let Some(place) = Place::new() else { return };
    let mke2fs = ["-q", "-F", "-t", "ext4", "-I", "1024", "-O", "inline_data"];
    succeeds(Command::new("mke2fs").args(mke2fs).arg(place.image()));
    place.mount("rw");
    let dir = place.mount_point();
    let contents = [0, 1, 60, 512, 513, 600].map(|len| (format!("f{len}"), vec![b'c'; len]));
    for (name, bytes) in &contents {
        fs::write(place.on(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("f1", place.on("link")).unwrap();
    let space = |dir: &Path| {
        let of = |name: &str| fs::symlink_metadata(dir.join(name)).unwrap().blocks();
        contents.iter().map(|(name, _)| of(name)).chain([of("link")]).collect::<Vec<_>>()
    };
    let told = space(&dir);
    assert_eq!(told, [0, 1, 1, 1, 2, 2, 0]);
    let out = tempfile::tempdir().unwrap();
    let script = "cd \"$1\" && tar -cSf - f* | tar -xf - -C \"$2\"";
    succeeds(Command::new("sh").args(["-c", script, "sh"]).arg(&dir).arg(out.path()));
    for (name, bytes) in &contents {
        assert!(fs::read(out.path().join(name)).unwrap() == *bytes, "{name}");
    }
    place.umount();
    place.is_clean();
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let mounted = output(Command::new("mount").args(["-o", "loop,ro"]).arg(place.image()).arg(&dir));
    if !mounted.status.success() {
        return ondol_skips::skip(String::from_utf8_lossy(&mounted.stderr));
    }
    let kernels = space(&dir);
    succeeds(Command::new("umount").arg(&dir));
    assert_eq!(kernels, told, "the kernel's ext4");
    let listed = succeeds(ondol().args(["ls", "-l"]).arg(place.image()).arg("/"));
    assert!(listed.contains("f600"), "{listed}");
}
