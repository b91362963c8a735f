//! Model and target side by side, call by call.

use super::Target;
use crate::dump::Strictness;
use crate::model::Model;
use crate::op::{Fallocate, Op, text};
use crate::{Fail, Outcome};

/// A target that is compared with the model after every call.
pub struct Lockstep<T> {
    model: Model,
    target: T,
    done: Vec<Op>,
}

/// Model and target did not agree. Its text has every call up to there, ready to be tried again.
#[derive(Debug, thiserror::Error)]
#[error("{what}\nafter these calls, the last of which disagreed:\n{}", text::print(.ops))]
pub struct Disagreement {
    /// What differs.
    pub what: String,
    /// All calls, up to the one that disagreed.
    pub ops: Vec<Op>,
}

impl<T: Target> Lockstep<T> {
    /// Begins with a model that looks like the target as it is.
    ///
    /// # Errors
    /// The target cannot be read.
    pub fn new(mut target: T) -> Result<Self, String> {
        let model = Model::from_snapshot(&target.snapshot()?).with_mapping(target.mapping());
        Ok(Self { model, target, done: Vec::new() })
    }

    /// The model as it is now.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The target.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }

    /// Ends the comparison.
    pub fn into_target(self) -> T {
        self.target
    }

    /// Does one call on both and compares what they return.
    ///
    /// # Errors
    /// They disagree.
    pub fn step(&mut self, op: &Op) -> Result<Outcome, Disagreement> {
        self.done.push(op.clone());
        let mut after = self.model.clone();
        let expected = after.apply(op);
        let got = self.target.apply(op);
        match (expected, got) {
            (Ok(_), Err(Fail::NoSpace)) if needs_little(op) && self.target.is_roomy() => {
                return Err(self.disagree(format!("`{op}` finds no space on a volume that is mostly free")));
            }
            // The model has no limits of space: it goes along with whatever was done.
            (Ok(_), Err(Fail::NoSpace)) => self.take_back(op)?,
            (Ok(_), Err(Fail::NotPermitted)) if self.model.repeats_immutable(op) => {}
            (Err(Fail::NotPermitted), Ok(_)) if self.model.removes_impossible_acl(op) && self.target.is_fuse() => {}
            // It may also have come to the end of space before it came to the call that fails.
            (_, Err(Fail::TooBig | Fail::NoSpace)) if matches!(op, Op::Transaction(_)) => {}
            // Where no blocks can be exchanged, as much as one operation takes.
            (Ok(_), Err(Fail::TooBig)) if self.model.commits_in_one(op) => {}
            (expected, got) if expected == got => self.model = after,
            (Ok(wanted), Ok(written)) if written < wanted => self.short_write(op, written)?,
            _ => return Err(self.disagree(format!("`{op}` returned {got:?}, the model {expected:?}"))),
        }
        Ok(got)
    }

    /// What runs out of space in its midst may have grown the file already.
    fn take_back(&mut self, op: &Op) -> Result<(), Disagreement> {
        let Op::Fallocate { file, how: Fallocate::Allocate | Fallocate::ZeroRange, .. } = op else { return Ok(()) };
        let Some(size) = self.model.size(file) else { return Ok(()) };
        let cut = Op::Truncate { file: file.clone(), size };
        self.done.push(cut.clone());
        match self.target.apply(&cut) {
            Ok(_) => Ok(()),
            Err(e) => Err(self.disagree(format!("after `{op}`, which found no space, `{cut}` returned {e:?}"))),
        }
    }

    fn short_write(&mut self, op: &Op, written: u64) -> Result<(), Disagreement> {
        let short = match op.clone() {
            Op::Write { file, at, fill, .. } | Op::WriteBack { file, at, fill, .. } => {
                Op::Write { file, at, len: written, fill }
            }
            Op::Append { file, fill, .. } => Op::Append { file, len: written, fill },
            Op::Copy { from, at, to, to_at, .. } => Op::Copy { from, at, to, to_at, len: written },
            Op::Read { .. } => return Err(self.disagree(format!("`{op}` read other bytes than the model"))),
            _ => return Err(self.disagree(format!("`{op}` returned {written}"))),
        };
        match self.model.apply(&short) {
            Ok(_) => Ok(()),
            Err(e) => Err(self.disagree(format!("`{op}` wrote {written} bytes, the model says {e:?}"))),
        }
    }

    /// Compares everything that can be seen.
    ///
    /// # Errors
    /// They disagree, or the target cannot be read.
    pub fn compare(&mut self) -> Result<(), Disagreement> {
        let found = self.target.snapshot().map_err(|e| self.disagree(format!("cannot be read: {e}")))?;
        let differences = self.model.snapshot().differences(&found, Strictness::Whole);
        if differences.is_empty() { Ok(()) } else { Err(self.disagree(differences.join("\n"))) }
    }

    /// Does a whole sequence, comparing everything every `every` calls and at the end.
    ///
    /// # Errors
    /// The first disagreement.
    pub fn run(&mut self, ops: &[Op], every: usize) -> Result<(), Disagreement> {
        for (i, op) in ops.iter().enumerate() {
            let _outcome = self.step(op)?;
            if (i + 1) % every.max(1) == 0 || matches!(op, Op::Remount) {
                self.compare()?;
            }
        }
        self.compare()
    }

    fn disagree(&self, what: String) -> Disagreement {
        Disagreement { what, ops: self.done.clone() }
    }
}

/// Whether a call takes one inode and a few blocks at most. (Attributes have limits of their own.)
fn needs_little(op: &Op) -> bool {
    match op {
        Op::Create { .. } | Op::Mkdir { .. } | Op::Mkfifo { .. } | Op::Symlink { .. } | Op::Tmpfile { .. } => true,
        Op::Write { len, .. } | Op::WriteBack { len, .. } | Op::Append { len, .. } => *len <= 16 << 10,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::Snapshot;

    /// It has no space for anything, and is roomy or not.
    struct Full(bool);

    impl Target for Full {
        fn apply(&mut self, _: &Op) -> Outcome {
            Err(Fail::NoSpace)
        }

        fn snapshot(&mut self) -> Result<Snapshot, String> {
            Ok(Model::empty().snapshot())
        }

        fn is_roomy(&self) -> bool {
            self.0
        }
    }

    #[test]
    fn a_small_call_finds_space_where_most_is_free() {
        let fails = |call: &str, is_roomy| {
            let op = text::parse(call).expect("a call").remove(0);
            Lockstep::new(Full(is_roomy)).expect("a target").step(&op).is_err()
        };
        assert!(fails("create /a 0644", true) && !fails("create /a 0644", false));
        assert!(!fails("chmod / 0700", true), "not every call");
    }
}
