//! Every shell block of the documents runs as it stands there, or this file says why it does not.
//!
//! That all of them are calls which the program takes is tested where its arguments are defined.

use crate::namespace::{place, run};
use std::fs;
use std::path::Path;

/// A block that runs: its document, how it begins, what a reader has before, and what must hold after it.
struct Runs {
    document: &'static str,
    begins: &'static str,
    before: &'static str,
    after: &'static str,
}

const RUNS: [Runs; 5] = [
    Runs {
        document: "README.md",
        begins: "ondol mkfs --size 1G demo.img",
        before: "mkdir checkout; cd checkout",
        after: r#"e2fsck -fn demo.img; [ "$(ondol cat demo.img /file)" = text ]"#,
    },
    Runs {
        document: "README.md",
        begins: "mkdir -p mnt && cargo run",
        before: "mkdir checkout; cd checkout",
        after: r#"echo text > mnt/file; cargo run --release --bin ondol -- umount mnt; e2fsck -fn demo.img"#,
    },
    Runs {
        document: "docs/commands.md",
        begins: "ondol mkfs --size 1G nvm:",
        before: "memory /mnt; mkdir /mnt/pmem",
        after: "e2fsck -fn copy.img; ondol check nvm:/mnt/pmem/pool",
    },
    Runs {
        document: "docs/commands.md",
        begins: "ondol ls -l disk.img /etc",
        before: r#"
memory /srv; mkdir -p /srv/files/below etc
echo "fstab" > etc/fstab; echo "log" > log; echo text > /srv/files/below/text
ondol cp -r disk.img etc log :/; rm -r etc"#,
        after: r#"
[ "$(cat fstab)" = fstab ]
[ "$(ondol cat disk.img /files/below/text)" = text ]"#,
    },
    Runs {
        document: "docs/commands.md",
        begins: "for type in ondol fuse.ondol; do",
        before: "rm -f /sbin/*.ondol",
        after: r#"mount -t ondol "$I" "$M"; mounted; umount -t ondol "$M"
[ "$(readlink /sbin/fsck.ondol)" = "$(which ondol)" ]"#,
    },
];

/// Blocks that do not run: their document, how they begin, and why.
const STANDS: [(&str, &str, &str); 16] = [
    ("README.md", "cargo test", "it is what runs this test"),
    ("docs/benchmarks.md", "# longer commands", MEASURES),
    ("docs/design/bench.md", "cargo build --profile fast --manifest-path proof/Cargo.toml", MEASURES),
    ("docs/design/bench.md", "ondol bench run create-fsync --on lib:file:", MEASURES),
    ("docs/crash-testing.md", "ondol crash ", HUNTS),
    ("docs/crash-testing.md", "cargo xtask lab crash --plant", HUNTS),
    ("docs/install.md", "tar -xf", "`cargo xtask dist --check` does it in roots of others"),
    ("docs/install.md", "apt install", "`cargo xtask dist --check` does it in a root of its own"),
    ("docs/install.md", "install -D -m 644", "`cargo xtask dist --check` does it in a root of its own"),
    ("docs/install.md", "cargo xtask dist && podman", "it needs podman and images from elsewhere"),
    ("docs/object-storage.md", "mkdir -p mnt", "`cargo xtask proof` does it"),
    ("docs/object-storage.md", "ondol mount -o durable=local", "a bucket of its user's"),
    ("docs/programs.md", "cargo xtask programs", "it fetches and builds programs of others"),
    ("docs/testing.md", "export RUSTFLAGS", HUNTS),
    ("docs/testing.md", "cargo xtask fuzz", HUNTS),
    ("docs/testing.md", "cd proof/fuzz", HUNTS),
];

const MEASURES: &str = "it measures for minutes";
const HUNTS: &str = "it hunts for minutes";

/// What a reader's machine has: the program by its name, memory in which a pool may lie, and a pager.
const READER: &str = r#"
mkdir "$D/bin"; PATH=$D/bin:$PATH
ln -s "$D/ondol" "$D/bin/ondol"; ln -s "$(which cat)" "$D/bin/less"
cat > "$D/bin/cargo" <<'BUILT'
#!/bin/sh
# The program is built already.
[ "$1 $2 $3 $4 $5" = "run --release --bin ondol --" ] || { echo "cargo $*" >&2; exit 1; }
shift 5
exec ondol "$@"
BUILT
chmod +x "$D/bin/cargo"
memory() { mkdir -p "$1"; mount -t tmpfs -o mode=755 none "$1"; }
cd "$D"
"#;

/// The shell blocks of a document.
fn blocks(document: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(document)).unwrap();
    let parts = text.split("\n```sh\n").skip(1);
    parts.map(|part| part.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

fn documents() -> Vec<String> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut found = vec!["README.md".to_owned()];
    for dir in ["docs", "docs/design"] {
        let names =
            fs::read_dir(root.join(dir)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        found.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{dir}/{name}")));
    }
    found
}

#[test]
fn every_block_runs_or_it_is_said_why_not() {
    let runs = RUNS.map(|block| (block.document, block.begins));
    let stands = STANDS.map(|(document, begins, why)| {
        assert!(!why.is_empty());
        (document, begins)
    });
    let named = [runs.as_slice(), stands.as_slice()].concat();
    let found: Vec<(String, String)> = documents()
        .into_iter()
        .flat_map(|document| blocks(&document).into_iter().map(move |block| (document.clone(), block)))
        .collect();
    for (document, block) in &found {
        let places = named.iter().filter(|(at, begins)| at == document && block.starts_with(begins)).count();
        assert_eq!(places, 1, "{document}: {block}");
    }
    for (document, begins) in named {
        let blocks = found.iter().filter(|(at, block)| at == document && block.starts_with(begins)).count();
        assert_eq!(blocks, 1, "{document}: {begins}");
    }
}

#[test]
fn blocks_run_as_they_stand() {
    for Runs { document, begins, before, after } in RUNS {
        let Some(place) = place() else { return };
        let block = blocks(document).into_iter().find(|block| block.starts_with(begins)).expect("it is there");
        run(&place, &format!("{READER}\n{before}\n{block}\n{after}\n"));
    }
}

/// What the documentation's examples compile is the crate's text; the project's shows the same without what surrounds
/// it.
#[test]
fn the_readme_shows_the_example_of_the_crate() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let [ours, compiled] =
        ["README.md", "crates/ondol/README.md"].map(|name| fs::read_to_string(root.join(name)).unwrap());
    let shown = ours.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let code = |line: &str| line.split("//").next().unwrap_or_default().trim().to_owned();
    let compiled: Vec<String> = compiled.lines().map(code).collect();
    let lines: Vec<String> = shown.lines().map(code).filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > 10, "{shown}");
    for line in lines {
        assert!(compiled.contains(&line), "{line}");
    }
}
