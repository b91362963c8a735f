//! Comparing two snapshots, in words.

use super::{Entry, Snapshot};
use crate::model::Content;
use crate::op::{Fill, Flags};
use ondol_volume::FileType;
use std::fmt::{Debug, Write};

/// What a comparison looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Everything.
    Whole,
    /// Everything but the bytes of regular files; their sizes still count.
    Metadata,
}

/// At most so many lines describe one comparison.
const MAX_LINES: usize = 20;

impl Snapshot {
    /// Whether `found` is what `self` expects, as far as `strictness` looks; an mtime that is not known fits any.
    pub fn accepts(&self, found: &Self, strictness: Strictness) -> bool {
        self.entries.len() == found.entries.len()
            && self
                .entries
                .iter()
                .zip(&found.entries)
                .all(|((a, want), (b, got))| a == b && want.accepts(got, strictness))
    }

    /// What is different in `found` from what `self` expects: one line each, empty when nothing is.
    pub fn differences(&self, found: &Self, strictness: Strictness) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, want) in &self.entries {
            match found.entries.get(path) {
                None => lines.push(format!("{path}: missing ({:?}, {} bytes)", want.kind, want.content.len())),
                Some(got) => lines.extend(want.differences(got, strictness).iter().map(|d| format!("{path}: {d}"))),
            }
        }
        let unexpected = found.entries.iter().filter(|(path, _)| !self.entries.contains_key(path));
        lines.extend(
            unexpected.map(|(path, e)| format!("{path}: not expected ({:?}, {} bytes)", e.kind, e.content.len())),
        );
        if lines.len() > MAX_LINES {
            let more = lines.len() - MAX_LINES;
            lines.truncate(MAX_LINES);
            lines.push(format!("… and {more} more"));
        }
        lines
    }
}

impl Entry {
    fn accepts(&self, got: &Self, strictness: Strictness) -> bool {
        let plain = |e: &Self| (e.kind, e.perm, e.uid, e.gid, e.nlink, e.content.len(), e.rdev);
        plain(self) == plain(got)
            && self.target == got.target
            && self.xattrs == got.xattrs
            && self.group == got.group
            && (self.mtime.is_none() || got.mtime.is_none() || self.mtime == got.mtime)
            && (self.flags.is_none() || got.flags.is_none() || self.flags == got.flags)
            && (strictness == Strictness::Metadata || self.content == got.content)
    }

    fn differences(&self, got: &Self, strictness: Strictness) -> Vec<String> {
        let mut lines = Vec::new();
        let mut compare = |what: &str, want: &dyn Debug, got: &dyn Debug| {
            let (want, got) = (format!("{want:?}"), format!("{got:?}"));
            if want != got {
                lines.push(format!("{what} is {got}, expected {want}"));
            }
        };
        compare("type", &self.kind, &got.kind);
        compare("owner", &(self.uid, self.gid), &(got.uid, got.gid));
        compare("link count", &self.nlink, &got.nlink);
        compare("device", &self.rdev, &got.rdev);
        compare("first name", &self.group, &got.group);
        compare("target", &text(&self.target), &text(&got.target));
        if self.mtime.is_some() && got.mtime.is_some() {
            compare("mtime", &self.mtime, &got.mtime);
        }
        if let (Some(want), Some(got)) = (self.flags, got.flags) {
            compare("flags", &Flags(want).to_string(), &Flags(got).to_string());
        }
        if self.kind == FileType::Regular && got.kind == FileType::Regular {
            compare("size", &self.content.len(), &got.content.len());
        }
        if self.perm != got.perm {
            lines.push(format!("mode is {:04o}, expected {:04o}", got.perm, self.perm));
        }
        self.compare_xattrs(got, &mut lines);
        if strictness == Strictness::Whole {
            lines.extend(describe_bytes(&self.content, &got.content));
        }
        lines
    }

    fn compare_xattrs(&self, got: &Self, lines: &mut Vec<String>) {
        for (name, value) in &self.xattrs {
            match got.xattrs.get(name) {
                None => lines.push(format!("attribute {} is missing", text(name))),
                Some(v) if v != value => {
                    lines.push(format!("attribute {}: {} other bytes instead of {}", text(name), v.len(), value.len()));
                }
                Some(_) => {}
            }
        }
        let unexpected = got.xattrs.keys().filter(|name| !self.xattrs.contains_key(*name));
        lines.extend(unexpected.map(|name| format!("attribute {} is not expected", text(name))));
    }
}

fn text(bytes: &[u8]) -> String {
    crate::op::text::escape(bytes)
}

/// Says which bytes differ and what both sides hold there.
pub fn describe_bytes(want: &Content, got: &Content) -> Option<String> {
    let ranges = want.differences(got, 8);
    let first = ranges.first()?;
    let mut line = format!(
        "bytes {}..{} hold {}, expected {}",
        first.start,
        first.end,
        Fill::describe(&got.word(first.start)),
        Fill::describe(&want.word(first.start))
    );
    if ranges.len() > 1 {
        let _ = write!(line, " (and {} more ranges)", ranges.len() - 1);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::op::text;

    fn model(lines: &str) -> Snapshot {
        let mut model = Model::empty();
        for op in text::parse(lines).unwrap() {
            model.apply(&op).unwrap();
        }
        model.snapshot()
    }

    #[test]
    fn differences_are_told_in_words() {
        let a = model("create /a 0644\nwrite /a 0 1000 #1\nlink /a /b\nmkdir /d 0755\nsetxattr /d user.x 4 #9");
        let b = model("create /a 0600\nwrite /a 0 1000 #1\nwrite /a 504 8 #2\nmkdir /d 0755\ncreate /d/c 0644");
        assert_eq!(
            a.differences(&b, Strictness::Whole),
            [
                "/a: link count is 1, expected 2",
                "/a: mode is 0600, expected 0644",
                "/a: bytes 504..512 hold #2 of offset 504, expected #1 of offset 504",
                "/b: missing (Regular, 1000 bytes)",
                "/d: attribute user.x is missing",
                "/d/c: not expected (Regular, 0 bytes)",
            ]
        );
        assert!(!a.accepts(&b, Strictness::Metadata));
        assert!(a.accepts(&a.clone(), Strictness::Whole));
    }

    #[test]
    fn an_unknown_mtime_fits_any() {
        let set = "create /a 0644\nutimens /a 1 5";
        let (known, unknown) = (model(set), model("create /a 0644"));
        assert!(known.accepts(&unknown, Strictness::Whole));
        assert!(known.accepts(&model(&format!("{set}\nwrite /a 0 0 #1")), Strictness::Whole));
        assert!(!known.accepts(&model("create /a 0644\nutimens /a 1 6"), Strictness::Whole));
    }

    #[test]
    fn names_of_one_inode_are_told_from_equal_files() {
        let linked = model("create /a 0644\nlink /a /b\ncreate /c 0644\nlink /c /d");
        let crossed = model("create /a 0644\nlink /a /c\ncreate /b 0644\nlink /b /d");
        assert!(!linked.accepts(&crossed, Strictness::Metadata));
    }

    #[test]
    fn a_model_made_from_a_snapshot_looks_like_it() {
        let seen =
            model("mkdir /d 0700\ncreate /d/a 0644\nlink /d/a /b\nappend /b 10 #4\nsymlink /s x\nmkfifo /p 0600");
        assert_eq!(Model::from_snapshot(&seen).snapshot(), seen);
    }
}
