//! Bringing what is live of a file into it.

use crate::Log;
use crate::client::wall_ns;
use crate::error::Result;
use crate::format::HORIZON_NS;
use crate::look::{Identity, Look};
use crate::newest::Piece;
use crate::recover::elsewhere::Elsewhere;
use crate::recover::place::{For, Place};
use crate::recover::{FoundFile, Outcome};
use rustix::fs::Advice;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How long a recovery may have written to a file before it was cut: nanoseconds.
const RECOVERY_NS: u64 = 60_000_000_000;

/// What is to be done with a file that was found.
enum Plan {
    Nothing,
    Write,
    Beside,
}

pub(super) fn bring(
    log: &Log,
    elsewhere: &mut Elsewhere,
    identity: &Identity,
    file: &FoundFile,
    same_boot: bool,
) -> Result<Outcome> {
    let (target, path) = match elsewhere.find(identity, For::Write) {
        Place::Here(target, path) => (target, path),
        Place::Gone => return Ok(Outcome::Gone),
        Place::Unknown(why) | Place::Hidden(why, _) => return Ok(Outcome::Unreachable(why)),
    };
    let pieces = file.pieces();
    let slot = log.slot(file.slot);
    let begun = slot.recovering(file.incarnation)?;
    let refused = slot.has_failed()?;
    let done = match plan(&target, file, &pieces, same_boot, begun) {
        // The page cache has what the disk has refused, as if it were there.
        Ok(Plan::Nothing) if refused => {
            forget(&target, &pieces).and_then(|()| write(&target, file, &pieces)).map(Outcome::Replayed)
        }
        Ok(Plan::Nothing) => target.sync_all().map(|()| Outcome::Whole),
        Ok(Plan::Write) => {
            if begun.is_none() {
                slot.begin_recovery(file.incarnation, wall_ns())?;
            }
            write(&target, file, &pieces).map(Outcome::Replayed)
        }
        Ok(Plan::Beside) => beside(&path.unwrap_or_else(|| identity.path.clone()), file, &pieces, log.epoch()),
        Err(e) => Err(e),
    };
    Ok(done.unwrap_or_else(|e| Outcome::Unreachable(format!("{}: {e}", identity.path.display()))))
}

fn plan(target: &File, file: &FoundFile, pieces: &[Piece], same_boot: bool, begun: Option<u64>) -> io::Result<Plan> {
    let now = Look::at(target.as_fd())?;
    let same_cache = same_boot && now.dev == file.dev;
    if same_cache && has(target, file, pieces)? {
        return Ok(Plan::Nothing);
    }
    let Some(last) = file.records.last() else { return Ok(Plan::Nothing) };
    let horizon = last.mtime.saturating_add(if same_cache { 0 } else { HORIZON_NS });
    // The word has milliseconds.
    let by_recovery = begun.is_some_and(|begun| (begun..=begun.saturating_add(RECOVERY_NS)).contains(&now.mtime));
    let ours = now.size >= last.base_size && ((last.base_mtime..=horizon).contains(&now.mtime) || by_recovery);
    Ok(if ours { Plan::Write } else { Plan::Beside })
}

/// Writes what was logged of a file into one beside it.
pub(super) fn beside(path: &Path, file: &FoundFile, pieces: &[Piece], epoch: u64) -> io::Result<Outcome> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".ondol-{epoch}-{}", file.slot));
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    write(&options.open(&beside)?, file, pieces)?;
    if let Some(dir) = beside.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(Outcome::Beside(beside))
}

fn part<'f>(file: &'f FoundFile, piece: &Piece) -> &'f [u8] {
    file.records.get(piece.record).and_then(|record| record.bytes.get(piece.part.clone())).unwrap_or_default()
}

/// The file has everything that was logged.
pub(super) fn has(target: &File, file: &FoundFile, pieces: &[Piece]) -> io::Result<bool> {
    if let Some((_, len)) = file.lengths()
        && target.metadata()?.len() != len
    {
        return Ok(false);
    }
    for piece in pieces {
        let mut bytes = vec![0; piece.part.len()];
        match target.read_exact_at(&mut bytes, piece.offset) {
            Ok(()) if bytes == part(file, piece) => {}
            Ok(()) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

/// Lets the page cache forget what the disk has refused: ext4 takes blocks whose first write has failed for written ones as long as it has the pages, and what is written once more would read as zeros later.
fn forget(target: &File, pieces: &[Piece]) -> io::Result<()> {
    let page = rustix::param::page_size() as u64;
    for piece in pieces {
        let (start, end) = (piece.offset / page * page, piece.offset + piece.part.len() as u64);
        let len = NonZeroU64::new(end.next_multiple_of(page) - start);
        rustix::fs::fadvise(target, start, len, Advice::DontNeed)?;
    }
    Ok(())
}

/// Writes what was logged into the file, and syncs it; answers how many bytes.
pub(super) fn write(target: &File, file: &FoundFile, pieces: &[Piece]) -> io::Result<u64> {
    let mut written = 0;
    if let Some((shortest, _)) = file.lengths()
        && target.metadata()?.len() > shortest
    {
        target.set_len(shortest)?;
    }
    for piece in pieces {
        target.write_all_at(part(file, piece), piece.offset)?;
        written += piece.part.len() as u64;
    }
    if let Some((_, len)) = file.lengths() {
        target.set_len(len)?;
    }
    target.sync_all()?;
    Ok(written)
}
