//! Logs that nobody wrote: transactions of any shape, in every version of the format.

use super::{Seed, Structure, What};
use crate::input::Input;
use ondol_format::Time;
use ondol_format::jbd2::{
    Commit, DescriptorWriter, JournalCompat, JournalIncompat, JournalSuperblock, LogFormat, OldChecksum, RevokeWriter,
    Tag, escape, tag_checksum,
};
use ondol_power::Layer;

/// Where a log is written.
struct Writer<'a> {
    layer: &'a mut Layer,
    seed: &'a Seed,
    format: LogFormat,
    sequence: u32,
    /// The next block of the journal.
    at: u32,
    /// The checksum of the transaction so far, as commit blocks had it first.
    sum: u32,
}

/// Blocks of a log.
const BLOCKS: u32 = 24;

/// Puts a log as `input` describes it into the journal of `layer`, an image of `seed`.
pub(crate) fn write(layer: &mut Layer, seed: &Seed, input: &mut Input<'_>) {
    let Some(head) = seed.atlas.iter().find(|s| s.what == What::JournalSuper) else { return };
    let mut features = JournalIncompat::REVOKE;
    let word = input.u8();
    features |= match word & 3 {
        0 | 1 => JournalIncompat::CSUM_V3,
        2 => JournalIncompat::CSUM_V2,
        _ => JournalIncompat::empty(),
    };
    for (bit, feature) in
        [(4, JournalIncompat::BIT64), (8, JournalIncompat::ASYNC_COMMIT), (16, JournalIncompat::FAST_COMMIT)]
    {
        if word & bit != 0 {
            features |= feature;
        }
    }
    let sequence = input.pick(&[1, 5, u32::MAX - 1, 0, 1 << 31]);
    let mut sb = JournalSuperblock::new(seed.block_size, 1024, [7; 16]);
    sb.set_incompat(features);
    sb.set_compat(if word & 32 != 0 { JournalCompat::CHECKSUM } else { JournalCompat::empty() });
    // Short rings, and logs that begin in the midst.
    let start = input.pick(&[1, 1, 2, 20, 1023]);
    sb.set_start(Some(start), sequence);
    let format = sb.format();
    layer.write(head.offset as usize, &sb.encode());
    let mut writer = Writer { layer, seed, format, sequence, at: start, sum: !0 };
    while !input.is_empty() && writer.at < BLOCKS {
        writer.block(input);
    }
}

impl Writer<'_> {
    fn put(&mut self, block: &[u8]) {
        let here = self.at;
        if let Some(s) = self.seed.atlas.iter().find(|s| s.what == What::Journal(here)) {
            self.layer.write(s.offset as usize, block);
        }
        self.at += 1;
    }

    fn blank(&self) -> Vec<u8> {
        vec![0; self.seed.block_size as usize]
    }

    fn structure(&self, input: &mut Input<'_>) -> Structure {
        self.seed.atlas[input.below(self.seed.atlas.len())]
    }

    /// A block number, mostly of something that is there.
    fn number(&self, input: &mut Input<'_>) -> u64 {
        match input.u8() % 16 {
            0 => 0,
            1 => self.seed.blocks,
            2 => u64::MAX,
            3 => 1 << 32,
            4 => u64::from(input.u32()),
            5 => self.seed.blocks - 1,
            _ => self.structure(input).block,
        }
    }

    fn block(&mut self, input: &mut Input<'_>) {
        match input.u8() % 8 {
            0..=2 => self.descriptor(input),
            3 => self.revoke(input),
            4..=6 => {
                let mut block = self.blank();
                let old_checksum = match input.u8() % 16 {
                    0..=7 => OldChecksum::Crc32(self.sum),
                    8..=13 => OldChecksum::None,
                    14 => OldChecksum::Crc32(0),
                    _ => OldChecksum::Unknown,
                };
                self.sum = !0;
                let commit = Commit { sequence: self.sequence, time: Time { sec: 1, nsec: 0 }, old_checksum };
                commit.write(&mut block, &self.format);
                self.put(&block);
                self.sequence = self.sequence.wrapping_add(1);
            }
            _ => {
                // Something with a header of any kind.
                let mut block = self.blank();
                let bytes = input.split(24);
                block[..4].copy_from_slice(&ondol_format::jbd2::MAGIC.to_be_bytes());
                block[7] = 1 + (bytes.first().copied().unwrap_or(0) % 5);
                block[8..12].copy_from_slice(&self.sequence.to_be_bytes());
                block[12..12 + bytes.len()].copy_from_slice(bytes);
                if bytes.len() > 8 {
                    super::seal::seal_commit(&mut block, &self.format);
                } else {
                    self.format.seal_tail(&mut block);
                }
                self.put(&block);
            }
        }
    }

    fn descriptor(&mut self, input: &mut Input<'_>) {
        let mut block = self.blank();
        let (format, sequence) = (self.format, self.sequence);
        let mut writer = DescriptorWriter::new(&mut block, format, sequence, &[7; 16]);
        let mut images = Vec::new();
        for _ in 0..=input.below(5) {
            let home = self.number(input);
            let from = self.structure(input);
            let mut image = self.blank();
            let n = image.len();
            self.layer.read((from.block as usize * n).min(self.layer.len() - n), &mut image);
            let (offset, bytes) = (input.below(n), input.split(4));
            let fits = bytes.len().min(n - offset);
            image[offset..offset + fits].copy_from_slice(&bytes[..fits]);
            let escaped = escape(&mut image) ^ input.one_in(32);
            let mut checksum = tag_checksum(&format, sequence, &image);
            if input.one_in(32) {
                checksum ^= 1;
            }
            if writer.push(&Tag { block: home, escaped, checksum }) {
                images.push(image);
            }
        }
        writer.finish();
        for block in std::iter::once(&block).chain(&images) {
            self.sum = ondol_format::csum::crc32_be(self.sum, block);
            self.put(block);
        }
    }

    fn revoke(&mut self, input: &mut Input<'_>) {
        let mut block = self.blank();
        let mut writer = RevokeWriter::new(&mut block, self.format, self.sequence);
        for _ in 0..=input.below(8) {
            writer.push(self.number(input));
        }
        writer.finish();
        self.put(&block);
    }
}
