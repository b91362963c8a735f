//! Names: which changes of them end in the pool, and what is there of them after a power cut.

use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a record of `namer.c`.
const RECORD: usize = 64;

/// One change of names.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create(u32, u32),
    Remove(u32),
    Rename(u32, u32),
    Link(u32, u32),
}

/// What is known of one process's names and files.
#[derive(Default)]
struct Model {
    changes: Vec<Change>,
    /// What the names stand for now.
    bound: BTreeMap<u32, u32>,
    /// The last change of a file's names, as a number of changes.
    newest: BTreeMap<u32, usize>,
    /// So many changes are there for sure.
    acked: usize,
    /// Records written to each file, and those that are there for sure.
    records: BTreeMap<u32, (usize, usize)>,
}

impl Model {
    fn apply(bound: &mut BTreeMap<u32, u32>, change: Change) {
        match change {
            Change::Create(name, id) => drop(bound.insert(name, id)),
            Change::Remove(name) => drop(bound.remove(&name)),
            Change::Rename(old, new) => {
                let id = bound.remove(&old).unwrap();
                bound.insert(new, id);
            }
            Change::Link(old, new) => drop(bound.insert(new, bound[&old])),
        }
    }

    fn change(&mut self, change: Change) {
        let file = match change {
            Change::Create(_, id) => id,
            Change::Remove(name) | Change::Rename(name, _) | Change::Link(name, _) => self.bound[&name],
        };
        self.changes.push(change);
        self.newest.insert(file, self.changes.len());
        Self::apply(&mut self.bound, change);
    }

    fn line(&mut self, kind: &str, numbers: &[u32]) {
        match (kind, numbers) {
            ("C", [name, id]) => self.change(Change::Create(*name, *id)),
            ("U", [name]) => self.change(Change::Remove(*name)),
            ("R", [old, new]) => self.change(Change::Rename(*old, *new)),
            ("L", [old, new]) => self.change(Change::Link(*old, *new)),
            ("W", [id, _]) => self.records.entry(*id).or_default().0 += 1,
            ("F", [id]) => {
                let (written, acked) = self.records.entry(*id).or_default();
                *acked = *written;
                // With the file its name, and what was done to names before.
                self.acked = self.acked.max(self.newest[id]);
            }
            ("D", []) => self.acked = self.changes.len(),
            other => panic!("{other:?}"),
        }
    }

    /// A file's contents are what its last sync covered, and behind it what was written, or nothing.
    fn fits(&self, id: u32, found: &[u8]) -> bool {
        let (written, acked) = self.records.get(&id).copied().unwrap_or_default();
        let all: String = (0..written).map(|n| format!("{id:031}:{n:031}\n")).collect();
        let all = all.as_bytes();
        let (sure, rest) = found.split_at(found.len().min(acked * RECORD));
        sure.len() == acked * RECORD
            && sure == &all[..sure.len()]
            && found.len() <= all.len()
            && rest.iter().zip(&all[sure.len()..]).all(|(found, wrote)| found == wrote || *found == 0)
    }

    /// The names stand for what they stood for after some number of changes, all that were acknowledged among them.
    fn check(&self, found: &BTreeMap<u32, Vec<u8>>) -> Option<String> {
        let mut bound = BTreeMap::new();
        let mut nearest = String::new();
        for done in 0..=self.changes.len() {
            if done > 0 {
                Self::apply(&mut bound, self.changes[done - 1]);
            }
            if done < self.acked {
                continue;
            }
            let names = bound.keys().eq(found.keys());
            let wrong = bound.iter().find(|(name, id)| found.get(name).is_some_and(|bytes| !self.fits(**id, bytes)));
            match (names, wrong) {
                (true, None) => return None,
                (true, Some((name, id))) => {
                    let (records, found) = (self.records.get(id), &found[name]);
                    nearest = format!(
                        "after {done} changes name {name} is file {id}, (written, acknowledged) {records:?}, found {} bytes, {:?}",
                        found.len(),
                        String::from_utf8_lossy(&found[..found.len().min(RECORD)])
                    );
                }
                (false, _) => {}
            }
        }
        let names: Vec<_> = found.keys().collect();
        let (acked, all) = (self.acked, self.changes.len());
        let last = &self.changes[acked.saturating_sub(3)..(acked + 6).min(all)];
        Some(format!("{names:?} of {acked} to {all} changes, about {last:?}; {nearest}"))
    }
}

/// What is wrong in a directory after what `namer.c` has said.
pub(crate) fn check(said: &str, dir: &Path) -> Vec<String> {
    let mut models = [Model::default(), Model::default()];
    for line in said.lines() {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        let numbers: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
        let (process, numbers) = numbers.split_first().unwrap();
        models[*process as usize].line(kind, numbers);
    }
    let mut wrong = Vec::new();
    for (process, model) in models.iter().enumerate() {
        let own = format!("p{process}-");
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some(name) = name.strip_prefix(&own) {
                match name.parse() {
                    Ok(number) => drop(found.insert(number, std::fs::read(dir.join(format!("{own}{name}"))).unwrap())),
                    Err(_) => wrong.push(format!("{own}{name} is no name of the program's")),
                }
            }
        }
        wrong.extend(model.check(&found).map(|what| format!("process {process}: {what}")));
    }
    wrong
}
