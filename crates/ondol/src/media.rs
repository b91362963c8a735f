//! The stores that a volume lies on: its image, and the device of its journal where that is another.

use crate::bucket::Held;
use crate::words::uuid_text;
use crate::{Error, Result};
use ondol_block::{BlockStore, JoinedStore, OverlayStore};
use ondol_env::sync::{Arc, Mutex};
use ondol_format::superblock::{JournalDevice, OFFSET, SIZE};
use ondol_journal::{LogMap, jbd2};
use ondol_medium::{Nvm, Pool};
use ondol_volume::Image;

/// What a volume lies on: its stores, and the NVM pool in front of them, if there is one. With a journal's device they
/// are joined, one behind the other, so that nobody above needs to know.
#[derive(Clone)]
pub struct Media {
    pub(crate) store: Arc<dyn BlockStore>,
    journal: Option<External>,
    pub(crate) pool: Option<Arc<Mutex<Pool>>>,
    /// The NVM pool that the image lies in, if it does.
    pub(crate) home: Option<Arc<Mutex<Pool>>>,
    /// What is written stays in memory.
    pub(crate) in_memory: bool,
    /// The home in object storage, if it is one.
    pub(crate) held: Option<Arc<Held>>,
}

/// A journal's device as a part of the joined store.
#[derive(Clone)]
struct External {
    name: String,
    device: JournalDevice,
    /// The block of the joined store with which the device begins.
    base: u64,
}

impl Media {
    /// An image alone.
    pub fn image(store: Arc<dyn BlockStore>) -> Self {
        Self { store, journal: None, pool: None, home: None, in_memory: false, held: None }
    }

    /// An image in object storage. Closing the volume closes it.
    pub(crate) fn in_bucket(held: Arc<Held>) -> Self {
        Self { held: Some(held.clone()), ..Self::image(held.store()) }
    }

    /// An image in an NVM pool, whose page table was attached ([`crate::attach_table`]): the pool may have its log,
    /// too. The store may be another that lends the pages of that pool.
    pub fn in_pool(table: Arc<dyn BlockStore>, pool: Arc<Mutex<Pool>>) -> Self {
        Self { home: Some(pool), ..Self::image(table) }
    }

    /// An image and the device of its journal. Whether that journal is the image's is seen when it is opened.
    ///
    /// # Errors
    /// The image is not ext4; the other is no journal's device, or has blocks of another size than the volume.
    pub fn with_journal(image: Arc<dyn BlockStore>, journal: Arc<dyn BlockStore>) -> Result<Self> {
        let block_size = Image::open(image.clone())?.superblock().block_size();
        Self::joined(image, journal, block_size)
    }

    /// As [`Media::with_journal`], of an image with blocks of `block_size` bytes.
    pub(crate) fn joined(image: Arc<dyn BlockStore>, journal: Arc<dyn BlockStore>, block_size: u32) -> Result<Self> {
        let name = journal.name().to_owned();
        let state = |what: String| Error::state(name.clone(), what);
        let mut bytes = [0; SIZE];
        if journal.size() < OFFSET + SIZE as u64 {
            return Err(state("too small for a journal".into()));
        }
        journal.read(OFFSET, &mut bytes)?;
        let device = JournalDevice::parse(&bytes, journal.size()).map_err(|e| state(e.to_string()))?;
        if device.block_size != block_size {
            let what = format!("a journal in blocks of {} bytes, not {block_size}", device.block_size);
            return Err(state(what));
        }
        let joined = JoinedStore::new(image, journal, u64::from(block_size));
        let base = joined.base() / u64::from(block_size);
        Ok(Self { journal: Some(External { name, device, base }), ..Self::image(Arc::new(joined)) })
    }

    /// The same, with an NVM pool in front. Whether it is the volume's is seen when that is opened.
    #[must_use]
    pub fn with_pool(self, pool: Pool) -> Self {
        self.with_shared_pool(Arc::new(Mutex::new(pool)))
    }

    /// As [`Media::with_pool`], of a pool that somebody else keeps, too.
    #[must_use]
    pub fn with_shared_pool(mut self, pool: Arc<Mutex<Pool>>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// The NVM below: of the pool that the image lies in, and of one in front of it.
    pub(crate) fn nvm(&self) -> Vec<Arc<Nvm>> {
        self.home.iter().chain(&self.pool).map(|pool| pool.lock().nvm().clone()).collect()
    }

    /// Whether a journal's device is here.
    pub(crate) fn has_device(&self) -> bool {
        self.journal.is_some()
    }

    /// The same, with everything that is written from now on kept in memory.
    pub(crate) fn in_memory(self) -> Self {
        Self { store: Arc::new(OverlayStore::new(self.store)), in_memory: true, ..self }
    }

    /// Where the journal of the image on this lies.
    ///
    /// # Errors
    /// There is none; it is on a device that was not named, or on another than that; corruption.
    pub(crate) fn log_map(&self, image: &Image) -> Result<LogMap> {
        let sb = image.superblock();
        let Some(uuid) = sb.journal_device_uuid() else {
            return Ok(LogMap::new(sb.block_size(), image.journal_map()?));
        };
        let state = |what: String| Error::state(image.name(), what);
        let wanted = uuid_text(uuid);
        let Some(External { name, device, base }) = &self.journal else {
            return Err(state(format!(
                "its journal is on another device, that with UUID {wanted}: name it with `journal_path=`"
            )));
        };
        if device.uuid != *uuid {
            let found = uuid_text(&device.uuid);
            return Err(state(format!("its journal has UUID {wanted}, {name} is the journal with UUID {found}")));
        }
        let runs = [(base + device.journal_block, 1), (base + 1, device.blocks.saturating_sub(1))];
        let map = LogMap::new(sb.block_size(), runs);
        match jbd2::info(&*self.store, &map)?.users {
            1 => Ok(map),
            users => Err(state(format!("{name} is the journal of {users} volumes; one alone can use it"))),
        }
    }

    /// Whether the volume has a journal at all, wherever it is.
    pub(crate) fn has_journal(image: &Image) -> bool {
        image.superblock().journal_inum().is_some() || image.superblock().journal_device_uuid().is_some()
    }
}

impl<S: BlockStore + 'static> From<Arc<S>> for Media {
    fn from(store: Arc<S>) -> Self {
        Self::image(store)
    }
}

impl From<Arc<dyn BlockStore>> for Media {
    fn from(store: Arc<dyn BlockStore>) -> Self {
        Self::image(store)
    }
}

impl<M: Clone + Into<Media>> From<&M> for Media {
    fn from(media: &M) -> Self {
        media.clone().into()
    }
}
