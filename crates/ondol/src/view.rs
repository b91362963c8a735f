//! Files without a copy (papers/4): the stored pages themselves, as slices or at addresses that lie in a row. Design:
//! `docs/design/direct.md`.

use crate::mounted::{Hold, Mounted};
use crate::path::at;
use crate::prefault::{MapStats, Prefault, Windows};
use crate::{File, Result};
use ondol_block::{MapPart, Mapped};
use ondol_env::sync::Arc;
use ondol_journal::JournalError;
use ondol_volume::{Error as VolumeError, Piece};
use std::fmt;
use std::ops::{Bound, Deref, Range, RangeBounds};

/// Bytes of a page.
const PAGE: u64 = ondol_medium::PAGE;

/// What a hole is read as.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Bytes of a file as they were when [`File::view`] was called, one slice behind the other. They do not change,
/// whatever is done to the file; pages that it lends are not used again before it is dropped.
pub struct View {
    pieces: Vec<Piece>,
    /// Dropped after them.
    _volume: Arc<Hold>,
}

/// All of a file as it was when [`File::map`] was called: one slice. It does not change, whatever is done to the file.
pub struct Map {
    bytes: Bytes,
    /// Where pages are entered by windows, or were entered at once.
    windows: Option<Windows>,
    /// Dropped after them.
    _volume: Arc<Hold>,
}

/// The bytes of a map.
pub(crate) enum Bytes {
    Mapped(Box<dyn Mapped>),
    Copied(Vec<u8>),
}

impl View {
    /// How many bytes it has: as many as were asked for, but at the end of the file.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in their order. What is stored side by side is one slice; holes are zeros, up to 64 KiB a slice.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        slices(&self.pieces)
    }

    /// How many of them were copied, because they could not be lent.
    pub fn copied(&self) -> u64 {
        self.pieces.iter().map(Piece::copied).sum()
    }

    /// A copy of all.
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().flatten().copied().collect()
    }
}

impl Map {
    /// Whether it is a copy, because the file could not be mapped.
    pub fn is_copied(&self) -> bool {
        self.bytes.is_copied()
    }

    /// Some of the bytes; `None` if there are not so many. With [`Prefault::Windows`], pages that are not in the
    /// processor's table come in with those behind them.
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        let part = <[u8]>::get(self, range.clone())?;
        if let (Some(windows), Bytes::Mapped(bytes)) = (&self.windows, &self.bytes) {
            windows
                .read(range.start as u64 / PAGE..(range.end as u64).div_ceil(PAGE), |window| enter(&**bytes, window));
        }
        Some(part)
    }

    /// What was entered in the processor's table, but for page faults.
    pub fn stats(&self) -> MapStats {
        self.windows.as_ref().map(Windows::stats).unwrap_or_default()
    }
}

/// Pages of a map of these pieces that are no holes.
fn stored(pieces: &[Piece]) -> Vec<Range<u64>> {
    let (mut stored, mut at) = (Vec::<Range<u64>>::new(), 0);
    for piece in pieces {
        let (first, behind) = (at / PAGE, (at + piece.len()).div_ceil(PAGE));
        match stored.last_mut() {
            _ if piece.bytes().is_none() => {}
            Some(last) if last.end == first => last.end = behind,
            _ => stored.push(first..behind),
        }
        at += piece.len();
    }
    stored
}

fn enter(bytes: &dyn Mapped, pages: Range<u64>) -> bool {
    bytes.enter((pages.start * PAGE) as usize, ((pages.end - pages.start) * PAGE) as usize)
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.all()
    }
}

impl Bytes {
    pub(crate) fn all(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes.bytes(),
            Self::Copied(bytes) => bytes,
        }
    }

    pub(crate) fn is_copied(&self) -> bool {
        matches!(self, Self::Copied(_))
    }

    /// What these pieces hold, in a map if that can be.
    pub(crate) fn of(volume: &Mounted, pieces: &[Piece]) -> std::result::Result<Self, VolumeError> {
        let lender = volume.composed().store.lender();
        let parts: Vec<MapPart<'_>> = pieces.iter().map(Piece::part).collect();
        match lender.map_or(Ok(None), |lender| lender.map(&parts)).map_err(JournalError::from)? {
            Some(bytes) => Ok(Self::Mapped(bytes)),
            None => {
                let len = pieces.iter().map(Piece::len).sum();
                copy_of(len, slices(pieces)).map(Self::Copied)
            }
        }
    }
}

/// The bytes of slices of `len` bytes in all, one behind the other.
pub(crate) fn copy_of<'b>(
    len: u64,
    slices: impl Iterator<Item = &'b [u8]>,
) -> std::result::Result<Vec<u8>, VolumeError> {
    let mut bytes = Vec::new();
    let len = usize::try_from(len).map_err(|_| VolumeError::FileTooBig)?;
    bytes.try_reserve_exact(len).map_err(|_| VolumeError::FileTooBig)?;
    slices.for_each(|slice| bytes.extend_from_slice(slice));
    Ok(bytes)
}

/// What pieces hold, in their order; holes are zeros, up to 64 KiB a slice.
fn slices(pieces: &[Piece]) -> impl Iterator<Item = &[u8]> {
    pieces.iter().flat_map(|piece| {
        let stored = piece.bytes();
        let mut zeros = if stored.is_some() { 0 } else { piece.len() };
        let of_hole = std::iter::from_fn(move || {
            let len = zeros.min(ZEROS.len() as u64);
            zeros -= len;
            (len > 0).then_some(&ZEROS[..len as usize])
        });
        stored.into_iter().filter(|bytes| !bytes.is_empty()).chain(of_hole)
    })
}

/// The first byte of a range of a file, and how many it has.
pub(crate) fn start_and_len(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let after = |bound: &u64| bound.checked_add(1);
    let start = match range.start_bound() {
        Bound::Included(start) => Some(*start),
        Bound::Excluded(before) => after(before),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(last) => after(last).unwrap_or(u64::MAX),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start.map_or((0, 0), |start| (start, end.saturating_sub(start)))
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes in {} pieces, {} copied)", self.len(), self.pieces.len(), self.copied())
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({} bytes, {})", self.len(), if self.is_copied() { "copied" } else { "mapped" })
    }
}

impl File {
    /// Lends bytes of the file where they are stored, as they are now. On a volume in an NVM pool nothing is copied, up
    /// to a number of pages at a time ([`crate::Counters`]: `pages_pinnable`); what goes beyond, and what lies
    /// elsewhere, is. A range that goes beyond the end of the file has fewer bytes.
    ///
    /// ```
    /// # use ondol::{FormatOptions, OpenOptions, Volume};
    /// # let dir = tempfile::tempdir()?;
    /// # let pool = format!("nvm:{}", dir.path().join("pool").display());
    /// # Volume::format(&pool, &FormatOptions::new().size(8 << 20))?;
    /// let volume = Volume::open(&pool)?;
    /// volume.write("/words", b"warm floor".repeat(1000))?;
    ///
    /// let file = OpenOptions::new().read(true).write(true).open(&volume, "/words")?;
    /// let view = file.view(..)?;
    /// file.write_all_at(b"cold", 0)?;
    /// assert_eq!((view.slices().next().unwrap().starts_with(b"warm floor"), view.copied()), (true, 0));
    /// assert!(file.map()?.starts_with(b"cold floor"));
    /// # drop(view);
    /// # drop(file);
    /// # volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A view keeps its volume from being closed, and may outlive its file.
    ///
    /// # Errors
    /// As pread(2).
    pub fn view(&self, range: impl RangeBounds<u64>) -> Result<View> {
        self.check_readable()?;
        let (start, len) = start_and_len(&range);
        let pieces = at(self.path(), self.volume().usable()?.files().view(self.ino(), start, len))?;
        Ok(View { pieces, _volume: self.hold() })
    }

    /// All of the file, at addresses that lie in a row, as it is now. On a volume in an NVM pool it is mapped: it takes
    /// no memory but for what is overwritten while it is there and needed elsewhere, and what is not home yet. Where it
    /// cannot be mapped (many pieces and few mappings left in the process, another kind of volume) it is a copy.
    ///
    /// It must not be used in the child of a fork(2).
    ///
    /// # Errors
    /// As pread(2); `FileTooBig` for what memory does not hold, where it is a copy.
    pub fn map(&self) -> Result<Map> {
        self.map_with(Prefault::Plain)
    }

    /// As [`File::map`], saying how its pages get into the processor's table.
    ///
    /// # Errors
    /// As [`File::map`].
    pub fn map_with(&self, prefault: Prefault) -> Result<Map> {
        self.check_readable()?;
        let mapped = self.volume().usable()?.files().view_held(self.ino(), 0, u64::MAX, |pieces| {
            let bytes = Bytes::of(self.volume(), &pieces)?;
            let is_populated = prefault == Prefault::Populate && !bytes.is_copied();
            let at_once = if is_populated { stored(&pieces) } else { Vec::new() };
            Ok((bytes, at_once))
        });
        let (bytes, at_once) = at(self.path(), mapped.and_then(|mapped| mapped))?;
        let mut map = Map { bytes, windows: None, _volume: self.hold() };
        if let Bytes::Mapped(bytes) = &map.bytes {
            let windows = Windows::new((map.len() as u64).div_ceil(PAGE), prefault);
            if let Some(windows) = &windows {
                at_once.iter().for_each(|pages| windows.enter(pages.clone(), |pages| enter(&**bytes, pages)));
            }
            map.windows = windows;
        }
        Ok(map)
    }
}
