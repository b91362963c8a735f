//! Extended attributes.

use super::report::Where;
use super::{Checker, SharedXattrs};
use crate::{Ino, Result};
use ondol_format::xattr::{self, Xattr};
use ondol_format::{Compat, Inode, Place, printable};

impl Checker<'_> {
    /// Checks the attributes of an inode; returns what they add to its `i_blocks`.
    pub(super) fn check_xattrs(&mut self, ino: Ino, inode: &Inode) -> Result<u64> {
        let place = Where::inode(ino);
        let mut sectors = 0;
        let checked = xattr::parse_inode(&inode.tail, Place::NONE).map(|list| {
            sectors = self.check_list(place, &list);
            // In an inode a hash need not be kept, but must be right if it is.
            self.check_hashes(place, list.iter().filter(|x| x.hash != 0));
        });
        if let Err(e) = checked {
            self.broken(place, &e);
        }
        let at = inode.file_acl;
        if at == 0 {
            return Ok(sectors);
        }
        if !self.on_volume(at, 1) || !self.sb.has_compat(Compat::EXT_ATTR) {
            self.problem("inode", place, format!("its xattr block {at} does not lie on the volume, or cannot be"));
            return Ok(sectors);
        }
        if let Some(known) = self.xattrs.get_mut(&at) {
            known.found = known.found.saturating_add(1);
            return Ok(sectors + known.sectors);
        }
        if self.space.claim(at, 1).is_some() || self.space.mark_clusters(at, 1).is_some() {
            self.problem("xattr block", place.in_block(at), "the block is in use by something else");
            return Ok(sectors + self.cluster_size() / 512);
        }
        let bytes = self.read(at)?;
        let (refcount, values) = self.check_xattr_block(place.in_block(at), at, &bytes);
        let in_block = values + self.cluster_size() / 512;
        self.xattrs.insert(at, SharedXattrs { refcount, found: 1, sectors: in_block, first_user: ino });
        Ok(sectors + in_block)
    }

    /// Checks a block of attributes; returns how many users it says it has, and what its values add to their
    /// `i_blocks`.
    fn check_xattr_block(&mut self, place: Where, at: u64, bytes: &[u8]) -> (u32, u64) {
        let mut sectors = 0;
        if let Some(seed) = self.sb.csum_seed()
            && let Err(e) = xattr::verify_block(bytes, seed, at, Place::NONE)
        {
            self.broken(place, &e);
        }
        let (list, refcount) = (xattr::parse_block(bytes, Place::NONE), xattr::refcount(bytes, Place::NONE));
        let checked = list.map(|list| {
            sectors = self.check_list(place, &list);
            self.check_hashes(place, list.iter());
        });
        if let Err(e) = checked {
            self.broken(place, &e);
        }
        (refcount.unwrap_or(0), sectors)
    }

    /// Returns what values in inodes add to the owner's `i_blocks`.
    fn check_list(&mut self, place: Where, list: &[Xattr]) -> u64 {
        for (i, xattr) in list.iter().enumerate() {
            let name = printable(&xattr.name);
            if list[..i].iter().any(|x| x.name_index == xattr.name_index && x.name == xattr.name) {
                self.problem("extended attributes", place, format!("'{name}' is there twice"));
            }
            if xattr.in_inode() {
                self.add_value_entry(place, xattr);
            }
        }
        list.iter().map(|xattr| xattr::value_sectors(self.sb, xattr)).sum()
    }

    /// Attributes have the hashes of their names and values.
    fn check_hashes<'x>(&mut self, place: Where, list: impl Iterator<Item = &'x Xattr>) {
        for xattr in list.filter(|xattr| !xattr.in_inode() && !xattr::is_entry_hash(xattr)) {
            let text = format!("'{}' has hash {:#x}, not that of its value", printable(&xattr.name), xattr.hash);
            self.problem("extended attributes", place, text);
        }
    }

    pub(super) fn check_xattr_counts(&mut self) {
        let mut wrong: Vec<(u64, u32, u32, Ino)> =
            self.xattrs.iter().map(|(&at, x)| (at, x.refcount, x.found, x.first_user)).collect();
        wrong.retain(|&(_, refcount, found, _)| refcount != found);
        wrong.sort_unstable();
        for (at, refcount, found, user) in wrong {
            let text = format!("reference count {refcount}, but {found} inodes use it");
            self.problem("xattr block", Where::inode(user).in_block(at), text);
        }
    }
}
