//! Values of attributes that lie in inodes of their own (ea_inode): that they are what their entries say, and are
//! counted rightly.

use super::Checker;
use super::map::Walk;
use super::report::Where;
use crate::{Ino, Result};
use ondol_format::csum::crc32c;
use ondol_format::xattr::{VALUE_MAX, Xattr, is_value_entry_hash, value_entry_hash, value_hash, value_refs};
use ondol_format::{Incompat, Inode, printable};
use std::collections::HashMap;

/// An inode that holds a value.
struct Value {
    refs: u64,
    found: u64,
    size: u64,
    /// Of the contents; None where they could not be read.
    hash: Option<u32>,
}

/// An entry whose value lies in an inode.
struct Named {
    owner: Where,
    value: Ino,
    name: Vec<u8>,
    size: u32,
    hash: u32,
}

/// What is known of values.
#[derive(Default)]
pub(super) struct Values {
    inodes: HashMap<Ino, Value>,
    entries: Vec<Named>,
}

impl Values {
    /// Whether an inode holds a value, and so has no name.
    pub(super) fn holds(&self, ino: Ino) -> bool {
        self.inodes.contains_key(&ino)
    }
}

impl Checker<'_> {
    /// Notes an entry whose value lies in an inode.
    pub(super) fn add_value_entry(&mut self, owner: Where, xattr: &Xattr) {
        if !self.sb.has_incompat(Incompat::EA_INODE) {
            let name = printable(&xattr.name);
            self.problem("extended attributes", owner, format!("'{name}' has its value in an inode"));
            return;
        }
        let (value, size, hash) = (xattr.value_inum, xattr.value_size, xattr.hash);
        self.values.entries.push(Named { owner, value, name: xattr.name.clone(), size, hash });
    }

    /// Notes an inode that holds a value, and checks its contents.
    pub(super) fn check_value(&mut self, ino: Ino, inode: &Inode, walk: &Walk) -> Result<()> {
        let place = Where::inode(ino);
        let blocks = inode.size.div_ceil(self.block_size() as u64);
        let sound = walk.bad == 0 && walk.data == blocks && inode.size <= VALUE_MAX as u64;
        let mut contents = Vec::new();
        if sound && inode.links > 0 {
            for block in walk.runs.iter().flat_map(|run| run.start..run.start + u64::from(run.len)) {
                contents.extend(self.read(block)?);
            }
        }
        contents.truncate(inode.size as usize);
        let hash = sound.then(|| crc32c(self.sb.value_seed(), &contents)).filter(|_| inode.links > 0);
        if !sound {
            self.problem("value of an attribute", place, format!("{} bytes with {} blocks", inode.size, walk.data));
        } else if hash.is_some_and(|hash| hash != value_hash(inode)) {
            let text = format!("hash {:#010x}, computed {:#010x}", value_hash(inode), hash.unwrap_or_default());
            self.problem("value of an attribute", place, text);
        }
        self.values.inodes.insert(ino, Value { refs: value_refs(inode), found: 0, size: inode.size, hash });
        Ok(())
    }

    /// Compares entries and values when all inodes are known.
    pub(super) fn check_values(&mut self) {
        for Named { owner, value, name, size, hash } in std::mem::take(&mut self.values.entries) {
            let name_text = printable(&name);
            let text = match self.values.inodes.get_mut(&value) {
                None => format!("the value of '{name_text}' is to be in inode {value}, which holds none"),
                Some(found) => {
                    found.found += 1;
                    if found.size != u64::from(size) {
                        format!("the value of '{name_text}' has {size} bytes, inode {value} {}", found.size)
                    } else if let Some(value) = found.hash.filter(|&value| !is_value_entry_hash(hash, &name, value)) {
                        format!("'{name_text}' has hash {hash:#x}, not {:#x}", value_entry_hash(&name, value))
                    } else {
                        continue;
                    }
                }
            };
            self.problem("extended attributes", owner, text);
        }
        let mut wrong: Vec<(Ino, u64, u64)> =
            self.values.inodes.iter().map(|(&ino, value)| (ino, value.refs, value.found)).collect();
        wrong.retain(|&(_, refs, found)| refs != found);
        wrong.sort_unstable();
        for (ino, refs, found) in wrong {
            let text = format!("reference count {refs}, but {found} attributes have it");
            self.problem("value of an attribute", Where::inode(ino), text);
        }
    }
}
