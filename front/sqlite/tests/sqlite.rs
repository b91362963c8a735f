//! Programs with SQLite and the VFS: what they do with databases in an image, and what is left of them when they are
//! killed.

use ondol::{FormatOptions, Options, Volume};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// The library as cargo has put it beside the test.
fn library() -> PathBuf {
    let path = std::env::current_exe().expect("this test's path").with_file_name("libondol_sqlite.so");
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// The program, compiled; why it cannot be.
static PROGRAM: LazyLock<Result<(TempDir, PathBuf), String>> = LazyLock::new(|| {
    if let Some(missing) = ondol_skips::missing(&["cc"]) {
        return Err(missing.to_string());
    }
    if !Path::new("/usr/include/sqlite3.h").exists() {
        return Err("SQLite's header is missing (libsqlite3-dev)".into());
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.c");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-pthread"]);
    succeeds(cc.arg(source).arg("-o").arg(&program).arg("-lsqlite3"));
    Ok((dir, program))
});

fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// An image in a directory of its own.
struct Ground {
    dir: TempDir,
    options: &'static str,
}

impl Ground {
    fn new(size: u64, options: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Volume::format(dir.path().join("image"), &FormatOptions::new().size(size)).expect("an image");
        Self { dir, options }
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn uri(&self, name: &str) -> String {
        format!("file:/{name}?vfs=ondol&image={}", self.image().display())
    }

    fn program(&self, what: &str, arguments: &[&str]) -> Command {
        let (_, program) = PROGRAM.as_ref().expect("looked before");
        let mut command = Command::new(program);
        command.env("ONDOL_OPTIONS", self.options).env_remove("ONDOL_IMAGE").arg(library()).arg(what);
        command.args(arguments);
        command
    }

    /// Runs what ends by itself; the checks that it made.
    fn run(&self, what: &str) -> u32 {
        let said = succeeds(&mut self.program(what, &[&self.uri("a.db")]));
        said.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{said}"))
    }

    /// Starts what goes on for ever, and kills it after it has said `lines` numbers and some more time has passed; the
    /// last number.
    fn kill(&self, what: &str, arguments: &[&str], lines: usize, beyond: u64) -> i64 {
        let mut child = self.program(what, arguments).stdout(Stdio::piped()).spawn().expect("the program");
        let mut said = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut last = -1;
        for _ in 0..lines {
            let line = said.next().expect("a line").expect("text");
            last = line.parse().unwrap_or_else(|_| panic!("{line}"));
        }
        std::thread::sleep(std::time::Duration::from_micros(beyond));
        child.kill().expect("to kill it");
        for line in said {
            last = line.expect("text").parse().unwrap_or(last);
        }
        child.wait().expect("its end");
        last
    }

    /// What lies in the root of the image.
    fn names(&self) -> Vec<String> {
        let volume = Volume::open(self.image()).expect("the image");
        let entries = volume.read_dir("/").expect("its root").map(|entry| entry.expect("an entry"));
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        volume.close().expect("a clean image");
        names.retain(|name| name != "lost+found" && !name.starts_with('.'));
        names.sort();
        names
    }

    fn is_sound(&self) {
        drop(Volume::open_with(self.image(), &Options::default()).expect("recovery"));
        let report = ondol::check(self.image()).expect("a check");
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

fn cannot_run() -> bool {
    ondol_skips::skips(PROGRAM.as_ref().err())
}

const DATA_MODES: [&str; 3] = ["data=journal", "data=ordered", "data=writeback"];

#[test]
fn every_journal_mode_commits_and_rolls_back() {
    if cannot_run() {
        return;
    }
    for options in DATA_MODES {
        let ground = Ground::new(64 << 20, options);
        assert!(ground.run("modes") > 700);
        assert_eq!(ground.names(), ["a.db"]);
        ground.is_sound();
    }
}

#[test]
fn connections_wait_for_each_other() {
    if cannot_run() {
        return;
    }
    let ground = Ground::new(64 << 20, "");
    assert!(ground.run("two") > 20);
    assert!(Ground::new(64 << 20, "").run("threads") > 200);
    assert_eq!(ground.names(), ["a.db"]);
}

#[test]
fn a_log_has_readers_beside_the_writer() {
    if cannot_run() {
        return;
    }
    let ground = Ground::new(64 << 20, "");
    assert!(ground.run("wal") > 20);
    assert_eq!(ground.names(), ["a.db"]);
}

#[test]
fn what_is_not_committed_is_nowhere() {
    if cannot_run() {
        return;
    }
    let ground = Ground::new(64 << 20, "");
    assert!(ground.run("half") > 5);
    assert_eq!(ground.names(), ["a.db"]);
    assert_eq!(succeeds(&mut ground.program("count", &[&ground.uri("a.db")])), "0\n");
}

#[test]
fn a_full_volume_ends_a_commit_and_no_more() {
    if cannot_run() {
        return;
    }
    let ground = Ground::new(32 << 20, "");
    assert!(ground.run("full") > 15);
    assert_eq!(ground.names(), ["a.db"]);
    ground.is_sound();
}

/// A killed program leaves what it was told is committed, and at most the commit that it was in.
#[test]
fn a_kill_leaves_whole_commits() {
    if cannot_run() {
        return;
    }
    let pragmas = ["PRAGMA synchronous = OFF", "PRAGMA journal_mode = TRUNCATE", "PRAGMA journal_mode = WAL"];
    for (n, options) in DATA_MODES.iter().enumerate() {
        let ground = Ground::new(64 << 20, options);
        let uri = ground.uri("a.db");
        ground.run("half");
        let mut before = 0;
        for round in 0..6 {
            // Without syncs the last commits may be missing: what was not durable was in the memory of the killed
            // process. None is torn.
            let pragma = pragmas[(n + round) % 3];
            let last = ground.kill("forever", &[&uri, pragma], 2 + round, 3000 * round as u64 + 700 * n as u64);
            let found: i64 = succeeds(&mut ground.program("count", &[&uri])).trim().parse().expect("a number");
            let least = if pragma.contains("OFF") { before } else { last };
            assert!((least..=last + 1).contains(&found), "{options}, {pragma}: {found} commits, {last} were told");
            before = found;
        }
        ground.is_sound();
    }
}

#[test]
fn a_kill_leaves_commits_of_both_databases() {
    if cannot_run() {
        return;
    }
    for options in DATA_MODES {
        let ground = Ground::new(64 << 20, options);
        let (uri, other) = (ground.uri("a.db"), ground.uri("b.db"));
        let mut before = -1;
        for round in 0..5 {
            // The program compares both before it goes on.
            let last = ground.kill("both", &[&uri, &other], 2, 2500 * round);
            assert!(last > before, "{options}: {last} commits, {before} were told before");
            before = last;
        }
        assert_eq!(ground.names(), ["a.db", "b.db"]);
        ground.is_sound();
    }
}

/// Of two databases in one image; of two images, one of which is small.
#[test]
fn a_commit_of_several_databases_that_fails_is_none_of_any() {
    if cannot_run() {
        return;
    }
    let ground = Ground::new(32 << 20, "");
    succeeds(&mut ground.program("several", &[&ground.uri("a.db"), &ground.uri("b.db")]));
    assert_eq!(ground.names(), ["a.db", "b.db"]);
    ground.is_sound();
    for mode in ["NORMAL", "EXCLUSIVE"] {
        let (ground, small) = (Ground::new(64 << 20, ""), Ground::new(16 << 20, ""));
        succeeds(&mut ground.program("images", &[&ground.uri("a.db"), &small.uri("s.db"), mode]));
        assert_eq!((ground.names(), small.names()), (vec!["a.db".into()], vec!["s.db".into()]));
        ground.is_sound();
    }
}

#[test]
fn databases_of_another_vfs_are_not_torn() {
    if cannot_run() {
        return;
    }
    let (ground, small) = (Ground::new(64 << 20, ""), Ground::new(16 << 20, ""));
    let elsewhere = format!("file:{}?vfs=unix", ground.dir.path().join("e.db").display());
    succeeds(&mut ground.program("mixed", &[&ground.uri("a.db"), &small.uri("s.db"), &elsewhere]));
    assert_eq!(ground.names(), ["a.db"]);
}

#[test]
fn a_database_has_one_name() {
    if cannot_run() {
        return;
    }
    let ground = Ground::new(32 << 20, "");
    let volume = Volume::open(ground.image()).unwrap();
    volume.create_dir("/d").unwrap();
    volume.symlink("d", "/e").unwrap();
    volume.symlink("a.db", "/d/b.db").unwrap();
    volume.close().unwrap();
    for link in ["d/b.db", "e/a.db"] {
        succeeds(&mut ground.program("names", &[&ground.uri("d/a.db"), &ground.uri(link)]));
    }
}

#[test]
fn a_rollback_needs_no_space() {
    if cannot_run() {
        return;
    }
    let ground = Ground::new(32 << 20, "");
    assert!(ground.run("back") > 8);
    ground.is_sound();
}

/// The shell loads it by its name, and tells where the database is; a second process is refused.
#[test]
fn the_shell_opens_databases_in_images() {
    if cannot_run() || ondol_skips::skips(ondol_skips::missing(&["sqlite3"])) {
        return;
    }
    let ground = Ground::new(32 << 20, "");
    let shell = |script: &str, image: Option<&Path>| {
        let script = format!(".load {}\n{script}", library().display());
        let mut shell = Command::new("sqlite3");
        shell.env_remove("ONDOL_OPTIONS").env_remove("ONDOL_IMAGE").args(["-batch", ":memory:"]);
        image.map(|image| shell.env("ONDOL_IMAGE", image));
        for line in script.lines() {
            shell.args(["-cmd", line]);
        }
        let Output { stdout, stderr, .. } = shell.stdin(Stdio::null()).output().expect("the shell");
        format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))
    };
    let open = format!(".open {}", ground.uri("d/../notes.db"));
    assert_eq!(shell(&format!("{open}\nCREATE TABLE n(t);\nINSERT INTO n VALUES('warm');"), None), "");
    let image = ground.image();
    let said = shell(".open file:notes.db?vfs=ondol\nSELECT t FROM n;\nPRAGMA database_list;", Some(&image));
    assert_eq!(said, format!("warm\n0|main|{}//notes.db\n", image.canonicalize().unwrap().display()));
    assert_eq!(shell(&format!(".open file:{}//notes.db?vfs=ondol\nSELECT t FROM n;", image.display()), None), "warm\n");
    let said = shell(".open file:notes.db?vfs=ondol\nSELECT 1;", None);
    assert!(said.contains("unable to open database"), "{said}");

    let volume = Volume::open(&image).unwrap();
    let said = shell(".log stderr\n.open file:notes.db?vfs=ondol\nSELECT 1;", Some(&image));
    assert!(said.contains("unable to open database") && said.contains("in use"), "{said}");
    volume.close().unwrap();
    assert_eq!(ground.names(), ["notes.db"]);
}

/// A hot journal that was copied in with its database is rolled back; one of a commit of several databases, if the
/// super-journal is where it was.
#[test]
fn a_journal_of_elsewhere_is_rolled_back() {
    if cannot_run() || ondol_skips::skips(ondol_skips::missing(&["sqlite3"])) {
        return;
    }
    for of_several in [false, true] {
        let (ground, dir) = (Ground::new(64 << 20, ""), tempfile::tempdir().unwrap());
        let path = dir.path().join("a.db");
        // The default VFS leaves a journal when its program ends in the midst of a transaction.
        let mut half = ground.program("half", &[&format!("file:{}?vfs=unix", path.display())]);
        succeeds(&mut half);
        let mut journal = std::fs::read(dir.path().join("a.db-journal")).unwrap();
        assert!(journal.len() > 512);
        let super_journal = dir.path().join("m.db-mj00ABCD912");
        if of_several {
            // A page that is none, the name, its length, the sum of its bytes, and the bytes of a journal's beginning.
            // A newer SQLite removes only what names the journal.
            std::fs::write(&super_journal, format!("{}//a.db-journal\0", ground.image().display())).unwrap();
            let name = super_journal.to_str().unwrap().as_bytes();
            let sum = name.iter().map(|byte| u32::from(*byte)).sum::<u32>();
            let magic = journal[..8].to_vec();
            let (len, sum) = ((name.len() as u32).to_be_bytes(), sum.to_be_bytes());
            journal.extend([&0x0004_0001_u32.to_be_bytes(), name, &len, &sum, &magic].concat());
        }
        let volume = Volume::open(ground.image()).unwrap();
        volume.write("/a.db", std::fs::read(&path).unwrap()).unwrap();
        volume.write("/a.db-journal", &journal).unwrap();
        volume.close().unwrap();
        assert_eq!(succeeds(&mut ground.program("count", &[&ground.uri("a.db")])), "0\n");
        assert_eq!(ground.names(), ["a.db"]);
        assert!(!super_journal.exists());
    }
}
