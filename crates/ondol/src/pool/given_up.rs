//! What only a pool has, so that it is lost when something else is made in the pool.

use crate::nvm::Lost;
use crate::words::uuid_text;
use crate::{Remedy, Result, counted, nvm};
use ondol_block::BlockStore;
use ondol_format::Superblock;
use ondol_format::superblock::{OFFSET, SIZE};
use ondol_medium::Pool;
use ondol_page_table::{PageTable, has_table};
use serde::Serialize;
use std::path::Path;

/// See the module documentation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GivenUp {
    /// The image under a page table, if there is one.
    pub image: Option<GivenUpImage>,
    /// Changes of a volume that are not home, or a volume that still names the pool.
    pub changes: Option<GivenUpChanges>,
}

/// An image in a pool.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GivenUpImage {
    /// UUID of its volume, if its superblock can be read.
    pub uuid: Option<String>,
    /// Its label; empty without one.
    pub label: String,
}

/// What the log of a pool has.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GivenUpChanges {
    /// The pool.
    pub pool: String,
    /// UUID of the volume that the pool is attached to.
    pub volume: Option<String>,
    /// That is the one in the pool.
    pub is_inside: bool,
    /// How much is not home; nobody can tell where the log is damaged.
    pub lost: Option<Lost>,
}

impl GivenUp {
    /// What lies in the pool at `path`, which nobody may have open for writing. Changes nothing. A pool that cannot be
    /// used has nothing.
    ///
    /// # Errors
    /// It is in use, or is no pool.
    pub fn in_pool(path: impl AsRef<Path>) -> Result<Self> {
        let pool = nvm::open(path.as_ref(), true)?;
        Ok(Self::of(&pool, has_table(&pool)?))
    }

    /// Of a pool that has an image, or has none. A transaction of its page table that was cut off is undone if the pool
    /// is open for writing.
    pub(crate) fn of(pool: &Pool, has_image: bool) -> Self {
        let image = has_image.then(|| GivenUpImage::of(pool));
        Self { changes: GivenUpChanges::of(pool, image.as_ref()), image }
    }

    /// Each on a line, in words.
    pub fn lines(&self) -> Vec<String> {
        let image = self.image.iter().map(GivenUpImage::text);
        image.chain(self.changes.iter().flat_map(GivenUpChanges::lines)).collect()
    }
}

impl GivenUpImage {
    pub(crate) fn of(pool: &Pool) -> Self {
        let read = || superblock(&PageTable::attach(pool).ok()?);
        read().map_or_else(Self::default, |sb| Self {
            uuid: Some(uuid_text(&sb.raw().s_uuid)),
            label: String::from_utf8_lossy(sb.raw().volume_name()).into_owned(),
        })
    }

    fn text(&self) -> String {
        let label = if self.label.is_empty() { String::new() } else { format!(" {:?}", self.label) };
        match &self.uuid {
            Some(uuid) => format!("the image{label} with UUID {uuid}"),
            None => "an image whose superblock cannot be read".into(),
        }
    }
}

impl GivenUpChanges {
    /// Of a pool that has `image`, or none.
    pub(crate) fn of(pool: &Pool, image: Option<&GivenUpImage>) -> Option<Self> {
        let volume = pool.header().volume.as_ref().map(uuid_text);
        let lost = nvm::lost_in(pool, None).inspect_err(|e| tracing::debug!("{e}")).ok();
        let is_inside = volume.is_some() && image.is_some_and(|image| image.uuid == volume);
        // A volume that is given up with the pool needs no other.
        let has_some = volume.is_some() && !is_inside || lost.as_ref().is_none_or(|lost| lost.commits > 0);
        has_some.then(|| Self { pool: pool.nvm().name().into(), volume, is_inside, lost })
    }

    fn of_volume(&self) -> String {
        self.volume.as_ref().map_or_else(|| "of a volume".into(), |uuid| format!("of the volume with UUID {uuid}"))
    }

    fn lines(&self) -> Vec<String> {
        let of = self.of_volume();
        let Some(lost) = &self.lost else { return vec![format!("a log {of} that cannot be read")] };
        if lost.commits == 0 {
            return vec![format!("nothing {of}, which takes no other pool until this one is given up there, too")];
        }
        let (commits, operations) = (counted(lost.commits, "commit"), counted(lost.operations, "operation"));
        let mut lines = vec![format!("{commits} {of}: {operations}, which changed {}", counted(lost.blocks, "block"))];
        lines.extend(
            lost.between.map(|(from, to)| format!("they were made between {from} and {to}, in seconds since 1970")),
        );
        lines
    }

    /// What is in the way of making something else.
    pub(crate) fn in_the_way(&self) -> String {
        let of = self.of_volume();
        match &self.lost {
            None => format!("a log {of} that cannot be read"),
            Some(lost) if lost.commits == 0 => format!("nothing {of}, which names the pool until it is recovered"),
            Some(lost) => format!("{} {of} that nothing else has", counted(lost.commits, "commit")),
        }
    }

    /// What brings it home.
    pub(crate) fn remedy(&self) -> Remedy {
        let pool = self.pool.clone();
        match self.is_inside {
            true => Remedy::Recover { image: Some(format!("nvm:{pool}")) },
            false => Remedy::RecoverWithPool { pool: Some(pool) },
        }
    }
}

/// The superblock of an image in a pool, if it is one.
fn superblock(table: &PageTable) -> Option<Superblock> {
    let mut bytes = [0; SIZE];
    table.read(OFFSET, &mut bytes).ok()?;
    Superblock::parse(&bytes, table.size()).ok()
}
