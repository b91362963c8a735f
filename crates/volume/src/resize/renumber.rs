//! Inodes behind the last that a smaller volume has get other numbers.
//!
//! Checksums of an inode's blocks begin with its number and its generation. The inode gets the one generation with
//! which they stay right, so that only the inode itself, what names it and the bitmaps change. What names it: entries
//! of directories (`.` and `..` among them), attributes whose value it is, and the superblock. All of that is one
//! transaction.

use super::shrink::Shrink;
use super::{ResizeStep, shape};
use crate::image::corrupt;
use crate::inline::{self, IN_BLOCK, is_inline};
use crate::{Error, Ino, Result};
use ondol_env::sync::Arc;
use ondol_format::dirent::DirBlock;
use ondol_format::group::{DescCsum, INODE_UNINIT, INODE_ZEROED};
use ondol_format::inode::InodeFlags;
use ondol_format::xattr::{self, Xattr};
use ondol_format::{Compat, FormatError, Inode, Place, bitmap};
use std::collections::HashMap;

/// Bytes of an inode's own directory entries before its list, where they lie in it: the parent.
const PARENT: usize = 4;
/// Where `..` stands in a directory's first block.
const DOTDOT: usize = 12;

/// What names an inode.
#[derive(Clone, Copy, Debug)]
enum Name {
    /// An entry in a block, whose checksum begins with `seed`; the block heads an index.
    Entry { block: u64, offset: usize, heads: bool, seed: Option<u32> },
    /// An entry in this directory's own inode.
    Inline { dir: Ino, offset: usize },
    /// An attribute in this inode.
    Attribute { of: Ino },
    /// One in a block of attributes.
    Shared { block: u64 },
}

type Names = HashMap<Ino, Vec<Name>>;

impl Shrink {
    /// Gives every inode behind the last that stays another number.
    pub(super) fn move_inodes(&mut self, tell: &mut dyn FnMut(ResizeStep)) -> Result<()> {
        let last = shape::groups(&self.edit.sb, self.end) as u32 * self.edit.sb.inodes_per_group();
        let mut moving = Vec::new();
        self.edit.each_inode(&mut |ino, _| {
            if ino > last {
                moving.push(ino);
            }
            Ok(())
        })?;
        if moving.is_empty() {
            return Ok(());
        }
        if self.edit.sb.has_compat(Compat::STABLE_INODES) {
            return Err(Error::Unsupported("other inode numbers on a volume with stable_inodes".into()));
        }
        let names = self.names_behind(last)?;
        let (mut moved, mut from) = (HashMap::new(), self.edit.sb.first_ino());
        let total = moving.len() as u64;
        for (done, ino) in (1..).zip(moving) {
            let to = self.free_inode(from, last)?;
            from = to + 1;
            self.move_inode(ino, to)?;
            moved.insert(ino, to);
            for name in names.get(&ino).into_iter().flatten() {
                self.rename(*name, ino, to, &moved)?;
            }
            if self.edit.sb.orphan_file_inum() == Some(ino) {
                self.edit.raw.s_orphan_file_inum.set(to);
                self.edit.reread()?;
            }
            self.commit_if_large()?;
            tell(ResizeStep::Inodes { done, total });
        }
        self.commit()
    }

    /// A free inode number from `from` up to `last`.
    fn free_inode(&mut self, from: Ino, last: Ino) -> Result<Ino> {
        let per_group = self.edit.sb.inodes_per_group();
        let mut index = from - 1;
        while index < last {
            let g = index / per_group;
            let map = self.edit.read_inode_bitmap(g)?;
            if let Some(found) = bitmap::find_next_zero(&map, (index % per_group) as usize, per_group as usize) {
                return Ok(g * per_group + found as u32 + 1);
            }
            index = (g + 1) * per_group;
        }
        Err(Error::NoSpace("inodes below the new size"))
    }

    fn move_inode(&mut self, ino: Ino, to: Ino) -> Result<()> {
        let mut inode = self.edit.inode(ino)?;
        let per_group = self.edit.sb.inodes_per_group();
        let (old, new) = ((ino - 1) / per_group, (to - 1) / per_group);
        self.zero_table(new)?;
        let size = usize::from(self.edit.sb.inode_size());
        let (block, offset) = self.edit.place_of(ino)?;
        let slot = &mut self.edit.edit(block)?[offset..offset + size];
        let bytes = slot.to_vec();
        slot.fill(0);
        if let Some(generation) = self.edit.sb.generation_like(to, ino, inode.generation) {
            inode.generation = generation;
        }
        let (block, offset) = self.edit.place_of(to)?;
        self.edit.edit(block)?[offset..offset + size].copy_from_slice(&bytes);
        self.edit.put_inode(to, &inode)?;
        bitmap::clear(self.edit.inode_bitmap(old)?, ((ino - 1) % per_group) as usize);
        bitmap::set(self.edit.inode_bitmap(new)?, ((to - 1) % per_group) as usize);
        if inode.is_dir() {
            self.edit.desc(old)?.used_dirs -= 1;
            self.edit.desc(new)?.used_dirs += 1;
        }
        Ok(())
    }

    /// No garbage may pass for an inode when one is taken behind it.
    fn zero_table(&mut self, g: u32) -> Result<()> {
        let desc = self.edit.descs.get(g as usize).copied().ok_or(Error::Invalid("no such group"))?;
        if DescCsum::of(&self.edit.sb) == DescCsum::None || desc.flags & INODE_ZEROED != 0 {
            return Ok(());
        }
        let uninit = desc.flags & INODE_UNINIT != 0;
        let unused = if uninit { self.edit.sb.inodes_per_group() } else { desc.itable_unused };
        let range = desc.table_end(&self.edit.sb, unused);
        self.edit.zero(range.start, range.end - range.start)?;
        self.edit.desc(g)?.flags |= INODE_ZEROED;
        Ok(())
    }

    /// What names each inode behind `last`.
    fn names_behind(&self, last: Ino) -> Result<Names> {
        let mut names = Names::new();
        let mut blocks = std::collections::BTreeSet::new();
        self.edit.each_inode(&mut |ino, inode| {
            if inode.is_dir() {
                self.names_in(ino, &inode, last, &mut names)?;
            }
            let own = xattr::parse_inode(&inode.tail, Place::inode(ino)).map_err(|e| corrupt(0, &e))?;
            for value in values(&own, last) {
                names.entry(value).or_default().push(Name::Attribute { of: ino });
            }
            if inode.file_acl != 0 && blocks.insert(inode.file_acl) {
                let list = xattr::parse_block(&self.edit.read(inode.file_acl)?, Place::inode(ino));
                for value in values(&list.map_err(|e| corrupt(inode.file_acl, &e))?, last) {
                    names.entry(value).or_default().push(Name::Shared { block: inode.file_acl });
                }
            }
            Ok(())
        })?;
        Ok(names)
    }

    fn names_in(&self, ino: Ino, inode: &Inode, last: Ino, names: &mut Names) -> Result<()> {
        let mut add = |target: Ino, name: Name| {
            if target > last {
                names.entry(target).or_default().push(name);
            }
        };
        let bad = |block: u64| move |e: FormatError| corrupt(block, &e);
        let place = Place::inode(ino);
        if is_inline(inode) {
            let bytes = inline::stored(ino, inode)?;
            add(word(&bytes, 0), Name::Inline { dir: ino, offset: 0 });
            for (base, list) in [(PARENT, &bytes[PARENT..IN_BLOCK]), (IN_BLOCK, &bytes[IN_BLOCK..])] {
                if list.is_empty() {
                    continue;
                }
                for entry in DirBlock::new(list, false, place).map_err(bad(0))?.used() {
                    let entry = entry.map_err(bad(0))?;
                    add(entry.ino, Name::Inline { dir: ino, offset: base + entry.offset });
                }
            }
            return Ok(());
        }
        let (seed, csum) = (self.edit.sb.inode_seed(ino, inode.generation), self.edit.sb.csum_seed().is_some());
        let indexed = inode.flags.contains(InodeFlags::INDEX);
        for extent in self.edit.mapped(ino, inode)?.extents {
            for (logical, block) in (extent.logical..).zip(extent.start..extent.start + u64::from(extent.len)) {
                let bytes = self.edit.read(block)?;
                let entry = |offset: usize, heads: bool| Name::Entry { block, offset, heads, seed };
                if indexed && logical == 0 {
                    [0, DOTDOT].into_iter().for_each(|at| add(word(&bytes, at), entry(at, true)));
                    continue;
                }
                // A node of the index looks like one free entry.
                if indexed && word(&bytes, 0) == 0 && usize::from(bytes[4]) | usize::from(bytes[5]) << 8 == bytes.len()
                {
                    continue;
                }
                for found in DirBlock::new(&bytes, csum, place).map_err(bad(block))?.used() {
                    let found = found.map_err(bad(block))?;
                    add(found.ino, entry(found.offset, false));
                }
            }
        }
        Ok(())
    }

    /// Has `name` name `to` and not `ino`. Whoever has the name may have moved itself.
    fn rename(&mut self, name: Name, ino: Ino, to: Ino, moved: &HashMap<Ino, Ino>) -> Result<()> {
        let now = |of: Ino| moved.get(&of).copied().unwrap_or(of);
        let swap = |list: &mut [Xattr]| {
            list.iter_mut().filter(|x| x.value_inum == ino).for_each(|x| x.value_inum = to);
        };
        match name {
            Name::Entry { block, offset, heads, seed } => {
                let bytes = self.edit.edit(block)?;
                bytes[offset..offset + 4].copy_from_slice(&to.to_le_bytes());
                match (seed, heads) {
                    (Some(seed), true) => ondol_format::htree::seal(bytes, seed),
                    (Some(seed), false) => ondol_format::dirent::seal(bytes, seed),
                    (None, _) => {}
                }
            }
            Name::Inline { dir, offset } => {
                let dir = now(dir);
                let mut inode = self.edit.inode(dir)?;
                let mut bytes = inline::stored(dir, &inode)?;
                bytes[offset..offset + 4].copy_from_slice(&to.to_le_bytes());
                if !inline::store(&mut inode, &bytes) {
                    return Err(Error::corrupt(format!("inode {dir}"), 0, "no room for what it holds"));
                }
                self.edit.put_inode(dir, &inode)?;
            }
            Name::Attribute { of } => {
                let of = now(of);
                let mut inode = self.edit.inode(of)?;
                let bad = |e: FormatError| corrupt(0, &e);
                let mut list = xattr::parse_inode(&inode.tail, Place::inode(of)).map_err(bad)?;
                swap(&mut list);
                xattr::write_inode(&list, Arc::make_mut(&mut inode.tail)).map_err(bad)?;
                self.edit.put_inode(of, &inode)?;
            }
            Name::Shared { block } => {
                let seed = self.edit.sb.csum_seed();
                let bytes = self.edit.edit(block)?;
                let bad = |e: FormatError| corrupt(block, &e);
                let mut list = xattr::parse_block(bytes, Place::NONE).map_err(bad)?;
                let count = xattr::refcount(bytes, Place::NONE).map_err(bad)?;
                swap(&mut list);
                xattr::write_block(&list, count, bytes).map_err(bad)?;
                if let Some(seed) = seed {
                    xattr::seal_block(bytes, seed, block);
                }
            }
        }
        Ok(())
    }
}

fn values(list: &[Xattr], last: Ino) -> impl Iterator<Item = Ino> + '_ {
    list.iter().map(|xattr| xattr.value_inum).filter(move |&value| value > last)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
