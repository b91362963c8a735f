//! Programs that know nothing of it.

use crate::{Place, compiled, succeeds};
use ondol_skips::{missing, skips};
use std::process::Command;

#[test]
fn sqlite_is_as_it_was() {
    let Some(place) = Place::new() else { return };
    if skips(missing(&["sqlite3"])) {
        return;
    }
    for mode in ["wal", "delete", "truncate", "persist"] {
        let sql = format!(
            "pragma journal_mode={mode}; pragma synchronous=full; create table t(a integer primary key, b blob);
             {} pragma wal_checkpoint(truncate); pragma integrity_check; select count(*) from t;",
            "insert into t(b) values(randomblob(700)); ".repeat(60)
        );
        let db = place.path(mode);
        let said = succeeds(place.run().arg("sqlite3").arg(&db).arg(&sql));
        assert!(said.contains("ok\n60\n"), "{mode}: {said}");
        let said = succeeds(Command::new("sqlite3").arg(&db).arg("pragma integrity_check; select count(*) from t"));
        assert_eq!(said, "ok\n60\n", "{mode}");
    }
}

#[test]
fn python_is_as_it_was() {
    let Some(place) = Place::new() else { return };
    if skips(missing(&["python3"])) {
        return;
    }
    // Streams of its own, threads, child processes, descriptors from elsewhere.
    let script = r#"
import os, subprocess, sys, threading, tempfile
def work(n):
    with open(f"f{n}", "w+b", buffering=0) as f:
        for i in range(200):
            f.write(bytes([i]) * 37)
            if i % 5 == 0: os.fsync(f.fileno())
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
for n in range(4):
    assert open(f"f{n}", "rb").read() == b"".join(bytes([i]) * 37 for i in range(200))
with open("shared", "ab", buffering=0) as f:
    writer = "import os\nfor i in range(50): os.write(1, b'line\\n'); os.fsync(1)"
    writers = [subprocess.Popen([sys.executable, "-c", writer], stdout=f) for _ in range(3)]
    assert all(w.wait() == 0 for w in writers)
assert open("shared").read() == "line\n" * 150
fd, name = tempfile.mkstemp(dir=".")
os.write(fd, b"a"); os.fsync(fd); os.write(fd, b"b"); os.fsync(fd); os.close(fd); os.replace(name, "final")
assert open("final").read() == "ab"
"#;
    succeeds(place.run().args(["python3", "-c", script]));
}

#[test]
fn static_programs_are_unharmed() {
    let Some(place) = Place::new() else { return };
    let program = compiled(place.memory.path(), "steps.c", &["-static", "-pthread"]);
    let script = format!("printf 'open\\nwrite 10\\nfsync\\npwrite 5\\nfsync\\n' | '{}' f", program.display());
    assert_eq!(succeeds(place.run().args(["sh", "-c", &script])), "ok\n".repeat(5));
    assert_eq!(std::fs::read(place.path("f")).unwrap().len(), 105);
}
