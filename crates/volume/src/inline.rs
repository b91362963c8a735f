//! Inline data: contents that lie in the inode itself. The first 60 bytes are in i_block, the rest is the value of the
//! attribute `system.data`, which is there even when it is empty.
//!
//! A file or directory leaves the inode, for good, when it no longer fits: [`take`] and what the caller makes of the
//! bytes are part of one operation.

use crate::{Error, Ino, Result};
use ondol_env::sync::Arc;
use ondol_format::inode::InodeFlags;
use ondol_format::xattr::{Xattr, index, inode_fits, parse_inode, write_inode};
use ondol_format::{FormatError, Inode, Place};

/// Bytes in i_block.
pub const IN_BLOCK: usize = 60;
/// The attribute's name behind `system.`.
pub const DATA: &[u8] = b"data";

/// Whether the contents lie in the inode.
pub(crate) fn is_inline(inode: &Inode) -> bool {
    inode.flags.contains(InodeFlags::INLINE_DATA)
}

fn is_data(xattr: &Xattr) -> bool {
    xattr.name_index == index::SYSTEM && xattr.name == DATA
}

/// The attributes in the inode, without the one that holds data.
fn others(inode: &Inode) -> std::result::Result<(Vec<Xattr>, Option<Xattr>), FormatError> {
    let mut list = parse_inode(&inode.tail, Place::NONE)?;
    let at = list.iter().position(is_data);
    let data = at.map(|at| list.remove(at));
    Ok((list, data))
}

/// All bytes that the inode stores for its contents: 60 and those of the attribute. Those behind the size mean nothing.
///
/// # Errors
/// Corruption: no such attribute, one with its value elsewhere, or an inode that has extents, too.
pub(crate) fn stored(ino: Ino, inode: &Inode) -> Result<Vec<u8>> {
    let bad = |what: String| Error::corrupt(format!("inline data of inode {ino}"), 0, what);
    let (_, data) = others(inode).map_err(|e| bad(e.to_string()))?;
    let data = data.ok_or_else(|| bad("the attribute system.data is missing".into()))?;
    if data.value_inum != 0 || inode.has_extents() {
        return Err(bad("it lies elsewhere, too".into()));
    }
    Ok([&inode.i_block[..], &data.value].concat())
}

/// The contents of a file or symlink.
///
/// # Errors
/// Corruption: as [`stored`], or a size that is larger than what is stored.
pub(crate) fn contents(ino: Ino, inode: &Inode) -> Result<Vec<u8>> {
    let mut bytes = stored(ino, inode)?;
    match usize::try_from(inode.size).ok().filter(|&size| size <= bytes.len()) {
        Some(size) => bytes.truncate(size),
        None => {
            let what = format!("{} bytes, of which {} are stored", inode.size, bytes.len());
            return Err(Error::corrupt(format!("inline data of inode {ino}"), 0, what));
        }
    }
    Ok(bytes)
}

/// The attributes with `len` bytes of contents, if there is room for both.
fn with_data(inode: &Inode, bytes: &[u8]) -> Option<Vec<Xattr>> {
    let (mut list, _) = others(inode).ok().filter(|_| inode.extra_isize > 0)?;
    list.push(Xattr::new(index::SYSTEM, DATA, bytes.get(IN_BLOCK..).unwrap_or_default()));
    inode_fits(&list, inode.tail.len()).then_some(list)
}

/// Whether the inode has room for contents of `len` bytes.
pub(crate) fn fits(inode: &Inode, len: u64) -> bool {
    // No inode is larger than a block.
    let len = usize::try_from(len).ok().filter(|&len| len <= inode.tail.len() + IN_BLOCK);
    len.is_some_and(|len| with_data(inode, &vec![0; len]).is_some())
}

/// Makes `bytes` the contents of an inode; the size is the caller's matter. False, and no change, if there is no room.
pub(crate) fn store(inode: &mut Inode, bytes: &[u8]) -> bool {
    let Some(list) = with_data(inode, bytes) else { return false };
    if write_inode(&list, Arc::make_mut(&mut inode.tail)).is_err() {
        return false;
    }
    let first = bytes.len().min(IN_BLOCK);
    inode.i_block = [0; IN_BLOCK];
    inode.i_block[..first].copy_from_slice(&bytes[..first]);
    inode.flags.insert(InodeFlags::INLINE_DATA);
    true
}

/// Takes the contents out of an inode, which is left without any mapping.
///
/// # Errors
/// Corruption: as [`stored`].
pub(crate) fn take(ino: Ino, inode: &mut Inode) -> Result<Vec<u8>> {
    let bytes = stored(ino, inode)?;
    let bad = |e: FormatError| Error::corrupt(format!("inline data of inode {ino}"), 0, e.to_string());
    let (list, _) = others(inode).map_err(bad)?;
    write_inode(&list, Arc::make_mut(&mut inode.tail)).map_err(bad)?;
    inode.i_block = [0; IN_BLOCK];
    inode.flags.remove(InodeFlags::INLINE_DATA);
    Ok(bytes)
}
