//! What a recovered volume may hold.
//!
//! A recovered volume is the model after some number of calls: at least all up to the last completed `fsync` or `sync`,
//! at most those that had begun.
//!
//! | data mode | is so |
//! |---|---|
//! | `journal` | in everything |
//! | `ordered` | in all metadata; a byte of a file is that state's, or what a later call made of it |
//! | `writeback` | in all metadata; a byte that no call since the last sync could have changed is that state's |
//!
//! In `ordered`, no byte is another file's, or what the blocks held before.
//!
//! Bytes that a transaction writes over stored ones lie outside of it but in `journal`: what one of its calls made of a
//! byte may be found although a later one undid it. A write that failed as its medium did may have left any of its
//! bytes there.
//!
//! What a map's commit made of bytes is there with the whole call, in every data mode.
//!
//! A call that is a sequence of atomic steps (a large write, fallocate) may be found between its steps: then every byte
//! of its file is either the old or the new one, and its size lies between both.

use crate::run::Run;
use ondol::DataMode;
use ondol_testkit::dump::{Snapshot, Strictness, describe_bytes};
use ondol_testkit::model::{Content, Id, Model};
use ondol_testkit::op::{Fallocate, Op, Path};

/// Numbers of calls whose state `found` may be, out of `least..=most`.
///
/// # Errors
/// There is none; says what differs from each of them.
pub fn judge(run: &Run, least: usize, most: usize, found: &Snapshot) -> Result<Vec<usize>, String> {
    let fits = |k: &usize| {
        let view = View { run, least, most, k: *k, model: &run.states[*k], expected: &run.expected[*k] };
        view.shows(found) || view.shows_part_of_the_next(found)
    };
    let matched: Vec<usize> = (least..=most).filter(fits).collect();
    if matched.is_empty() { Err(explain(run, least, most, found)) } else { Ok(matched) }
}

/// The state after `k` calls, of `least..=most` that are possible.
struct View<'a> {
    run: &'a Run,
    least: usize,
    most: usize,
    k: usize,
    model: &'a Model,
    expected: &'a Snapshot,
}

impl View<'_> {
    fn data(&self) -> DataMode {
        self.run.setup.data()
    }

    /// Whether `found` is this state, as far as the data mode promises.
    fn shows(&self, found: &Snapshot) -> bool {
        match self.data() {
            DataMode::Journal => self.expected.accepts(found, Strictness::Whole),
            _ => {
                self.expected.accepts(found, Strictness::Metadata)
                    && found.entries().all(|(path, entry)| self.wrong_byte(path, &entry.content).is_none())
            }
        }
    }

    /// The first byte of a file that cannot be there.
    fn wrong_byte(&self, path: &Path, found: &Content) -> Option<u64> {
        let id = self.model.id_of(path)?;
        let want = self.model.content(id)?;
        // A byte of the file after some number of calls: zero behind its end, none if there is no such file.
        let byte_in = |model: &Model, at| model.content(id).map(|content| content.byte(at));
        // What the call that makes `calls` of one less leads through, and to.
        let led_to = |calls: usize| {
            let within = calls.checked_sub(1).and_then(|call| self.run.within.get(call)).into_iter().flatten();
            within.chain([&self.run.states[calls]])
        };
        // Asked once, and not for each byte and call.
        let is_simple = !self.moves_any() && !self.has_commits();
        // What later calls made of it, where it was by then.
        let later = |at| {
            let to = move |calls| if is_simple { Some(at) } else { self.moved_to(id, at, calls) };
            let places = (self.k + 1..=self.most).filter_map(move |calls| Some((calls, to(calls)?)));
            let places = places.filter(move |(calls, now)| {
                is_simple || to(calls - 1).is_none_or(|before| self.may_be_alone(id, *calls, before, *now))
            });
            places.flat_map(move |(calls, at)| led_to(calls).map(move |m| byte_in(m, at)))
        };
        want.differences(found, 8).into_iter().flatten().find(|&at| {
            let (is, should) = (found.byte(at), want.byte(at));
            is != should
                && !match self.data() {
                    DataMode::Journal => false,
                    DataMode::Ordered => {
                        let strays = self.strays().map(|stray| byte_in(stray, at));
                        later(at).chain(strays).any(|byte| byte == Some(is))
                    }
                    DataMode::Writeback => {
                        let alone = |calls: &usize| {
                            *calls == self.least && !self.has_commits() || self.may_be_alone(id, *calls, at, at)
                        };
                        let was = |calls: usize| {
                            let before = self.has_commits().then(|| &self.run.states[calls - 1]);
                            led_to(calls).chain(before)
                        };
                        let here = (self.least..=self.most).filter(alone).flat_map(was).map(|m| byte_in(m, at));
                        let strays = self.strays().map(|stray| byte_in(stray, at));
                        here.chain(later(at)).chain(strays).any(|byte| byte != Some(should))
                    }
                }
        })
    }

    /// What failed calls may have left by then.
    fn strays(&self) -> impl Iterator<Item = &Model> {
        self.run.strays.iter().filter(|(call, _)| self.least <= *call).map(|(_, model)| model)
    }

    /// Whether one of the calls that count may move what files hold.
    fn moves_any(&self) -> bool {
        let moves = |op: &Op| matches!(op, Op::Fallocate { .. } | Op::Exchange { .. });
        self.run.ops.get(self.k..self.most).is_none_or(|ops| ops.iter().any(moves))
    }

    /// Whether a map is committed among the calls that count.
    fn has_commits(&self) -> bool {
        self.run.ops[self.least..self.most].iter().any(|op| matches!(op, Op::MapCommit { .. }))
    }

    /// Whether a byte of a file, at `before` and then at `now`, may be what the call that makes `calls` of one less
    /// made of it, without the rest of that call. Where maps are committed, only what the call itself has made counts:
    /// it may not show what a commit before it made.
    fn may_be_alone(&self, id: Id, calls: usize, before: u64, now: u64) -> bool {
        if !self.has_commits() {
            return true;
        }
        let byte = |calls: usize, at| self.run.states[calls].content(id).map(|content| content.byte(at));
        let Some(call) = calls.checked_sub(1) else { return false };
        let is_step = self.run.within.get(call).is_some_and(|within| !within.is_empty());
        let is_commit = matches!(self.run.ops.get(call), Some(Op::MapCommit { .. }));
        !is_commit && (is_step || byte(call, before) != byte(calls, now))
    }

    /// Where byte `at` of a file is after so many calls, later ones, some of which may move what the file holds.
    /// Nowhere, if it has become another file's.
    fn moved_to(&self, id: Id, at: u64, calls: usize) -> Option<u64> {
        (self.k..calls).try_fold(at, |at, call| {
            let (before, after) = (&self.run.states[call], &self.run.states[call + 1]);
            let (file, how, from, len) = match self.run.ops.get(call) {
                Some(Op::Fallocate { file, how, at, len }) => (file, how, at, len),
                Some(Op::Exchange { file, at: from, other, other_at, len }) => {
                    let end = |from: &u64| len.map_or(u64::MAX, |len| from + len);
                    let is_in =
                        |file, from: &u64| before.id_of_file(file) == Some(id) && (*from..end(from)).contains(&at);
                    let happened = before.content(id) != after.content(id);
                    // What is written there later is written after the exchange has become durable.
                    return Some(at).filter(|_| !happened || !(is_in(file, from) || is_in(other, other_at)));
                }
                _ => return Some(at),
            };
            let size = |model: &Model| model.content(id).map(Content::len);
            if before.id_of_file(file) != Some(id) || size(before) == size(after) || at < *from {
                return Some(at);
            }
            match how {
                Fallocate::CollapseRange => at.checked_sub(*len).filter(|moved| moved >= from),
                Fallocate::InsertRange => Some(at + len),
                _ => Some(at),
            }
        })
    }

    /// Whether `found` lies between this state and the next, where the call between them is a sequence of steps.
    fn shows_part_of_the_next(&self, found: &Snapshot) -> bool {
        if self.k >= self.most || !self.run.ops.get(self.k).is_some_and(|op| op.is_stepwise(self.run.atomic)) {
            return false;
        }
        // What was found of the file that the call changes takes the place of what it was before.
        let mut between = self.model.clone();
        for (path, entry) in found.entries() {
            let Some(id) = self.model.id_of(path) else { continue };
            let (Some(old), Some(new)) = (self.model.content(id), self.run.states[self.k + 1].content(id)) else {
                continue;
            };
            if old != new && !self.lies_between(id, old, new, &entry.content) {
                return false;
            }
            if old != new {
                between.replace_content(id, entry.content.clone());
            }
        }
        let expected = between.snapshot();
        View { model: &between, expected: &expected, ..*self }.shows(found)
    }

    fn lies_between(&self, id: Id, old: &Content, new: &Content, found: &Content) -> bool {
        let sizes = old.len().min(new.len())..=old.len().max(new.len());
        // What the first steps have stored, later calls may have been written over.
        let over = if self.data() == DataMode::Journal { &[] } else { &self.run.states[self.k + 1..=self.most] };
        let is_over = |at| over.iter().filter_map(|state| state.content(id)).any(|now| found.byte(at) == now.byte(at));
        let one_of_both = |at| found.byte(at) == old.byte(at) || found.byte(at) == new.byte(at) || is_over(at);
        sizes.contains(&found.len())
            && (self.data() == DataMode::Writeback || old.differences(found, 8).into_iter().flatten().all(one_of_both))
    }
}

fn explain(run: &Run, least: usize, most: usize, found: &Snapshot) -> String {
    let strictness = match run.setup.data() {
        DataMode::Journal => Strictness::Whole,
        _ => Strictness::Metadata,
    };
    let mut text = format!("the recovered volume is not the state after {least} to {most} calls");
    for k in least..=most {
        let view = View { run, least, most, k, model: &run.states[k], expected: &run.expected[k] };
        let mut lines = view.expected.differences(found, strictness);
        if lines.is_empty() {
            lines.extend(found.entries().filter_map(|(path, entry)| {
                let at = view.wrong_byte(path, &entry.content)?;
                let what = describe_bytes(&view.expected.get(path)?.content, &entry.content)?;
                Some(format!("{path}: byte {at} cannot be there: {what}"))
            }));
        }
        text += &format!("\n  after {k} calls:\n    {}", lines.join("\n    "));
    }
    text
}
