//! Changes of several files as one.

use crate::call::{Result, call, needed};
use crate::memory::{Bytes, Text};
use crate::volume::Volume;
use crate::xattr::how;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Changes that are to be made as one.
pub struct Transaction {
    volume: Arc<ondol::Volume>,
    noted: ondol::Transaction,
}

/// Begins a transaction. The ondol_tx_ calls only note what is to be done, with a copy of the data; whether it can be
/// done is found out by ondol_tx_commit(), and nothing is locked meanwhile. A path means what it means when its
/// change's turn comes; symbolic links are not followed.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_begin(
    volume: Option<&Volume>,
    tx: Option<&mut MaybeUninit<Option<Box<Transaction>>>>,
) -> c_int {
    call(|| {
        let room = needed(tx, "tx")?;
        let volume = needed(volume, "volume")?.0.clone();
        room.write(Some(Box::new(Transaction { volume, noted: ondol::Transaction::default() })));
        Ok(())
    })
}

/// Makes the changes, in the order in which they were noted: all of them, or, when one cannot be made, none. Nobody
/// ever sees a part of them, not after a crash either. They are seen at once and durable with the next sync. Gives up
/// the transaction, whatever it returns. -E2BIG: the journal cannot take all of it as one.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_commit(tx: Option<Box<Transaction>>) -> c_int {
    call(|| {
        let Transaction { volume, noted } = *needed(tx, "tx")?;
        volume.transaction(|tx| {
            *tx = noted;
            Ok(())
        })?;
        Ok(())
    })
}

/// Gives up a transaction: nothing of it is done. NULL is no error.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_abort(tx: Option<Box<Transaction>>) -> c_int {
    call(|| {
        drop(tx);
        Ok(())
    })
}

fn note(
    tx: Option<&mut Transaction>,
    path: &Text,
    note: impl FnOnce(&mut ondol::Transaction, &std::path::Path) -> Result<()>,
) -> c_int {
    call(|| note(&mut needed(tx, "tx")?.noted, path.path("path")?))
}

/// Makes an empty file with mode 0644. Fails if the name exists.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_create(tx: Option<&mut Transaction>, path: Text) -> c_int {
    note(tx, &path, |tx, path| {
        tx.create(path);
        Ok(())
    })
}

/// Makes these bytes all that a file holds; makes the file, with mode 0644, if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_write(tx: Option<&mut Transaction>, path: Text, data: Bytes, len: usize) -> c_int {
    note(tx, &path, |tx, path| {
        tx.write(path, data.slice(len)?);
        Ok(())
    })
}

/// Writes into a file that exists, at byte `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_write_at(
    tx: Option<&mut Transaction>,
    path: Text,
    data: Bytes,
    len: usize,
    offset: u64,
) -> c_int {
    note(tx, &path, |tx, path| {
        tx.write_at(path, data.slice(len)?, offset);
        Ok(())
    })
}

/// Writes behind the end of a file that exists.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_append(tx: Option<&mut Transaction>, path: Text, data: Bytes, len: usize) -> c_int {
    note(tx, &path, |tx, path| {
        tx.append(path, data.slice(len)?);
        Ok(())
    })
}

/// Truncates a file or extends it with zeros.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_set_len(tx: Option<&mut Transaction>, path: Text, size: u64) -> c_int {
    note(tx, &path, |tx, path| {
        tx.set_len(path, size);
        Ok(())
    })
}

/// Makes an empty directory with mode 0755.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_mkdir(tx: Option<&mut Transaction>, path: Text) -> c_int {
    note(tx, &path, |tx, path| {
        tx.create_dir(path);
        Ok(())
    })
}

/// Makes a symbolic link at `link` that says `target`.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_symlink(tx: Option<&mut Transaction>, target: Text, link: Text) -> c_int {
    note(tx, &link, |tx, link| {
        tx.symlink(target.needed("target")?, link);
        Ok(())
    })
}

/// Gives the file at `original` a further name.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_link(tx: Option<&mut Transaction>, original: Text, link: Text) -> c_int {
    note(tx, &link, |tx, link| {
        tx.hard_link(original.path("original")?, link);
        Ok(())
    })
}

/// Moves `from` to `to`, replacing what is there.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_rename(tx: Option<&mut Transaction>, from: Text, to: Text) -> c_int {
    note(tx, &from, |tx, from| {
        tx.rename(from, to.path("to")?);
        Ok(())
    })
}

/// Removes a name that is not a directory.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_unlink(tx: Option<&mut Transaction>, path: Text) -> c_int {
    note(tx, &path, |tx, path| {
        tx.remove_file(path);
        Ok(())
    })
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_rmdir(tx: Option<&mut Transaction>, path: Text) -> c_int {
    note(tx, &path, |tx, path| {
        tx.remove_dir(path);
        Ok(())
    })
}

/// Changes the permission bits.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_chmod(tx: Option<&mut Transaction>, path: Text, mode: u32) -> c_int {
    note(tx, &path, |tx, path| {
        tx.set_permissions(path, (mode & 0o7777) as u16);
        Ok(())
    })
}

/// Sets an extended attribute, as ondol_setxattr().
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_setxattr(
    tx: Option<&mut Transaction>,
    path: Text,
    name: Text,
    value: Bytes,
    size: usize,
    flags: c_int,
) -> c_int {
    note(tx, &path, |tx, path| {
        tx.set_xattr(path, name.needed("name")?, value.slice(size)?, how(flags)?);
        Ok(())
    })
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_tx_removexattr(tx: Option<&mut Transaction>, path: Text, name: Text) -> c_int {
    note(tx, &path, |tx, path| {
        tx.remove_xattr(path, name.needed("name")?);
        Ok(())
    })
}
