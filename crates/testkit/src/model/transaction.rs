//! Several calls as one.

use super::{Body, Model, NAME_MAX};
use crate::Fail;
use crate::op::{File, Op, Path};

impl Model {
    /// Does all calls or none. All names are looked at before anything is done; then each call fails as it would alone,
    /// except that symbolic links are refused wherever they would have to be followed.
    pub(super) fn transaction(&mut self, steps: &[Op]) -> Result<(), Fail> {
        let after = self.after_each(steps)?.pop();
        *self = after.unwrap_or_else(|| self.clone());
        Ok(())
    }

    /// What the transaction of these calls goes through: the model after each of them.
    ///
    /// # Errors
    /// As the transaction.
    pub fn after_each(&self, steps: &[Op]) -> Result<Vec<Self>, Fail> {
        steps.iter().try_for_each(check_names)?;
        let mut states: Vec<Self> = Vec::new();
        for step in steps {
            let mut after = states.last().unwrap_or(self).clone();
            let names = paths(step);
            if names.into_iter().flatten().any(|(path, follows)| after.meets_symlink(path, follows)) {
                return Err(Fail::Invalid);
            }
            after.apply(step)?;
            states.push(after);
        }
        Ok(states)
    }

    /// Whether there is a symbolic link on the way along `path`, or, with `follows`, at its end.
    fn meets_symlink(&self, path: &Path, follows: bool) -> bool {
        let is_symlink = |path: &Path| self.find(path).is_ok_and(|id| matches!(self.inode(id).body, Body::Symlink(_)));
        let mut above = path.split().map(|(dir, _)| dir);
        while let Some(dir) = above {
            if is_symlink(&dir) {
                return true;
            }
            above = dir.split().map(|(dir, _)| dir);
        }
        follows && is_symlink(path)
    }
}

/// What a step names, and whether a symbolic link there would have to be followed.
fn paths(step: &Op) -> [Option<(&Path, bool)>; 2] {
    match step {
        Op::Create { path, .. } | Op::Mkdir { path, .. } | Op::Symlink { path, .. } => [Some((path, false)), None],
        Op::Unlink { path } | Op::Rmdir { path } => [Some((path, false)), None],
        Op::Link { from, to } | Op::Rename { from, to, .. } => [Some((from, false)), Some((to, false))],
        Op::Write { file: File::Path(path), .. }
        | Op::Truncate { file: File::Path(path), .. }
        | Op::SetXattr { file: File::Path(path), .. }
        | Op::RemoveXattr { file: File::Path(path), .. }
        | Op::Chmod { file: File::Path(path), .. } => [Some((path, true)), None],
        _ => [None, None],
    }
}

/// The root can be written to and have attributes, but it has no name that could be made, moved or removed.
fn check_names(step: &Op) -> Result<(), Fail> {
    if !step.is_step() {
        return Err(Fail::Unsupported);
    }
    let [first, second] = paths(step);
    // Of a link, its new name comes first.
    let paths = if matches!(step, Op::Link { .. }) { [second, first] } else { [first, second] };
    for (path, follows) in paths.into_iter().flatten() {
        let is_original = matches!(step, Op::Link { from, .. } if from == path);
        if path.is_root() && !follows && !is_original {
            return Err(Fail::Invalid);
        }
        if path.components().any(|name| name.len() > NAME_MAX) {
            return Err(Fail::NameTooLong);
        }
    }
    Ok(())
}
