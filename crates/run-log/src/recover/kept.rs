//! What is to be done to a directory after a cut, by its records alone.

use crate::format::HORIZON_NS;
use crate::handle::Handle;
use crate::name_record::{Change, NameRecord};
use crate::recover::FoundDir;
use std::collections::BTreeMap;

/// What the kernel had kept of a directory's records by a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Everything.
    All,
    /// Nothing behind this sequence.
    Behind(u64),
    /// The directory was changed later than any record tells.
    Unknown,
}

impl FoundDir {
    /// What the kernel had kept, by the directory's ctime on the disk: it commits changes in their order, and no two
    /// have the same ctime.
    pub fn kept(&self, ctime: u64) -> Kept {
        let (Some(first), Some(last)) = (self.records.first(), self.records.last()) else { return Kept::All };
        if ctime > last.ctime.saturating_add(HORIZON_NS) {
            return Kept::Unknown;
        }
        let kept = self.records.iter().rfind(|record| record.ctime <= ctime);
        match kept.map_or(first.sequence.saturating_sub(1), |record| record.sequence) {
            behind if behind >= last.sequence => Kept::All,
            behind => Kept::Behind(behind),
        }
    }
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Before all records.
    pub before: Option<Handle>,
    /// After them.
    pub now: Option<Handle>,
}

/// What each name that records touch stood for before them, and stands for after them.
pub fn touched(records: &[&NameRecord]) -> BTreeMap<Vec<u8>, Touched> {
    let mut names = BTreeMap::<Vec<u8>, Touched>::new();
    let mut touch = |name: &[u8], before: Option<&Handle>, now: Option<&Handle>| {
        let entry = names.entry(name.to_vec());
        entry.or_insert_with(|| Touched { before: before.cloned(), now: None }).now = now.cloned();
    };
    for record in records {
        let (names, file) = (&record.names, Some(&record.handle));
        match names.change {
            Change::Create | Change::Link => touch(&names.name, None, file),
            Change::Remove | Change::Unlink | Change::Leave => touch(&names.name, file, None),
            Change::Rename => {
                touch(&names.old, file, None);
                touch(&names.name, record.replaced.as_ref(), file);
            }
            Change::Arrive => touch(&names.name, record.replaced.as_ref(), file),
        }
    }
    names
}
