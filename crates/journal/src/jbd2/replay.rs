//! The second and third pass: which images are to be written home, and writing them.
//!
//! What is kept of each image in the log takes a few bytes; revokes are looked at one by one, and those of blocks that
//! have an image are kept. So the memory is bound by the blocks of the ring, whatever lies in them.

use super::Recovered;
use super::recover::Log;
use super::scan::Whole;
use crate::{Corrupt, JournalError, NumberHash, Result};
use ondol_format::FormatError;
use ondol_format::jbd2::{self, BlockType, Descriptor, Header, Revoke, Tag};
use std::collections::HashMap;

/// Where the image of one block lies.
#[derive(Clone, Copy)]
struct Image {
    home: u64,
    at: u32,
    sequence: u32,
    checksum: u32,
    escaped: bool,
}

/// What is to be written home.
pub(super) struct Images {
    /// The newest image of each block, by rising number.
    newest: Vec<Image>,
    /// How many revokes held back.
    pub(super) revoked: u64,
}

/// What the whole transactions of a log consist of.
enum Part<'a> {
    Image(&'a Image),
    /// What a revoke block of this transaction names.
    Revoked(u64, u32),
}

impl Log<'_> {
    /// The newest image of every block that is to be replayed.
    pub(super) fn collect(&self, whole: &Whole) -> Result<Images> {
        let mut images: Vec<Image> = Vec::with_capacity(whole.images);
        let mut any_revoked = false;
        self.walk(whole, |part| match part {
            Part::Image(image) => images.push(*image),
            Part::Revoked(..) => any_revoked = true,
        })?;
        images.sort_unstable_by_key(|image| (image.home, self.ring.distance(whole.start, image.at.into())));
        let before = images.len();
        if any_revoked {
            let revokes = self.revokes(whole, &images)?;
            let later = |i: &Image| revokes.get(&i.home).is_some_and(|&r| !jbd2::sequence_after(i.sequence, r));
            images.retain(|image| !later(image));
        }
        let revoked = (before - images.len()) as u64;
        images.dedup_by(|next, kept| {
            let same = next.home == kept.home;
            if same {
                *kept = *next;
            }
            same
        });
        Ok(Images { newest: images, revoked })
    }

    /// The newest transaction that revokes each block which one of `images` is of.
    fn revokes(&self, whole: &Whole, images: &[Image]) -> Result<HashMap<u64, u32, NumberHash>> {
        let mut revokes = HashMap::default();
        self.walk(whole, |part| match part {
            Part::Revoked(block, sequence) if images.binary_search_by_key(&block, |image| image.home).is_ok() => {
                revokes.insert(block, sequence);
            }
            _ => {}
        })?;
        Ok(revokes)
    }

    /// Shows everything in the whole transactions to `look`, in the order of the log.
    fn walk(&self, whole: &Whole, mut look: impl FnMut(Part<'_>)) -> Result<()> {
        let (mut at, mut sequence) = (whole.start, whole.first);
        while sequence != whole.end {
            let block = self.read(at)?;
            let here = at;
            let bad = |e: FormatError| self.corrupt(here, &e);
            match Header::parse(&block).map(|h| h.kind) {
                Some(BlockType::Descriptor) => {
                    for tag in Descriptor::new(&block, self.format, self.place(at)).map_err(bad)? {
                        at = self.ring.after(at, 1);
                        let Tag { block: home, escaped, checksum } = tag.map_err(bad)?;
                        look(Part::Image(&Image { home, at: at as u32, sequence, checksum, escaped }));
                    }
                }
                Some(BlockType::Revoke) => {
                    let revoked = Revoke::new(&block, self.format, self.place(at)).map_err(bad)?;
                    revoked.for_each(|block| look(Part::Revoked(block, sequence)));
                }
                Some(BlockType::Commit) => sequence = sequence.wrapping_add(1),
                _ => return Err(self.lost(at)),
            }
            at = self.ring.after(at, 1);
        }
        Ok(())
    }

    fn lost(&self, at: u64) -> JournalError {
        let what = "a block that was read before is not there any more".to_owned();
        Corrupt { structure: "journal".into(), block: self.ring.named(at), what }.into()
    }

    /// Whether all images can be written home.
    ///
    /// # Errors
    /// One of them is damaged, or has no place there.
    pub(super) fn verify(&self, images: &Images, volume_blocks: u64) -> Result<()> {
        images.newest.iter().try_for_each(|image| self.image(image, volume_blocks).map(drop))
    }

    /// Writes images home; what that came to with those of `transactions` transactions.
    pub(super) fn replay(&self, images: &Images, transactions: u32, volume_blocks: u64) -> Result<Recovered> {
        // Everything is checked before the first home block is touched.
        self.verify(images, volume_blocks)?;
        for image in &images.newest {
            let bytes = self.image(image, volume_blocks)?;
            self.store.write(image.home * self.ring.block_size() as u64, &bytes)?;
        }
        let (transactions, blocks) = (transactions.into(), images.newest.len() as u64);
        Ok(Recovered { transactions, blocks, revoked: images.revoked })
    }

    fn image(&self, image: &Image, volume_blocks: u64) -> Result<Vec<u8>> {
        let &Image { home, at, sequence, checksum, escaped } = image;
        let block = self.ring.named(at.into());
        let bad = |what: String| Corrupt { structure: format!("journal image of block {home}"), block, what };
        if home >= volume_blocks || self.ring.map().contains(home) {
            return Err(bad("the volume has no such block to be journaled".into()).into());
        }
        let mut bytes = self.read(at.into())?;
        let tag = Tag { block: home, escaped, checksum };
        if !jbd2::tag_checksum_matches(&self.format, sequence, &tag, &bytes) {
            return Err(bad(format!("wrong checksum in transaction {sequence}")).into());
        }
        if escaped {
            jbd2::unescape(&mut bytes);
        }
        Ok(bytes)
    }
}
