//! The steps of a call: what of it is done at one moment.

use super::HANDLES;
use crate::model::Model;
use crate::op::{File, Op};
use crate::{Fail, Outcome};

/// Number of steps of a call. One that changes a file which it names by path first follows the path and holds the file.
pub(super) fn steps_of(op: &Op) -> usize {
    match op {
        Op::Link { from, .. } => 1 + usize::from(from.is_path()),
        op => 1 + usize::from(held(&mut op.clone()).is_some()),
    }
}

/// Where a call has the path of the file that it changes.
fn held(op: &mut Op) -> Option<&mut File> {
    op.file_mut().filter(|file| file.is_path())
}

/// The file that the last step of an fsync is of.
pub(super) fn synced(thread: usize, op: &Op) -> Option<File> {
    match op {
        Op::Fsync { file: File::Path(_), .. } => Some(File::Handle(hold_of(thread))),
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
    let path = match (&op, held(&mut op.clone())) {
        (Op::Link { from: File::Path(from), .. }, _) => from.clone(),
        (_, Some(File::Path(path))) => path.clone(),
        _ => return agrees(model, outcome, |model| model.apply(&op), &op),
    };
    if step == 0 {
        return match model.hold(hold, &path) {
            Ok(()) => true,
            Err(fail) => outcome == Err(fail),
        };
    }
    if let Some(file) = held(&mut op) {
        *file = File::Handle(hold);
    }
    let act = |model: &mut Model| match &op {
        Op::Link { to, .. } => model.link_held(hold, to).map(|()| 0),
        op => model.apply(op),
    };
    // What was not found has been explained by the first step.
    let explained = !model.holds(hold) || agrees(model, outcome, act, &op);
    model.let_go(hold);
    explained
}

/// Whether the model returns what the volume did; then it has done the same.
fn agrees(model: &mut Model, outcome: Outcome, act: impl Fn(&mut Model) -> Outcome, op: &Op) -> bool {
    let mut after = model.clone();
    let expected = act(&mut after);
    match (expected, outcome) {
        // The model has no limits of space: it goes along with whatever was done.
        (Ok(_), Err(Fail::NoSpace)) => return true,
        (Ok(_), Err(Fail::NotPermitted)) if model.repeats_immutable(op) => return true,
        (Ok(wanted), Ok(written)) if written < wanted => {
            let Op::Write { file, at, fill, .. } = op.clone() else { return false };
            return model.apply(&Op::Write { file, at, len: written, fill }).is_ok();
        }
        (expected, outcome) if expected == outcome => {}
        _ => return false,
    }
    *model = after;
    true
}
