//! Bringing what is live of directories into them: which directories, and how far the kernel has come with each.
//!
//! By the directory's ctime *C* on the disk, since jbd2 commits changes in their order and no two have the same ctime:
//!
//! 1. same boot and device, *C* not before the newest record: the page cache has everything; the directory is synced.
//! 2. *C* from the newest record's ctime up to the horizon: the kernel has everything.
//! 3. *C* before it: records with a later ctime are brought in (`together`).
//! 4. *C* later: somebody else has changed it. No name is changed; bytes of files born there go into side files, but
//!    for what the disk has had already (it was removed since), and what has no bytes in the log.
//! 5. The directory is gone: files born in it are treated as in 4, in another directory that is to have them; one whose
//!    only name was there is gone with it.
//!
//! Directories that share files are recovered together: if one cannot be reached, all wait, and say so in *recovering*,
//! so that later changes do not destroy their place in the order. Files that their records name stay in the log as
//! long.

use crate::Log;
use crate::error::Result;
use crate::name_record::NameRecord;
use crate::recover::elsewhere::Elsewhere;
use crate::recover::kept::Kept;
use crate::recover::place::{For, Place};
use crate::recover::together::{Bringing, Target};
use crate::recover::{FoundDir, FoundFile, Outcome};
use crate::slot::Begun;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// What is to be done with a directory.
#[derive(Debug)]
pub(super) enum Plan {
    /// It cannot be had, and why.
    Unreachable(String),
    /// It was removed.
    Gone,
    /// The kernel has everything.
    Whole(File),
    /// Records behind this sequence are to be brought in. A recovery before this one may have begun with that.
    Names { dir: File, path: PathBuf, behind: u64, begun: bool },
    /// Somebody else has changed it.
    Beside(File, PathBuf),
}

/// What became of directories and files, by path.
pub(super) type Told = Vec<(PathBuf, Outcome)>;

/// Directories that are brought in together.
pub(super) type Group<'d> = Vec<(&'d FoundDir, Plan)>;

/// Looks at a directory before anything is changed.
pub(super) fn plan(log: &Log, elsewhere: &mut Elsewhere<'_>, dir: &FoundDir, same_boot: bool) -> Result<Plan> {
    let (file, path) = match elsewhere.find(&dir.identity, For::Sync) {
        Place::Here(file, path) => (file, path.unwrap_or_else(|| dir.identity.path.clone())),
        Place::Gone => return Ok(Plan::Gone),
        Place::Unknown(why) | Place::Hidden(why) => return Ok(Plan::Unreachable(why)),
    };
    let now = match elsewhere.home().look(&file) {
        Ok(now) => now,
        Err(e) => return Ok(Plan::Unreachable(format!("{}: {e}", path.display()))),
    };
    if let Some(Begun { behind, waits }) = log.slot(dir.slot).names_begun(dir.incarnation)? {
        return Ok(Plan::Names { dir: file, path, behind, begun: !waits });
    }
    // Where the page cache outlived the programs it has all changes, of others, too.
    let newest = dir.records.last().map_or(0, |record| record.ctime);
    if same_boot && now.dev == dir.dev && now.ctime >= newest {
        return Ok(Plan::Whole(file));
    }
    Ok(match dir.kept(now.ctime) {
        Kept::All => Plan::Whole(file),
        Kept::Behind(behind) => Plan::Names { dir: file, path, behind, begun: false },
        Kept::Unknown => Plan::Beside(file, path),
    })
}

/// Puts directories together whose records name the same files: what one of them loses another one may have got.
pub(super) fn groups<'d>(dirs: impl IntoIterator<Item = (&'d FoundDir, Plan)>) -> Vec<Group<'d>> {
    type Files<'d> = BTreeSet<(u64, &'d [u8])>;
    let mut groups: Vec<(Files<'d>, Group<'d>)> = Vec::new();
    for (dir, plan) in dirs {
        let names = dir.records.iter().flat_map(NameRecord::handles);
        let mut files: Files<'d> = names.map(|handle| (dir.identity.fsid, &*handle.bytes)).collect();
        let mut group = vec![(dir, plan)];
        for (others, dirs) in groups.extract_if(.., |(others, _)| !others.is_disjoint(&files)).collect::<Vec<_>>() {
            files.extend(others);
            group.extend(dirs);
        }
        groups.push((files, group));
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Does it. Takes those files out of `files` that are done with, and answers them, too, if all is well: they are to be
/// retired before the directories.
pub(super) fn bring(
    log: &Log,
    elsewhere: &mut Elsewhere<'_>,
    group: Group<'_>,
    files: &mut Vec<FoundFile>,
) -> Result<(Told, Vec<FoundFile>)> {
    let dirs: Vec<&FoundDir> = group.iter().map(|(dir, _)| *dir).collect();
    let why = group.iter().find_map(|(_, plan)| match plan {
        Plan::Unreachable(why) => Some(io::Error::other(why.clone())),
        _ => None,
    });
    let mut bringing = Bringing {
        home: elsewhere.home(),
        mark: log.mark(),
        dirs: &dirs,
        elsewhere,
        files,
        taken: Vec::new(),
        told: Vec::new(),
    };
    // All of them before the first change: what the disk has of one is not told any more when another one was changed;
    // nor when somebody changes it while it waits for the others.
    let waits = why.is_some();
    for (dir, plan) in &group {
        if let Plan::Names { behind, begun: false, .. } = plan {
            log.slot(dir.slot).begin_names(dir.incarnation, Begun { behind: *behind, waits })?;
        }
    }
    let done = match why {
        Some(e) => Err(e),
        None => {
            bringing.removed();
            bring_all(&mut bringing, group)
        }
    };
    let Bringing { mut told, taken, files, .. } = bringing;
    let Err(e) = done else { return Ok((told, taken)) };
    // What was born here is nowhere else: it must not be taken for removed. What was replaced here must not be written
    // to: it would be taken for somebody's.
    let fsid = dirs.first().map_or(0, |dir| dir.identity.fsid);
    let records = dirs.iter().flat_map(|dir| &dir.records);
    let named: BTreeSet<&[u8]> = records.flat_map(NameRecord::handles).map(|handle| &*handle.bytes).collect();
    let here = |file: &FoundFile| {
        let identity = file.identity.as_ref();
        identity.is_some_and(|id| id.fsid == fsid && named.contains(&*id.handle.bytes))
    };
    let waiting = files.extract_if(.., |file| here(file)).chain(taken);
    let paths = waiting.filter_map(|file| file.identity.map(|identity| identity.path));
    let what = Outcome::Unreachable(e.to_string());
    told = paths.map(|path| (path, what.clone())).collect();
    told.extend(dirs.iter().map(|dir| (dir.identity.path.clone(), what.clone())));
    Ok((told, Vec::new()))
}

fn bring_all(bringing: &mut Bringing<'_, '_>, group: Group<'_>) -> io::Result<()> {
    let (mut targets, mut changed_by_others, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for (dir, plan) in group {
        match plan {
            Plan::Unreachable(why) => return Err(io::Error::other(why)),
            Plan::Gone => {
                gone.push(dir);
                bringing.told.push((dir.identity.path.clone(), Outcome::Gone));
            }
            Plan::Whole(file) => bringing.home.sync(&file)?,
            Plan::Beside(file, path) => changed_by_others.push((dir, file, path)),
            Plan::Names { dir: file, path, behind, begun } => {
                targets.push(Target { home: bringing.home, found: dir, dir: file, path, behind, begun });
            }
        }
    }
    bringing.names(&targets, &changed_by_others, &gone)
}
