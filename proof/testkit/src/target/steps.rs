//! Calls as the steps of a transaction of the library.

use crate::op::{File, Op};
use ondol::{Transaction, Volume};

/// Does all of them or none.
///
/// # Errors
/// As [`Volume::transaction`]; `Unsupported` for what cannot be a step.
pub(super) fn transaction(volume: &Volume, steps: &[Op]) -> ondol::Result<()> {
    volume.transaction(|tx| steps.iter().try_for_each(|step| note(tx, step)))
}

fn note(tx: &mut Transaction, step: &Op) -> ondol::Result<()> {
    let _noted = match step {
        Op::Create { path, mode } => tx.create(path.as_str()).set_permissions(path.as_str(), *mode),
        Op::Mkdir { path, mode } => tx.create_dir(path.as_str()).set_permissions(path.as_str(), *mode),
        Op::Symlink { path, target } => tx.symlink(target, path.as_str()),
        Op::Link { from: File::Path(from), to } => tx.hard_link(from.as_str(), to.as_str()),
        Op::Unlink { path } => tx.remove_file(path.as_str()),
        Op::Rmdir { path } => tx.remove_dir(path.as_str()),
        Op::Rename { from, to, how } => tx.rename_with(from.as_str(), to.as_str(), *how),
        Op::Write { file: File::Path(path), at, len, fill } => tx.write_at(path.as_str(), fill.bytes(*at, *len), *at),
        Op::Truncate { file: File::Path(path), size } => tx.set_len(path.as_str(), *size),
        Op::Chmod { file: File::Path(path), mode } => tx.set_permissions(path.as_str(), *mode),
        Op::SetXattr { file: File::Path(path), name, len, fill, how } => {
            tx.set_xattr(path.as_str(), name, fill.bytes(0, *len), *how)
        }
        Op::RemoveXattr { file: File::Path(path), name } => tx.remove_xattr(path.as_str(), name),
        _ => return Err(ondol_volume::Error::Unsupported(format!("`{step}` in a transaction")).into()),
    };
    Ok(())
}
