//! Programs that do not take the library run without it, and one line says so.

use crate::{Place, ondol, output, succeeds};
use ondol_skips::{missing, skip, skips};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that says "lives", built so; none, noted as skipped, where that cannot be built.
fn built(dir: &Path, compiler: &str, words: &[&str]) -> Option<PathBuf> {
    if skips(missing(&[compiler])) {
        return None;
    }
    let (source, program) = (dir.join("lives.c"), dir.join(format!("lives-{compiler}")));
    fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"lives\") < 0; }\n").unwrap();
    let out = output(Command::new(compiler).arg(&source).args(words).arg("-o").arg(&program));
    if !out.status.success() {
        skip("a sanitizer's runtime is not installed");
        return None;
    }
    Some(program)
}

/// What `ondol run` says of a command that says "lives" so often.
#[track_caller]
fn said(place: &Place, lives: usize, command: &[&str]) -> String {
    let mut run = ondol();
    run.args(["run", "--size", "8M", "--buffer"]).arg(place.pool()).arg("--").args(command);
    let out = output(run.current_dir(place.path("")));
    let [text, wrong] = [out.stdout, out.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!((out.status.code(), text), (Some(0), "lives\n".repeat(lives)), "{command:?}: {wrong}");
    wrong
}

#[test]
fn programs_that_do_not_take_the_library_run_without_it() {
    let Some(place) = Place::new() else { return };
    let dir = place.memory.path();
    let kinds = [("musl-gcc", &[][..], "no program of glibc"), ("cc", &["-fsanitize=address"], "a sanitizer")];
    for (compiler, words, why) in kinds {
        let Some(program) = built(dir, compiler, words) else { continue };
        let (name, path) = (program.file_name().unwrap().to_str().unwrap(), program.to_str().unwrap());
        let script = dir.join("script");
        fs::write(&script, format!("#! {path}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        // Itself, and the program of a script.
        for program in [path, script.to_str().unwrap()] {
            let wrong = said(&place, 1, &[program]);
            assert!(wrong.contains(why) && wrong.lines().count() == 1, "{wrong}");
        }
        // Started by a program that takes it, by each of its ways.
        let wrong = said(&place, 2, &["sh", "-c", &format!("{path}; PATH={}; {name}", dir.display())]);
        let lines = wrong.lines().filter(|line| line.contains("does not take the library")).count();
        assert!(lines == 1 && !wrong.contains("ld.so"), "{wrong}");
        if !skips(missing(&["python3"])) {
            let script = format!(
                "import os, subprocess\nos.environ['PATH'] = '{}'\np, n, e = '{path}', ['{name}'], os.environ\n\
                 def child(f):\n    if os.fork() == 0: f()\n    assert os.wait()[1] == 0\n\
                 child(lambda: os.execv(p, n))\nchild(lambda: os.execve(os.open(p, os.O_RDONLY), n, e))\n\
                 child(lambda: os.execvp(n[0], n))\nos.posix_spawn(p, n, e); assert os.wait()[1] == 0\n\
                 os.posix_spawnp(n[0], n, e); assert os.wait()[1] == 0\nsubprocess.check_call([p])\n",
                dir.display()
            );
            said(&place, 6, &["python3", "-c", &script]);
        }
    }
}

#[test]
fn a_static_program_is_named() {
    let Some(place) = Place::new() else { return };
    let Some(program) = built(place.memory.path(), "cc", &["-static"]) else { return };
    let wrong = said(&place, 1, &[program.to_str().unwrap()]);
    assert!(wrong.contains("nothing is loaded into a static program"), "{wrong}");
}

/// Of a program that is started without the library, what else is to be preloaded stays.
#[test]
fn other_libraries_stay() {
    let Some(place) = Place::new() else { return };
    let Some(program) = built(place.memory.path(), "musl-gcc", &[]) else { return };
    let library = place.memory.path().join("other.so");
    fs::write(place.memory.path().join("other.c"), "int other;\n").unwrap();
    succeeds(Command::new("cc").args(["-shared", "-o"]).arg(&library).arg(place.memory.path().join("other.c")));
    // musl's loader says nothing of what it has loaded: the program tells its environment.
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv(\"LD_PRELOAD\")); }\n";
    fs::write(place.memory.path().join("tells.c"), source).unwrap();
    succeeds(Command::new("musl-gcc").arg(place.memory.path().join("tells.c")).arg("-o").arg(&program));
    let mut run = place.run();
    run.args(["sh", "-c", program.to_str().unwrap()]).env("LD_PRELOAD", &library);
    assert_eq!(succeeds(&mut run).trim(), library.to_str().unwrap());
}

/// Functions that take words one by one, with more of them than registers.
const LISTS: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    char *own[] = {"OWN=1", NULL};
    for (int way = 0; way < 4; way++) {
        if (!fork()) {
            if (way == 0) execl("/bin/echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", "9", NULL);
            if (way == 1) execlp("echo", "echo", "one", NULL);
            if (way == 2) execle("/usr/bin/env", "env", "-u", "A", "-u", "B", "-u", "C", "-u", "D", NULL, own);
            execl(words[1], words[1], NULL);
            _exit(1);
        }
        wait(NULL);
    }
    return execl("/none", "none", NULL) != -1;
}
"#;

#[test]
fn words_one_by_one_are_handed_on() {
    let Some(place) = Place::new() else { return };
    let (dir, lists) = (place.memory.path(), place.memory.path().join("lists"));
    let lives = built(dir, "musl-gcc", &[]).unwrap_or_else(|| PathBuf::from("/bin/true"));
    fs::write(dir.join("lists.c"), LISTS).unwrap();
    succeeds(Command::new("cc").arg("-w").arg(dir.join("lists.c")).arg("-o").arg(&lists));
    let plain = succeeds(Command::new(&lists).arg(&lives));
    assert!(plain.starts_with("1 2 3 4 5 6 7 8 9\none\nOWN=1\n"), "{plain}");
    assert_eq!(succeeds(place.run().arg(&lists).arg(&lives)), plain);
}
