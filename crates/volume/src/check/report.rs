//! What a check finds, in words.

use crate::Ino;
use ondol_format::FormatError;
use std::fmt;

/// Problems that are kept word for word; more are only counted.
const MOST: usize = 10_000;

/// A rule that the image breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The structure, in ext4's words.
    pub structure: String,
    /// Its block, if one can be named.
    pub block: Option<u64>,
    /// The inode it belongs to, if there is one.
    pub inode: Option<Ino>,
    /// What is wrong with it.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.structure)?;
        if let Some(block) = self.block {
            write!(f, " in block {block}")?;
        }
        if let Some(inode) = self.inode {
            write!(f, " of inode {inode}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Every problem, up to ten thousand.
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub omitted: u64,
    /// What is worth knowing and no problem: a superblock whose free counts are old, as they are after every crash.
    pub notes: Vec<String>,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Inodes that the next mount will delete or truncate.
    pub orphans: u64,
}

impl CheckReport {
    /// Whether no problem was found.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn add(&mut self, problem: Problem) {
        if self.problems.len() < MOST {
            self.problems.push(problem);
        } else {
            self.omitted += 1;
        }
    }
}

/// The parts of a check, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Group descriptors and orphans.
    Groups,
    /// Inodes, by group.
    Inodes,
    /// Directories.
    Directories,
    /// Bitmaps and counts, by group.
    Bitmaps,
    /// Nothing is left to do.
    Done,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// In this part,
    pub pass: Pass,
    /// so many groups or directories are done
    pub done: u64,
    /// of so many.
    pub total: u64,
}

/// Where a problem is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Where {
    pub(super) block: Option<u64>,
    pub(super) inode: Option<Ino>,
}

impl Where {
    pub(super) const NONE: Self = Self { block: None, inode: None };

    pub(super) const fn inode(ino: Ino) -> Self {
        Self { block: None, inode: Some(ino) }
    }

    pub(super) const fn block(block: u64) -> Self {
        Self { block: Some(block), inode: None }
    }

    pub(super) const fn in_block(self, block: u64) -> Self {
        Self { block: Some(block), ..self }
    }
}

/// Structure and text of a format error, without the place, which the problem has itself.
pub(super) fn words(error: &FormatError) -> (String, String) {
    match error {
        FormatError::Corrupt(c) => (c.structure.into(), c.what.clone()),
        FormatError::Checksum { structure, stored, computed, .. } => {
            ((*structure).into(), format!("checksum {stored:#010x}, computed {computed:#010x}"))
        }
        other => ("image".into(), other.to_string()),
    }
}
