//! What the kernel does not tell of its pages: `docs/design/mount.md`, *What the kernel has not told*.

use super::Ops;
use ondol::Ino;
use ondol::inodes::{Error, Inodes};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// How long one waits for another: each takes the place of somebody who could serve the kernel meanwhile.
const PATIENCE: Duration = Duration::from_millis(50);

/// Has the kernel write and forget the pages that have these bytes of a file.
pub(crate) type Forget<'f> = dyn Fn(Ino, Range<u64>) -> io::Result<()> + 'f;

impl Ops {
    /// The kernel collects writes, and keeps sizes itself.
    pub(crate) fn writes_are_collected(&self) {
        self.gate.enter(|volume| volume.inodes().page_cache().writes_are_collected());
    }

    /// Before a file of some size grows, if `grows` says so of that size: the kernel writes its page of the end, as far
    /// as the file goes now, and forgets what was stored behind.
    ///
    /// It may have to wait for a request that the kernel makes for this. One at a time does so, and who waits for that
    /// one does not wait for long: what is behind the end stays then.
    pub(super) fn settle_end(&self, i: &Inodes, ino: Ino, grows: impl FnOnce(u64) -> bool, forget: &Forget<'_>) {
        let collected = i.collects_writes();
        let size = if collected { i.getattr(ino).ok().map(|a| a.size) } else { i.page_cache().end_in_pages(ino) };
        let Some(size) = size.filter(|&size| grows(size)) else { return };
        let Some(_alone) = ondol::waits::long(|| self.exchanging.try_lock_for(PATIENCE)) else {
            return tracing::debug!("inode {ino} grows with what the kernel has behind its end");
        };
        // It may be read again meanwhile.
        i.page_cache().end_leaves_pages(ino);
        // Where the kernel has collected writes, its end may be anywhere behind the stored one.
        let pages = size..if collected { u64::MAX } else { size.saturating_add(1) };
        if let Err(e) = forget(ino, pages) {
            tracing::debug!("inode {ino} grows with what the kernel has behind its end: {e}");
        }
    }
}

/// Writes what comes from the kernel's pages, but what they have from behind a former end of the file.
pub(super) fn write_late(
    late: Option<Range<u64>>,
    offset: u64,
    data: &[u8],
    mut write: impl FnMut(u64, &[u8]) -> Result<usize, Error>,
) -> Result<usize, Error> {
    let Some(late) = late else { return write(offset, data) };
    let at = |byte: u64| data.len().min(byte.saturating_sub(offset) as usize);
    let (before, behind) = (at(late.start), at(late.end));
    if before > 0 {
        let n = write(offset, data.get(..before).unwrap_or_default())?;
        if n < before {
            return Ok(n);
        }
    }
    match data.get(behind..) {
        Some(rest) if !rest.is_empty() => Ok(behind + write(late.end, rest)?),
        _ => Ok(data.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_left_out() {
        let written = |late: Option<Range<u64>>, most: usize| {
            let mut parts = Vec::new();
            let n = write_late(late, 100, &[7; 50], |offset, data| {
                parts.push((offset, data.len()));
                Ok(data.len().min(most))
            });
            (n.unwrap(), parts)
        };
        assert_eq!(written(None, 50), (50, vec![(100, 50)]));
        assert_eq!(written(Some(110..120), 50), (50, vec![(100, 10), (120, 30)]));
        assert_eq!(written(Some(100..150), 50), (50, vec![]));
        assert_eq!(written(Some(90..120), 50), (50, vec![(120, 30)]));
        assert_eq!(written(Some(140..200), 50), (50, vec![(100, 40)]));
        assert_eq!(written(Some(110..120), 7), (7, vec![(100, 10)]));
    }
}
