//! Derived values of a transaction's images.

use super::Frozen;
use crate::Block;
use crate::client::{Client, Images, Patches};
use crate::names::Kind;

/// Images by rising block number.
pub(crate) type BlockImages = Vec<(u64, Block)>;

struct TxImages<'a>(&'a [Frozen]);

impl Images for TxImages<'_> {
    fn image(&self, block: u64) -> Option<&[u8]> {
        let at = self.0.binary_search_by_key(&block, |f| f.buf.block).ok()?;
        Some(&self.0[at].image)
    }
}

/// Derived values go into the images of `blocks`, which are sorted, and, so that the next transaction builds on them,
/// into the live blocks.
///
/// They are computed for all images before any is changed, and then, where nobody else holds an image, put into it in
/// place.
pub(crate) fn seal(client: &dyn Client, blocks: &mut [Frozen]) -> BlockImages {
    let derive = |frozen: &Frozen, tx: &TxImages<'_>| match frozen.kind {
        Kind::DATA => Patches::default(),
        kind => client.seal(frozen.buf.block, kind, &frozen.image, &frozen.dirty, tx),
    };
    let tx = TxImages(blocks);
    let patches: Vec<Patches> = blocks.iter().map(|frozen| derive(frozen, &tx)).collect();
    let put = |(frozen, patches): (&mut Frozen, Patches)| {
        if !patches.is_empty() {
            frozen.buf.state.lock().take_seal(&mut frozen.image, &patches);
        }
        (frozen.buf.block, std::mem::take(&mut frozen.image))
    };
    blocks.iter_mut().zip(patches).map(put).collect()
}
