//! Copying trees from one side to another.
//!
//! Below what was named, no symbolic link of the target's side is followed: an image may hold a link and, by damage, a
//! directory of the same name.

use super::host::Stream;
use super::tree::{Attributes, Reader, Side, Stat, Tree, Writer};
use super::{Into, Operand};
use crate::failure::{FAILED, Failure};
use crate::tools::open::Troubles;
use crate::tools::out::Out;
use crate::tools::walk::cut;
use ondol::FileType;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// What is copied, and what stays of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    pub(crate) recursive: bool,
    /// Symbolic links are copied and not followed, those that are named, too.
    pub(crate) links_as_such: bool,
    /// Mode, owner and times.
    pub(crate) preserve: bool,
    /// Attributes and hard links, too.
    pub(crate) all: bool,
    pub(crate) force: bool,
    pub(crate) no_clobber: bool,
    /// What new files do not get, unless modes are preserved.
    pub(crate) umask: u16,
}

/// A file that has been copied, by its side, its identity there, and how it was reached.
type Source = (Side, (u64, u64));

/// Copies to one side.
pub(crate) struct Copier<'t> {
    pub(crate) to: &'t dyn Tree,
    how: How,
    verbose: bool,
    out: Option<Out>,
    troubles: Troubles,
    /// Where files with several names were copied to first.
    links: HashMap<Source, PathBuf>,
    /// Directories of sources on the way; damage may lead into one twice.
    seen: HashSet<Source>,
    buffer: Vec<u8>,
}

/// What is to be done next.
enum Job {
    /// Copies what has this name in the directory that is being copied. Paths would be as long as the tree is deep,
    /// each.
    Copy(OsString),
    /// Gives the directory, when all is in it, what is preserved. `true`: it was made.
    Finish(Stat, bool),
}

/// A directory that is being copied, or something in it: where it is, where it goes, and how long both paths were above
/// it.
struct Place {
    path: PathBuf,
    to: PathBuf,
    above: Vec<(usize, usize)>,
}

impl Place {
    fn enter(&mut self, name: &OsStr) {
        self.above.push((self.path.as_os_str().len(), self.to.as_os_str().len()));
        self.path.push(name);
        self.to.push(name);
    }

    fn leave(&mut self) {
        if let Some((path, to)) = self.above.pop() {
            cut(&mut self.path, path);
            cut(&mut self.to, to);
        }
    }
}

impl<'t> Copier<'t> {
    pub(crate) fn new(to: &'t dyn Tree, how: How, verbose: bool) -> Self {
        Self {
            to,
            how,
            verbose,
            out: None,
            troubles: Troubles::default(),
            links: HashMap::new(),
            seen: HashSet::new(),
            buffer: vec![0; PIECE],
        }
    }

    /// What failed, and whether everything could be printed.
    pub(crate) fn end(self) -> (Troubles, Result<(), Failure>) {
        (self.troubles, self.out.map_or(Ok(()), Out::end))
    }

    fn tell(&mut self, what: &str) {
        if let Some(out) = &mut self.out {
            out.flush();
        }
        self.troubles.tell(FAILED, what);
    }

    /// Whether the target is a directory that is there.
    pub(crate) fn is_directory(&self, target: &Operand) -> bool {
        !target.is_stream() && matches!(self.to.stat(&target.path, true), Ok(Some(stat)) if is_dir(&stat))
    }

    /// Copies what was named on the command line.
    pub(crate) fn operand(&mut self, from: &dyn Tree, source: &Operand, into: &Into<'_>) {
        self.seen.clear();
        if let Err(what) = self.try_operand(from, source, into) {
            self.tell(&what);
        }
    }

    fn try_operand(&mut self, from: &dyn Tree, source: &Operand, into: &Into<'_>) -> Result<(), String> {
        let target = into.target;
        if target.is_stream() {
            let mut reader = from.open(&self.file(from, source)?)?;
            let mut writer = Stream { from: io::stdout().lock(), name: "standard output".into() };
            return copy(&mut *reader, &mut writer, &mut self.buffer);
        }
        let is_dir = self.is_directory(target) && !into.is_itself;
        if into.is_dir && !is_dir {
            return Err(format!("{}: it is no directory", self.to.shown(&target.path)));
        }
        let to = match source.path.file_name() {
            Some(name) if is_dir && !source.is_contents => target.path.join(name),
            _ => target.path.clone(),
        };
        if source.is_stream() {
            if is_dir {
                let what = "it is a directory: name the file that standard input is to be written to";
                return Err(format!("{}: {what}", self.to.shown(&target.path)));
            }
            let mut reader = Stream { from: io::stdin().lock(), name: "standard input".into() };
            let mut writer = self.to.create(&target.path, 0o666, false)?;
            return copy(&mut reader, &mut *writer, &mut self.buffer);
        }
        let what = from.stat(&source.path, !self.how.links_as_such)?;
        let what = what.ok_or_else(|| format!("{}: there is no such file or directory", from.shown(&source.path)))?;
        if target.is_dir && !is_dir && what.kind != FileType::Directory {
            return Err(format!("{}: there is no such directory", self.to.shown(&target.path)));
        }
        if from.side() == self.to.side() && what.kind == FileType::Directory {
            self.refuse_within(from, &source.path, &what, &to)?;
        }
        self.tree(from, source.path.clone(), to);
        Ok(())
    }

    /// The path of a source that is to be a file.
    fn file(&self, from: &dyn Tree, source: &Operand) -> Result<PathBuf, String> {
        match from.stat(&source.path, true)? {
            Some(stat) if from.side() == Side::Host || stat.kind == FileType::Regular => Ok(source.path.clone()),
            Some(_) => Err(format!("{}: it is no regular file", from.shown(&source.path))),
            None => Err(format!("{}: there is no such file or directory", from.shown(&source.path))),
        }
    }

    /// Refuses to copy a directory into itself.
    fn refuse_within(&self, from: &dyn Tree, path: &Path, what: &Stat, to: &Path) -> Result<(), String> {
        for above in to.ancestors() {
            if let Ok(Some(stat)) = self.to.stat(above, true)
                && stat.id == what.id
            {
                return Err(format!("{}: a directory cannot be copied into itself", from.shown(path)));
            }
        }
        Ok(())
    }

    /// Copies a file, or a directory with all that is below it.
    pub(crate) fn tree(&mut self, from: &dyn Tree, path: PathBuf, to: PathBuf) {
        let mut place = Place { path, to, above: Vec::new() };
        let mut jobs = Vec::new();
        let first = self.one(from, &place.path, &place.to, true, &mut jobs);
        first.unwrap_or_else(|what| self.tell(&what));
        while let Some(job) = jobs.pop() {
            let (done, is_in) = match job {
                Job::Copy(name) => {
                    place.enter(&name);
                    let before = jobs.len();
                    (self.one(from, &place.path, &place.to, false, &mut jobs), jobs.len() > before)
                }
                Job::Finish(stat, made) => (self.finish(from, &place.path, &place.to, &stat, made), false),
            };
            if !is_in {
                place.leave();
            }
            done.unwrap_or_else(|what| self.tell(&what));
        }
    }

    fn one(&mut self, from: &dyn Tree, path: &Path, to: &Path, named: bool, jobs: &mut Vec<Job>) -> Result<(), String> {
        let stat = from.stat(path, !self.how.links_as_such)?;
        let stat = stat.ok_or_else(|| format!("{}: it has gone", from.shown(path)))?;
        if is_dir(&stat) {
            jobs.extend(self.directory(from, path, &stat, to, named)?);
            return Ok(());
        }
        let follow = named && stat.kind == FileType::Regular;
        let there = self.to.stat(to, follow)?;
        if let Some(there) = &there {
            if is_dir(there) {
                return Err(format!("{}: it is a directory", self.to.shown(to)));
            }
            if self.how.no_clobber {
                return Ok(());
            }
            if from.side() == self.to.side() && there.id == stat.id {
                return Err(format!("{} and {} are the same file", from.shown(path), self.to.shown(to)));
            }
        }
        if self.how.all && stat.nlink > 1 {
            match self.links.get(&(from.side(), stat.id)) {
                Some(first) => {
                    let first = first.clone();
                    self.make_way(to, there.is_some())?;
                    self.to.hard_link(&first, to)?;
                    self.say(from, path, to);
                    return Ok(());
                }
                None => drop(self.links.insert((from.side(), stat.id), to.to_owned())),
            }
        }
        match stat.kind {
            FileType::Symlink => {
                self.make_way(to, there.is_some())?;
                self.to.symlink(&from.read_link(path)?, to)?;
            }
            FileType::Regular => self.contents(from, path, &stat, to, there.as_ref())?,
            _ if self.how.recursive => {
                self.make_way(to, there.is_some())?;
                self.to.make_node(to, &stat)?;
            }
            _ if from.side() == Side::Host => self.contents(from, path, &stat, to, there.as_ref())?,
            _ => return Err(format!("{}: it is no regular file; -r copies it as what it is", from.shown(path))),
        }
        self.preserve(from, path, to, &stat)?;
        self.say(from, path, to);
        Ok(())
    }

    /// Removes what is where something is to be made.
    fn make_way(&self, to: &Path, there: bool) -> Result<(), String> {
        if there || self.to.stat(to, false)?.is_some() { self.to.remove(to) } else { Ok(()) }
    }

    fn contents(
        &mut self,
        from: &dyn Tree,
        path: &Path,
        stat: &Stat,
        to: &Path,
        there: Option<&Stat>,
    ) -> Result<(), String> {
        let mut reader = from.open(path)?;
        // Others are not to see what is preserved as private before it is.
        let perm = if self.how.preserve { stat.perm & 0o700 } else { stat.perm & 0o777 };
        if there.is_some_and(|there| there.kind == FileType::Symlink) {
            self.to.remove(to)?;
        } else if there.is_none() && self.to.stat(to, false)?.is_some() {
            return Err(format!("{}: it is a symbolic link to nothing", self.to.shown(to)));
        }
        let mut writer = match self.to.create(to, perm, false) {
            Err(_) if self.how.force && there.is_some() => {
                self.to.remove(to)?;
                self.to.create(to, perm, true)?
            }
            created => created?,
        };
        copy(&mut *reader, &mut *writer, &mut self.buffer)
    }

    /// Makes a directory. What is to be done then, the last first.
    fn directory(
        &mut self,
        from: &dyn Tree,
        path: &Path,
        stat: &Stat,
        to: &Path,
        named: bool,
    ) -> Result<Vec<Job>, String> {
        if !self.how.recursive {
            return Err(format!("{}: it is a directory; -r copies it", from.shown(path)));
        }
        if !self.seen.insert((from.side(), stat.id)) {
            return Err(format!("{}: this directory was copied already, under another name", from.shown(path)));
        }
        let names = from.list(path)?;
        let made = match self.to.stat(to, named)? {
            Some(there) if is_dir(&there) => false,
            Some(_) => return Err(format!("{}: it is there, and no directory", self.to.shown(to))),
            None => {
                // It must be possible to put files there, and for nobody else before it is complete.
                self.to.make_dir(to, 0o700)?;
                true
            }
        };
        if made {
            self.say(from, path, to);
        }
        Ok([Job::Finish(*stat, made)].into_iter().chain(names.into_iter().rev().map(Job::Copy)).collect())
    }

    fn finish(&mut self, from: &dyn Tree, path: &Path, to: &Path, stat: &Stat, made: bool) -> Result<(), String> {
        if made && !self.how.preserve {
            return self.to.set_permissions(to, stat.perm & 0o777 & !self.how.umask);
        }
        self.preserve(from, path, to, stat)
    }

    /// Gives a copy what is preserved of its source.
    fn preserve(&self, from: &dyn Tree, path: &Path, to: &Path, stat: &Stat) -> Result<(), String> {
        if !self.how.preserve {
            return Ok(());
        }
        let attributes = if self.how.all { from.attributes(path)? } else { Attributes::new() };
        self.to.dress(to, stat, &attributes)
    }

    fn say(&mut self, from: &dyn Tree, path: &Path, to: &Path) {
        if self.verbose {
            let line = format!("{} -> {}", from.shown(path), self.to.shown(to));
            self.out.get_or_insert_with(Out::new).line(line.as_bytes());
        }
    }
}

fn is_dir(stat: &Stat) -> bool {
    stat.kind == FileType::Directory
}

/// Copies what is stored; holes stay holes, where they can.
fn copy(from: &mut dyn Reader, to: &mut dyn Writer, buffer: &mut [u8]) -> Result<(), String> {
    let size = from.size()?;
    let mut at = 0;
    'ranges: loop {
        let range = match size {
            Some(size) if to.is_stream() => (at < size).then_some(at..size),
            _ => from.data_from(at)?,
        };
        let Some(range) = range else { break };
        at = range.start;
        while at < range.end {
            let most = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
            let n = from.read(&mut buffer[..most], at)?;
            if n == 0 {
                // It ends here, or has become shorter.
                break 'ranges;
            }
            to.write(&buffer[..n], at)?;
            at += n as u64;
        }
    }
    to.end(size.unwrap_or(at).max(at))
}
