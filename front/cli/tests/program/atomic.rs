//! Batches of writes on a mount with `atomic_write`: F2FS's ioctls, as SQLite uses them.

use crate::place::{AGAIN, Place};
use crate::transport::Offered;
use std::fs;
use std::process::Command;

/// Runs a script of Python on the mount; false, noted as skipped, without it.
fn python(place: &Place, script: &str) -> bool {
    let script = format!("{IOCTLS}{script}");
    match Command::new("python3").args(["-c", &script]).current_dir(place.mount_point()).output() {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => {
            ondol_skips::skip(format!("no python3: {e}"));
            return false;
        }
    }
    true
}

/// The beginning of scripts.
const IOCTLS: &str = "
import fcntl, mmap, os, signal, subprocess, struct, sys, time
START, COMMIT, ABORT, FEATURES = 0xF501, 0xF502, 0xF505, 0x8004F50C
def opened(name): return os.open(name, os.O_RDWR | os.O_CREAT)
def refused(errno, *call):
    try: fcntl.ioctl(*call)
    except OSError as e: assert e.errno == errno, e
    else: raise AssertionError(call)
";

#[test]
fn what_is_not_made_is_in_no_page() {
    let Some(place) = Place::mounted("atomic_write") else { return };
    fs::write(place.on("a"), [b'o'; 20_000]).unwrap();
    let script = "
a, b = opened('a'), opened('a')
assert struct.unpack('I', fcntl.ioctl(a, FEATURES, bytes(4)))[0] == 4
assert os.pread(b, 20000, 0) == b'o' * 20000
fcntl.ioctl(a, START)
os.pwrite(a, b'n' * 5000, 3000)
os.pwrite(a, b'n' * 4096, 40000)
assert os.pread(a, 9000, 0) == b'o' * 3000 + b'n' * 5000 + b'o' * 1000
assert os.pread(a, 5, 40000) == b'n' * 5 and os.pread(a, 5, 30000) == bytes(5)
for other in (b, os.open('a', os.O_RDONLY)):
    assert os.pread(other, 20001, 0) == b'o' * 20000
    assert os.pread(other, 5, 40000) == b''
os.pwrite(b, b'x', 100)
fcntl.ioctl(a, COMMIT)
for one in (a, b):
    assert os.pread(one, 8000, 0) == b'o' * 100 + b'x' + b'o' * 2899 + b'n' * 5000
    assert os.fstat(one).st_size == 44096
refused(22, a, COMMIT)
fcntl.ioctl(a, START)
os.pwrite(a, b'z' * 100000, 0)
fcntl.ioctl(a, ABORT)
assert os.fstat(b).st_size == 44096 and os.pread(a, 3, 0) == b'ooo'
# Two at once, and one that is closed.
fcntl.ioctl(a, START); fcntl.ioctl(b, START)
os.pwrite(a, b'A', 0); os.pwrite(b, b'B', 1)
assert os.pread(a, 2, 0) == b'Ao' and os.pread(b, 2, 0) == b'oB'
fcntl.ioctl(b, COMMIT)
assert os.pread(a, 2, 0) == b'AB'
os.close(a)
assert os.pread(b, 2, 0) == b'oB'
d = os.open('.', os.O_RDONLY)
refused(25, d, START)
";
    if python(&place, script) {
        place.umount();
        place.is_clean();
    }
}

#[test]
fn what_is_copied_through_a_batch_is_part_of_it() {
    let Some(place) = Place::mounted("atomic_write") else { return };
    fs::write(place.on("a"), [b'o'; 20_000]).unwrap();
    fs::write(place.on("c"), vec![b'c'; 3_000_000]).unwrap();
    let script = "
a, b, c = opened('a'), opened('a'), opened('c')
if not hasattr(os, 'copy_file_range'): sys.exit()
def copy(*what):
    (source, from_), (target, to), left = what
    while left > 0:
        n = os.copy_file_range(source, target, left, from_, to)
        if n == 0: break
        left, from_, to = left - n, from_ + n, to + n
    return left
fcntl.ioctl(a, START)
os.pwrite(a, b'new', 0)
assert copy((c, 0), (a, 10000), 2500000) == 0
assert copy((a, 0), (c, 2999000), 1000) == 0
assert copy((a, 0), (a, 5000), 3) == 0
assert os.pread(c, 1000, 2999000) == b'new' + b'o' * 997
assert os.pread(b, 30000, 0) == b'o' * 20000
assert os.pread(a, 15000, 0) == b'new' + b'o' * 4997 + b'new' + b'o' * 4997 + b'c' * 5000
# To the end of what is there with the batch, and no further.
assert copy((a, 2509990), (c, 0), 100) == 90
fcntl.ioctl(a, COMMIT)
assert os.pread(b, 3000000, 0) == b'new' + b'o' * 4997 + b'new' + b'o' * 4997 + b'c' * 2500000
fcntl.ioctl(a, START)
assert copy((c, 100), (a, 0), 1000) == 0
fcntl.ioctl(a, ABORT)
assert os.pread(a, 4, 0) == b'newo'
";
    if python(&place, script) {
        place.umount();
        place.is_clean();
    }
}

#[test]
fn a_killed_program_leaves_nothing_of_its_batch() {
    let Some(place) = Place::mounted("atomic_write") else { return };
    fs::write(place.on("a"), [b'o'; 20_000]).unwrap();
    let script = "
child = subprocess.Popen([sys.executable, '-c', '''
import fcntl, os, sys, time
f = os.open('a', os.O_RDWR)
fcntl.ioctl(f, 0xF501)
os.pwrite(f, b'n' * 50000, 0)
print('written', flush=True)
time.sleep(1000)
'''], stdout=subprocess.PIPE)
child.stdout.readline()
f = opened('a')
child.send_signal(signal.SIGKILL)
child.wait()
assert os.pread(f, 60000, 0) == b'o' * 20000
# The end of the file of which the kernel hears a little later.
for n in range(500):
    if os.fstat(f).st_size == 20000: break
    time.sleep(0.01)
else: raise AssertionError(os.fstat(f).st_size)
";
    if python(&place, script) {
        place.umount();
        place.is_clean();
    }
}

#[test]
fn a_file_of_batches_can_be_mapped() {
    let Some(place) = Place::mounted("atomic_write") else { return };
    fs::write(place.on("a"), [b'o'; 20_000]).unwrap();
    let script = "
a, b = opened('a'), opened('a')
seen = mmap.mmap(b, 20000)
assert seen[0:3] == b'ooo'
fcntl.ioctl(a, START)
os.pwrite(a, b'new', 0)
assert seen[0:3] == b'ooo'
fcntl.ioctl(a, COMMIT)
assert seen[0:3] == b'new', seen[0:3]
seen[4096:4099] = b'map'
seen.flush()
assert os.pread(a, 3, 4096) == b'map'
";
    if python(&place, script) {
        place.umount();
        place.is_clean();
    }
}

#[test]
fn maps_and_appends_are_no_part_of_a_batch() {
    let Some(place) = Place::mounted("atomic_write") else { return };
    fs::write(place.on("a"), [b'o'; 20_000]).unwrap();
    let script = "
a, b = opened('a'), opened('a')
mine, seen = mmap.mmap(a, 20000), mmap.mmap(b, 20000)
fcntl.ioctl(a, START)
os.pwrite(a, b'new', 0)
assert mine[0:3] == b'ooo' and seen[0:3] == b'ooo'
seen[4096:4099] = b'map'
seen.flush()
os.pwrite(a, b'n' * 100000, 8192)
fcntl.ioctl(a, ABORT)
assert seen[0:3] == b'ooo' and os.pread(b, 3, 4096) == b'map'
fcntl.ioctl(a, START)
os.pwrite(a, b'n' * 100000, 8192)
last = os.open('a', os.O_WRONLY | os.O_APPEND)
os.write(last, b'tail')
assert os.fstat(b).st_size == 20004 and os.pread(b, 9, 20000) == b'tail'
fcntl.ioctl(a, ABORT)
fcntl.ioctl(last, START)
try: os.write(last, b'x')
except OSError as e: assert e.errno == 22, e
else: raise AssertionError('appended')
";
    if python(&place, script) {
        place.umount();
        place.is_clean();
    }
}

#[test]
fn without_the_option_there_are_no_batches() {
    let Some(place) = Place::mounted("open_requests") else { return };
    let script = "
a = opened('a')
for command in (START, COMMIT, ABORT): refused(25, a, command)
refused(25, a, FEATURES, bytes(4))
";
    if python(&place, script) {
        place.umount();
    }
}

/// An SQLite that is built for it commits without a journal, and several programs take turns.
#[test]
fn sqlite_commits_without_a_journal() {
    let Some(place) = Place::mounted("atomic_write") else { return };
    let shell = |sql: &str| {
        let out = Command::new("sqlite3")
            .args(["-cmd", ".timeout 60000", "a.db", sql])
            .current_dir(place.mount_point())
            .output();
        out.map(|out| format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)))
    };
    match shell("PRAGMA compile_options") {
        Ok(said) if said.contains("ENABLE_BATCH_ATOMIC_WRITE") => {}
        Ok(_) => return ondol_skips::skip("sqlite3 is not built with SQLITE_ENABLE_BATCH_ATOMIC_WRITE"),
        Err(e) => return ondol_skips::skip(format!("no sqlite3: {e}")),
    }
    let made = shell(
        "CREATE TABLE t(n INT, pad BLOB); INSERT INTO t SELECT 0, randomblob(3000) FROM (SELECT 1 UNION SELECT 2 UNION SELECT 3);",
    );
    assert_eq!(made.unwrap(), "");
    // A journal would change the directory.
    let entries = || fs::metadata(place.mount_point()).unwrap().modified().unwrap();
    let before = entries();
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(shell("UPDATE t SET n = n + 1, pad = randomblob(3000)").unwrap(), "");
                }
            });
        }
    });
    assert_eq!(shell("SELECT min(n), max(n) FROM t; PRAGMA integrity_check").unwrap(), "30|30\nok\n");
    assert_eq!(entries(), before, "a file was made beside the database");
    place.umount();
    place.is_clean();
}

/// The kernel gives a request that waits to no place that a server has only now made. Whoever starts the threads is kept away here until a
/// fault on a page waits for the only thread, which commits a batch that has the kernel forget this page.
#[test]
fn a_page_that_is_read_while_it_is_to_be_forgotten_stops_no_commit() {
    // Whoever runs all tests over it has switched it on, and keeps others from that.
    let is_on = std::env::var_os(AGAIN).is_some();
    let offered = if is_on { None } else { Offered::now() };
    if !is_on && offered.is_none() {
        return;
    }
    let Some(place) = Place::mounted("atomic_write,transport=uring") else { return };
    fs::write(place.on("a"), [b'o'; 20_000]).unwrap();
    place.umount();
    place.mount("atomic_write,transport=uring");
    let script = format!("server = {}\n{LATE}", place.pid());
    if python(&place, &script) {
        place.umount();
        place.is_clean();
    }
}

const LATE: &str = "
import threading
processor = min(os.sched_getaffinity(0))
others = os.sched_getaffinity(0) - {processor}
if not others: sys.exit()
tasks = '/proc/%d/task' % server
foreman = [int(t) for t in os.listdir(tasks) if open(f'{tasks}/{t}/comm').read().startswith('ondol-fuse-fore')]
# It runs only where somebody else always does.
other = min(others)
os.sched_setaffinity(foreman[0], {other})
os.sched_setscheduler(foreman[0], os.SCHED_IDLE, os.sched_param(0))
spin = f'import os; os.sched_setaffinity(0, {{{other}}}); print(flush=True); any(iter(int, 1))'
spinner = subprocess.Popen([sys.executable, '-c', spin], stdout=subprocess.PIPE)
try:
    spinner.stdout.readline()
    os.sched_setaffinity(0, {processor})
    a = opened('a')
    fcntl.ioctl(a, START)
    os.pwrite(a, b'n' * 5000, 0)
    pages = mmap.mmap(a, 20000)
    child = os.fork()
    if child == 0:
        # Comes while the commit is served.
        time.sleep(0.002)
        pages[9000]
        os._exit(0)
    fcntl.ioctl(a, COMMIT)
    spinner.kill()
    assert os.waitpid(child, 0)[1] == 0
    assert pages[0:1] == b'n' and pages[9000:9001] == b'o'
finally:
    spinner.kill()
    spinner.wait()
";
