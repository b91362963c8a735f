//! Volumes as a whole.

use crate::call::{Failure, Result, call, needed};
use crate::memory::Text;
use ondol::{Caller, Error, FormatOptions, Options};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// An opened image.
pub struct Volume(pub(crate) Arc<ondol::Volume>);

/// How a file system is made. Fields that are 0, false or NULL have their defaults.
#[repr(C)]
pub struct MkfsOptions {
    /// Size in bytes: needed of a file that does not exist; otherwise what the target has.
    pub size: u64,
    /// Make it over whatever the target holds.
    pub force: bool,
    /// Block size: 1024, 2048 or 4096 bytes.
    pub block_size: u32,
    /// Number of inodes.
    pub inodes: u32,
    /// Label: up to 16 bytes.
    pub label: Text,
    /// What the image asks for as its journal: "classic", "compressed", "swap", "remap".
    pub journal: Text,
    /// What the image asks for as its data mode: "writeback", "ordered", "journal".
    pub data: Text,
    /// Features to add or leave out, as `mke2fs -O` takes them.
    pub features: Text,
    /// Bytes of the journal.
    pub journal_size: u64,
}

/// Space and inodes of a volume.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks for files.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks that are not reserved.
    pub available: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

/// The version of the library, as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn ondol_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Makes an empty ext4 file system in a file or on a block device, or in the NVM pool POOL with "nvm:POOL" as target.
/// `options` may be NULL. Durable when it returns. What the target holds is lost with `force` only; without, -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_mkfs(target: Text, options: Option<&MkfsOptions>) -> c_int {
    call(|| {
        let options = options.map_or_else(|| Ok(FormatOptions::new()), format_options)?;
        ondol::Volume::format(target.path("target")?, &options)?;
        Ok(())
    })
}

fn format_options(given: &MkfsOptions) -> Result<FormatOptions> {
    let mut options = FormatOptions::new().force(given.force);
    if given.size > 0 {
        options = options.size(given.size);
    }
    if given.block_size > 0 {
        options = options.block_size(given.block_size);
    }
    if given.inodes > 0 {
        options = options.inodes(given.inodes);
    }
    if let Some(label) = given.label.words("label")? {
        options = options.label(label);
    }
    let unknown = |what: &str, word: &str| Failure::invalid(format!("{word:?} is no {what}"));
    if let Some(word) = given.journal.words("journal")? {
        options = options.journal(word.parse().map_err(|_| unknown("journal engine", word))?);
    }
    if let Some(word) = given.data.words("data")? {
        options = options.data(word.parse().map_err(|_| unknown("data mode", word))?);
    }
    if let Some(features) = given.features.words("features")? {
        options = options.features(features);
    }
    if given.journal_size > 0 {
        options = options.journal_size(given.journal_size);
    }
    Ok(options)
}

/// Opens an image, a block device, or the image in an NVM pool ("nvm:POOL"), replaying its journal first if need be.
/// `options` are mount options as in "ro,data=journal", or NULL. Nobody else can open it until it is closed.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_open(
    target: Text,
    options: Text,
    volume: Option<&mut MaybeUninit<Option<Box<Volume>>>>,
) -> c_int {
    call(|| {
        let room = needed(volume, "volume")?;
        let options = Options::parse(options.words("options")?.unwrap_or_default()).map_err(Error::from)?;
        let opened = ondol::Volume::open_with(target.path("target")?, &options)?;
        room.write(Some(Box::new(Volume(Arc::new(opened)))));
        Ok(())
    })
}

/// Commits everything, writes it home, marks the image clean and unlocks it. Durable when it returns 0.
///
/// -EBUSY, when files or directories of it are open or a transaction is not ended, changes nothing: the volume is as
/// usable as before, and ondol_error() names what is open. After any other return the volume is given up; after an
/// error the image needs recovery, which the next ondol_open() does, and nothing that was synced is lost. NULL is no
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_close(volume: Option<Box<Volume>>) -> c_int {
    call(|| {
        let Some(volume) = volume else { return Ok(()) };
        if let Some(busy) = busy(&volume) {
            // It stays C's.
            Box::leak(volume);
            return Err(busy);
        }
        let late = || Failure::new(libc::EBUSY, "the volume was used while it was closed");
        Arc::into_inner(volume.0).ok_or_else(late)?.close()?;
        Ok(())
    })
}

fn busy(volume: &Volume) -> Option<Failure> {
    let open = volume.0.still_open();
    if !open.is_empty() {
        return Some(Error::StillOpen(open).into());
    }
    let others = Arc::strong_count(&volume.0) - 1;
    (others > 0).then(in_transaction)
}

/// Makes everything that has returned so far durable.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_sync(volume: Option<&Volume>) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.sync()?))
}

/// From now on new files belong to this user and group, and whether they may take reserved blocks goes by this user,
/// instead of the process's own. Of their permissions these bits of `umask` are left out (at first 0: none). Files that
/// are open stay with whom they were opened for. Permissions are still not checked.
///
/// No other thread may use the volume meanwhile. -EBUSY while a transaction is not ended.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_act_as(volume: Option<&mut Volume>, uid: u32, gid: u32, umask: u32) -> c_int {
    call(|| {
        let volume = needed(volume, "volume")?;
        let wrong = || Failure::invalid(format!("umask {umask:#o} has more than permission bits"));
        let umask = u16::try_from(umask).ok().filter(|bits| bits & !0o777 == 0).ok_or_else(wrong)?;
        let own = Arc::get_mut(&mut volume.0).ok_or_else(in_transaction)?;
        own.act_as(Caller { umask, ..Caller::new(uid, gid) });
        Ok(())
    })
}

fn in_transaction() -> Failure {
    Failure::new(libc::EBUSY, "a transaction of the volume is neither committed nor aborted")
}

/// Space and inodes.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_statfs(volume: Option<&Volume>, space: Option<&mut MaybeUninit<Space>>) -> c_int {
    call(|| {
        let now = needed(volume, "volume")?.0.statfs();
        needed(space, "space")?.write(Space {
            block_size: now.block_size,
            blocks: now.blocks,
            free: now.free,
            available: now.available,
            files: now.files,
            files_free: now.files_free,
        });
        Ok(())
    })
}
