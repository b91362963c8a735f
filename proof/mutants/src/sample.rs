//! Which mutants are tried: a sample of those of the files that decide what a crash leaves.

use crate::find::{self, Mutant};
use std::collections::BTreeMap;
use std::path::Path;

/// Folders of which every file counts.
const FOLDERS: [&str; 7] = [
    "crates/format/src/unit",
    "crates/journal/src",
    "crates/nvm-log/src",
    "crates/page-table/src",
    "crates/run-log/src",
    "crates/volume/src",
    "crates/write-buffer/src",
];

/// What only tells, counts or is for tests.
const LEFT_OUT: [&str; 10] = [
    "/check/",
    "/tests/",
    "/check.rs",
    "/contract.rs",
    "/error.rs",
    "/examine.rs",
    "/lib.rs",
    "/rigs.rs",
    "/stats.rs",
    "/tests.rs",
];

/// A mutant of a file.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// Its number, from 1 on.
    pub(crate) number: u32,
    pub(crate) file: String,
    pub(crate) mutant: Mutant,
}

impl Chosen {
    /// What it is called: place and change.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}:{} {}", self.file, self.mutant.line, self.mutant.column, self.mutant.told)
    }

    /// The crate that it is in.
    pub(crate) fn of(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }
}

/// Draws so many mutants, of each folder about as many. A larger sample begins with the smaller one.
///
/// # Errors
/// A file cannot be read, or is no Rust.
pub(crate) fn draw(root: &Path, seed: u64, count: usize, only: Option<&str>) -> Result<Vec<Chosen>, String> {
    let mut folders: BTreeMap<String, Vec<(String, Mutant)>> = BTreeMap::new();
    for file in files(root)?.into_iter().filter(|file| only.is_none_or(|part| file.contains(part))) {
        let text = std::fs::read_to_string(root.join(&file)).map_err(|e| format!("{file}: {e}"))?;
        let found = find::mutants(&text).map_err(|e| format!("{file}: {e}"))?;
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        folders.entry(folder).or_default().extend(found.into_iter().map(|mutant| (file.clone(), mutant)));
    }
    let mut random = Random(seed);
    let mut left: Vec<_> = folders.into_values().collect();
    let mut drawn = Vec::new();
    while drawn.len() < count && left.iter().any(|folder| !folder.is_empty()) {
        for folder in left.iter_mut().filter(|folder| !folder.is_empty()) {
            drawn.push(folder.swap_remove(random.below(folder.len())));
        }
    }
    drawn.truncate(count);
    let numbered = drawn.into_iter().zip(1..);
    Ok(numbered.map(|((file, mutant), number)| Chosen { number, file, mutant }).collect())
}

/// Those that count, by their names in the repository.
fn files(root: &Path) -> Result<Vec<String>, String> {
    let (mut found, mut folders) = (Vec::new(), FOLDERS.map(str::to_owned).to_vec());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).map_err(|e| format!("{folder}: {e}"))? {
            let entry = entry.map_err(|e| format!("{folder}: {e}"))?;
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(name);
            } else if name.ends_with(".rs") && !LEFT_OUT.iter().any(|part| name.contains(part)) {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Numbers from a seed: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % n as u64).unwrap_or(0)
    }
}
