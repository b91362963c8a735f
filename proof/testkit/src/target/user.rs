//! One of several users of a volume, each with handles of its own, who call at the same time.

use super::Target;
use super::library::{Why, do_op, walk};
use super::opened::Opened;
use crate::dump::{self, Snapshot};
use crate::op::{File, Op, Path};
use crate::{Fail, Outcome};
use ondol::Volume;
use ondol_env::Fixed;
use ondol_env::sync::Arc;
use ondol_volume::Ino;

/// A user of a volume that others use too. What the kernel does for its file systems is done here: an inode that a path
/// led to is held from then on, so that it cannot be freed, nor its number used again, before the call has reached it.
pub struct User {
    volume: Arc<Volume>,
    clock: Arc<Fixed>,
    opened: Opened,
    failure: Option<String>,
}

/// A path that leads elsewhere so often in a row is not going to settle.
const WALKS: u32 = 1000;

impl User {
    /// A user without handles.
    pub fn new(volume: Arc<Volume>, clock: Arc<Fixed>) -> Self {
        Self { volume, clock, opened: Opened::default(), failure: None }
    }

    /// What the last failed call said, in words.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn do_op(&mut self, op: &Op) -> Result<u64, Why> {
        for _ in 0..WALKS {
            let pins = self.pin_all(op)?;
            let done = match op {
                Op::Remount => Err(Why::Fail(Fail::Unsupported)),
                op => do_op(&self.volume, &self.clock, &mut self.opened, &pins, op),
            };
            self.release(&pins)?;
            self.opened.views.check()?;
            match (op, done) {
                // What was to get another name lost its last one meanwhile, perhaps to a file that took its place.
                (Op::Link { from: File::Path(from), .. }, Err(why)) if Fail::from(&why) == Fail::NotFound => {
                    let now = walk(self.volume.inodes(), from);
                    let was = pins.iter().find(|(path, _)| path == from).map(|(_, ino)| *ino);
                    if now.ok() == was {
                        return Err(why);
                    }
                }
                (_, done) => return done,
            }
        }
        Err(Why::Fail(Fail::Io))
    }

    fn pin_all(&self, op: &Op) -> Result<Vec<(Path, Ino)>, Why> {
        let mut pins = Vec::new();
        for path in paths_of(op) {
            match self.pin(&path) {
                Ok(ino) => pins.push((path, ino)),
                Err(why) => {
                    self.release(&pins)?;
                    return Err(why);
                }
            }
        }
        Ok(pins)
    }

    /// Holds the inode that `path` names; it names it after it is held.
    fn pin(&self, path: &Path) -> Result<Ino, Why> {
        let inodes = self.volume.inodes();
        for _ in 0..WALKS {
            let ino = walk(inodes, path)?;
            match inodes.inode_ops().open(ino) {
                Ok(_) => {}
                // Deleted since: the path leads elsewhere now.
                Err(ondol_volume::Error::NotFound) => continue,
                Err(e) => return Err(e.into()),
            }
            match walk(inodes, path) {
                Ok(again) if again == ino => return Ok(ino),
                _ => inodes.inode_ops().release(ino)?,
            }
        }
        Err(Why::Fail(Fail::Io))
    }

    fn release(&self, pins: &[(Path, Ino)]) -> Result<(), Why> {
        Ok(pins.iter().try_for_each(|(_, ino)| self.volume.inodes().inode_ops().release(*ino))?)
    }
}

/// The paths that a call walks to their ends, in the order in which it does.
fn paths_of(op: &Op) -> Vec<Path> {
    let parent = |path: &Path| path.split().map(|(dir, _)| dir);
    match op {
        Op::Create { path, .. }
        | Op::Mkdir { path, .. }
        | Op::Mkfifo { path, .. }
        | Op::Symlink { path, .. }
        | Op::Unlink { path }
        | Op::Rmdir { path } => parent(path).into_iter().collect(),
        Op::Link { from: File::Path(from), to } => [Some(from.clone()), parent(to)].into_iter().flatten().collect(),
        Op::Link { to, .. } => parent(to).into_iter().collect(),
        Op::Tmpfile { dir, .. } => vec![dir.clone()],
        Op::Rename { from, to, .. } => match (parent(from), parent(to)) {
            (Some(from), Some(to)) if from == to => vec![from],
            (from, to) => [from, to].into_iter().flatten().collect(),
        },
        Op::Open { path, .. } => vec![path.clone()],
        Op::Copy { from, to, .. } => [from, to].into_iter().filter_map(File::path).cloned().collect(),
        Op::Exchange { file, other, .. } => [file, other].into_iter().filter_map(File::path).cloned().collect(),
        // A transaction looks after its own paths.
        op => match op.clone().file_mut() {
            Some(File::Path(path)) => vec![path.clone()],
            _ => Vec::new(),
        },
    }
}

impl Target for User {
    fn apply(&mut self, op: &Op) -> Outcome {
        self.do_op(op).map_err(|why| why.noted(&mut self.failure))
    }

    fn snapshot(&mut self) -> Result<Snapshot, String> {
        dump::of_volume(self.volume.inodes()).map_err(|e| e.to_string())
    }
}
