//! C programs with `libondol`: compiled, linked with the shared and with the static library, run, and run under
//! valgrind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// What the static library needs of the system, as `rustc --print native-static-libs` tells.
const NATIVE: [&str; 5] = ["-lgcc_s", "-lutil", "-lpthread", "-lm", "-ldl"];

/// How a program is linked.
#[derive(Clone, Copy, PartialEq)]
enum Linked {
    Shared,
    Static,
}

/// Where cargo has put the libraries: beside the test. What `cargo build` leaves one directory above may be older.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test's path");
    let path = test.with_file_name(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// A directory laid out as an installation.
struct Installed {
    dir: TempDir,
}

impl Installed {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |from: PathBuf, to: &str| std::fs::copy(&from, dir.path().join(to)).map(drop).expect("a copy");
        put(built("libondol_capi.so"), "libondol.so.0");
        put(built("libondol_capi.a"), "libondol.a");
        put(Path::new(HERE).join("include/ondol.h"), "ondol.h");
        std::os::unix::fs::symlink("libondol.so.0", dir.path().join("libondol.so")).expect("a link");
        Self { dir }
    }

    /// Compiles a source of this package.
    fn compile(&self, source: &str, linked: Linked) -> PathBuf {
        let lib = self.dir.path();
        let stem = Path::new(source).file_stem().expect("a name").to_string_lossy();
        let program = lib.join(format!("{stem}-{}", if linked == Linked::Shared { "shared" } else { "static" }));
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread", "-I"]);
        cc.arg(lib).arg(Path::new(HERE).join(source)).arg("-o").arg(&program);
        match linked {
            Linked::Shared => cc.arg("-L").arg(lib).arg("-londol").arg(format!("-Wl,-rpath,{}", lib.display())),
            Linked::Static => cc.arg(lib.join("libondol.a")).args(NATIVE),
        };
        succeeds(&mut cc);
        program
    }

    fn image(&self) -> PathBuf {
        let image = self.dir.path().join("image");
        // Each program makes its own.
        let _ = std::fs::remove_file(&image);
        image
    }
}

fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn every_call_does_what_the_header_says() {
    if ondol_skips::skips(ondol_skips::missing(&["cc"])) {
        return;
    }
    let installed = Installed::new();
    for linked in [Linked::Shared, Linked::Static] {
        let program = installed.compile("tests/calls.c", linked);
        let said = succeeds(Command::new(program).arg(installed.image()));
        let checks = said.split_whitespace().next().and_then(|n| n.parse::<u32>().ok());
        assert!(checks.is_some_and(|checks| checks > 300), "{said}");
    }
}

#[test]
fn the_example_keeps_notes() {
    if ondol_skips::skips(ondol_skips::missing(&["cc"])) {
        return;
    }
    let installed = Installed::new();
    let program = installed.compile("examples/notes.c", Linked::Shared);
    let image = installed.image();
    let said = succeeds(Command::new(program).arg(&image));
    assert!(said.starts_with("warm floor\n") && said.contains(": today\n") && said.contains(": yesterday\n"), "{said}");
    let volume = ondol::Volume::open(&image).expect("its volume");
    assert_eq!(volume.read("/notes/today").expect("a file"), b"warmer floor\n");
    assert_eq!(volume.read("/notes/yesterday").expect("a file"), b"warm floor\n");
    volume.close().expect("a clean image");
}

/// The block that docs/c.md begins with does what it says.
#[test]
fn the_document_shows_a_program() {
    if ondol_skips::skips(ondol_skips::missing(&["cc"])) {
        return;
    }
    let installed = Installed::new();
    let text = std::fs::read_to_string(Path::new(HERE).join("../../docs/c.md")).expect("the document");
    let shown = text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let source = installed.dir.path().join("shown.c");
    let around = format!("#include <err.h>\n#include \"ondol.h\"\n\nint main(void)\n{{\n{shown}\nreturn 0;\n}}\n");
    std::fs::write(&source, around).expect("a source");
    let program = installed.compile(source.to_str().expect("a path"), Linked::Shared);
    let image = installed.dir.path().join("notes.img");
    ondol::Volume::format(&image, &ondol::FormatOptions::new().size(16 << 20)).expect("a file system");
    let volume = ondol::Volume::open(&image).expect("a volume");
    volume.write("/today", b"warm floor\n").expect("a file");
    volume.close().expect("a clean image");
    let said = succeeds(Command::new(program).current_dir(installed.dir.path()));
    assert_eq!(said, "");
    let volume = ondol::Volume::open(&image).expect("its volume");
    assert_eq!(volume.read("/today").expect("a file"), b"warmer floor\n");
    assert_eq!(volume.read("/yesterday").expect("a file"), b"warm floor\n");
    volume.close().expect("a clean image");
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if ondol_skips::skips(ondol_skips::missing(&["cc", "valgrind"])) {
        return;
    }
    let installed = Installed::new();
    for source in ["examples/notes.c", "tests/calls.c"] {
        let program = installed.compile(source, Linked::Shared);
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        succeeds(valgrind.arg(program).arg(installed.image()));
    }
}

/// The names of functions that are declared in the header.
fn declared(header: &str) -> Vec<&str> {
    let code = header.lines().filter(|line| !line.starts_with(" *") && !line.starts_with("/*"));
    let words = code.flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || "_(".contains(c))));
    let mut names: Vec<&str> = words.filter_map(|word| word.split_once('(')).map(|(name, _)| name).collect();
    names.retain(|name| name.starts_with("ondol_"));
    names.sort_unstable();
    names
}

#[test]
fn the_header_declares_what_the_library_has() {
    let header = std::fs::read_to_string(Path::new(HERE).join("include/ondol.h")).expect("the header");
    let mut defined = Vec::new();
    for entry in std::fs::read_dir(Path::new(HERE).join("src")).expect("the source") {
        let source = std::fs::read_to_string(entry.expect("an entry").path()).expect("a source");
        for line in source.lines() {
            let function = line.strip_prefix("pub extern \"C\" fn ").and_then(|rest| rest.split_once('('));
            defined.extend(function.map(|(name, _)| name.to_owned()));
        }
    }
    defined.sort_unstable();
    assert!(defined.len() > 40, "{defined:?}");
    assert_eq!(declared(&header), defined, "`cargo xtask header --write` makes it anew");
}
