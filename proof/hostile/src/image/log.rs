//! Logs that nobody wrote: transactions of any shape, in every version of the format.

use super::{Seed, Structure, What};
use crate::input::Input;
use ondol_format::Time;
use ondol_format::csum::crc32c;
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
        if features.contains(JournalIncompat::FAST_COMMIT) && input.one_in(4) {
            let tid = writer.sequence;
            fast_commits(writer.layer, seed, head, tid, input);
            return;
        }
        writer.block(input);
    }
}

/// Where the area of fast commits begins in a journal of 1,024 blocks.
const AREA: u64 = 1024 - 256 + 1;

/// Fills the beginning of the area behind the log.
fn fast_commits(layer: &mut Layer, seed: &Seed, head: &Structure, tid: u32, input: &mut Input<'_>) {
    let size = u64::from(seed.block_size);
    // The journal of a seed is one run.
    let mut block = head.block + AREA;
    let mut bytes = tag(9, &[0u32.to_le_bytes(), tid.to_le_bytes()].concat());
    let mut sum = crc32c(0, &bytes);
    while !input.is_empty() {
        let (kind, value) = change(seed, layer, input);
        let ends = kind == 8 || bytes.len() + value.len() + 16 > size as usize;
        if !ends {
            let new = tag(kind, &value);
            sum = crc32c(sum, &new);
            bytes.extend(new);
            continue;
        }
        let length = (size as usize - bytes.len() - 4) as u16;
        let mut tail = [8u16.to_le_bytes(), length.to_le_bytes()].concat();
        tail.extend(tid.to_le_bytes());
        sum = crc32c(sum, &tail);
        tail.extend(sum.to_le_bytes());
        bytes.extend(tail);
        layer.write((block * size) as usize, &bytes[..bytes.len().min(size as usize)]);
        (block, sum) = (block + 1, 0);
        bytes.clear();
        if block > head.block + AREA + 8 {
            return;
        }
    }
}

fn tag(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(value.len() as u16).to_le_bytes(), value].concat()
}

/// One change of a fast commit: its type and value. Type 8 ends the commit.
fn change(seed: &Seed, layer: &Layer, input: &mut Input<'_>) -> (u16, Vec<u8>) {
    let ino = |input: &mut Input<'_>| match input.u8() {
        255 => input.u32(),
        250..=254 => u32::from(input.u8()),
        200..=249 => 60 + u32::from(input.u8() % 40),
        n => seed.inos[usize::from(n) % seed.inos.len()],
    };
    match input.u8() % 12 {
        0..=1 => {
            // A range is mapped: logical block, length with the mark of unwritten ones, physical block.
            let who = ino(input);
            let (logical, len) = (u32::from(input.u8()), u16::from(input.u8() % 16) + 1);
            let len = if input.one_in(4) { len | 0x8000 } else { len };
            let start =
                if input.one_in(4) { input.u32() } else { seed.blocks as u32 / 2 + u32::from(input.u16() % 1500) };
            let extent = [&logical.to_le_bytes()[..], &len.to_le_bytes(), &[0, 0], &start.to_le_bytes()].concat();
            (1, [&who.to_le_bytes()[..], &extent].concat())
        }
        2 => {
            let (who, logical, len) = (ino(input), u32::from(input.u8()), u32::from(input.u16()));
            (2, [who, logical, len].map(u32::to_le_bytes).concat())
        }
        n @ 3..=6 => {
            let (parent, who) = (ino(input), ino(input));
            let name =
                input.pick(&[&b"file"[..], b"new", b"d", b"big", b"flat", b"tiny", b".", b"a/b", b"one", b"name 0001"]);
            (if n == 6 { 4 } else { n as u16 }, [&parent.to_le_bytes()[..], &who.to_le_bytes(), name].concat())
        }
        7..=9 => {
            // An inode as another one is, but for a few bytes.
            let (who, like) = (ino(input), ino(input));
            let from = seed.atlas.iter().find(|s| s.what == What::Inode && s.ino == like);
            let mut raw = vec![0; 160];
            if let Some(s) = from {
                layer.read(s.offset as usize, &mut raw);
            }
            for _ in 0..input.u8() % 4 {
                let at = input.below(raw.len());
                raw[at] = input.u8();
            }
            (6, [&who.to_le_bytes()[..], &raw].concat())
        }
        10 => (7, vec![0; usize::from(input.u8())]),
        _ => (8, Vec::new()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Kind;
    use ondol_block::{BlockStore, LayerStore};
    use ondol_env::sync::Arc;

    #[test]
    fn logs_and_fast_commits_are_replayed() {
        let seed = Seed::of(Kind::Plain);
        let replay = |bytes: &[u8]| {
            let mut layer = seed.layer.clone();
            write(&mut layer, seed, &mut Input::new(bytes));
            let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(layer));
            ondol::recover_media(&store)
        };
        // Checksum v3, first sequence number and start, a descriptor of one image of a free block, a commit.
        let free = seed.atlas.iter().position(|s| s.what == What::Free).expect("a free block") as u16;
        let [low, high] = free.to_le_bytes();
        let log = [0, 0, 0, 0, 0, 6, low, high, low, high, 0, 0, 0, 0, 0, 0, 0, 0, 4, 8];
        let report = replay(&log).expect("a log");
        assert_eq!((report.transactions, report.blocks), (1, 1));
        // The same log; then fast commits that take a name from the root.
        let file = seed.inos.iter().position(|i| *i > 11).expect("a file") as u8;
        let log = [16, 0, 0, 3, 5, 0, file, 0, 11, 1];
        let report = replay(&log).expect("fast commits");
        assert_eq!(report.transactions, 1, "fast commits become a transaction");
        // A name that is none, and blocks for the journal itself.
        let refused = |bytes: &[u8]| replay(bytes).expect_err("a hostile fast commit").to_string();
        assert!(refused(&[16, 0, 0, 3, 3, 0, file, 6, 11, 1]).contains("is no name"));
        assert!(refused(&[16, 0, 0, 3, 0, 250, 8, 0, 0, 0, 0, 0, 0, 11, 1]).contains("the file system's own"));
    }
}
