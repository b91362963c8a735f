//! What the tests of transactions share: trails, what a volume holds, and steps done as operations of their own.

use ondol_volume::{
    Attr, Caller, Error, FileType, Ino, ROOT, Rename, SetAttr, SetXattr, StatFs, Step, Trail, TransactionError, Volume,
};
use std::collections::BTreeMap;

/// Root, as the owner of everything that tests make.
pub(crate) const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// The names of a path.
pub(crate) fn trail(path: &str) -> Trail {
    path.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect()
}

pub(crate) fn create(path: &str) -> Step {
    Step::Create { at: trail(path), perm: 0o644, keep: false }
}

pub(crate) fn create_dir(path: &str) -> Step {
    Step::CreateDir { at: trail(path), perm: 0o755 }
}

pub(crate) fn write_at(path: &str, offset: u64, bytes: &[u8]) -> Step {
    Step::WriteAt { at: trail(path), offset, bytes: bytes.to_vec() }
}

pub(crate) fn append(path: &str, bytes: &[u8]) -> Step {
    Step::Append { at: trail(path), bytes: bytes.to_vec() }
}

pub(crate) fn set_len(path: &str, size: u64) -> Step {
    Step::SetLen { at: trail(path), size }
}

pub(crate) fn rename(from: &str, to: &str) -> Step {
    Step::Rename { from: trail(from), to: trail(to), how: Rename::Replace }
}

pub(crate) fn remove_file(path: &str) -> Step {
    Step::RemoveFile { at: trail(path) }
}

pub(crate) fn remove_dir(path: &str) -> Step {
    Step::RemoveDir { at: trail(path) }
}

pub(crate) fn set_xattr(path: &str, name: &str, value: &[u8]) -> Step {
    Step::SetXattr { at: trail(path), name: name.as_bytes().to_vec(), value: value.to_vec(), how: SetXattr::Any }
}

/// A file with exactly this content, whatever was there.
pub(crate) fn replace(path: &str, content: &[u8]) -> [Step; 3] {
    let keep = Step::Create { at: trail(path), perm: 0o644, keep: true };
    [keep, set_len(path, 0), write_at(path, 0, content)]
}

/// Everything that a program can see of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) file_type: FileType,
    pub(crate) perm: u16,
    pub(crate) nlink: u32,
    pub(crate) size: u64,
    /// The first name of the same inode.
    pub(crate) first: String,
    /// What a file holds or a symbolic link says.
    pub(crate) content: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All names, by path.
pub(crate) type Tree = BTreeMap<String, Seen>;

pub(crate) fn tree(vol: &Volume) -> Tree {
    let (mut all, mut firsts) = (Tree::new(), BTreeMap::new());
    see(vol, ROOT, "", &mut all, &mut firsts);
    all
}

fn see(vol: &Volume, dir: Ino, path: &str, all: &mut Tree, firsts: &mut BTreeMap<Ino, String>) {
    for (name, ino) in names(vol, dir) {
        let path = format!("{path}/{name}");
        let attr = vol.getattr(ino).expect("attributes");
        let first = firsts.entry(ino).or_insert_with(|| path.clone()).clone();
        let Attr { file_type, perm, nlink, size, .. } = attr;
        let mut xattrs = BTreeMap::new();
        for name in vol.xattrs().listxattr(ino).expect("attributes") {
            let value = vol.xattrs().getxattr(ino, &name).expect("a value");
            xattrs.insert(name, value);
        }
        let content = content(vol, &attr);
        all.insert(path.clone(), Seen { file_type, perm, nlink, size, first, content, xattrs });
        if file_type == FileType::Directory {
            see(vol, ino, &path, all, firsts);
        }
    }
}

/// The entries of a directory but "." and "..".
pub(crate) fn names(vol: &Volume, dir: Ino) -> BTreeMap<String, Ino> {
    let mut names = BTreeMap::new();
    vol.names()
        .readdir(dir, 0, &mut |e| {
            if e.name != b"." && e.name != b".." {
                names.insert(String::from_utf8_lossy(e.name).into_owned(), e.ino);
            }
            true
        })
        .expect("a listing");
    names
}

fn content(vol: &Volume, attr: &Attr) -> Vec<u8> {
    match attr.file_type {
        FileType::Regular => {
            let mut bytes = vec![0xEE; attr.size as usize];
            assert_eq!(vol.files().read(attr.ino, 0, &mut bytes).expect("content"), bytes.len());
            bytes
        }
        FileType::Symlink => vol.names().readlink(attr.ino).expect("a target"),
        _ => Vec::new(),
    }
}

/// Everything that must not change when a transaction is refused.
pub(crate) fn state(vol: &Volume) -> (Tree, StatFs) {
    (tree(vol), vol.statfs())
}

/// The inode that a path leads to.
pub(crate) fn find(vol: &Volume, path: &str) -> Ino {
    resolve(vol, &trail(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn resolve(vol: &Volume, trail: &[Vec<u8>]) -> Result<Ino, Error> {
    let mut at = ROOT;
    for name in trail {
        let attr = vol.getattr(at)?;
        if attr.file_type == FileType::Symlink {
            return Err(Error::Invalid("a symbolic link on the way"));
        }
        at = vol.names().lookup(at, name)?.ino;
    }
    Ok(at)
}

fn parent(vol: &Volume, trail: &Trail) -> Result<(Ino, Vec<u8>), Error> {
    let (name, above) = trail.split_last().expect("a name");
    let dir = resolve(vol, above)?;
    if vol.getattr(dir)?.file_type == FileType::Symlink {
        return Err(Error::Invalid("a symbolic link on the way"));
    }
    Ok((dir, name.clone()))
}

/// Does a step as an operation of its own.
pub(crate) fn alone(vol: &Volume, step: &Step) -> Result<(), Error> {
    match step {
        Step::Create { at, perm, keep } => {
            let (dir, name) = parent(vol, at)?;
            match vol.names().lookup(dir, &name) {
                Ok(attr) if *keep && attr.file_type == FileType::Directory => Err(Error::IsDirectory(attr.ino)),
                Ok(attr) if *keep && attr.file_type != FileType::Regular => Err(Error::Invalid("no file")),
                Ok(_) if *keep => Ok(()),
                _ => vol.names().create(dir, &name, *perm, USER).map(drop),
            }
        }
        Step::CreateDir { at, perm } => {
            let (dir, name) = parent(vol, at)?;
            vol.names().mkdir(dir, &name, *perm, USER).map(drop)
        }
        Step::Symlink { at, target } => {
            let (dir, name) = parent(vol, at)?;
            vol.names().symlink(dir, &name, target, USER).map(drop)
        }
        Step::HardLink { original, at } => {
            let ino = resolve(vol, original)?;
            let (dir, name) = parent(vol, at)?;
            vol.names().link(ino, dir, &name).map(drop)
        }
        Step::Rename { from, to, how } => {
            let ((from, from_name), (to, to_name)) = (parent(vol, from)?, parent(vol, to)?);
            vol.names().rename(from, &from_name, to, &to_name, *how)
        }
        Step::RemoveFile { at } => parent(vol, at).and_then(|(dir, name)| vol.names().unlink(dir, &name)),
        Step::RemoveDir { at } => parent(vol, at).and_then(|(dir, name)| vol.names().rmdir(dir, &name)),
        Step::WriteAt { at, offset, bytes } => vol.files().write(resolve(vol, at)?, *offset, bytes).map(drop),
        Step::Append { at, bytes } => vol.files().append(resolve(vol, at)?, bytes).map(drop),
        Step::SetLen { at, size } => vol.files().truncate(resolve(vol, at)?, *size),
        Step::SetPermissions { at, perm } => {
            let set = SetAttr { perm: Some(*perm), ..SetAttr::default() };
            vol.inode_ops().setattr(followed(vol, at)?, &set).map(drop)
        }
        Step::SetXattr { at, name, value, how } => vol.xattrs().setxattr(followed(vol, at)?, name, value, *how),
        Step::RemoveXattr { at, name } => vol.xattrs().removexattr(followed(vol, at)?, name),
    }
}

/// The inode at the end of a trail, unless it is a symbolic link, which would have to be followed.
fn followed(vol: &Volume, at: &Trail) -> Result<Ino, Error> {
    let ino = resolve(vol, at)?;
    match vol.getattr(ino)?.file_type {
        FileType::Symlink => Err(Error::Invalid("a symbolic link")),
        _ => Ok(ino),
    }
}

/// Does it, and expects it to be possible.
pub(crate) fn apply(vol: &Volume, steps: &[Step]) {
    vol.apply(steps, USER).unwrap_or_else(|e| panic!("step {:?}: {e}", e.step));
}

/// Expects a refusal that changes nothing.
pub(crate) fn refused(vol: &Volume, steps: &[Step]) -> TransactionError {
    let before = state(vol);
    let e = vol.apply(steps, USER).expect_err("a refusal");
    assert!(state(vol) == before, "a refused transaction ({e}) changed something");
    e
}
