//! Images as files with holes: most of an image is empty, and memory that is never touched costs nothing.

use ondol_block::BlockStore;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PIECE: usize = 64 * 1024;

/// Writes a file that has holes where `bytes` are zeros.
///
/// # Errors
/// The file cannot be written.
pub fn write_sparse(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    bytes.chunks(PIECE).enumerate().try_for_each(|(i, piece)| write_piece(&file, i, piece))
}

/// As [`write_sparse`], what is on a store.
///
/// # Errors
/// The store cannot be read, or the file not be written.
pub fn write_store(path: &Path, store: &dyn BlockStore) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(store.size())?;
    let size = usize::try_from(store.size()).map_err(io::Error::other)?;
    let mut piece = vec![0; PIECE];
    for i in 0..size.div_ceil(PIECE) {
        let at = i * PIECE;
        let piece = &mut piece[..PIECE.min(size - at)];
        store.read(at as u64, piece).map_err(io::Error::other)?;
        write_piece(&file, i, piece)?;
    }
    Ok(())
}

fn write_piece(file: &File, i: usize, piece: &[u8]) -> io::Result<()> {
    if ondol_power::is_zero(piece) { Ok(()) } else { file.write_all_at(piece, (i * PIECE) as u64) }
}

/// The contents of a file, of which only what is not a hole is read.
///
/// # Errors
/// The file cannot be read.
pub fn read_sparse(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    let mut at = 0;
    loop {
        let start = match seek(&file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(bytes),
            Err(e) => return Err(e.into()),
        };
        at = seek(&file, SeekFrom::Hole(start))?;
        file.read_exact_at(&mut bytes[start as usize..at as usize], start)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, read_sparse, write_sparse, write_store};

    #[test]
    fn what_is_written_is_read() {
        let dir = crate::image::scratch_dir().unwrap();
        let path = dir.path().join("file");
        let mut bytes = vec![0; 9 * PIECE + 77];
        for at in [3 * PIECE + 5, 4 * PIECE, 9 * PIECE + 76] {
            bytes[at] = 1;
            write_sparse(&path, &bytes).unwrap();
            assert!(read_sparse(&path).unwrap() == bytes);
            write_store(&path, &ondol_block::RamStore::from_bytes(bytes.clone())).unwrap();
            assert!(read_sparse(&path).unwrap() == bytes);
        }
        for empty in [vec![], vec![0; 5000]] {
            write_sparse(&path, &empty).unwrap();
            assert!(read_sparse(&path).unwrap() == empty);
        }
    }
}
