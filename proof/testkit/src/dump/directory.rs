//! What a real directory holds, through the kernel: a mount of ours, or of the kernel's own ext4.

use super::name_text;
use super::{Entry, Snapshot};
use crate::model::Content;
use crate::op::{Flags, Path};
use ondol_env::Timestamp;
use ondol_volume::FileType;
use rustix::fs::SeekFrom;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Walks a directory; other file systems mounted below it are not told apart.
///
/// # Errors
/// The first failure of a call.
pub fn of_directory(root: &std::path::Path) -> io::Result<Snapshot> {
    let mut snapshot = Snapshot { block_size: Some(rustix::fs::statvfs(root)?.f_bsize), ..Snapshot::default() };
    let mut inos = BTreeMap::new();
    let mut todo = vec![(Path::root(), root.to_owned())];
    while let Some((path, real)) = todo.pop() {
        let meta = std::fs::symlink_metadata(&real)?;
        if meta.is_dir() {
            for entry in std::fs::read_dir(&real)? {
                let entry = entry?;
                todo.push((path.join(&name_text(entry.file_name().as_bytes())), entry.path()));
            }
        }
        snapshot.entries.insert(path.clone(), entry(&real, &meta)?);
        inos.insert(path, meta.ino());
    }
    snapshot.name_groups(&inos);
    Ok(snapshot)
}

fn entry(path: &std::path::Path, meta: &Metadata) -> io::Result<Entry> {
    let kind = kind_of(meta);
    let rdev = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let target = if kind == FileType::Symlink { std::fs::read_link(path)? } else { Default::default() };
    Ok(Entry {
        kind,
        perm: (meta.mode() & 0o7777) as u16,
        uid: meta.uid(),
        gid: meta.gid(),
        nlink: meta.nlink() as u32,
        content: if kind == FileType::Regular { content(path, meta.len())? } else { Content::default() },
        target: target.as_os_str().as_bytes().to_vec(),
        rdev: if matches!(kind, FileType::CharDevice | FileType::BlockDevice) { rdev } else { (0, 0) },
        xattrs: xattrs(path)?,
        mtime: Some(Timestamp { sec: meta.mtime(), nsec: meta.mtime_nsec() as u32 }),
        flags: if matches!(kind, FileType::Regular | FileType::Directory) { flags(path)? } else { None },
        group: String::new(),
    })
}

fn flags(path: &std::path::Path) -> io::Result<Option<u32>> {
    use rustix::io::Errno;
    match rustix::fs::ioctl_getflags(File::open(path)?) {
        Ok(flags) => Ok(Some(flags.bits() & Flags::KNOWN)),
        Err(Errno::NOTTY | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn kind_of(meta: &Metadata) -> FileType {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => FileType::Directory,
        () if kind.is_symlink() => FileType::Symlink,
        () if kind.is_fifo() => FileType::Fifo,
        () if kind.is_socket() => FileType::Socket,
        () if kind.is_char_device() => FileType::CharDevice,
        () if kind.is_block_device() => FileType::BlockDevice,
        () => FileType::Regular,
    }
}

fn content(path: &std::path::Path, size: u64) -> io::Result<Content> {
    let mut file = File::open(path)?;
    let mut content = Content::default();
    let mut buf = vec![0; 64 * 1024];
    let mut at = 0;
    while at < size {
        at = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(at) => at,
            Err(rustix::io::Errno::NXIO) => break,
            // No SEEK_DATA here: read everything.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => at,
            Err(e) => return Err(e.into()),
        };
        file.seek(io::SeekFrom::Start(at))?;
        let n = file.read(&mut buf)?;
        if n == 0 {
            break;
        }
        content.write(at, &buf[..n]);
        at += n as u64;
    }
    content.set_len(size);
    Ok(content)
}

fn xattrs(path: &std::path::Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut names = vec![0; 64 * 1024];
    let n = match rustix::fs::llistxattr(path, &mut names) {
        Ok(n) => n,
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(e) => return Err(e.into()),
    };
    let mut found = BTreeMap::new();
    for name in names[..n].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 * 1024];
        let len = rustix::fs::lgetxattr(path, name, &mut value)?;
        value.truncate(len);
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}
