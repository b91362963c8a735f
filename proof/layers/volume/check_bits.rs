//! Single flipped bits in metadata: what e2fsck finds, the check finds too.

use crate::rig::{BLOCK, CHECKSUMMED, ImageFile, PLAIN, base};
use ondol_block::RamStore;
use ondol_volume::{Image, check};
use std::sync::Arc;

/// Whether the check finds anything; an image that it refuses to look at counts.
fn finds(bytes: &[u8]) -> bool {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec())));
    !image.and_then(|image| check(&image, &mut |_| ())).is_ok_and(|report| report.is_clean())
}

#[test]
fn flipped_bits() {
    let mut state = 0x1234_5678u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for options in [PLAIN, CHECKSUMMED] {
        let bytes = base(options);
        assert_eq!(bytes, base(options), "the image is the same on every run");
        // What lies in front, without the superblock, what is empty, and the contents of files, which are one byte
        // again and again.
        let is_data = |block: &[u8]| matches!(block[0], 1..=3) && block.iter().all(|byte| *byte == block[0]);
        let metadata: Vec<usize> = (2 * BLOCK..1200 * BLOCK)
            .filter(|&at| bytes[at / 16 * 16..at / 16 * 16 + 16].iter().any(|&byte| byte != 0))
            .filter(|&at| !is_data(&bytes[at / BLOCK * BLOCK..at / BLOCK * BLOCK + BLOCK]))
            .collect();
        let (mut found, mut missed) = (0, Vec::new());
        for _ in 0..150 {
            let (at, bit) = (metadata[next() % metadata.len()], next() % 8);
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let (code, words) = ImageFile::new(&flipped).e2fsck("-fn");
            let told = code & 12 != 0 || words.contains("? no");
            found += usize::from(told);
            if told && !finds(&flipped) {
                missed.push(format!("bit {bit} of byte {} of block {}: {words}", at % BLOCK, at / BLOCK));
            }
        }
        assert!(missed.is_empty(), "{}", missed.join("\n"));
        assert!(found > 90, "{found} of 150 flips are damage");
    }
}
