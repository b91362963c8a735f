//! Programs that people use, on a mount: git, tar, SQLite, a C compiler and make.

use ondol_testkit::image::{self, Spec, missing, scratch_dir};
use ondol_tests::{mount, no_fuse_mount, skip};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `test` on a fresh mount beside a directory on the host, then checks the image.
fn on_mount(name: &str, programs: &[&str], options: &str, test: impl FnOnce(&Path, &Path)) {
    let absent = missing(programs).map(|program| format!("{program} is not installed"));
    if skip(name, no_fuse_mount().or(absent)) {
        return;
    }
    let dir = scratch_dir().unwrap();
    let (image, point, host) = (dir.path().join("image"), dir.path().join("mounted"), dir.path().join("host"));
    fs::create_dir(&point).unwrap();
    fs::create_dir(&host).unwrap();
    Spec::new(512 << 20, 4096).make_file(&image).unwrap();
    let mut mount = mount(&image, &point, options).unwrap();
    test(&point, &host);
    mount.unmount().unwrap();
    let verdict = image::check(&fs::read(&image).unwrap()).unwrap();
    assert!(verdict.is_clean(), "e2fsck -fn:\n{}", verdict.output);
}

/// Runs a command in `dir`; it must succeed. Returns what it printed.
fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null"), ("LC_ALL", "C")]);
    let output = command.output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?} in {}: {}\n{text}", dir.display(), output.status);
    text
}

/// A tree with some hundred files of all sizes, names and kinds.
fn make_tree(at: &Path) {
    for d in 0..12 {
        let dir = at.join(format!("directory {d}/sub-{d}"));
        fs::create_dir_all(&dir).unwrap();
        for f in 0..25u32 {
            let bytes: Vec<u8> = (0..f * f * 37).map(|i| (i * 31 + d * 7) as u8).collect();
            fs::write(dir.join(format!("file {f}.txt")), bytes).unwrap();
        }
        std::os::unix::fs::symlink(format!("sub-{d}/file 3.txt"), at.join(format!("directory {d}/link"))).unwrap();
        fs::hard_link(dir.join("file 7.txt"), dir.join("hard")).unwrap();
    }
}

#[test]
fn git_clones_and_checks() {
    on_mount("git_clones_and_checks", &["git"], "", |mount, host| {
        let commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"];
        let repo = host.join("repo");
        fs::create_dir(&repo).unwrap();
        run(&repo, "git", &["init", "-q"]);
        for round in 0..5 {
            make_tree(&repo.join(format!("round {round}")));
            fs::write(repo.join("round"), format!("{round}")).unwrap();
            run(&repo, "git", &["add", "-A"]);
            run(&repo, "git", &commit);
        }
        run(mount, "git", &["clone", "-q", "--no-hardlinks", repo.to_str().unwrap(), "clone"]);
        let clone = mount.join("clone");
        run(&clone, "git", &["fsck", "--full", "--strict"]);
        assert_eq!(run(&clone, "git", &["status", "--porcelain"]), "");
        fs::write(clone.join("round"), "changed").unwrap();
        run(&clone, "git", &["add", "-A"]);
        run(&clone, "git", &commit);
        run(&clone, "git", &["gc", "-q", "--prune=now"]);
        run(&clone, "git", &["fsck", "--full", "--strict"]);
    });
}

#[test]
fn tar_and_diff() {
    on_mount("tar_and_diff", &["tar", "diff"], "data=journal", |mount, host| {
        let tree = host.join("tree");
        fs::create_dir(&tree).unwrap();
        make_tree(&tree);
        run(host, "tar", &["cf", "tree.tar", "tree"]);
        run(mount, "tar", &["xf", host.join("tree.tar").to_str().unwrap()]);
        run(mount, "diff", &["-r", "--no-dereference", tree.to_str().unwrap(), "tree"]);
        run(mount, "tar", &["cf", "again.tar", "tree"]);
        fs::create_dir(host.join("back")).unwrap();
        run(&host.join("back"), "tar", &["xf", mount.join("again.tar").to_str().unwrap()]);
        run(host, "diff", &["-r", "--no-dereference", "tree", "back/tree"]);
        fs::remove_dir_all(mount.join("tree")).unwrap();
    });
}

#[test]
fn sqlite_keeps_its_integrity() {
    for (mode, options) in [("DELETE", ""), ("WAL", "data=journal"), ("TRUNCATE", "data=writeback")] {
        on_mount("sqlite_keeps_its_integrity", &["sqlite3"], options, |mount, _| {
            let sql = format!(
                "PRAGMA journal_mode={mode}; CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5000)
                 INSERT INTO t SELECT i, hex(randomblob(100)) FROM n;
                 CREATE INDEX x ON t(v); UPDATE t SET v = v || k WHERE k % 3 = 0; DELETE FROM t WHERE k % 5 = 0; VACUUM;"
            );
            run(mount, "sqlite3", &["base.db", &sql]);
            for i in 0..20 {
                run(mount, "sqlite3", &["base.db", &format!("INSERT INTO t(v) VALUES('single {i}');")]);
            }
            let said = run(mount, "sqlite3", &["base.db", "PRAGMA integrity_check; SELECT count(*) FROM t;"]);
            assert_eq!(said.lines().collect::<Vec<_>>(), ["ok", "4020"]);
        });
    }
}

#[test]
fn a_c_program_is_built() {
    on_mount("a_c_program_is_built", &["make", "cc", "ar"], "", |mount, _| {
        let names: Vec<String> = (0..30).map(|i| format!("part{i}")).collect();
        for (i, name) in names.iter().enumerate() {
            fs::write(mount.join(format!("{name}.c")), format!("int {name}(void) {{ return {i}; }}\n")).unwrap();
        }
        let calls: Vec<String> = names.iter().map(|n| format!("{n}()")).collect();
        let declared: String = names.iter().map(|n| format!("int {n}(void);\n")).collect();
        let main = format!("{declared}int main(void) {{ return ({}) == 435 ? 0 : 1; }}\n", calls.join(" + "));
        fs::write(mount.join("main.c"), main).unwrap();
        let objects: String = names.iter().map(|n| format!(" {n}.o")).collect();
        let rules = format!(
            "all: prog\n\t./prog\nlib.a:{objects}\n\tar rcs $@ $^\nprog: main.o lib.a\n\tcc -o $@ main.o lib.a\n\
             clean:\n\trm -f *.o lib.a prog\n"
        );
        fs::write(mount.join("Makefile"), rules).unwrap();
        run(mount, "make", &["-j2"]);
        run(mount, "make", &["clean"]);
        run(mount, "make", &["-j2", "all"]);
    });
}
