//! `ondol rm`.

use super::args;
use super::open::{For, Opened, Troubles, inside};
use super::out::Out;
use super::walk::{Event, Found, Walk};
use crate::failure::{FAILED, Outcome};
use ondol::{Attr, FileType, Ino};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Removes files.
pub(crate) fn rm(args: &args::Rm) -> Outcome {
    let opened = Opened::new(&args.image, For::Writing)?;
    let mut remover = Remover { opened: &opened, args, out: Out::new(), troubles: Troubles::default() };
    for path in &args.paths {
        remover.remove(&inside(path));
    }
    let Remover { out, troubles, .. } = remover;
    // What was removed is to be durable whoever reads of it.
    let printed = out.end();
    opened.close()?;
    printed?;
    Ok(troubles.code())
}

struct Remover<'a> {
    opened: &'a Opened,
    args: &'a args::Rm,
    out: Out,
    troubles: Troubles,
}

impl Remover<'_> {
    fn tell(&mut self, what: String) {
        self.out.flush();
        self.troubles.tell(FAILED, what);
    }

    fn remove(&mut self, path: &Path) {
        if let Err(what) = self.try_to_remove(path) {
            self.tell(what);
        }
    }

    fn try_to_remove(&mut self, path: &Path) -> Result<(), String> {
        let refuse = |what: &str| Err(format!("{}: {what}", self.opened.shown(path)));
        let last = path.as_os_str().as_bytes().rsplit(|b| *b == b'/').find(|part| !part.is_empty());
        if last.is_none_or(|name| name == b"." || name == b"..") {
            return refuse("the root directory, `.` and `..` are not removed");
        }
        let found = match self.opened.volume.symlink_metadata(path) {
            Err(e) if self.args.force && e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            _ => self.opened.find(path)?,
        };
        if found.0.file_type != FileType::Directory {
            return self.name(&Found { path: path.to_owned(), parent: found.1, attr: found.0, depth: 0 });
        }
        match (self.args.recursive, self.args.dir) {
            (true, _) => {
                self.tree(path, found);
                Ok(())
            }
            (false, true) => self.name(&Found { path: path.to_owned(), parent: found.1, attr: found.0, depth: 0 }),
            (false, false) => refuse("it is a directory; -r removes it with all that is below it"),
        }
    }

    /// Removes a tree from below. A directory in which something stays, stays without a word of its own.
    fn tree(&mut self, path: &Path, found: (Attr, Ino)) {
        // Of the directories on the way down, whether something stays in them.
        let mut stays: Vec<bool> = Vec::new();
        for event in Walk::new(self.opened, path, found) {
            let gone = match event {
                Event::Enter(found) if found.is_dir() => {
                    stays.push(false);
                    continue;
                }
                Event::Enter(found) => self.name(&found).map_err(Some),
                Event::Leave(_) if stays.pop() == Some(true) => Err(None),
                Event::Leave(dir) => self.name(&dir).map_err(Some),
                Event::Failed(what) => Err(Some(what)),
            };
            if let Err(what) = gone {
                what.into_iter().for_each(|what| self.tell(what));
                stays.last_mut().into_iter().for_each(|stays| *stays = true);
            }
        }
    }

    /// Removes one name.
    fn name(&mut self, found: &Found) -> Result<(), String> {
        let inodes = self.opened.inodes();
        let name = found.path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let gone = if found.is_dir() { inodes.rmdir(found.parent, name) } else { inodes.unlink(found.parent, name) };
        gone.map_err(|e| self.opened.said_of(&found.path, e))?;
        if self.args.verbose > 0 {
            self.out.line([b"removed ".as_slice(), found.path.as_os_str().as_bytes()].concat().as_slice());
        }
        Ok(())
    }
}
