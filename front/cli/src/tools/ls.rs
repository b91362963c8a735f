//! `ondol ls`.

mod row;

use super::args;
use super::open::{For, Opened, Troubles, inside};
use super::out::Out;
use super::walk::{cut, list};
use crate::failure::{Failure, Outcome};
use ondol::{Attr, FileType, Ino};
pub(crate) use row::minute;
use row::{Row, Widths};
use std::cmp::{Ordering, Reverse};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// As ls(1): a path that was named could not be read.
const SERIOUS: u8 = 2;
/// As ls(1): something below such a path.
const MINOR: u8 = 1;

/// Lists files.
pub(crate) fn ls(args: &args::Ls) -> Outcome {
    let opened = Opened::new(&args.image, For::Reading).map_err(|failure| Failure { code: SERIOUS, ..failure })?;
    let mut lister = Lister { opened: &opened, args, out: Out::new(), troubles: Troubles::default(), begun: false };
    let root = [PathBuf::from("/")];
    let paths = if args.paths.is_empty() { &root[..] } else { &args.paths[..] };
    lister.paths(paths);
    let Lister { out, troubles, .. } = lister;
    out.end().map_err(|failure| Failure { code: SERIOUS, ..failure })?;
    opened.close()?;
    Ok(troubles.code())
}

struct Lister<'a> {
    opened: &'a Opened,
    args: &'a args::Ls,
    out: Out,
    troubles: Troubles,
    /// Something was listed already, so that an empty line comes before the next directory.
    begun: bool,
}

/// A name to be listed.
struct Named {
    name: OsString,
    attr: Attr,
}

impl Lister<'_> {
    fn tell(&mut self, code: u8, what: &str) {
        self.out.flush();
        self.troubles.tell(code, what);
    }

    /// First what is no directory, then the directories.
    fn paths(&mut self, paths: &[PathBuf]) {
        let (mut files, mut dirs) = (Vec::new(), Vec::new());
        for given in paths {
            let path = inside(given);
            match self.named(&path) {
                Ok(attr) => {
                    let is_dir = attr.file_type == FileType::Directory && !self.args.directory;
                    let named = Named { name: given.as_os_str().to_owned(), attr };
                    if is_dir { dirs.push(named) } else { files.push(named) }
                }
                Err(what) => self.tell(SERIOUS, &what),
            }
        }
        self.sort(&mut files);
        self.sort(&mut dirs);
        self.begun = !files.is_empty();
        self.rows(Path::new("/"), &files);
        let headed = paths.len() > 1 || self.args.recursive;
        for dir in dirs {
            if self.out.is_over() {
                return;
            }
            if self.args.recursive {
                self.tree(&dir);
            } else {
                self.directory(
                    headed.then_some(dir.name.as_os_str()),
                    &inside(Path::new(&dir.name)),
                    dir.attr.ino,
                    SERIOUS,
                );
            }
        }
    }

    /// What a path on the command line names: a symbolic link's target, if that is a directory and the link is not what
    /// was asked for.
    fn named(&self, path: &Path) -> Result<Attr, String> {
        let attr = self.opened.find(path)?;
        if attr.file_type == FileType::Symlink
            && !self.args.long
            && !self.args.directory
            && let Ok(target) = self.opened.volume.metadata(path)
            && target.is_dir()
        {
            return self.opened.inodes().getattr(target.ino()).map_err(|e| self.opened.said_of(path, e));
        }
        Ok(attr)
    }

    /// A directory and all below it, each with a heading. Damage may lead into one twice, or round and round.
    fn tree(&mut self, top: &Named) {
        let mut name = PathBuf::from(&top.name);
        let mut seen = HashSet::from([top.attr.ino]);
        let below = self.directory(Some(name.as_os_str()), &inside(&name), top.attr.ino, SERIOUS);
        // What is left in each directory on the way down, and how long the name is that it is below.
        let mut levels = vec![(below.into_iter(), 0)];
        while let Some((left, above)) = levels.last_mut()
            && !self.out.is_over()
        {
            let Some(dir) = left.next() else {
                cut(&mut name, *above);
                levels.pop();
                continue;
            };
            let above = name.as_os_str().len();
            name.push(&dir.name);
            let path = inside(&name);
            if seen.insert(dir.attr.ino) {
                let below = self.directory(Some(name.as_os_str()), &path, dir.attr.ino, MINOR);
                levels.push((below.into_iter(), above));
            } else {
                let what = "this directory has a second name, which is damage: `ondol check -n` says more";
                self.tell(MINOR, &format!("{}: {what}", self.opened.shown(&path)));
                cut(&mut name, above);
            }
        }
    }

    fn is_hidden(&self, name: &OsStr) -> bool {
        !self.args.all && !self.args.almost_all && name.as_bytes().starts_with(b".")
    }

    /// The entries of one directory; those are returned that are directories.
    fn directory(&mut self, heading: Option<&OsStr>, path: &Path, ino: Ino, code: u8) -> Vec<Named> {
        if let Some(name) = heading {
            if self.begun {
                self.out.bytes(b"\n");
            }
            self.out.line(&[name.as_bytes(), b":"].concat());
        }
        self.begun = true;
        let (names, failed) = list(self.opened.inodes(), ino);
        if let Some(e) = failed {
            let what = self.opened.said_of(path, e);
            self.tell(code, &what);
        }
        let dots = if self.args.all { &[".", ".."][..] } else { &[] };
        let mut names: Vec<OsString> = dots.iter().map(OsString::from).chain(names).collect();
        names.retain(|name| !self.is_hidden(name));
        let mut rows = Vec::new();
        for name in names {
            let found = if name == "." {
                self.opened.inodes().getattr(ino)
            } else {
                self.opened.inodes().names().lookup(ino, name.as_bytes())
            };
            match found {
                Ok(attr) => rows.push(Named { name, attr }),
                Err(e) => {
                    let what = self.opened.said_of(&path.join(&name), e);
                    self.tell(MINOR, &what);
                }
            }
        }
        self.sort(&mut rows);
        self.rows(path, &rows);
        rows.retain(|row| row.attr.file_type == FileType::Directory && row.name != "." && row.name != "..");
        rows
    }

    fn sort(&self, rows: &mut [Named]) {
        let by_name = |a: &Named, b: &Named| a.name.cmp(&b.name);
        rows.sort_by(|a, b| {
            let first = match (self.args.time, self.args.size) {
                (true, _) => {
                    let time = |row: &Named| Reverse((row.attr.mtime.sec, row.attr.mtime.nsec));
                    time(a).cmp(&time(b))
                }
                (false, true) => b.attr.size.cmp(&a.attr.size),
                (false, false) => Ordering::Equal,
            };
            let order = first.then_with(|| by_name(a, b));
            if self.args.reverse { order.reverse() } else { order }
        });
    }

    fn rows(&mut self, dir: &Path, names: &[Named]) {
        if self.args.zero {
            for named in names {
                self.out.bytes(&[named.name.as_bytes(), b"\0"].concat());
            }
            return;
        }
        let rows: Vec<Row> = names.iter().map(|named| self.row(dir, named)).collect();
        let widths = Widths::of(&rows);
        for row in &rows {
            self.out.line(&row.text(&widths, self.args));
        }
    }

    /// One of the names in a directory.
    fn row(&mut self, dir: &Path, named: &Named) -> Row {
        let mut name = named.name.as_bytes().to_vec();
        if self.args.long && named.attr.file_type == FileType::Symlink {
            match self.opened.inodes().names().readlink(named.attr.ino) {
                Ok(target) => name.extend([b" -> ".as_slice(), &target].concat()),
                Err(e) => {
                    let what = self.opened.said_of(&inside(&dir.join(&named.name)), e);
                    self.tell(MINOR, &what);
                }
            }
        }
        Row::new(name, &named.attr, self.args.human_readable)
    }
}
