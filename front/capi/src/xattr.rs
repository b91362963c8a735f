//! Extended attributes.

use crate::call::{Failure, Result, call, counting, needed};
use crate::memory::{Bytes, Room, Text};
use crate::volume::Volume;
use ondol::SetXattr;
use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt;

/// What setxattr(2)'s flags ask for.
pub(crate) fn how(flags: c_int) -> Result<SetXattr> {
    match flags {
        0 => Ok(SetXattr::Any),
        libc::XATTR_CREATE => Ok(SetXattr::Create),
        libc::XATTR_REPLACE => Ok(SetXattr::Replace),
        _ => Err(Failure::invalid(format!("flags {flags:#x} are not XATTR_CREATE or XATTR_REPLACE"))),
    }
}

/// Puts all of it into the room, or says how long it is where there is none.
fn given(found: &[u8], mut buffer: Room, size: usize) -> Result<u64> {
    if size > 0 {
        let room = buffer.slice(size)?.get_mut(..found.len());
        let room = room.ok_or_else(|| Failure::new(libc::ERANGE, format!("there are {} bytes", found.len())))?;
        room.copy_from_slice(found);
    }
    Ok(found.len() as u64)
}

/// The value of an extended attribute, as getxattr(2): returns how many bytes it has, and stores none with `size` 0.
/// -ERANGE where they do not fit, -ENODATA where there is no such attribute. Symbolic links are followed.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_getxattr(volume: Option<&Volume>, path: Text, name: Text, buffer: Room, size: usize) -> i64 {
    counting(|| {
        let found = needed(volume, "volume")?.0.attributes().get(path.path("path")?, name.needed("name")?)?;
        given(&found, buffer, size)
    })
}

/// The names of all extended attributes, each with a zero byte behind it, as listxattr(2): returns how many bytes they
/// have, and stores none with `size` 0.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_listxattr(volume: Option<&Volume>, path: Text, buffer: Room, size: usize) -> i64 {
    counting(|| {
        let names = needed(volume, "volume")?.0.attributes().names(path.path("path")?)?;
        let found: Vec<u8> = names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
        given(&found, buffer, size)
    })
}

/// Sets an extended attribute, atomically; `flags` is 0, XATTR_CREATE or XATTR_REPLACE.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_setxattr(
    volume: Option<&Volume>,
    path: Text,
    name: Text,
    value: Bytes,
    size: usize,
    flags: c_int,
) -> c_int {
    call(|| {
        let volume = &needed(volume, "volume")?.0;
        Ok(volume.attributes().set(path.path("path")?, name.needed("name")?, value.slice(size)?, how(flags)?)?)
    })
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_removexattr(volume: Option<&Volume>, path: Text, name: Text) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.attributes().remove(path.path("path")?, name.needed("name")?)?))
}
