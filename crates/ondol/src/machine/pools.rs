//! Opening NVM, and saying who has it when it is in use.

use super::roots::{self, Taken};
use super::{holders, mountinfo};
use crate::Result;
use ondol_block::Access as FileAccess;
use ondol_medium::{Access, Nvm, NvmError, NvmOptions};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// As [`Nvm::open`], for root past the locks of those who can only read; what is in use names who has it.
pub(crate) fn open(path: &Path, options: &NvmOptions) -> Result<Nvm> {
    let name = path.display().to_string();
    let (exclusive, writable) = (options.access == Access::Write, options.access != Access::Read);
    let file = ondol_medium::found(path, options.access)?;
    let claim = claim(&file, exclusive, path)?;
    match Nvm::in_file(file, name.clone(), options) {
        Ok(nvm) => Ok(nvm.with_claim(claim)),
        Err(e @ NvmError::Locked { .. }) => {
            drop(claim);
            let access = if writable { FileAccess::Write } else { FileAccess::Read };
            let opened = roots::past_readers(path, access, exclusive).map_err(|by| taken(&by, path))?;
            let (file, claim) = opened.ok_or_else(|| with_holders(e, path))?;
            Ok(Nvm::in_claimed_file(file, name, options)?.with_claim(Some(claim)))
        }
        Err(e) => Err(e.into()),
    }
}

/// As [`Nvm::create`]; what is in use names who has it.
pub(crate) fn create(path: &Path, size: u64, options: &NvmOptions) -> Result<Nvm> {
    let nvm = Nvm::create(path, size, options).map_err(|e| with_holders(e, path))?;
    let claim = nvm.file().map_or(Ok(None), |file| claim(file, true, path))?;
    Ok(nvm.with_claim(claim))
}

fn claim(file: &File, exclusive: bool, path: &Path) -> std::result::Result<Option<File>, NvmError> {
    let fail = |source| NvmError::Open { what: "open", name: path.display().to_string(), source };
    roots::claim(&file.metadata().map_err(fail)?, exclusive).map_err(|by| taken(&by, path))
}

fn with_holders(e: NvmError, path: &Path) -> NvmError {
    match path.metadata() {
        Ok(meta) if matches!(e, NvmError::Locked { .. }) => taken(&Taken { dev: meta.dev(), ino: meta.ino() }, path),
        _ => e,
    }
}

/// Names whoever has locked that inode.
fn taken(by: &Taken, path: &Path) -> NvmError {
    let mounts = mountinfo::read().unwrap_or_default();
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let by = holders::by_lock(by.dev, by.ino, &mounts, &[crate::home::target_of(&full)]);
    NvmError::Locked { name: path.display().to_string(), by: (!by.is_empty()).then(|| holders::text(&by)) }
}
