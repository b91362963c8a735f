//! Opening NVM, and saying who has it when it is in use.

use super::holders;
use super::mountinfo;
use crate::Result;
use ondol_medium::{Nvm, NvmError, NvmOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// As [`Nvm::open`]; what is in use names who has it.
pub(crate) fn open(path: &Path, options: &NvmOptions) -> Result<Nvm> {
    Ok(Nvm::open(path, options).map_err(|e| with_holders(e, path))?)
}

/// As [`Nvm::create`]; what is in use names who has it.
pub(crate) fn create(path: &Path, size: u64, options: &NvmOptions) -> Result<Nvm> {
    Ok(Nvm::create(path, size, options).map_err(|e| with_holders(e, path))?)
}

fn with_holders(e: NvmError, path: &Path) -> NvmError {
    let NvmError::Locked { name, .. } = e else { return e };
    let Ok(meta) = path.metadata() else { return NvmError::Locked { name, by: None } };
    let mounts = mountinfo::read().unwrap_or_default();
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let by = holders::by_lock(meta.dev(), meta.ino(), &mounts, &[crate::home::target_of(&full)]);
    NvmError::Locked { name, by: (!by.is_empty()).then(|| holders::text(&by)) }
}
