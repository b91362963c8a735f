//! Changing a directory block: single entries, and whole blocks.

use super::block::DirBlock;
use super::{DirEntry, HEADER, NAME_MAX, TAIL, TAIL_FILE_TYPE, rec_len_for};
use crate::error::{FormatError, Place, Result};
use crate::inode::FileType;

/// A directory block to be changed. The checksum is not kept up: see [`super::seal`].
#[derive(Debug)]
pub struct DirBlockMut<'a> {
    bytes: &'a mut [u8],
    csum: bool,
    place: Place,
}

/// The first two entries of a directory, "." and "..".
#[derive(Clone, Copy, Debug)]
pub struct Dots {
    /// The directory.
    pub ino: u32,
    /// The one above.
    pub parent: u32,
    /// The volume has this feature: entries say of what type they are.
    pub filetype: bool,
}

impl Dots {
    /// The type code of both.
    pub(crate) fn code(self) -> u8 {
        if self.filetype { FileType::Directory.dirent_code() } else { 0 }
    }
}

/// A change of one entry or two: new bytes for a small part of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Where they begin.
    pub at: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Edit {
    /// Puts the bytes into the block that the change is for.
    pub fn apply(&self, block: &mut [u8]) {
        if let Some(part) = block.get_mut(self.at..self.at + self.bytes.len()) {
            part.copy_from_slice(&self.bytes);
        }
    }
}

impl DirBlock<'_> {
    /// A new entry in place of the free one that begins at `gap`, or behind the one in use there, as
    /// [`DirBlock::search`] has found it. Whether the name is there already is the caller's matter.
    ///
    /// # Errors
    /// A name that is empty or too long, a corrupt entry, or one without room.
    pub fn insertion(&self, gap: usize, name: &[u8], ino: u32, file_type: u8) -> Result<Edit> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(FormatError::TooLarge(format!("a name of {} bytes", name.len())));
        }
        let DirEntry { ino: taken, rec_len, name: other, .. } = self.entry_at(gap)?;
        let keep = if taken == 0 { 0 } else { rec_len_for(other.len()) };
        let left = rec_len.checked_sub(keep).filter(|&left| left >= rec_len_for(name.len()));
        let left = left.ok_or_else(|| self.corrupt(format!("no room at byte {gap}")))?;
        // From the other entry's record length on, which shrinks.
        let at = if keep > 0 { gap + 4 } else { gap };
        let mut bytes = Vec::with_capacity(gap + keep - at + HEADER + name.len());
        bytes.extend_from_slice(self.part(at..gap + keep));
        if let Some(shrunk) = bytes.get_mut(..2) {
            shrunk.copy_from_slice(&(keep as u16).to_le_bytes());
        }
        bytes.extend_from_slice(&header(ino, left, name.len(), file_type));
        bytes.extend_from_slice(name);
        Ok(Edit { at, bytes })
    }

    /// Takes out the entry at `offset`: it joins the one before it, which begins at `before`, or becomes free if it is
    /// the first, as [`DirBlock::search`] has found them.
    ///
    /// # Errors
    /// A corrupt entry, or none at one of the two places.
    pub fn removal(&self, before: Option<usize>, offset: usize) -> Result<Edit> {
        let rec_len = self.entry_at(offset)?.rec_len;
        let Some(before) = before else {
            return match offset {
                0 => Ok(Edit { at: 0, bytes: vec![0; 4] }),
                _ => Err(self.no_entry(offset)),
            };
        };
        let previous = self.entry_at(before)?;
        if previous.offset + previous.rec_len != offset {
            return Err(self.no_entry(offset));
        }
        let at = before + 4;
        let mut bytes = self.part(at..offset).to_vec();
        if let Some(grown) = bytes.get_mut(..2) {
            grown.copy_from_slice(&((previous.rec_len + rec_len) as u16).to_le_bytes());
        }
        bytes.extend_from_slice(&[0; HEADER]);
        Ok(Edit { at, bytes })
    }

    /// Points the entry at `offset` to another inode and file type.
    ///
    /// # Errors
    /// No entry begins there.
    pub fn redirection(&self, offset: usize, ino: u32, file_type: u8) -> Result<Edit> {
        let DirEntry { rec_len, name, .. } = self.entry_at(offset)?;
        Ok(Edit { at: offset, bytes: header(ino, rec_len, name.len(), file_type).to_vec() })
    }

    fn no_entry(&self, offset: usize) -> FormatError {
        self.corrupt(format!("no entry begins at byte {offset}"))
    }
}

/// An entry before its name.
fn header(ino: u32, rec_len: usize, name_len: usize, file_type: u8) -> [u8; HEADER] {
    let ([a, b, c, d], [low, high]) = (ino.to_le_bytes(), (rec_len as u16).to_le_bytes());
    [a, b, c, d, low, high, name_len as u8, file_type]
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

    /// Makes `bytes` the first block of a directory.
    pub fn init_dot_dotdot(bytes: &'a mut [u8], dots: Dots, csum: bool, place: Place) -> DirBlockMut<'a> {
        let mut block = DirBlockMut::init_empty(bytes, csum, place);
        let (kind, end) = (dots.code(), block.end());
        block.put(0, dots.ino, 12, b".", kind);
        block.put(12, dots.parent, end.saturating_sub(12), b"..", kind);
        block
    }

    /// Makes `bytes` the first block of a directory that had its entries in its inode: "." and "..", then the lists as
    /// they were.
    ///
    /// # Errors
    /// A corrupt entry, or more of them than a block takes.
    pub fn init_unfolded(
        bytes: &'a mut [u8],
        dots: Dots,
        lists: &[&[u8]],
        csum: bool,
        place: Place,
    ) -> Result<DirBlockMut<'a>> {
        let mut block = DirBlockMut::init_empty(bytes, csum, place);
        let (kind, end) = (dots.code(), block.end());
        block.put(0, dots.ino, 12, b".", kind);
        block.put(12, dots.parent, 12, b"..", kind);
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
        slot[..HEADER].copy_from_slice(&header(ino, rec_len, name.len(), file_type));
        slot[HEADER..].copy_from_slice(name);
    }

    fn put_rec_len(&mut self, offset: usize, rec_len: usize) {
        if let Some(slot) = self.bytes.get_mut(offset + 4..offset + 6) {
            slot.copy_from_slice(&(rec_len as u16).to_le_bytes());
        }
    }

    /// Inserts an entry in the first place with room; false if there is none. Whether the name is there already is the
    /// caller's matter.
    ///
    /// # Errors
    /// A name that is empty or too long, or a block with a corrupt entry.
    pub fn insert(&mut self, name: &[u8], ino: u32, file_type: u8) -> Result<bool> {
        let view = self.view()?;
        let Some(gap) = view.search(name)?.gap else { return Ok(false) };
        view.insertion(gap, name, ino, file_type)?.apply(self.bytes);
        Ok(true)
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
}
