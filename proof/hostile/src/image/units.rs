//! Compressed journals that nobody wrote: units of any shape, with the right checksums as often as not.

use super::{Seed, What};
use crate::input::Input;
use ondol_format::Time;
use ondol_format::csum::{crc32c, uuid_seed};
use ondol_format::jbd2::{Extension, JournalIncompat, JournalSuperblock};
use ondol_format::unit::{self, Chunk, StagedRun, Tables};
use ondol_power::Layer;

/// Blocks of the ring that are written, at most.
const BLOCKS: usize = 40;
const UUID: [u8; 16] = [7; 16];

/// Puts units as `input` describes them into the journal of `layer`, an image of `seed`.
pub(crate) fn write(layer: &mut Layer, seed: &Seed, input: &mut Input<'_>) {
    let Some(head) = seed.atlas.iter().find(|s| s.what == What::JournalSuper) else { return };
    let size = seed.block_size as usize;
    let first = input.pick(&[1u64, 5, u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX - 1]);
    let start = input.pick(&[1, 1, 2, 20, 1020]);
    let durable = input.pick(&[0, 0, first, first.wrapping_add(1), u64::MAX]);
    let mut sb = JournalSuperblock::new(seed.block_size, 1024, UUID);
    sb.set_incompat(JournalIncompat::CSUM_V3 | JournalIncompat::COMPRESSED);
    sb.set_start(Some(start), first as u32);
    sb.set_extension(&Extension { engine: 2, data: input.u8() % 5, sequence: first, durable, attached: None });
    layer.write(head.offset as usize, &sb.encode());
    let (mut at, mut sequence) = (start as usize, first);
    while !input.is_empty() && at < start as usize + BLOCKS {
        let bytes = one(layer, seed, sequence, input);
        for (i, block) in bytes.chunks(size).enumerate() {
            // The ring has blocks 1 to 1023 of the journal, which lie one behind the other.
            let place = head.offset as usize + (1 + (at - 1 + i) % 1023) * size;
            layer.write(place, block);
        }
        at += bytes.len() / size;
        sequence = if input.one_in(8) { input.u64() } else { sequence.wrapping_add(1) };
    }
}

/// Numbers of blocks: of structures, and any.
fn numbers(seed: &Seed, input: &mut Input<'_>) -> Vec<u64> {
    let number = |input: &mut Input<'_>| match input.u8() {
        0 => input.u64(),
        n => {
            let at = (usize::from(n) << 8 | usize::from(input.u8())) % seed.atlas.len();
            seed.atlas[at].offset / u64::from(seed.block_size)
        }
    };
    (0..input.below(6)).map(|_| number(input)).collect()
}

fn one(layer: &Layer, seed: &Seed, sequence: u64, input: &mut Input<'_>) -> Vec<u8> {
    let size = seed.block_size as usize;
    let (images, revoked, runs) = (numbers(seed, input), numbers(seed, input), numbers(seed, input));
    let staged: Vec<StagedRun> = runs
        .iter()
        .map(|&start| {
            let mut block = vec![0; size];
            layer.read((start as usize).saturating_mul(size).min(layer.len() - size), &mut block);
            let right = crc32c(uuid_seed(&UUID), &block);
            StagedRun { start, blocks: if input.one_in(4) { input.u32() } else { 1 }, checksum: right }
        })
        .collect();
    let tables = Tables {
        sequence: if input.one_in(16) { input.u64() } else { sequence },
        time: Time { sec: input.u8().into(), nsec: 0 },
        block_size: if input.one_in(16) { input.u32() } else { seed.block_size },
        images: &images,
        revoked: &revoked,
        staged: &staged,
    };
    let mut contents = unit::tables(&tables);
    for &block in &images {
        let mut image = vec![0; size];
        layer.read((block as usize).saturating_mul(size).min(layer.len() - size), &mut image);
        let (offset, bytes) = (input.below(size), input.split(4));
        let fits = bytes.len().min(size - offset);
        image[offset..offset + fits].copy_from_slice(&bytes[..fits]);
        contents.extend(image);
    }
    let long = [unit::CHUNK, 100, 1000][usize::from(input.u8() % 3)];
    let pack =
        |part: &[u8], plain: bool| if plain { Chunk::stored(vec![part.to_vec()]) } else { Chunk::compressed(part) };
    let chunks: Vec<Chunk> = contents.chunks(long).map(|part| pack(part, input.one_in(2))).collect();
    let durable = if input.one_in(8) { input.u64() } else { sequence.saturating_sub(1) };
    let Some(mut bytes) = unit::write(sequence, durable, &chunks, uuid_seed(&UUID), size) else { return Vec::new() };
    // Anywhere in it, then as a rule with a right checksum again.
    for _ in 0..input.below(4) {
        let (at, byte) = (usize::from(input.u16()) % bytes.len(), input.u8());
        bytes[at] ^= byte;
    }
    if !input.one_in(8) {
        let end = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if let Some(covered) = bytes.get(8..end) {
            let sum = crc32c(uuid_seed(&UUID), covered);
            bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Kind;
    use ondol_block::{BlockStore, LayerStore};
    use ondol_env::sync::Arc;

    #[test]
    fn units_are_replayed() {
        let seed = Seed::of(Kind::Plain);
        let mut layer = seed.layer.clone();
        let free = seed.atlas.iter().position(|s| s.what == What::Free).expect("a free block");
        // The numbers begin at 5, the log at block 1, nothing is known as durable; one image of a free block.
        let (high, low) = ((free >> 8) as u8, free as u8);
        let input = [1, 0, 0, 0, 1, high.max(1), low, 0, 0, 1, 0, 1, 1, 0, 0, 9, 9, 9, 9, 0, 1, 1, 0];
        write(&mut layer, seed, &mut Input::new(&input));
        let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(layer));
        let report = ondol::recover_media(&store).expect("a log");
        assert_eq!((report.transactions, report.blocks), (1, 1));
    }
}
