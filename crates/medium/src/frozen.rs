//! Contents that many volatile media begin as, each with a copy of only what it changes: for simulators, which try many
//! states of one medium.

use crate::map::{Map, Way};
use crate::{NvmError, PAGE, Result};
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Contents that do not change any more: see [`crate::Nvm::thawed`].
#[derive(Debug)]
pub struct Frozen {
    file: File,
    /// Whole pages.
    len: usize,
}

impl Frozen {
    /// `bytes`, then zeros to the end of the page.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let len = bytes.len().max(1).next_multiple_of(PAGE as usize);
        let file = rustix::fs::memfd_create("ondol-frozen", MemfdFlags::CLOEXEC).map_err(std::io::Error::from);
        let filled = file.map(File::from).and_then(|file| {
            rustix::fs::ftruncate(&file, len as u64)?;
            file.write_all_at(bytes, 0)?;
            Ok(Self { file, len })
        });
        filled.map_err(|source| NvmError::Open { what: "fill", name: "memory".into(), source })
    }

    /// A mapping of it that keeps what is stored for itself.
    pub(crate) fn map(&self) -> Result<Map> {
        let failed = |e: rustix::io::Errno| NvmError::Open { what: "map", name: "memory".into(), source: e.into() };
        Map::file(&self.file, self.len, true, Way::Private).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nvm;

    #[test]
    fn each_keeps_its_own_changes() {
        let frozen = Frozen::new(&[7; 5000]).unwrap();
        let (a, b) = (Nvm::thawed(&frozen).unwrap(), Nvm::thawed(&frozen).unwrap());
        a.shared().store(4999, &[1, 2]).unwrap();
        let bytes = |nvm: &Nvm| {
            let mut found = [0; 3];
            nvm.read(4998, &mut found).unwrap();
            found
        };
        assert_eq!((a.size(), bytes(&a), bytes(&b)), (8192, [7, 1, 2], [7, 7, 0]));
        drop(frozen);
        assert_eq!(bytes(&Nvm::from_bytes(&b.to_bytes().unwrap()).unwrap()), [7, 7, 0]);
    }
}
