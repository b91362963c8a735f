//! After a crash: what is committed in the NVM log goes home.
//!
//! Home may be older than the log, have all of it, or have parts of it: a checkpoint may have been cut off. It is not
//! verified. Records say what bytes are, so after all of them home is what it would have become, and doing it again
//! changes nothing.

use super::blocks::{Blocks, Changed, Piece};
use super::images::{Batch, Homing, in_order, needed, put_in, sealed, to_seal};
use super::pages::NOWHERE;
use super::record::InPage;
use crate::Block;
use crate::area::Writers;
use crate::client::Client;
use crate::jbd2::Recovered;
use crate::names::Kind;
use crate::{JournalError, Ranges, Result};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_nvm_log::{Contents, OnDamage, PageArea};

/// What recovery has done.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// How much.
    pub recovered: Recovered,
    /// Blocks of file data whose contents are lost, with [`OnDamage::GoOn`]. Home has something else, or parts of them.
    pub lost: Vec<u64>,
}

/// The blocks of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// How many.
    pub blocks: u64,
    /// Bytes of each.
    pub block_size: usize,
}

/// Writes what `contents` has of commits home, durably. `client` seals, as the descriptors at home have it: where
/// bitmaps lie never changes, and each descriptor lies in one sector.
///
/// # Errors
/// A record that cannot be understood; contents of a block that are lost, unless it is to go on; the log's or the
/// store's failure. What is home then is repeated the next time.
pub fn recover(
    store: &Arc<dyn BlockStore>,
    Geometry { blocks, block_size }: Geometry,
    contents: &Contents,
    client: &dyn Client,
    env: &dyn Env,
) -> Result<Replayed> {
    let mut found = found(contents, blocks)?;
    let derived = found.add_derived(client);
    let (mut batch, mut gone, mut entries) = (Batch::new(), Vec::new(), Vec::new());
    let lender = store.lender().filter(|lender| lender.page_bytes() as usize == block_size);
    let lender = lender.filter(|_| contents.pages().is_some_and(PageArea::is_of_table));
    for changed in found.changed() {
        let Changed { block, page, .. } = *changed;
        let mut source =
            Source { store: &**store, contents, block, is_all: page.is_some(), lost: false, from_home: false };
        let mut image = image(&mut source, block_size, &found, changed, client)?;
        image.dirty.add_all(derived.get(&block));
        if let (Some(_), Some(at), false) = (lender, page, source.lost || source.from_home) {
            // Nobody needs it any more.
            (image.there, image.image) = (true, Block::default());
            entries.push((block, at.page));
        }
        batch.insert(block, image);
        gone.extend(source.lost.then_some(block));
    }
    let values: Vec<_> = to_seal(&batch).into_iter().map(|block| (block, sealed(&batch, block, client))).collect();
    put_in(&mut batch, values.into_iter(), |_, image, patches| patches.apply(image.make_mut()));
    if let Some(lender) = lender {
        lender.remap(&entries)?;
    }
    let parts = in_order(&batch, client, lender.is_some());
    for part in needed(&parts, &entries) {
        part.write(store, Writers::new(None, env), block_size)?;
        store.flush()?;
    }
    let transactions = contents.commits().len() as u64;
    let recovered = Recovered { transactions, blocks: batch.len() as u64, revoked: found.freed.len() as u64 };
    Ok(Replayed { recovered, lost: gone })
}

/// The pages that the commits in `contents` name.
pub(crate) fn pages(contents: &Contents) -> Result<Vec<u32>> {
    Ok(found(contents, u64::MAX)?.pages)
}

/// The blocks that the commits in `contents` have changed: what they hold, and which bytes.
///
/// # Errors
/// A record that cannot be understood; the log's failure.
pub fn changed(contents: &Contents, volume: Geometry) -> Result<Vec<(Kind, Ranges)>> {
    let Geometry { blocks, block_size } = volume;
    let (found, mut touched) = (found(contents, blocks)?, Vec::new());
    for changed in found.changed() {
        let (mut scratch, mut ranges) = (vec![0; block_size], Ranges::default());
        found.apply(changed, &mut scratch, &mut ranges, &mut |_, _| Ok(()))?;
        touched.push((changed.kind, ranges));
    }
    Ok(touched)
}

fn found(contents: &Contents, blocks: u64) -> Result<Blocks> {
    let read = |position, into: &mut Vec<u8>| contents.read(position, into);
    let pieces = contents.commits().iter().map(|commit| Piece::read(&commit.records, blocks, read));
    Ok(Blocks::of(pieces.collect::<Result<Vec<_>>>()?))
}

/// Where the contents of one block come from.
struct Source<'s> {
    store: &'s dyn BlockStore,
    contents: &'s Contents,
    block: u64,
    /// What a page has is all that the log has of it, so home has that or nothing.
    is_all: bool,
    lost: bool,
    /// Home had them, and not the page.
    from_home: bool,
}

impl Source<'_> {
    fn fetch(&mut self, at: InPage, image: &mut [u8]) -> Result<()> {
        let pages = self.contents.pages();
        let is_there = pages.map_or(Ok(false), |pages| pages.read(at.page, image))?;
        if is_there && at.is(image) {
            return Ok(());
        }
        self.store.read(self.block * image.len() as u64, image)?;
        // Later changes may have come home with it. Of a page that is lost nobody knows whether it had the contents.
        let is_known = is_there || at.page == NOWHERE;
        let is_home = at.or_home && (at.is(image) || (is_known && !self.is_all));
        self.from_home = is_home;
        match self.contents.on_damage() {
            _ if is_home => Ok(()),
            OnDamage::Refuse => Err(JournalError::LostData { block: self.block }),
            OnDamage::GoOn => {
                self.lost = true;
                Ok(())
            }
        }
    }
}

fn image(
    source: &mut Source<'_>,
    block_size: usize,
    found: &Blocks,
    changed: &Changed,
    client: &dyn Client,
) -> Result<Homing> {
    let (mut image, mut dirty, mut built) = (vec![0; block_size], Ranges::default(), false);
    if changed.fresh {
        dirty.add(0..block_size as u32);
    } else {
        built = changed.kind != Kind::DATA && client.build(changed.kind, &mut image);
        if !built {
            source.store.read(source.block * block_size as u64, &mut image)?;
        }
    }
    found.apply(changed, &mut image, &mut dirty, &mut |at, image| source.fetch(at, image))?;
    Ok(Homing { kind: changed.kind, image: image.into(), dirty, built, there: false })
}
