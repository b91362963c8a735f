//! What a volume holds, through its inode-level calls.

use super::{Entry, Snapshot, name_text};
use crate::model::Content;
use crate::op::{Flags, Path};
use ondol_volume::{Attr, Error, FileType, Ino, ROOT, Result, Seek, Volume};
use std::collections::BTreeMap;

/// Walks a volume from its root.
///
/// # Errors
/// The volume's first failure, or a directory tree that is no tree.
pub fn of_volume(volume: &Volume) -> Result<Snapshot> {
    let mut snapshot = Snapshot { block_size: Some(volume.statfs().block_size.into()), ..Snapshot::default() };
    let mut inos = BTreeMap::new();
    let mut dirs = std::collections::BTreeSet::new();
    let mut todo = vec![(Path::root(), ROOT)];
    while let Some((path, ino)) = todo.pop() {
        let attr = volume.getattr(ino)?;
        if attr.file_type == FileType::Directory {
            if !dirs.insert(ino) {
                return Err(Error::Invalid("a directory has two names"));
            }
            todo.extend(names(volume, ino)?.into_iter().map(|(name, ino)| (path.join(&name), ino)));
        }
        snapshot.entries.insert(path.clone(), entry(volume, &attr)?);
        inos.insert(path, ino);
    }
    snapshot.name_groups(&inos);
    Ok(snapshot)
}

/// The names in a directory but `.` and `..`.
fn names(volume: &Volume, dir: Ino) -> Result<Vec<(String, Ino)>> {
    let mut found = Vec::new();
    volume.names().readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            found.push((name_text(entry.name), entry.ino));
        }
        true
    })?;
    Ok(found)
}

fn entry(volume: &Volume, attr: &Attr) -> Result<Entry> {
    let ino = attr.ino;
    let mut xattrs = BTreeMap::new();
    for name in volume.xattrs().listxattr(ino)? {
        let value = volume.xattrs().getxattr(ino, &name)?;
        xattrs.insert(name, value);
    }
    Ok(Entry {
        kind: attr.file_type,
        perm: attr.perm,
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink,
        content: if attr.file_type == FileType::Regular { content(volume, attr)? } else { Content::default() },
        target: if attr.file_type == FileType::Symlink { volume.names().readlink(ino)? } else { Vec::new() },
        rdev: (attr.rdev.major, attr.rdev.minor),
        xattrs,
        mtime: Some(attr.mtime),
        flags: match attr.file_type {
            FileType::Regular | FileType::Directory => Some(volume.inode_ops().flags(ino)? & Flags::KNOWN),
            _ => None,
        },
        group: String::new(),
    })
}

/// Reads the stored parts of a file.
fn content(volume: &Volume, attr: &Attr) -> Result<Content> {
    let mut content = Content::default();
    let mut buf = vec![0; 64 * 1024];
    let mut at = 0;
    while at < attr.size {
        at = match volume.files().seek(attr.ino, at, Seek::Data) {
            Ok(at) => at,
            Err(Error::PastEnd) => break,
            Err(e) => return Err(e),
        };
        let n = volume.files().read(attr.ino, at, &mut buf)?;
        if n == 0 {
            break;
        }
        content.write(at, &buf[..n]);
        at += n as u64;
    }
    content.set_len(attr.size);
    Ok(content)
}
