//! Views: the bytes of a file where they lie, as they are at one moment (papers/4, §2.2). Design:
//! `docs/design/direct.md`.

use super::plan::check_regular;
use crate::{FileIo, Ino, Result};
use ondol_format::Inode;
use ondol_journal::Piece;

impl FileIo<'_> {
    /// Lends up to `len` bytes from byte `offset` on, fewer at the end of the file: pieces one behind the other, which
    /// stay what they are, whatever is written to the file afterwards. Stored pages among them are not used again as
    /// long as somebody has them, and neither is the store closed.
    ///
    /// # Errors
    /// As [`FileIo::read`].
    pub fn view(self, ino: Ino, offset: u64, len: u64) -> Result<Vec<Piece>> {
        self.view_with(ino, offset, len, true, |pieces| pieces)
    }

    /// As [`FileIo::view`], of any length, for `take` alone. What it does nobody changes the file meanwhile, so it must
    /// be short; the pieces may be more than are lent for longer.
    ///
    /// # Errors
    /// As [`FileIo::read`].
    pub fn view_held<T>(self, ino: Ino, offset: u64, len: u64, take: impl FnOnce(Vec<Piece>) -> T) -> Result<T> {
        self.view_with(ino, offset, len, false, take)
    }

    fn view_with<T>(
        self,
        ino: Ino,
        offset: u64,
        len: u64,
        bounded: bool,
        take: impl FnOnce(Vec<Piece>) -> T,
    ) -> Result<T> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let pieces =
            check_regular(ino, &state.inode).and_then(|()| self.pieces(ino, &state.inode, offset, len, bounded));
        let pieces = pieces.map_err(|e| self.vol.noted(e))?;
        let is_stale = !pieces.is_empty() && self.atime_is_stale(&state.inode);
        let taken = take(pieces);
        drop(state);
        if is_stale {
            self.renew_atime(&node);
        }
        Ok(taken)
    }

    fn pieces(self, ino: Ino, inode: &Inode, offset: u64, len: u64, bounded: bool) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let left = inode.size.saturating_sub(offset).min(len);
        self.each_stored(ino, inode, offset, left, |_, len, stored| {
            match stored {
                Stored::Inline(bytes) => pieces.push(Piece::Copied(bytes.to_vec())),
                Stored::Zeros => pieces.push(Piece::Zeros(len)),
                Stored::Blocks(start, skip) => {
                    self.vol.engine.view_data(start, skip, len as usize, bounded, &mut pieces)?;
                }
            }
            Ok(())
        })?;
        let copied = pieces.iter().map(Piece::copied).sum::<u64>();
        self.vol.viewed.copied.add(copied.cast_signed());
        self.vol.viewed.lent.add((left - copied).cast_signed());
        Ok(pieces)
    }
}

/// What some bytes of a file are.
pub(super) enum Stored<'i> {
    /// In the inode.
    Inline(&'i [u8]),
    /// Nowhere.
    Zeros,
    /// In blocks from this one on, the first byte so many bytes in it.
    Blocks(u64, usize),
}
