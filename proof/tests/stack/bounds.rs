//! What an image decides, and what it must not: how much memory a command takes that looks at it, whether it ends, and
//! how much a server says.

use crate::memory::figure;
use crate::place::{Place, fails, ondol, succeeds};
use ondol::{Access, Caller, FormatOptions, OpenOptions, Options, ROOT, Volume};
use ondol_block::{BlockStore, FileStore};
use ondol_env::System;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What a command has taken when it has printed `until`, and waits for whoever reads the rest.
fn peak_when(command: &mut Command, until: &[u8]) -> u64 {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut buffer, mut seen) = (vec![0; 1 << 16], Vec::new());
    loop {
        let n = out.read(&mut buffer).unwrap();
        assert!(n > 0, "{command:?} has ended");
        seen.extend_from_slice(&buffer[..n]);
        if seen.windows(until.len()).any(|bytes| bytes == until) {
            break;
        }
        seen.drain(..seen.len().saturating_sub(until.len()));
    }
    let taken = figure(child.id(), "VmHWM") >> 10;
    child.kill().unwrap();
    child.wait().unwrap();
    println!("{command:?}: {taken} MiB");
    taken
}

fn image(dir: &Path, options: FormatOptions) -> PathBuf {
    let path = dir.join("disk.img");
    Volume::format(&path, &options).unwrap();
    path
}

/// An image with a tree of so many directories, each in the one before it; the deepest has many files.
fn deep(dir: &Path, depth: usize) -> PathBuf {
    let path = image(dir, FormatOptions::new().size(160 << 20).block_size(1024).inodes(50_000));
    let volume = Volume::open(&path).unwrap();
    let inodes = volume.inodes();
    let mut at = ROOT;
    for _ in 0..depth {
        at = inodes.names().mkdir(at, b"d", 0o755, Caller::default()).unwrap().ino;
    }
    for n in 0..3000 {
        let name = format!("a name that is long enough for many of them to fill a pipe, number {n}");
        inodes.names().create(at, name.as_bytes(), 0o644, Caller::default()).unwrap();
    }
    volume.close().unwrap();
    path
}

/// A path takes as much as its tree is deep: nobody keeps one for each directory.
#[test]
fn a_tree_takes_memory_as_it_is_deep_and_not_squared() {
    let dir = tempfile::tempdir().unwrap();
    let image = deep(dir.path(), 20_000);
    let taken = peak_when(ondol().args(["ls", "-R"]).arg(&image), b"a name that is long");
    assert!(taken < 160, "ls takes {taken} MiB");
}

/// Zeros are little in a compressed journal, and much where they are read.
#[test]
fn what_a_journal_holds_is_not_in_memory_whatever_it_is() {
    const SIZE: usize = 128 << 20;
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path(), FormatOptions::new().size(400 << 20));
    let options = Options::parse("data=journal,journal=compressed,cache=2G,dirty=512M,device=disk").unwrap();
    let store: Arc<dyn BlockStore> = Arc::new(FileStore::open(&image, Access::Write).unwrap());
    let volume = Volume::open_stepped(store, &options, Arc::new(System)).unwrap();
    volume.write("/f", vec![1; SIZE]).unwrap();
    volume.sync().unwrap();
    // Data that is new goes to its place; what is written over it, into the journal.
    let file = OpenOptions::new().write(true).open(&volume, "/f").unwrap();
    let zeros = vec![0; 1 << 20];
    (0..SIZE).step_by(zeros.len()).for_each(|at| file.write_all_at(&zeros, at as u64).unwrap());
    volume.sync().unwrap();
    drop(file);
    drop(volume);
    let taken = peak_when(ondol().arg("cat").arg(&image).arg("/f"), b"\0\0");
    assert!(taken < 100, "cat takes {taken} MiB");
    // Where there is no room for it, the error says where.
    let said = fails(ondol().arg("cat").arg(&image).arg("/f").env("TMPDIR", "/nonexistent"), 1);
    assert!(said.contains("/nonexistent") && said.contains("TMPDIR"), "{said}");
    let recovered = ondol::recover(&image).unwrap();
    assert!(recovered.blocks >= SIZE as u64 / 4096 / 4 * 3, "{recovered:?}: the journal held little");
}

/// A journal that is too short to be written to is read, and refused with what helps.
#[test]
fn a_short_journal_is_read_and_what_mends_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    let tools = ["mke2fs", "debugfs"];
    if ondol_skips::skips(ondol_skips::missing(&tools)) {
        return;
    }
    let [mut mke2fs, mut debugfs] = tools.map(|tool| Command::new(ondol_skips::find(tool).unwrap()));
    succeeds(mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-J", "size=4"]).arg(&image).arg("32M"));
    let blocks = succeeds(debugfs.args(["-R", "blocks <8>"]).arg(&image));
    let first: u64 = blocks.split_whitespace().next().unwrap().parse().unwrap();
    // s_maxlen.
    File::options().write(true).open(&image).unwrap().write_all_at(&8u32.to_be_bytes(), first * 1024 + 16).unwrap();
    assert_eq!(succeeds(ondol().arg("ls").arg(&image)), "lost+found\n");
    let shown = image.display();
    let expected = format!(
        "ondol: {shown}: a journal of 8 blocks is too short to be written to: the least is 1024; \
         `ondol tune --journal-size SIZE {shown}` gives it a longer one\n"
    );
    assert_eq!(fails(ondol().arg("cp").arg(&image).args(["/etc/hostname", ":/x"]), 1), expected);
    let said = fails(ondol().arg("resize").arg(&image).arg("48M"), 1);
    assert!(said.contains("too short to be written to"), "{said}");
    succeeds(ondol().args(["tune", "--journal-size", "4M"]).arg(&image));
    succeeds(ondol().arg("cp").arg(&image).args(["/etc/hostname", ":/x"]));
    let out = crate::place::fsck(&image);
    assert!(out.as_ref().is_none_or(|(code, _)| *code == Some(0)), "{out:?}");
}

/// Whoever has a server say something cannot fill its log with that.
#[test]
fn a_log_is_bounded_by_time_and_not_by_who_asks() {
    let Some(place) = Place::new() else { return };
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^dir_index,^metadata_csum"]).arg(place.image());
    if let Err(e) = mke2fs.output() {
        return ondol_skips::skip(format!("no mke2fs: {e}"));
    }
    let volume = Volume::open(place.image()).unwrap();
    volume.create_dir("/d").unwrap();
    volume.write("/d/file-of-a-known-name", b"").unwrap();
    volume.close().unwrap();
    let bytes = fs::read(place.image()).unwrap();
    let name = b"file-of-a-known-name";
    let image = File::options().write(true).open(place.image()).unwrap();
    // The length of its entry, wherever it is.
    let places = (8..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(name));
    places.for_each(|at| image.write_all_at(&[3, 0], at as u64 - 4).unwrap());
    drop(image);
    let log = place.image().with_file_name("log");
    place.mount(&format!("ro,log={}", log.display()));
    let dir = place.on("d");
    let failed =
        (0..20_000).filter(|_| fs::read_dir(&dir).is_ok_and(|list| list.into_iter().any(|e| e.is_err()))).count();
    place.umount();
    assert_eq!(failed, 20_000);
    let said = fs::read_to_string(&log).unwrap();
    let lines = said.lines().count();
    println!("{lines} lines");
    assert!(said.contains("WARN") || said.contains("ERROR"), "{said}");
    // Ten of a kind in five seconds, and a mount says a little of itself.
    assert!(lines < 2_000, "{lines} lines");
}
