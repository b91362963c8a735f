//! Listing directories.

use crate::call::{call, needed};
use crate::memory::Text;
use crate::volume::Volume;
use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;

/// A directory that is being listed.
pub struct Dir {
    entries: ondol::ReadDir,
    /// Of the entry that was listed last.
    name: CString,
}

/// An entry of a directory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name: valid until the next call with this directory.
    pub name: *const c_char,
    /// The inode that it names.
    pub ino: u64,
    /// The type of what it names, as the type bits of st_mode; of a symbolic link that, and not its target's.
    pub mode: u32,
}

/// Opens a directory to be listed.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_dir_open(
    volume: Option<&Volume>,
    path: Text,
    dir: Option<&mut MaybeUninit<Option<Box<Dir>>>>,
) -> c_int {
    call(|| {
        let room = needed(dir, "dir")?;
        let entries = needed(volume, "volume")?.0.read_dir(path.path("path")?)?;
        room.write(Some(Box::new(Dir { entries, name: CString::default() })));
        Ok(())
    })
}

/// The next entry; "." and ".." are left out. Returns 1 with an entry, and 0 after the last. Entries come in no
/// particular order, each exactly once if it is there all the while.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_dir_next(dir: Option<&mut Dir>, entry: Option<&mut MaybeUninit<Entry>>) -> c_int {
    let mut has_more = false;
    let done = call(|| {
        let (dir, room) = (needed(dir, "dir")?, needed(entry, "entry")?);
        let Some(next) = dir.entries.next() else { return Ok(()) };
        let next = next?;
        let mode = u32::from(next.file_type()?.mode_bits());
        // No name has a zero byte.
        dir.name = CString::new(next.file_name().into_vec()).unwrap_or_default();
        room.write(Entry { name: dir.name.as_ptr(), ino: next.ino().into(), mode });
        has_more = true;
        Ok(())
    });
    if has_more { 1 } else { done }
}

/// Ends a listing. NULL is no error.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_dir_close(dir: Option<Box<Dir>>) -> c_int {
    call(|| {
        drop(dir);
        Ok(())
    })
}
