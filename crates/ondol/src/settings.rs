//! What journal and file system are told of the options.

use crate::Options;
use crate::memory::Shares;
use ondol_block::BlockStore;
use ondol_journal::Config;
use ondol_volume::{DataMode, VolumeOptions};

/// What a cached inode takes in memory, roughly, in bytes.
const INODE_BYTES: u64 = 640;

pub(crate) fn engine_config(options: &Options, store: &dyn BlockStore, data: DataMode) -> Config {
    let shares = Shares::of(options.image.cache_bytes);
    Config {
        commit_interval: options.commit_seconds(),
        dirty_bytes: options.dirty().min(shares.most_dirty),
        kept_bytes: options.journal.kept_bytes.map(|bytes| bytes.min(shares.most_dirty)),
        device: options.device_of(store),
        cache_bytes: shares.live as usize,
        pending_bytes: shares.pending,
        journaled_data: data == DataMode::Journal,
        discard: options.image.discard.unwrap_or(false),
        zeroing: options.journal.zeroing.unwrap_or(false),
        checkpoint_threads: options.journal.checkpoint_threads,
    }
}

pub(crate) fn volume_options(options: &Options, data: DataMode, read_only: bool) -> VolumeOptions {
    VolumeOptions {
        data,
        fsync: options.journal.fsync,
        on_error: options.image.on_error.unwrap_or_default(),
        read_only,
        atime: options.image.atime.unwrap_or_default(),
        nodiratime: options.image.nodiratime.unwrap_or(false),
        grpid: options.image.grpid.unwrap_or(false),
        cached_inodes: options
            .image
            .cached_inodes
            .unwrap_or((Shares::of(options.image.cache_bytes).inodes / INODE_BYTES) as usize),
    }
}
