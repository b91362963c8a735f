//! `cargo xtask fsck-images DIR`: `ondol check -n` beside `e2fsck -fn` on every image of e2fsprogs' tests (DIR is
//! `tests` of its source).
//!
//! The verdicts must be the same, but for the images in the table of `docs/fsck-images.md`, which says why each
//! differs, and of which each must.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "real programs run in real time")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Where the table is.
const TABLE: &str = "docs/fsck-images.md";
/// How long a program may take for an image: e2fsck does not end with some.
const LONGEST: Duration = Duration::from_secs(60);
/// Bytes that are left out of a file where they are zero.
const PIECE: usize = 4096;

/// What a program says of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Clean,
    NotClean,
    CannotOpen,
    NoEnd,
}

impl Verdict {
    /// From the exit code of fsck, if it ended.
    fn of(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Clean,
            Some(code) if code & 4 != 0 => Self::NotClean,
            Some(_) => Self::CannotOpen,
            None => Self::NoEnd,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::NotClean => "not clean",
            Self::CannotOpen => "cannot open",
            Self::NoEnd => "does not end",
        }
    }
}

/// Both verdicts on an image: e2fsck's, then ours.
type Verdicts = (Verdict, Verdict);

/// Compares all images of the directory that `words` name.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let [dir] = words else {
        return Err("usage: cargo xtask fsck-images DIR, the `tests` of e2fsprogs' source".into());
    };
    let metadata = crate::metadata()?;
    crate::cargo(&["build", "--quiet", "--workspace", "--bin", "ondol"])?;
    let ondol = metadata.target_directory.as_std_path().join("debug/ondol");
    let table = fs::read_to_string(metadata.workspace_root.as_std_path().join(TABLE));
    let rows = rows(&table.map_err(|e| format!("{TABLE}: {e}"))?);
    let scratch = metadata.target_directory.as_std_path().join("fsck-images");
    let found = verdicts(Path::new(dir), &ondol, &scratch)?;
    let same = found.values().filter(|(theirs, ours)| theirs == ours).count();
    println!("xtask: {} images, {same} verdicts are the same", found.len());
    let faults = compare(&found, &rows);
    if faults.is_empty() { Ok(()) } else { Err(format!("{TABLE}:\n  {}", faults.join("\n  "))) }
}

/// What the rows of the table say: each image that they name, and the verdicts in words.
fn rows(text: &str) -> BTreeMap<String, [String; 2]> {
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let lines = text.lines().filter(|line| line.starts_with("| `")).map(cells);
    let row = |cells: Vec<String>| {
        let [images, theirs, ours, _why] = <[String; 4]>::try_from(cells).unwrap_or_default();
        let images: Vec<String> = images.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        images.into_iter().map(move |image| (image, [theirs.clone(), ours.clone()]))
    };
    lines.flat_map(row).collect()
}

/// What the table says and is not so, and what is so and it does not say.
fn compare(found: &BTreeMap<String, Verdicts>, rows: &BTreeMap<String, [String; 2]>) -> Vec<String> {
    let mut faults = Vec::new();
    for (image, &(theirs, ours)) in found {
        let said = [theirs.words().to_owned(), ours.words().to_owned()];
        match rows.get(image) {
            None if theirs == ours => {}
            Some(row) if *row == said && theirs != ours => {}
            row => {
                let row = row.map_or("has no row".to_owned(), |row| format!("its row says {} and {}", row[0], row[1]));
                faults.push(format!("{image}: {} to e2fsck, {} to us; {row}", said[0], said[1]));
            }
        }
    }
    let gone = rows.keys().filter(|image| !found.contains_key(*image));
    faults.extend(gone.map(|image| format!("{image}: it has a row, and there is no such image")));
    faults
}

/// Asks both programs about every image.
fn verdicts(dir: &Path, ondol: &Path, scratch: &Path) -> Result<BTreeMap<String, Verdicts>, String> {
    let fault = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    fs::create_dir_all(scratch).map_err(|e| fault(scratch, &e))?;
    let entries = fs::read_dir(dir).map_err(|e| fault(dir, &e))?;
    let images = entries.flatten().filter_map(|entry| {
        let packed = ["image.gz", "image.bz2", "image"].map(|name| entry.path().join(name));
        let packed = packed.into_iter().find(|path| path.is_file())?;
        Some((entry.file_name().to_string_lossy().into_owned(), packed))
    });
    let left: Mutex<Vec<(String, PathBuf)>> = Mutex::new(images.collect());
    let found = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), String> {
        while let Some((name, packed)) = left.lock().ok().and_then(|mut left| left.pop()) {
            let image = scratch.join(&name);
            unpack(&packed, &image).map_err(|e| fault(&packed, &e))?;
            let theirs = ask(Command::new("e2fsck").arg("-fn").arg(&image))?;
            // Some that it cannot end with it has changed, in spite of -n.
            unpack(&packed, &image).map_err(|e| fault(&packed, &e))?;
            let ours = ask(Command::new(ondol).args(["check", "-n"]).arg(&image))?;
            fs::remove_file(&image).map_err(|e| fault(&image, &e))?;
            if let Ok(mut found) = found.lock() {
                found.insert(name, (theirs, ours));
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread has panicked".to_owned())?)
    })?;
    let found = found.into_inner().map_err(|e| e.to_string())?;
    if found.is_empty() { Err(format!("{}: no images", dir.display())) } else { Ok(found) }
}

/// Writes an image out, with holes where it is zero.
fn unpack(packed: &Path, image: &Path) -> std::io::Result<()> {
    let bytes = match packed.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Command::new("gzip").arg("-dc").arg(packed).output()?.stdout,
        Some("bz2") => Command::new("bzip2").arg("-dc").arg(packed).output()?.stdout,
        _ => fs::read(packed)?,
    };
    let file = File::create(image)?;
    file.set_len(bytes.len() as u64)?;
    for (n, piece) in bytes.chunks(PIECE).enumerate().filter(|(_, piece)| piece.iter().any(|&byte| byte != 0)) {
        file.write_all_at(piece, (n * PIECE) as u64)?;
    }
    Ok(())
}

/// What a program says, if it does before the time is up.
fn ask(command: &mut Command) -> Result<Verdict, String> {
    let name = format!("{command:?}");
    let fault = |e| format!("{name}: {e}");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (mut child, began) = (command.spawn().map_err(fault)?, Instant::now());
    loop {
        if let Some(status) = child.try_wait().map_err(fault)? {
            // A program that a signal has ended has said nothing.
            return Ok(Verdict::of(Some(status.code().unwrap_or(8))));
        }
        if began.elapsed() > LONGEST {
            child.kill().and_then(|()| child.wait()).map_err(fault)?;
            return Ok(Verdict::of(None));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_has_a_row_and_each_row_a_difference() {
        let text = "| image | e2fsck | us | why |\n|---|---|---|---|\n| `a`, `b` | clean | not clean | so |\n\
            | `c` | clean | not clean | so |\n| `d` | clean | cannot open | so |\n";
        let found = [
            ("a", (Verdict::Clean, Verdict::NotClean)),
            ("b", (Verdict::Clean, Verdict::Clean)),
            ("c", (Verdict::of(Some(12)), Verdict::of(Some(8)))),
            ("e", (Verdict::of(None), Verdict::NotClean)),
            ("f", (Verdict::of(Some(8)), Verdict::CannotOpen)),
        ];
        let found = found.into_iter().map(|(image, verdicts)| (image.to_owned(), verdicts)).collect();
        let faults = compare(&found, &rows(text));
        let images: Vec<&str> = faults.iter().filter_map(|fault| fault.split(':').next()).collect();
        assert_eq!(images, ["b", "c", "e", "d"], "{faults:?}");
    }
}
