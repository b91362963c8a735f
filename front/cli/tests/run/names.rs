//! Names: which changes of them end in the pool, and what is there of them after a power cut.

use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a record of `namer.c`.
const RECORD: usize = 64;

/// One change of names. A file that is linked, or comes from another directory, is made with what it has.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create(u32, u32),
    Remove(u32),
    Rename(u32, u32),
}

/// Names from this one on are in the second directory.
const HALF: u32 = 6;

fn dir(name: u32) -> usize {
    usize::from(name >= HALF)
}

/// What is known of one process's names and files. Nothing says that two directories are as they were at one time, but
/// that a file that was moved is in one of them, and none is in neither.
#[derive(Default)]
struct Model {
    changes: [Vec<Change>; 2],
    /// What the names stand for now.
    bound: BTreeMap<u32, u32>,
    /// The last change of a file's names, as a number of changes in each directory.
    newest: BTreeMap<u32, [usize; 2]>,
    /// So many changes are there for sure.
    acked: [usize; 2],
    /// Records written to each file, and those that are there for sure.
    records: BTreeMap<u32, (usize, usize)>,
    /// Moves from one directory to the other, as a number of changes in each.
    moves: Vec<[usize; 2]>,
    /// When a file was made, and when it lost its last name: the directory, and a number of changes there.
    born: BTreeMap<u32, (usize, usize)>,
    died: BTreeMap<u32, (usize, usize)>,
}

/// A number of changes of a directory, and the files that its names stand for after them.
type Done = (usize, Vec<u32>);

impl Model {
    fn apply(bound: &mut BTreeMap<u32, u32>, change: Change) {
        match change {
            Change::Create(name, id) => drop(bound.insert(name, id)),
            Change::Remove(name) => drop(bound.remove(&name)),
            Change::Rename(old, new) => {
                let id = bound.remove(&old).unwrap();
                bound.insert(new, id);
            }
        }
    }

    /// A change in one directory.
    fn change(&mut self, file: u32, change: Change) {
        let (Change::Create(name, _) | Change::Remove(name) | Change::Rename(name, _)) = change;
        let changes = &mut self.changes[dir(name)];
        changes.push(change);
        let step = (dir(name), changes.len());
        self.newest.entry(file).or_default()[step.0] = step.1;
        let before: Vec<u32> = self.bound.values().copied().collect();
        Self::apply(&mut self.bound, change);
        self.born.entry(file).or_insert(step);
        for lost in before.into_iter().filter(|id| !self.bound.values().any(|bound| bound == id)) {
            self.died.insert(lost, step);
        }
    }

    fn line(&mut self, kind: &str, numbers: &[u32]) {
        match (kind, numbers) {
            ("C", [name, id]) => self.change(*id, Change::Create(*name, *id)),
            ("U", [name]) => self.change(self.bound[name], Change::Remove(*name)),
            ("R", [old, new]) if dir(*old) == dir(*new) => self.change(self.bound[old], Change::Rename(*old, *new)),
            ("R", [old, new]) => {
                // First where it comes to: it is never without a name.
                let file = self.bound[old];
                self.change(file, Change::Create(*new, file));
                self.change(file, Change::Remove(*old));
                self.moves.push([0, 1].map(|dir| self.changes[dir].len()));
            }
            ("L", [old, new]) => self.change(self.bound[old], Change::Create(*new, self.bound[old])),
            ("W", [id, _]) => self.records.entry(*id).or_default().0 += 1,
            ("F", [id]) => {
                let (written, acked) = self.records.entry(*id).or_default();
                *acked = *written;
                // With the file its names, and what was done in their directories before.
                for (acked, newest) in self.acked.iter_mut().zip(self.newest[id]) {
                    *acked = newest.max(*acked);
                }
            }
            ("D", [dir]) => self.acked[*dir as usize] = self.changes[*dir as usize].len(),
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

    /// The names of a directory stand for what they stood for after some number of changes, all that were acknowledged
    /// among them: which numbers those may be, and which files the names are then.
    fn done(&self, dir: usize, found: &BTreeMap<u32, Vec<u8>>) -> Result<Vec<Done>, String> {
        let (changes, acked) = (&self.changes[dir], self.acked[dir]);
        let (mut bound, mut fitting) = (BTreeMap::new(), Vec::new());
        let mut nearest = String::new();
        for done in 0..=changes.len() {
            if done > 0 {
                Self::apply(&mut bound, changes[done - 1]);
            }
            if done < acked || !bound.keys().eq(found.keys()) {
                continue;
            }
            match bound.iter().find(|(name, id)| !self.fits(**id, &found[*name])) {
                None => fitting.push((done, bound.values().copied().collect())),
                Some((name, id)) => {
                    let (records, found) = (self.records.get(id), &found[name]);
                    nearest = format!(
                        "after {done} changes name {name} is file {id}, (written, acknowledged) {records:?}, found {} \
                         bytes, {:?}",
                        found.len(),
                        String::from_utf8_lossy(&found[..found.len().min(RECORD)])
                    );
                }
            }
        }
        if !fitting.is_empty() {
            return Ok(fitting);
        }
        let names: Vec<_> = found.keys().collect();
        let all = changes.len();
        let last = &changes[acked.saturating_sub(3)..(acked + 6).min(all)];
        Err(format!("directory {dir}: {names:?} of {acked} to {all} changes, about {last:?}; {nearest}"))
    }

    /// Both directories, each by itself and together.
    fn check(&self, found: &[BTreeMap<u32, Vec<u8>>; 2]) -> Option<String> {
        let done = [0, 1].map(|dir| self.done(dir, &found[dir]));
        let [Ok(first), Ok(second)] = &done else { return done.into_iter().find_map(Result::err) };
        let fits = |((one, here), (two, there)): &(&Done, &Done)| {
            let done = [*one, *two];
            let has = |step: &(usize, usize)| step.1 <= done[step.0];
            let lost = |(id, born): (&u32, &(usize, usize))| {
                has(born) && !here.contains(id) && !there.contains(id) && !self.died.get(id).is_some_and(has)
            };
            self.moves.iter().all(|moved| (moved[0] <= done[0]) == (moved[1] <= done[1])) && !self.born.iter().any(lost)
        };
        let mut pairs = first.iter().flat_map(|one| second.iter().map(move |two| (one, two)));
        let numbers = |done: &[Done]| done.iter().map(|(done, _)| *done).collect::<Vec<_>>();
        let (one, two) = (numbers(first), numbers(second));
        (!pairs.any(|pair| fits(&pair)))
            .then(|| format!("after {one:?} and {two:?} changes a file is moved in one directory alone, or lost"))
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
        let mut found = [BTreeMap::new(), BTreeMap::new()];
        for (found, dir) in found.iter_mut().zip([dir.to_owned(), dir.join("sub")]) {
            // The second directory may not be there yet.
            for entry in std::fs::read_dir(&dir).into_iter().flatten() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if let Some(number) = name.strip_prefix(&own).and_then(|number| number.parse().ok()) {
                    found.insert(number, std::fs::read(dir.join(&name)).unwrap());
                } else if name.starts_with(&own) || name.starts_with(".ondol") {
                    wrong.push(format!("{name} is no name of the program's"));
                }
            }
        }
        wrong.extend(model.check(&found).map(|what| format!("process {process}: {what}")));
    }
    wrong
}
