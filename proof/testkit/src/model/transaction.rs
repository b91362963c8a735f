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
            paths(step).into_iter().flatten().try_for_each(|(path, end)| after.walk(path, end))?;
            after.apply(step)?;
            if let Op::Create { path, mode } | Op::Mkdir { path, mode } = step {
                // A step that makes something has no mode: it is set afterwards, whatever the directory has passed on.
                after.apply(&Op::Chmod { file: File::Path(path.clone()), mode: *mode })?;
            }
            states.push(after);
        }
        Ok(states)
    }

    /// Follows `path`, which fails at the first name that is not there, is no directory, or is a symbolic link.
    fn walk(&self, path: &Path, end: End) -> Result<(), Fail> {
        let is_symlink = |id| matches!(self.tree.inode(id).body, Body::Symlink(_));
        let up = |path: &Path| path.split().map(|(dir, _)| dir);
        let mut above: Vec<Path> = std::iter::successors(up(path), up).collect();
        above.reverse();
        for dir in &above {
            if is_symlink(self.tree.find(dir)?) {
                return Err(Fail::Invalid);
            }
        }
        if let Some(parent) = above.last()
            && !self.tree.inode(self.tree.find(parent)?).is_dir()
        {
            return Err(Fail::NotDirectory);
        }
        match end {
            End::Name => Ok(()),
            End::Inode => self.tree.find(path).map(drop),
            End::Followed if is_symlink(self.tree.find(path)?) => Err(Fail::Invalid),
            End::Followed => Ok(()),
        }
    }
}

/// What a step needs of the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A directory in which the name is, or may be made.
    Name,
    /// Something, a symbolic link too.
    Inode,
    /// Something that is no symbolic link: that would have to be followed.
    Followed,
}

/// What a step names, in the order in which it is looked for.
fn paths(step: &Op) -> [Option<(&Path, End)>; 2] {
    match step {
        Op::Create { path, .. } | Op::Mkdir { path, .. } | Op::Symlink { path, .. } => [Some((path, End::Name)), None],
        Op::Unlink { path } | Op::Rmdir { path } => [Some((path, End::Name)), None],
        Op::Link { from: File::Path(from), to } => [Some((from, End::Inode)), Some((to, End::Name))],
        Op::Rename { from, to, .. } => [Some((from, End::Name)), Some((to, End::Name))],
        Op::Write { file: File::Path(path), .. }
        | Op::Truncate { file: File::Path(path), .. }
        | Op::SetXattr { file: File::Path(path), .. }
        | Op::RemoveXattr { file: File::Path(path), .. }
        | Op::Chmod { file: File::Path(path), .. } => [Some((path, End::Followed)), None],
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
    for (path, end) in paths.into_iter().flatten() {
        if path.is_root() && end == End::Name {
            return Err(Fail::Invalid);
        }
        if path.components().any(|name| name.len() > NAME_MAX) {
            return Err(Fail::NameTooLong);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::text;

    #[test]
    fn the_first_obstacle_on_the_way_is_what_is_wrong() {
        let mut model = Model::empty();
        for op in text::parse("create /f 0644 ; symlink /s f ; create /o 0644").unwrap() {
            model.apply(&op).unwrap();
        }
        for (line, fail) in [
            ("rename /d/a /s/a", Fail::NotFound),
            ("rename /s/a /d/a", Fail::Invalid),
            ("rename /f/a /s/a", Fail::NotDirectory),
            ("link /gone /s/a", Fail::NotFound),
            ("link /s /s/a", Fail::Invalid),
            ("truncate /s 0", Fail::Invalid),
        ] {
            let ops = text::parse(&format!("transaction {{ {line} }}")).unwrap();
            assert_eq!(model.apply(&ops[0]), Err(fail), "{line}");
        }
    }
}
