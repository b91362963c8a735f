//! What is to be there after recovery.

use super::disk::State;
use super::kernel::{Bound, DIRS, Inode, Kernel, Moment, Step, handle};
use ondol_run_log::{Change, Found, Handle};
use std::collections::BTreeMap;

/// What each name stands for: a file of the kernel's, and its bytes.
pub(crate) type Contents = BTreeMap<(usize, u8), (usize, Vec<u8>)>;

/// How many changes of each directory are there, if the names can be read so.
fn done(k: &Kernel, moment: &Moment, bound: &Bound) -> Result<[usize; DIRS], String> {
    let of = |bound: &Bound, dir: usize| -> Bound {
        bound.iter().filter(|(name, _)| name.0 == dir).map(|(name, file)| (*name, *file)).collect()
    };
    let candidates = [0, 1].map(|dir| {
        let (found, sure) = (of(bound, dir), moment.acked[dir].max(moment.names));
        (sure..k.states.len()).filter(move |step| of(&k.states[*step].0, dir) == found).collect::<Vec<_>>()
    });
    let fits = |done: &[usize; DIRS]| {
        let has = |step: &Step| step.0 <= done[step.1];
        let moved = k.moves.iter().all(|step| has(&(*step, 0)) == has(&(*step, 1)));
        moved
            && k.files.iter().enumerate().skip(DIRS).all(|(number, file)| {
                let (named, died) =
                    (bound.values().any(|bound| *bound == number), file.died.is_some_and(|at| has(&at)));
                if named { !died || file.unlogged } else { died || !has(&file.born) }
            })
    };
    let pairs = candidates[0].iter().flat_map(|one| candidates[1].iter().map(move |two| [*one, *two]));
    let sure = (moment.names, moment.acked);
    pairs.into_iter().find(fits).ok_or_else(|| format!("{bound:?} are no names after {sure:?}, but {candidates:?}"))
}

/// What is there, if that is what the programs' names stand for, each for one file.
pub(crate) fn contents(state: &State) -> Result<Contents, String> {
    let (mut contents, mut nodes) = (Contents::new(), BTreeMap::new());
    for ((dir, name), node) in state.names.iter().filter(|((dir, _), _)| *dir < DIRS) {
        let [name] = name[..] else { return Err(format!("d{dir}/{} is left", String::from_utf8_lossy(name))) };
        let file = &state.nodes[*node];
        if *nodes.entry(file.of).or_insert(*node) != *node {
            return Err(format!("file {} is there twice", file.of));
        }
        contents.insert((*dir, name), (file.of, file.bytes.clone()));
    }
    Ok(contents)
}

/// What is live of a file lies behind the record of its birth, or the disk has the file.
pub(crate) fn births(k: &Kernel, moment: &Moment, live: &Found) -> Result<(), String> {
    let records = live.dirs.iter().flat_map(|dir| &dir.records);
    let born: Vec<&Handle> = records.filter(|r| r.names.change == Change::Create).map(|r| &r.handle).collect();
    let is_known = |(n, file): &(usize, &Inode)| file.born.0 <= moment.names || born.contains(&&handle(*n));
    let live: Vec<_> = live.files.iter().filter_map(|file| Some(file.identity.as_ref()?.handle.clone())).collect();
    let mut files = k.files.iter().enumerate().filter(|(n, _)| live.contains(&handle(*n)));
    let unborn = files.find(|file| !is_known(file));
    unborn.map_or(Ok(()), |(n, _)| Err(format!("bytes of file {n} are durable, and its birth is not")))
}

/// Everything that was acknowledged by a moment is there.
pub(crate) fn judge(k: &Kernel, moment: &Moment, contents: &Contents) -> Result<(), String> {
    let bound: Bound = contents.iter().map(|(name, (file, _))| (*name, *file)).collect();
    let done = done(k, moment, &bound)?;
    for (file, bytes) in contents.values() {
        let Inode { bytes: all, .. } = &k.files[*file];
        let over = k.over.iter().filter(|((step, dir), over, _)| over == file && *step <= done[*dir]);
        let carried = over.map(|(.., len)| *len).max().unwrap_or(0);
        let acked = moment.acked_bytes.get(*file).copied().unwrap_or(0).max(carried);
        if !all.starts_with(bytes) || bytes.len() < acked {
            return Err(format!("file {file} has {} bytes of {acked}", bytes.len()));
        }
    }
    Ok(())
}
