//! Inodes: their own fields, and how those agree with their maps.

use super::inodes::Entry;
use super::map::Walk;
use super::report::Where;
use super::{Checker, Dir, Pass, special};
use crate::inline::is_inline;
use crate::{Ino, Result};
use ondol_format::extent::Node;
use ondol_format::inode::{self, FAST_SYMLINK_MAX, FileType, InodeFlags, RESIZE_INO, RawInode};
use ondol_format::xattr::is_value_inode;
use ondol_format::{Compat, Incompat, Inode, Place, RoCompat};
use std::mem::offset_of;

/// Blocks of an inode table that are read at a time.
const CHUNK: u64 = 64;

impl Checker<'_> {
    pub(super) fn check_inodes(&mut self) -> Result<()> {
        let sb = self.sb;
        let per_block = u64::from(sb.inodes_per_block());
        let size = usize::from(sb.inode_size());
        for g in 0..sb.groups() {
            self.tell(Pass::Inodes, g.into(), sb.groups().into());
            let Some(desc) = self.descs.get(g as usize).copied().flatten() else { continue };
            let used = u64::from(self.used_part(&desc));
            let blocks = used.div_ceil(per_block);
            let mut at = 0;
            while at < blocks {
                let count = CHUNK.min(blocks - at);
                let mut bytes = vec![0; count as usize * self.block_size()];
                self.store.read((desc.inode_table + at) * self.block_size() as u64, &mut bytes)?;
                let first = u64::from(g) * u64::from(sb.inodes_per_group()) + at * per_block + 1;
                let left = (used - at * per_block) as usize;
                for (i, raw) in bytes.chunks_exact(size).take(left).enumerate() {
                    self.check_inode((first + i as u64) as Ino, raw)?;
                }
                at += count;
            }
        }
        Ok(())
    }

    fn check_inode(&mut self, ino: Ino, raw: &[u8]) -> Result<()> {
        let nameless = self.is_nameless(ino);
        if raw.iter().all(|&byte| byte == 0) {
            if nameless {
                self.found.set(ino, Entry { used: true, ..Entry::default() });
            }
            return Ok(());
        }
        let place = Where::inode(ino);
        if let Err(e) = inode::verify(raw, ino, &self.format) {
            self.problem("inode", place, super::report::words(&e).1);
        }
        let inode = match Inode::parse(raw, ino, &self.format) {
            Ok(inode) => inode,
            Err(e) => {
                self.broken(place, &e);
                return Ok(());
            }
        };
        let orphan = self.orphans.contains(&ino);
        if inode.links == 0 && !orphan && !nameless {
            if inode.mode != 0 && inode.dtime == 0 {
                self.problem("inode", place, "it has no names, but was never deleted (dtime is zero)");
            }
            return Ok(());
        }
        let file_type = inode.file_type();
        let indexed = inode.flags.contains(InodeFlags::INDEX);
        self.found.set(ino, Entry { used: true, indexed, file_type, links: inode.links, names: 0 });
        self.report.inodes += 1;
        self.check_flags(ino, &inode);
        if inode.dtime != 0 && (inode.links > 0 || nameless) && !orphan && ino != RESIZE_INO {
            self.problem("inode", place, format!("it is in use, but has a deletion time ({})", inode.dtime));
        }
        if nameless || Some(ino) == self.sb.journal_inum() {
            return self.check_special(ino, &inode);
        }
        self.check_fields(ino, &inode, raw);
        self.check_contents(ino, &inode)
    }

    /// Fields that stand for themselves.
    fn check_fields(&mut self, ino: Ino, inode: &Inode, raw: &[u8]) {
        let place = Where::inode(ino);
        if inode.file_type().is_none() {
            self.problem("inode", place, format!("mode {:#o} has no file type", inode.mode));
        }
        if inode.extra_isize != 0 && inode.extra_isize < 4 {
            self.problem("inode", place, format!("i_extra_isize of {} bytes", inode.extra_isize));
        }
        let large_dir = inode.is_dir() && self.sb.has_incompat(Incompat::LARGEDIR);
        let wide = inode.is_regular() || large_dir;
        // Fields that are zero where they mean nothing: the volumes of Linux, and e2fsck, have it so.
        let linux = self.sb.raw().s_creator_os.get() == 0;
        let unused: [(bool, usize, usize, &str); 4] = [
            (!wide, offset_of!(RawInode, i_size_high), 4, "the high half of a size, which only files have"),
            (true, offset_of!(RawInode, i_obso_faddr), 4, "the address of a fragment, which there is none of"),
            (
                linux && !self.sb.has_incompat(Incompat::BIT64),
                offset_of!(RawInode, i_file_acl_high),
                2,
                "the high half of its xattr block's number, on a volume without 64bit",
            ),
            (
                linux && !self.sb.has_ro_compat(RoCompat::HUGE_FILE),
                offset_of!(RawInode, i_blocks_high),
                2,
                "the high half of i_blocks, on a volume without huge_file",
            ),
        ];
        for (_, at, len, text) in unused.into_iter().filter(|&(is_unused, ..)| is_unused) {
            if raw.get(at..at + len).is_some_and(|bytes| bytes.iter().any(|&byte| byte != 0)) {
                self.problem("inode", place, text);
            }
        }
        if ino == crate::ROOT && !inode.is_dir() {
            self.problem("inode", place, "the root is not a directory");
        }
    }

    /// Flags that claim a feature which the volume does not have.
    fn check_flags(&mut self, ino: Ino, inode: &Inode) {
        let flags = [
            (InodeFlags::INLINE_DATA, Incompat::INLINE_DATA, "inline data"),
            (InodeFlags::EXTENTS, Incompat::EXTENTS, "an extent tree"),
            (InodeFlags::CASEFOLD, Incompat::CASEFOLD, "names without case"),
            (InodeFlags::ENCRYPT, Incompat::ENCRYPT, "encrypted contents"),
            (InodeFlags::EA_INODE, Incompat::EA_INODE, "the value of an attribute"),
        ];
        for (flag, feature, what) in flags {
            if inode.flags.contains(flag) && !self.sb.has_incompat(feature) {
                self.problem(
                    "inode",
                    Where::inode(ino),
                    format!("it claims to have {what}, which the volume does not have"),
                );
            }
        }
        if inode.flags.contains(InodeFlags::INDEX) && !inode.is_dir() {
            self.problem("inode", Where::inode(ino), "an htree that is no directory");
        }
        if inode.flags.contains(InodeFlags::IMAGIC) && !self.sb.has_compat(Compat::IMAGIC_INODES) {
            self.problem("inode", Where::inode(ino), "an AFS inode on a volume without imagic_inodes");
        }
    }

    /// The contents by type, and the counts that depend on them.
    fn check_contents(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        let keep = inode.is_dir() || inode.is_symlink() || is_value_inode(inode);
        let mut walk = Walk::new(ino, inode, keep);
        match inode.file_type() {
            _ if is_inline(inode) => self.check_inline(ino, inode),
            Some(FileType::Regular) => {
                self.walk_checked(&mut walk, inode)?;
                self.check_size(ino, inode, &walk);
                if is_value_inode(inode) && self.sb.has_incompat(Incompat::EA_INODE) {
                    self.check_value(ino, inode, &walk)?;
                }
            }
            Some(FileType::Directory) => {
                self.walk_checked(&mut walk, inode)?;
                self.add_dir(ino, inode, &walk);
            }
            Some(FileType::Symlink) if inode.is_fast_symlink() => self.check_fast_symlink(ino, inode),
            Some(FileType::Symlink) => {
                self.walk_checked(&mut walk, inode)?;
                self.check_slow_symlink(ino, inode, &walk)?;
            }
            Some(_) => self.check_device(ino, inode),
            None => return Ok(()),
        }
        let mut sectors = walk.sectors(self.cluster_size());
        sectors += self.check_xattrs(ino, inode)?;
        if sectors != inode.blocks && walk.bad == 0 {
            let text = format!("i_blocks is {}, but {sectors} units of 512 bytes are in use", inode.blocks);
            self.problem("inode", Where::inode(ino), text);
        }
        Ok(())
    }

    fn walk_checked(&mut self, walk: &mut Walk, inode: &Inode) -> Result<()> {
        let looks_like_extents = !inode.has_extents()
            && self.sb.has_incompat(Incompat::EXTENTS)
            && Node::parse(&inode.i_block, None, Place::NONE).is_ok_and(|node| !node.is_empty());
        if looks_like_extents {
            walk.bad_map(self, None, "an extent tree without the flag that says so".into());
            return Ok(());
        }
        walk.read_map(self, inode)
    }

    fn check_size(&mut self, ino: Ino, inode: &Inode, walk: &Walk) {
        let block_size = self.block_size() as u64;
        let most = if inode.has_extents() { block_size << 32 } else { special::most_mapped(block_size) };
        let stored = walk.last_written.unwrap_or(0);
        // The hashes of a file with verity lie behind its end.
        let verity = inode.flags.contains(InodeFlags::VERITY) && self.sb.has_ro_compat(RoCompat::VERITY);
        // What is stored behind the end of an orphan is about to be cut off by the truncate that made it one.
        if inode.size < stored.saturating_mul(block_size) && !self.orphans.contains(&ino) && !verity {
            let text = format!("{} bytes, but logical block {stored} is stored", inode.size);
            self.problem("inode", Where::inode(ino), text);
        } else if inode.size > most {
            self.problem("inode", Where::inode(ino), format!("{} bytes are more than it can have", inode.size));
        }
    }

    fn add_dir(&mut self, ino: Ino, inode: &Inode, walk: &Walk) {
        self.report.directories += 1;
        if inode.links == 0 {
            // An orphan: it may be half deleted, and nobody will read it again.
            return;
        }
        let block_size = self.block_size() as u64;
        let place = Where::inode(ino);
        let blocks = walk.last.map_or(0, |last| last.saturating_add(1));
        if inode.size != blocks.saturating_mul(block_size) && walk.bad == 0 {
            self.problem("inode", place, format!("a directory of {} bytes with {blocks} blocks", inode.size));
        }
        if walk.data != blocks || walk.runs.iter().any(|run| run.unwritten) {
            self.problem("directory", place, "it has holes");
        }
        self.dir_index.insert(ino, self.dirs.len());
        self.dirs.push(Dir {
            ino,
            generation: inode.generation,
            indexed: inode.flags.contains(InodeFlags::INDEX),
            runs: walk.runs.clone(),
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            inline: None,
            dotdot: 0,
            parent: 0,
        });
    }

    fn check_fast_symlink(&mut self, ino: Ino, inode: &Inode) {
        let end = inode.i_block.iter().position(|&byte| byte == 0).unwrap_or(FAST_SYMLINK_MAX + 1);
        if inode.size == 0 || end as u64 != inode.size {
            let text = format!("a symlink of {} bytes whose target has {end}", inode.size);
            self.problem("inode", Where::inode(ino), text);
        }
    }

    fn check_slow_symlink(&mut self, ino: Ino, inode: &Inode, walk: &Walk) -> Result<()> {
        let bad = |text: String| (Where::inode(ino), text);
        let found = match walk.runs.first() {
            Some(run) if run.logical == 0 && walk.data == 1 && !run.unwritten => {
                let bytes = self.read(run.start)?;
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                let sound = end as u64 == inode.size && end < bytes.len();
                (!sound).then(|| bad(format!("a symlink of {} bytes whose target has {end}", inode.size)))
            }
            _ => Some(bad(format!("a symlink of {} bytes with {} blocks", inode.size, walk.data))),
        };
        if let (Some((place, text)), 0) = (found, walk.bad) {
            self.problem("inode", place, text);
        }
        Ok(())
    }

    /// Devices, pipes and sockets have no contents.
    fn check_device(&mut self, ino: Ino, inode: &Inode) {
        let place = Where::inode(ino);
        if inode.size != 0 {
            self.problem("inode", place, format!("a special file of {} bytes", inode.size));
        }
        let used = (4..15).any(|i| inode.block_word(i) != 0);
        if used || inode.flags.intersects(InodeFlags::EXTENTS | InodeFlags::INDEX) {
            self.problem("inode", place, "a special file with blocks");
        }
        if inode.flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND) {
            self.problem("inode", place, "a special file that is immutable or append-only");
        }
    }
}
