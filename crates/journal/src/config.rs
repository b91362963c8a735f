//! How engines are set up.

use crate::area::Writers;
use ondol_block::DeviceClass;
use ondol_env::Env;

/// How an engine is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Seconds after which a running transaction is committed without anybody asking (`commit=`).
    pub commit_interval: u64,
    /// Bytes that may wait before a commit is started, or before they are written home, however fast the disk is
    /// (`dirty=`).
    pub dirty_bytes: u64,
    /// Bytes of new data that may wait for their commit before they are written home; `None`: what the device writes in
    /// a stated time, which then bounds all that waits.
    pub kept_bytes: Option<u64>,
    /// The class of the device below, which bounds what waits and decides what is compressed or written through
    /// (`device=`).
    pub device: DeviceClass,
    /// Bytes of the block cache. Blocks of transactions that are not committed are among them: operations wait rather
    /// than bring more.
    pub cache_bytes: usize,
    /// Bytes of committed images that may wait for their checkpoint in memory, and of new data that is home before its
    /// commit.
    pub pending_bytes: u64,
    /// File data is journaled from the beginning (`data=journal`): freed data blocks may have pending images.
    pub journaled_data: bool,
    /// Blocks are discarded once their freeing is durable (`discard`).
    pub discard: bool,
    /// Blocks of the journal area are overwritten with zeros when their transactions are home (`zeroing`).
    pub zeroing: bool,
    /// Threads that write home at a checkpoint, from 1 on (`checkpoint_threads=`); `None`: several where it is much.
    pub checkpoint_threads: Option<usize>,
}

impl Config {
    pub(crate) fn writers(&self, env: &dyn Env) -> Writers {
        Writers::new(self.checkpoint_threads, env)
    }
}
