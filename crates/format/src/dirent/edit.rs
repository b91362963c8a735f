//! Changing a directory block in place.

use super::block::DirBlock;
use super::{DirEntry, HEADER, NAME_MAX, TAIL, TAIL_FILE_TYPE, rec_len_for};
use crate::error::{FormatError, Place, Result};
use crate::inode::FileType;
use std::ops::Range;

/// A directory block to be changed. The checksum is not kept up: see [`super::seal`].
#[derive(Debug)]
pub struct DirBlockMut<'a> {
    bytes: &'a mut [u8],
    csum: bool,
    place: Place,
}

/// What an insertion changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Byte offset of the new entry.
    pub offset: usize,
    /// The bytes that changed: the new entry and, if it took the slack of the one before, that one's record length.
    pub changed: Range<usize>,
}

impl<'a> DirBlockMut<'a> {
    /// A whole block with valid entries; see [`DirBlock::new`].
    pub fn new(bytes: &'a mut [u8], csum: bool, place: Place) -> Result<DirBlockMut<'a>> {
        DirBlock::new(bytes, csum, place)?;
        Ok(DirBlockMut { bytes, csum, place })
    }

    /// Makes `bytes` a block with one free entry, and a tail if `csum`.
    pub fn init_empty(bytes: &'a mut [u8], csum: bool, place: Place) -> DirBlockMut<'a> {
        bytes.fill(0);
        let len = bytes.len();
        let end = if csum { len.saturating_sub(TAIL) } else { len };
        let mut block = DirBlockMut { bytes, csum, place };
        block.put(0, 0, end, b"", 0);
        if csum {
            block.put(end, 0, TAIL, b"", TAIL_FILE_TYPE);
        }
        block
    }

    /// Makes `bytes` the first block of directory `ino` below `parent`. `filetype` says whether the volume has that
    /// feature.
    pub fn init_dot_dotdot(
        bytes: &'a mut [u8],
        ino: u32,
        parent: u32,
        filetype: bool,
        csum: bool,
        place: Place,
    ) -> DirBlockMut<'a> {
        let mut block = DirBlockMut::init_empty(bytes, csum, place);
        let kind = if filetype { FileType::Directory.dirent_code() } else { 0 };
        let end = block.end();
        block.put(0, ino, 12, b".", kind);
        block.put(12, parent, end.saturating_sub(12), b"..", kind);
        block
    }

    /// Makes `bytes` the first block of a directory that had its entries in its inode: "." and "..", then the lists as they
    /// were. `own` is the directory, its parent, and the type code of both.
    ///
    /// # Errors
    /// A corrupt entry, or more of them than a block takes.
    pub fn init_unfolded(
        bytes: &'a mut [u8],
        own: (u32, u32, u8),
        lists: &[&[u8]],
        csum: bool,
        place: Place,
    ) -> Result<DirBlockMut<'a>> {
        let mut block = DirBlockMut::init_empty(bytes, csum, place);
        let (ino, parent, kind) = own;
        let end = block.end();
        block.put(0, ino, 12, b".", kind);
        block.put(12, parent, 12, b"..", kind);
        let (mut last, mut at) = (12, 24);
        for list in lists {
            for entry in DirBlock::new(list, false, place)?.entries() {
                last = at + entry?.offset;
            }
            let room = block.bytes.get_mut(at..at + list.len()).filter(|_| at + list.len() <= end);
            let room = room.ok_or_else(|| FormatError::TooLarge("the entries do not fit into a block".into()))?;
            room.copy_from_slice(list);
            at += list.len();
        }
        block.put_rec_len(last, end.saturating_sub(last));
        Ok(block)
    }

    fn end(&self) -> usize {
        self.bytes.len().saturating_sub(if self.csum { TAIL } else { 0 })
    }

    /// This block, to be read.
    pub fn view(&self) -> Result<DirBlock<'_>> {
        DirBlock::new(self.bytes, self.csum, self.place)
    }

    /// Writes an entry's header and name.
    fn put(&mut self, offset: usize, ino: u32, rec_len: usize, name: &[u8], file_type: u8) {
        let Some(slot) = self.bytes.get_mut(offset..offset + HEADER + name.len()) else { return };
        slot[..4].copy_from_slice(&ino.to_le_bytes());
        slot[4..6].copy_from_slice(&(rec_len as u16).to_le_bytes());
        slot[6] = name.len() as u8;
        slot[7] = file_type;
        slot[HEADER..].copy_from_slice(name);
    }

    fn put_rec_len(&mut self, offset: usize, rec_len: usize) {
        if let Some(slot) = self.bytes.get_mut(offset + 4..offset + 6) {
            slot.copy_from_slice(&(rec_len as u16).to_le_bytes());
        }
    }

    /// The entry in use with this name.
    pub fn find(&self, name: &[u8]) -> Result<Option<DirEntry<'_>>> {
        self.view()?.find(name)
    }

    /// Inserts an entry in the first place with room; None if there is none. Whether the name is there already is the
    /// caller's matter.
    ///
    /// # Errors
    /// A name that is empty or too long, or a block with a corrupt entry.
    pub fn insert(&mut self, name: &[u8], ino: u32, file_type: u8) -> Result<Option<Inserted>> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(FormatError::TooLarge(format!("a name of {} bytes", name.len())));
        }
        let view = self.view()?;
        let Some(offset) = view.search(name)?.gap else { return Ok(None) };
        let DirEntry { ino: taken, rec_len, name: other, .. } = view.entry_at(offset)?;
        let keep = if taken == 0 { 0 } else { rec_len_for(other.len()) };
        if keep > 0 {
            self.put_rec_len(offset, keep);
        }
        let at = offset + keep;
        self.put(at, ino, rec_len - keep, name, file_type);
        let start = if keep > 0 { offset + 4 } else { at };
        Ok(Some(Inserted { offset: at, changed: start..at + HEADER + name.len() }))
    }

    /// Removes the entry at `offset`: it joins the one before it, or becomes free if it is the first. Returns the bytes
    /// that changed.
    ///
    /// # Errors
    /// No entry begins there, or a corrupt entry before it.
    pub fn remove(&mut self, offset: usize) -> Result<Range<usize>> {
        let mut before: Option<(usize, usize)> = None;
        let mut found = None;
        for entry in self.view()?.entries() {
            let entry = entry?;
            if entry.offset >= offset {
                found = Some(entry.rec_len).filter(|_| entry.offset == offset);
                break;
            }
            before = Some((entry.offset, entry.rec_len));
        }
        let Some(rec_len) = found else { return Err(self.no_entry(offset)) };
        match before {
            None => {
                self.bytes[offset..offset + 4].fill(0);
                Ok(offset..offset + 4)
            }
            Some((previous, length)) => {
                self.bytes[offset..offset + HEADER].fill(0);
                self.put_rec_len(previous, length + rec_len);
                Ok(previous + 4..offset + HEADER)
            }
        }
    }

    /// Points the entry at `offset` to another inode and file type. Returns the bytes that changed.
    pub fn set_ino(&mut self, offset: usize, ino: u32, file_type: u8) -> Result<Range<usize>> {
        self.view()?.entry_at(offset)?;
        self.bytes[offset..offset + 4].copy_from_slice(&ino.to_le_bytes());
        self.bytes[offset + 7] = file_type;
        Ok(offset..offset + HEADER)
    }

    /// Fills the block with `entries`, packed, the last reaching to the end: what splitting an htree leaf needs.
    ///
    /// # Errors
    /// They do not fit; the block is then empty.
    pub fn fill<'e>(&mut self, entries: impl IntoIterator<Item = (&'e [u8], u32, u8)>) -> Result<()> {
        let end = self.end();
        self.bytes[..end].fill(0);
        self.put(0, 0, end, b"", 0);
        let (mut last, mut at) = (0, 0);
        for (name, ino, file_type) in entries {
            let need = rec_len_for(name.len());
            if name.is_empty() || name.len() > NAME_MAX || at + need > end {
                self.bytes[..end].fill(0);
                self.put(0, 0, end, b"", 0);
                return Err(FormatError::TooLarge("the entries do not fit into a directory block".into()));
            }
            if at > 0 {
                let before = at - last;
                self.put_rec_len(last, before);
            }
            self.put(at, ino, end - at, name, file_type);
            (last, at) = (at, at + need);
        }
        Ok(())
    }

    fn no_entry(&self, offset: usize) -> FormatError {
        self.place.corrupt("directory block", format!("no entry begins at byte {offset}"))
    }
}
