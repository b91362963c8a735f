//! Patches: what an input changes in a seed.

use super::{Seed, Structure, What, seal};
use crate::input::Input;
use ondol_power::Layer;

/// Most patches of an input.
const PATCHES: usize = 24;

/// The seed's image with the patches that `input` begins with, in structures that `which` allows. Checksums are then
/// made right, unless the input wants them wrong.
pub(crate) fn patched(seed: &Seed, input: &mut Input<'_>, which: fn(&Structure) -> bool) -> Layer {
    let chosen: Vec<usize> = (0..seed.atlas.len()).filter(|i| which(&seed.atlas[*i])).collect();
    let mut layer = seed.layer.clone();
    if chosen.is_empty() {
        return layer;
    }
    let head = input.u8();
    let (count, sealed) = (usize::from(head & 31).min(PATCHES), head & 0x80 == 0);
    let mut structures = seed.atlas.clone();
    let mut touched = vec![false; structures.len()];
    for _ in 0..count {
        let at = chosen[input.below(chosen.len())];
        touched[at] = true;
        one(seed, &mut layer, &mut structures, at, input);
    }
    if sealed {
        seal::all(&mut layer, &structures, &touched);
    }
    layer
}

fn one(seed: &Seed, layer: &mut Layer, structures: &mut [Structure], at: usize, input: &mut Input<'_>) {
    let s = structures[at];
    let len = s.len as usize;
    let how = input.u8();
    match how % 8 {
        0 => {
            let offset = input.below(len);
            let byte = input.u8();
            write(layer, s, offset, &[byte]);
        }
        1 | 2 => {
            let wide = how % 8 == 2;
            let offset = input.below(len) & !(if wide { 3 } else { 1 });
            let value = value(seed, input).to_le_bytes();
            // The log is big-endian.
            let swapped = [value[3], value[2], value[1], value[0]];
            let log = matches!(s.what, What::JournalSuper | What::Journal(_));
            match (wide, log) {
                (true, true) => write(layer, s, offset, &swapped),
                (true, false) => write(layer, s, offset, &value),
                (false, true) => write(layer, s, offset, &swapped[2..]),
                (false, false) => write(layer, s, offset, &value[..2]),
            }
        }
        3 => {
            let offset = input.below(len);
            let mut byte = [0];
            layer.read(s.offset as usize + offset, &mut byte);
            write(layer, s, offset, &[byte[0] ^ 1 << (how >> 5)]);
        }
        4 => {
            let other = structures[input.below(structures.len())];
            let (offset, n) = (input.below(len), usize::from(input.u8()) * 4 + 4);
            let mut bytes = vec![0; n.min(other.len as usize).min(len - offset)];
            let from = offset.min(other.len as usize - bytes.len());
            layer.read(other.offset as usize + from, &mut bytes);
            write(layer, s, offset, &bytes);
        }
        5 => {
            let (offset, n, byte) = (input.below(len), usize::from(input.u8()) * 4 + 1, input.u8());
            write(layer, s, offset, &vec![byte; n]);
        }
        6 => {
            let (offset, n) = (input.below(len), usize::from(input.u8() % 64));
            let bytes = input.split(n);
            write(layer, s, offset, bytes);
        }
        _ => {
            // From now on it counts as what another one is, and holds that one's bytes.
            let other = structures[input.below(structures.len())];
            let mut bytes = vec![0; len.min(other.len as usize)];
            layer.read(other.offset as usize, &mut bytes);
            write(layer, s, 0, &bytes);
            if s.len == other.len && !matches!(s.what, What::Superblock | What::Desc(_)) {
                structures[at] = Structure { what: other.what, ino: other.ino, ..s };
            }
        }
    }
}

/// Writes what fits.
fn write(layer: &mut Layer, s: Structure, offset: usize, bytes: &[u8]) {
    let n = bytes.len().min((s.len as usize).saturating_sub(offset));
    layer.write(s.offset as usize + offset, &bytes[..n]);
}

/// A number that may mean something: at an edge, or the block or inode of something that is there.
fn value(seed: &Seed, input: &mut Input<'_>) -> u32 {
    let other = |input: &mut Input<'_>| seed.atlas[input.below(seed.atlas.len())];
    match input.u8() % 32 {
        0 => 0,
        1 => 1,
        2 => u32::MAX,
        3 => 1 << 31,
        4 => (1 << 31) - 1,
        5 => 0xffff,
        6 => 0x8000,
        7 => seed.blocks as u32,
        8 => seed.blocks as u32 - 1,
        9 => seed.inodes,
        10 => seed.inodes + 1,
        11 => seed.block_size,
        12 => seed.block_size - 12,
        13 => 1 << 16,
        14..=17 => other(input).block as u32,
        18..=20 => other(input).ino,
        // The flags of inodes that say where their contents are.
        21 => 1 << input.below(32),
        22 => 0x0008_0000,
        23 => 0x1000_0000,
        24 => 0x0020_0000,
        25..=28 => u32::from(input.u8()),
        29 => u32::from(input.u16()),
        _ => input.u32(),
    }
}
