//! The volume: what is mounted, and what every operation needs of it.

use crate::alloc::Need;
use crate::file::counts::{Made, Viewed};
use crate::file::once_journaled::OnceJournaled;
use crate::geometry::Growing;
use crate::inline::is_inline;
use crate::lookups::Lookups;
use crate::memory::Asides;
use crate::node::{Node, Nodes};
use crate::noted::ErrorLog;
use crate::orphan::state::Orphans;
use crate::shared::Shared;
use crate::{Atime, Attr, Caller, DataMode, Device, Error, Fsync, Ino, OnError, Result, StatFs, behalf};
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex, thread};
use ondol_env::{Bell, Env, Progress, Timestamp};
use ondol_format::Inode;
use ondol_format::inode::FileType;
use ondol_journal::{Engine, JournalError, Tid};
use std::time::Duration;

/// How a volume behaves; what the image says about itself is not among it.
#[derive(Clone, Copy, Debug)]
pub struct VolumeOptions {
    /// How file data is protected.
    pub data: DataMode,
    /// What an fsync makes durable.
    pub fsync: Fsync,
    /// What to do when corruption is found.
    pub on_error: OnError,
    /// Refuse every change.
    pub read_only: bool,
    /// When reading changes access times.
    pub atime: Atime,
    /// Those of directories never change.
    pub nodiratime: bool,
    /// New inodes belong to the group of their directory (`grpid`, as BSD), whatever its setgid bit says.
    pub grpid: bool,
    /// Inodes kept in memory.
    pub cached_inodes: usize,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            data: DataMode::Ordered,
            fsync: Fsync::Prefix,
            on_error: OnError::RemountReadOnly,
            read_only: false,
            atime: Atime::Relative,
            nodiratime: false,
            grpid: false,
            cached_inodes: 65_536,
        }
    }
}

/// A mounted ext4 volume. All calls may come from many threads at once.
pub struct Volume {
    pub(crate) shared: Arc<Shared>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) nodes: Nodes,
    pub(crate) options: VolumeOptions,
    /// Held by every operation that may move a directory, and by transactions.
    pub(crate) rename_lock: Mutex<()>,
    /// How often a directory has got another parent, counted while that one is not to be seen yet.
    pub(crate) moves: AtomicU64,
    pub(crate) orphans: Orphans,
    pub(crate) once_journaled: OnceJournaled,
    /// Values of attributes that nothing names any more, to be deleted: see [`crate::Xattrs::bury_values`].
    pub(crate) dead_values: Mutex<Vec<Ino>>,
    pub(crate) lookups: Lookups,
    /// A cache above collects writes: see [`crate::PageCache::writes_are_collected`].
    pub(crate) collected: AtomicBool,
    /// Blocks that the file system itself takes, as ext4 counts them: its metadata and the journal.
    pub(crate) overhead: AtomicU64,
    pub(crate) growing: Growing,
    pub(crate) read_only: AtomicBool,
    /// Why the volume became read-only, if it did so after an error.
    pub(crate) stopped: Mutex<Option<String>>,
    /// Errors that the superblock does not tell of yet.
    pub(crate) errors: ErrorLog,
    pub(crate) viewed: Viewed,
    pub(crate) made: Made,
    pub(crate) asides: Asides,
}

impl Volume {
    /// A volume over an engine whose log is recovered and empty.
    pub fn new(shared: Arc<Shared>, engine: Arc<dyn Engine>, env: Arc<dyn Env>, options: VolumeOptions) -> Self {
        let orphans = Orphans::new(&shared.sb);
        let overhead = ondol_format::layout::metadata_blocks(&shared.sb) + shared.journal_blocks;
        Self {
            overhead: AtomicU64::new(overhead),
            growing: Growing::default(),
            shared,
            engine,
            env,
            nodes: Nodes::new(options.cached_inodes),
            options,
            rename_lock: Mutex::default(),
            moves: AtomicU64::new(0),
            orphans,
            once_journaled: OnceJournaled::default(),
            dead_values: Mutex::default(),
            lookups: Lookups::default(),
            collected: AtomicBool::new(false),
            read_only: AtomicBool::new(options.read_only),
            stopped: Mutex::default(),
            errors: ErrorLog::default(),
            viewed: Viewed::default(),
            made: Made::default(),
            asides: Asides::default(),
        }
    }

    /// The data mode.
    pub fn data_mode(&self) -> DataMode {
        self.options.data
    }

    /// The time, as every stamp of this volume gets it: whole seconds where inodes have no room for more.
    pub(crate) fn now(&self) -> Timestamp {
        let has_extra = usize::from(self.shared.sb.inode_size()) > ondol_format::inode::GOOD_OLD_SIZE;
        crate::time::from_disk(crate::time::to_disk(self.env.now()).clamped(has_extra))
    }

    /// The inode, in memory.
    pub(crate) fn node(&self, ino: Ino) -> Result<Arc<Node>> {
        self.nodes.get(&self.shared, &*self.engine, ino).map_err(|e| self.noted(e))
    }

    /// Whether changes are refused: mounted so, or stopped after an error.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Relaxed)
    }

    /// Why changes are refused although the volume was mounted for writing.
    pub fn stopped(&self) -> Option<String> {
        self.stopped.lock().clone()
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if !self.is_read_only() {
            return Ok(());
        }
        let why = self.stopped.lock().as_ref().map_or(String::new(), |w| format!(" since an error: {w}"));
        Err(Error::ReadOnly(why))
    }

    /// Passes an error on; corruption is noted for the superblock, and it and a dead journal (not one that cannot write
    /// home for a while) stop the volume as `errors=` says.
    pub(crate) fn noted(&self, error: Error) -> Error {
        let fatal = match &error {
            Error::Corrupt(_) => self.options.on_error == OnError::RemountReadOnly,
            // Nothing is lost and nothing wrong: when the image can be written to again, all goes on.
            Error::Journal(JournalError::Home(_)) => false,
            Error::Journal(_) => true,
            _ => false,
        };
        if let Error::Corrupt(found) = &error {
            tracing::error!("{error}");
            if !self.options.read_only {
                self.errors.note(found, self.now().sec);
            }
        }
        if fatal {
            self.refuse_changes(&error.to_string());
        }
        error
    }

    /// Takes no change from now on, not even those that reading and closing bring about. The next check looks at
    /// everything.
    pub fn refuse_changes(&self, why: &str) {
        if !self.read_only.swap(true, Relaxed) {
            tracing::error!("the volume is read-only from now on: {why}");
            *self.stopped.lock() = Some(why.to_owned());
        }
    }

    /// Rung when there is something for [`Volume::save_errors`].
    pub fn errors_noted(&self) -> &Bell {
        self.errors.bell()
    }

    /// Writes the errors that were noted since the last call into the superblock: their number, the first and the
    /// latest, and that the volume needs to be checked. Durable when this returns. To be called by whoever runs the
    /// engine's steps.
    ///
    /// # Errors
    /// The journal's failure: a journal that has failed takes nothing more.
    pub fn save_errors(&self) -> std::result::Result<Progress, JournalError> {
        self.errors.save(&self.shared, &*self.engine)
    }

    /// Does `work`, all of whose calls on this thread are made by `caller`: root, and the user and the group that the
    /// image names, may take blocks that are kept back from others. Without this, calls are nobody's.
    pub fn on_behalf_of<T>(&self, caller: Caller, work: impl FnOnce() -> T) -> T {
        behalf::work_for(behalf::need(&self.shared.sb, caller), work)
    }

    /// As [`Volume::on_behalf_of`], for a thread whose user `user_of` tells, where it matters; `None`: nobody in
    /// particular. Whose new inodes are to be says nothing about him then.
    pub fn on_behalf_of_thread<T>(
        &self,
        thread: u32,
        user_of: fn(u32) -> Option<Caller>,
        work: impl FnOnce() -> T,
    ) -> T {
        behalf::work_for_thread(thread, user_of, work)
    }

    /// Takes `blocks` out of the free count, committing first where that frees enough.
    pub(crate) fn promise(&self, blocks: u64, need: Need) -> Result<()> {
        // Whose the operation is matters only where there is not enough for everybody.
        if self.shared.groups.promise(blocks, need) {
            return Ok(());
        }
        self.promise_to(blocks, behalf::of_thread(&self.shared.sb, need))
    }

    /// As [`Volume::promise`], whoever the thread works for.
    pub(crate) fn promise_to(&self, blocks: u64, need: Need) -> Result<()> {
        let groups = &self.shared.groups;
        if groups.promise(blocks, need) {
            return Ok(());
        }
        if groups.pending_free.load(Relaxed) > 0 {
            self.engine.wait(self.engine.tid()).map_err(|e| self.noted(e.into()))?;
        }
        // What a running checkpoint may still carry home comes free when it ends.
        for _ in 0..RELEASE_TRIES {
            if groups.promise(blocks, need) {
                return Ok(());
            }
            let deleting = self.lookups.awaits_forgetting(&*self.env);
            if groups.pending_free.load(Relaxed) == 0 && !deleting {
                break;
            }
            thread::sleep(Duration::from_millis(1));
            if deleting {
                self.engine.wait(self.engine.tid()).map_err(|e| self.noted(e.into()))?;
            }
        }
        if self.asides.promise(groups, blocks, need) { Ok(()) } else { Err(Error::NoSpace("blocks")) }
    }

    /// What stat(2) tells about an inode.
    ///
    /// # Errors
    /// `NotFound`, corruption, or the store's failure.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        let node = self.node(ino)?;
        let state = node.read()?;
        self.attr(ino, &state.inode)
    }

    /// As [`Volume::getattr`], of an inode whose number came from outside: none of the file system's own.
    ///
    /// # Errors
    /// As [`Volume::getattr`].
    pub fn by_number(&self, ino: Ino) -> Result<Attr> {
        if self.shared.sb.may_be_named(ino) { self.getattr(ino) } else { Err(Error::NotFound) }
    }

    pub(crate) fn attr(&self, ino: Ino, inode: &Inode) -> Result<Attr> {
        let unknown = || Error::corrupt(format!("inode {ino}"), 0, format!("mode {:#o} has no file type", inode.mode));
        let file_type = inode.file_type().ok_or_else(unknown).map_err(|e| self.noted(e))?;
        let device = matches!(file_type, FileType::CharDevice | FileType::BlockDevice);
        Ok(Attr {
            ino,
            generation: inode.generation,
            file_type,
            perm: inode.mode & 0o7777,
            nlink: u32::from(inode.links),
            uid: inode.uid,
            gid: inode.gid,
            rdev: if device { inode.device() } else { Device::default() },
            size: inode.size,
            blocks: self.space_told(ino, inode),
            atime: crate::time::from_disk(inode.atime),
            mtime: crate::time::from_disk(inode.mtime),
            ctime: crate::time::from_disk(inode.ctime),
            crtime: (inode.extra_isize >= WITH_CRTIME).then(|| crate::time::from_disk(inode.crtime)),
            flags: inode.flags.bits(),
        })
    }

    /// Whether a cache above collects writes: see [`crate::PageCache::writes_are_collected`].
    pub fn collects_writes(&self) -> bool {
        self.collected.load(Relaxed)
    }

    /// The space that a file is said to have, in units of 512 bytes. Programs that copy files take one without any for
    /// a hole.
    pub(crate) fn space_told(&self, ino: Ino, inode: &Inode) -> u64 {
        if !inode.is_regular() {
            return inode.blocks;
        }
        // As the kernel's ext4 does.
        let inline = if is_inline(inode) { inode.size.div_ceil(SECTOR) } else { 0 };
        let stored = inode.blocks.saturating_add(inline);
        let block_size = u64::from(self.shared.sb.block_size());
        let most = inode.size.div_ceil(block_size).saturating_mul(block_size / SECTOR);
        let given = self.lookups.holes_given(ino).map_or(0, |holes| holes.bytes.div_ceil(SECTOR));
        let told = stored.saturating_add(given).min(most).max(stored);
        if self.collects_writes() { told.max(block_size / SECTOR) } else { told }
    }

    /// Something of a locked inode has been written in place.
    pub(crate) fn note_written(&self, node: &Node) {
        if self.options.fsync == Fsync::File {
            node.newest.note_written(self.engine.written());
        }
    }

    /// Makes durable what [`Fsync`] says: every operation that has returned, or with [`Fsync::File`] every one up to
    /// the last that was done to this inode, its names included, and what was written to it in place. With `data_only`,
    /// the same.
    ///
    /// # Errors
    /// The journal's failure: then nothing that was not durable before may be taken as durable.
    pub fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        if self.options.fsync == Fsync::Prefix {
            return self.sync();
        }
        let (tid, written) = self.nodes.newest(ino);
        self.engine.wait_for(tid, written).map_err(|e| self.noted(e.into()))
    }

    /// What an fsync makes durable.
    pub fn fsync_mode(&self) -> Fsync {
        self.options.fsync
    }

    /// Makes every operation that has returned durable, in order.
    ///
    /// # Errors
    /// As [`Volume::fsync`].
    pub fn sync(&self) -> Result<()> {
        self.wait(self.engine.tid())
    }

    pub(crate) fn wait(&self, tid: Tid) -> Result<()> {
        self.engine.wait(tid).map_err(|e| self.noted(e.into()))
    }

    /// All blocks, free or not.
    pub fn blocks(&self) -> u64 {
        self.shared.sb.blocks_count()
    }

    /// Writes home what is done by now, so that nothing but the image speaks of its blocks.
    ///
    /// # Errors
    /// The journal's failure.
    pub fn write_home(&self) -> Result<()> {
        self.sync()?;
        for _ in 0..STEPS_HOME {
            if !self.engine.checkpoint().map_err(|e| self.noted(Error::Journal(e)))? {
                break;
            }
        }
        Ok(())
    }

    /// Bytes of a cluster, the unit of allocation: of a block, without bigalloc.
    pub fn cluster_size(&self) -> u32 {
        self.shared.sb.block_size() * self.shared.sb.cluster_ratio()
    }

    /// What statfs(2) tells.
    pub fn statfs(&self) -> StatFs {
        let (sb, groups) = (&self.shared.sb, &self.shared.groups);
        let free = groups.visible_free();
        let uuid = sb.raw().s_uuid;
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| uuid[at + i]));
        let overhead = self.overhead.load(Relaxed);
        StatFs {
            block_size: sb.block_size(),
            blocks: sb.blocks_count().saturating_sub(overhead),
            overhead,
            free,
            available: free.saturating_sub(groups.reserved()),
            files: u64::from(sb.inodes_count()),
            files_free: groups.free_inodes(),
            fsid: half(0) ^ half(8),
        }
    }
}

/// Bytes of a unit in which space is told.
const SECTOR: u64 = 512;

/// Steps home that memory waits for at most: others go on filling the log meanwhile.
const STEPS_HOME: u32 = 256;

/// Bytes of extra fields of an inode that has a creation time.
const WITH_CRTIME: u16 = 20;

/// How often, a millisecond apart, space that is about to be released is asked for.
const RELEASE_TRIES: u32 = 50;
