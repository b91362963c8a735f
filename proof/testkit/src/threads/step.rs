//! The steps of a call: what of it is done at one moment.

use super::HANDLES;
use crate::model::Model;
use crate::op::{File, Op, Path};
use crate::{Fail, Outcome};

/// One of them.
enum Step {
    /// The path of the file that the call changes is followed, and the file is held.
    Find(Path),
    /// A map is made of a file, which it holds.
    Map,
    /// All the rest.
    Act,
}

fn steps(op: &Op) -> Vec<Step> {
    let path = match op {
        Op::Link { from, .. } => from.path().cloned(),
        op => held(&mut op.clone()).and_then(|file| file.path().cloned()),
    };
    let map = matches!(op, Op::MapCommit { .. }).then_some(Step::Map);
    path.map(Step::Find).into_iter().chain(map).chain([Step::Act]).collect()
}

/// Number of steps of a call. One that changes a file which it names by path first follows the path and holds the file;
/// one that commits a map first makes it.
pub(super) fn steps_of(op: &Op) -> usize {
    steps(op).len()
}

/// Where a call has the path of the file that it changes.
fn held(op: &mut Op) -> Option<&mut File> {
    op.file_mut().filter(|file| file.is_path())
}

/// The file that the last step of a call makes durable.
pub(super) fn synced(thread: usize, op: &Op) -> Option<File> {
    match op {
        Op::Fsync { file: File::Path(_), .. } | Op::MapCommit { .. } => Some(File::Handle(hold_of(thread))),
        Op::Fsync { file, .. } => Some(file.clone()),
        _ => None,
    }
}

/// The handle of what a call holds.
fn hold_of(thread: usize) -> u8 {
    thread as u8 * HANDLES + HANDLES - 1
}

/// Does step `step` of a call on the model; whether the call can have returned `outcome` then.
pub(super) fn explains(model: &mut Model, thread: usize, op: &Op, step: usize, outcome: Outcome) -> bool {
    let hold = hold_of(thread);
    let mut op = op.clone();
    match steps(&op).remove(step) {
        Step::Find(path) => match model.hold(hold, &path) {
            Ok(()) => true,
            Err(fail) => outcome == Err(fail),
        },
        // What was not found, or not mapped, has been explained by that step.
        _ if step > 0 && !model.holds(hold) => true,
        Step::Map => match model.map(hold, &op) {
            Ok(()) => true,
            Err(fail) => {
                model.let_go(hold);
                outcome == Err(fail)
            }
        },
        Step::Act if step == 0 => agrees(model, outcome, |model| model.apply(&op), &op),
        Step::Act => {
            if let Some(file) = op.file_mut() {
                *file = File::Handle(hold);
            }
            let act = |model: &mut Model| match &op {
                Op::Link { to, .. } => model.link_held(hold, to).map(|()| 0),
                op => model.apply(op),
            };
            let explained = agrees(model, outcome, act, &op);
            model.let_go(hold);
            explained
        }
    }
}

/// Whether the model returns what the volume did; then it has done the same.
fn agrees(model: &mut Model, outcome: Outcome, act: impl Fn(&mut Model) -> Outcome, op: &Op) -> bool {
    let mut after = model.clone();
    let expected = act(&mut after);
    match (expected, outcome) {
        // The model has no limits of space: it goes along with whatever was done.
        (Ok(_), Err(Fail::NoSpace)) => return true,
        (Ok(_), Err(Fail::NotPermitted)) if model.repeats_immutable(op) => return true,
        (Ok(_), Err(Fail::TooBig)) if model.commits_in_one(op) => return true,
        (Ok(wanted), Ok(written)) if written < wanted => {
            let (Op::Write { file, at, fill, .. } | Op::WriteBack { file, at, fill, .. }) = op.clone() else {
                return false;
            };
            return model.apply(&Op::Write { file, at, len: written, fill }).is_ok();
        }
        (expected, outcome) if expected == outcome => {}
        _ => return false,
    }
    *model = after;
    true
}
