//! Which programs take the library: those of glibc's loader that have nothing else that must come first.
//!
//! Also a part of `ondol run`, which asks the same before it starts its program. Nothing here allocates: a child of
//! vfork(2) may ask.

use object::NativeEndian;
use object::elf::{DT_NEEDED, DT_STRTAB, FileHeader64, PT_LOAD, ProgramHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadRef, Result as Told};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, fstat, openat};
use rustix::io::fcntl_dupfd_cloexec;
use std::cell::Cell;
use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

/// How many scripts may begin each other; the kernel's bound is about the same.
const SCRIPTS: u32 = 5;
/// Bytes of a path, and of the line that names a script's program.
const PATH: usize = 4096;
const LINE: usize = 256;
/// Bytes that are read of a program; one of which more is needed is taken to fit.
const ROOM: usize = 8192;
/// Runtimes of sanitizers, which end a program where anything is loaded before them.
const SANITIZERS: [&[u8]; 6] = [b"libasan.", b"libtsan.", b"libmsan.", b"liblsan.", b"libubsan.", b"libhwasan."];

/// Why of a static program. The library stays in its environment, for those that it starts.
pub(crate) const STATIC: &str = "nothing is loaded into a static program";

/// Why the program at a path does not take the library, or the one that is open where that is empty; none if it does,
/// or nobody knows.
pub(crate) fn why_not_at(dir: BorrowedFd<'_>, path: &CStr) -> Option<&'static str> {
    let open = |dir: BorrowedFd<'_>, path: &CStr| match path.is_empty() {
        true => fcntl_dupfd_cloexec(dir, 0),
        false => openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty()),
    };
    let mut program: OwnedFd = open(dir, path).ok()?;
    for _ in 0..SCRIPTS {
        let mut line = [0; LINE];
        let read = rustix::io::pread(&program, &mut line[..LINE - 1], 0).ok()?;
        let Some(words) = line[..read].strip_prefix(b"#!") else { return of_elf(&program) };
        let begin = 2 + words.iter().position(|byte| !b" \t".contains(byte))?;
        let end = begin + line[begin..].iter().position(|byte| b" \t\n\0".contains(byte))?;
        line[end] = 0;
        program = open(CWD, CStr::from_bytes_until_nul(&line[begin..]).ok()?).ok()?;
    }
    None
}

/// As [`why_not_at`], of a program that is searched as execvp(3) does, in the directories of `PATH`.
pub(crate) fn why_not_named(name: &CStr, dirs: Option<&[u8]>) -> Option<&'static str> {
    if name.to_bytes().contains(&b'/') {
        return why_not_at(CWD, name);
    }
    dirs.unwrap_or(b"/bin:/usr/bin").split(|byte| *byte == b':').find_map(|dir| {
        let mut path = [0; PATH];
        let dir = if dir.is_empty() { b"." } else { dir };
        let parts = [dir, b"/", name.to_bytes_with_nul()];
        let mut rest = &mut path[..];
        for part in parts {
            let (place, after) = rest.split_at_mut_checked(part.len())?;
            place.copy_from_slice(part);
            rest = after;
        }
        let path = CStr::from_bytes_until_nul(&path).ok()?;
        accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).ok()?;
        Some(why_not_at(CWD, path))
    })?
}

fn of_elf(program: &OwnedFd) -> Option<&'static str> {
    let mut room = [0; ROOM];
    let len = fstat(program).ok()?.st_size.cast_unsigned();
    let pieces = Pieces { program, len, room: Cell::new(&mut room) };
    told(&pieces).ok()?
}

fn told<'a>(program: &'a Pieces<'a>) -> Told<Option<&'static str>> {
    let word = usize::BITS as u8 / 32;
    match program.read_bytes_at(0, 5) {
        Ok([0x7F, b'E', b'L', b'F', class]) if *class == word => {}
        Ok([0x7F, b'E', b'L', b'F', _]) => return Ok(Some("its words are of another size")),
        _ => return Ok(None),
    }
    let header = FileHeader64::<NativeEndian>::parse(program)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, program)?;
    let interpreter = segments.iter().find_map(|segment| segment.interpreter(endian, program).ok().flatten());
    let Some(interpreter) = interpreter else { return Ok(Some(STATIC)) };
    let loader = interpreter.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if !loader.starts_with(b"ld-linux") && !loader.starts_with(b"ld64.so") {
        return Ok(Some("it is no program of glibc"));
    }
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(endian, program).ok().flatten());
    let entries = dynamic.unwrap_or_default();
    let strings = entries.iter().find(|entry| entry.tag(endian) == DT_STRTAB);
    let Some(strings) = strings.and_then(|entry| offset(segments, endian, entry.val(endian))) else { return Ok(None) };
    let needed = entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    let sanitized = needed.map(|entry| strings.saturating_add(entry.val(endian))).any(|at| {
        let most = SANITIZERS.iter().map(|name| name.len()).max().unwrap_or_default() as u64;
        let name = program.read_bytes_at(at, most.min(program.len.saturating_sub(at))).unwrap_or_default();
        SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer))
    });
    Ok(sanitized.then_some("it is built with a sanitizer, which must be loaded first"))
}

/// Where in the file an address is.
fn offset(segments: &[ProgramHeader64<NativeEndian>], endian: NativeEndian, address: u64) -> Option<u64> {
    segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within))?
    })
}

/// The pieces of a program that were read, as far as there is room.
struct Pieces<'a> {
    program: &'a OwnedFd,
    len: u64,
    room: Cell<&'a mut [u8]>,
}

impl<'a> ReadRef<'a> for &'a Pieces<'a> {
    fn len(self) -> Result<u64, ()> {
        Ok(self.len)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        let size = usize::try_from(size).map_err(drop)?;
        let (piece, rest) = self.room.take().split_at_mut_checked(size).ok_or(())?;
        self.room.set(rest);
        let read = rustix::io::pread(self.program, &mut *piece, offset).map_err(drop)?;
        if read == size { Ok(piece) } else { Err(()) }
    }

    fn read_bytes_at_until(self, _range: Range<u64>, _delimiter: u8) -> Result<&'a [u8], ()> {
        // Nothing here is read so.
        Err(())
    }
}
