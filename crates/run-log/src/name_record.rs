//! Records of names: their bytes. `docs/design/run.md` has the same.
//!
//! Each change sets the ctime in the same transaction of the kernel's journal and after the change itself, so there is
//! nothing to wait for. The library adds a real fsync that begins trust at the second young new file that is synced.
//!
//! - *create*: with `O_EXCL`, so that it is known who made the file; it is trusted from birth.
//! - *remove*, of the last name: the record is durable, then the file's records are retired. *unlink*: it has other
//!   names.
//! - *rename*, *link*: the file's records are made durable first, as the kernel writes data back before a replacement.
//!   Of two directories it is one record, *move*, so that it is durable in both or in neither.
//! - an fsync of a file makes the newest record of its names durable, too.
//!
//! Everything else (directories, symbolic links, files that are not trusted, exchanges) is the kernel's, and takes
//! trust away before, and after if trust has come meanwhile. Before a file without a slot gets a further name without
//! the log, it gets one; who removes a name without the log holds the file's lock.

use crate::handle::Handle;
use crate::look::Subject;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What was done with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file was made.
    Create,
    /// A file's last name was removed.
    Remove,
    /// A file was given another name in the same directory.
    Rename,
    /// A file was given one more name.
    Link,
    /// A name was removed of a file that has others.
    Unlink,
    /// A file was given another name in another directory, and this is the one that it came to.
    Arrive,
    /// As [`Change::Arrive`], and this is the directory that it left. Both are one record.
    Leave,
}

impl Change {
    /// As they are numbered. One record is both an arrival and a leave.
    const ALL: [Self; 6] = [Self::Create, Self::Remove, Self::Rename, Self::Link, Self::Unlink, Self::Arrive];
}

/// A change of names in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Which.
    pub change: Change,
    /// The name that is made or removed; the new one of a rename.
    pub name: Vec<u8>,
    /// The old name of a rename; of an arrival in the other directory.
    pub old: Vec<u8>,
}

/// A change that was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRecord {
    /// Its place in the order of all records.
    pub sequence: u64,
    /// ctime of the directory after it: nanoseconds.
    pub ctime: u64,
    /// What was done.
    pub names: Names,
    /// The file's inode.
    pub ino: u64,
    /// The file's handle.
    pub handle: Handle,
    /// Handle of the file that had the new name before, and no other.
    pub replaced: Option<Handle>,
    /// Permissions of a file that was made (`st_mode`).
    pub mode: u32,
    /// The user it belongs to.
    pub uid: u32,
    /// The group it belongs to.
    pub gid: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    change: u8,
    handle_len: u8,
    replaced_len: u8,
    reserved: u8,
    handle_type: U32,
    replaced_type: U32,
    mode: U32,
    uid: U32,
    gid: U32,
    name_len: U16,
    old_len: U16,
    ino: U64,
}

impl Names {
    /// The payload of a record. Handles of more than 255 bytes do not exist (`MAX_HANDLE_SZ` is 128).
    pub(crate) fn encode(&self, subject: &Subject, replaced: Option<&Subject>) -> Vec<u8> {
        let none = Handle::default();
        let over = replaced.map_or(&none, |replaced| &replaced.handle);
        let raw = Raw {
            change: Change::ALL.iter().position(|change| *change == self.change).unwrap_or(0) as u8,
            handle_len: subject.handle.bytes.len() as u8,
            replaced_len: over.bytes.len() as u8,
            reserved: 0,
            handle_type: subject.handle.kind.cast_unsigned().into(),
            replaced_type: over.kind.cast_unsigned().into(),
            mode: subject.mode.into(),
            uid: subject.uid.into(),
            gid: subject.gid.into(),
            name_len: (self.name.len() as u16).into(),
            old_len: (self.old.len() as u16).into(),
            ino: subject.look.ino.into(),
        };
        [raw.as_bytes(), &subject.handle.bytes, &over.bytes, &self.name, &self.old].concat()
    }
}

/// It can be a name in a directory.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && name.len() <= 255 && !name.contains(&b'/') && !name.contains(&0)
}

impl NameRecord {
    /// The file that lost its last name.
    pub fn dead(&self) -> Option<&Handle> {
        if self.names.change == Change::Remove { Some(&self.handle) } else { self.replaced.as_ref() }
    }

    /// A file was made.
    pub(crate) fn is_birth(&self) -> bool {
        self.names.change == Change::Create
    }

    /// The files that it names.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Handle> {
        [&self.handle].into_iter().chain(&self.replaced)
    }

    /// Reads a payload, for the directory that a file has left if `left`; none if it makes no sense.
    pub(crate) fn decode(sequence: u64, ctime: u64, payload: &[u8], left: bool) -> Option<Self> {
        let (raw, mut rest) = Raw::read_from_prefix(payload).ok()?;
        let mut take = |len: usize| {
            let (first, behind) = rest.split_at_checked(len)?;
            rest = behind;
            Some(first.to_vec())
        };
        let handle = take(raw.handle_len.into())?;
        let replaced = take(raw.replaced_len.into())?;
        let (name, old) = (take(raw.name_len.get().into())?, take(raw.old_len.get().into())?);
        let change = *Change::ALL.get(usize::from(raw.change))?;
        let has_old = matches!(change, Change::Rename | Change::Arrive);
        let named = is_name(&name) && if has_old { is_name(&old) } else { old.is_empty() };
        let kinds = [raw.handle_type.get(), raw.replaced_type.get()].map(u32::cast_signed);
        let replaced = (!replaced.is_empty()).then_some(Handle { kind: kinds[1], bytes: replaced });
        let names = match (change, left) {
            (Change::Arrive, true) => Names { change: Change::Leave, name: old, old: Vec::new() },
            (_, true) => return None,
            (_, false) => Names { change, name, old },
        };
        let replaced = replaced.filter(|_| !left);
        (rest.is_empty() && named && !handle.is_empty()).then_some(Self {
            sequence,
            ctime,
            names,
            ino: raw.ino.get(),
            handle: Handle { kind: kinds[0], bytes: handle },
            replaced,
            mode: raw.mode.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;

    #[test]
    fn what_is_written_is_read_and_what_makes_no_sense_is_not() {
        let file = |n: u8| Subject {
            look: Look { ino: n.into(), ..Look::default() },
            handle: Handle { kind: n.into(), bytes: vec![n; 8] },
            links: 1,
            mode: 0o100_640,
            uid: 7,
            gid: 8,
        };
        let names = Names { change: Change::Rename, name: b"new".to_vec(), old: b"old name".to_vec() };
        let bytes = names.encode(&file(3), Some(&file(4)));
        let read = NameRecord::decode(5, 6, &bytes, false).unwrap();
        assert_eq!(
            (read.names.clone(), read.handle.clone(), read.replaced.clone()),
            (names, file(3).handle, Some(file(4).handle))
        );
        assert_eq!((read.sequence, read.ctime, read.mode, read.uid, read.gid), (5, 6, 0o100_640, 7, 8));
        assert_eq!((read.ino, NameRecord::decode(5, 6, &bytes, true)), (3, None));
        for len in 0..bytes.len() {
            assert_eq!(NameRecord::decode(5, 6, &bytes[..len], false), None, "{len}");
        }
        for (change, name, old) in [
            (Change::Create, &b"a/b"[..], &b""[..]),
            (Change::Create, b"..", b""),
            (Change::Remove, b"", b""),
            (Change::Link, b"a", b"b"),
            (Change::Rename, b"a", b""),
            (Change::Arrive, b"a", b""),
        ] {
            let names = Names { change, name: name.to_vec(), old: old.to_vec() };
            assert_eq!(NameRecord::decode(1, 1, &names.encode(&file(1), None), false), None, "{names:?}");
        }
    }

    #[test]
    fn a_move_is_read_for_both_directories() {
        let file = Subject { handle: Handle { kind: 1, bytes: vec![2; 8] }, ..Subject::default() };
        let over = Subject { handle: Handle { kind: 1, bytes: vec![3; 8] }, ..Subject::default() };
        let names = Names { change: Change::Arrive, name: b"new".to_vec(), old: b"old".to_vec() };
        let bytes = names.encode(&file, Some(&over));
        let [came, left] = [false, true].map(|left| NameRecord::decode(5, 6, &bytes, left).unwrap());
        assert_eq!((came.names, came.replaced), (names, Some(over.handle)));
        let names = Names { change: Change::Leave, name: b"old".to_vec(), old: Vec::new() };
        assert_eq!((left.names, left.replaced, left.handle), (names, None, file.handle));
    }
}
