//! What is known of each inode in use.

use crate::Ino;
use ondol_format::Superblock;
use ondol_format::inode::FileType;

/// One inode in use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) used: bool,
    pub(super) indexed: bool,
    /// None for a mode without a type.
    pub(super) file_type: Option<FileType>,
    /// Names it says it has.
    pub(super) links: u16,
    /// Names found.
    pub(super) names: u32,
}

/// All inodes, in tables that exist where any is in use.
pub(super) struct Found {
    per_group: u32,
    tables: Vec<Option<Box<[Entry]>>>,
}

impl Found {
    pub(super) fn new(sb: &Superblock) -> Self {
        Self { per_group: sb.inodes_per_group(), tables: vec![None; sb.groups() as usize] }
    }

    fn place(&self, ino: Ino) -> Option<(usize, usize)> {
        let index = ino.checked_sub(1)?;
        Some(((index / self.per_group) as usize, (index % self.per_group) as usize))
    }

    /// Notes an inode in use.
    pub(super) fn set(&mut self, ino: Ino, entry: Entry) {
        let Some((g, i)) = self.place(ino) else { return };
        let per_group = self.per_group as usize;
        let Some(table) = self.tables.get_mut(g) else { return };
        let table = table.get_or_insert_with(|| vec![Entry::default(); per_group].into());
        table[i] = entry;
    }

    /// An inode in use.
    pub(super) fn get(&self, ino: Ino) -> Option<&Entry> {
        let (g, i) = self.place(ino)?;
        self.tables.get(g)?.as_ref()?.get(i).filter(|entry| entry.used)
    }

    /// Counts a name.
    pub(super) fn add_name(&mut self, ino: Ino) {
        let Some((g, i)) = self.place(ino) else { return };
        if let Some(entry) = self.tables.get_mut(g).and_then(|t| t.as_mut()).and_then(|t| t.get_mut(i)) {
            entry.names = entry.names.saturating_add(1);
        }
    }

    /// The inodes of a group, by index; None if none is in use.
    pub(super) fn group(&self, g: u32) -> Option<&[Entry]> {
        self.tables.get(g as usize)?.as_deref()
    }

    /// All inodes in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ino, &Entry)> {
        let per_group = self.per_group;
        let tables = (0u32..).zip(&self.tables).filter_map(|(g, table)| table.as_deref().map(|table| (g, table)));
        tables.flat_map(move |(g, table)| (g * per_group + 1..).zip(table).filter(|(_, entry)| entry.used))
    }
}
