//! Directory hashes against debugfs's dx_hash.

use crate::common::{have, must};
use ondol_format::hash::{DxHash, HashVersion};
use std::fmt::Write;

const SEED: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
const SEED_BYTES: [u8; 16] =
    [0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78, 0x87, 0x96, 0xa5, 0xb4, 0xc3, 0xd2, 0xe1, 0xf0];

/// Names of many lengths, half of them with bytes above 127, none with a byte that debugfs's command line would take.
fn names() -> Vec<Vec<u8>> {
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as u8
    };
    (1..=255usize)
        .map(|len| {
            let high = if len % 2 == 0 { 0x80 } else { 0 };
            (0..len).map(|_| (b'a' + random() % 26) | if random() % 3 == 0 { high } else { 0 }).collect()
        })
        .collect()
}

#[test]
fn every_version_agrees_with_debugfs() {
    if !have("debugfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    crate::common::make(&image, 8 << 20, &crate::common::options());
    for version in [HashVersion::Legacy, HashVersion::HalfMd4, HashVersion::Tea] {
        for unsigned in [false, true] {
            for seeded in [false, true] {
                // debugfs knows the unsigned versions by number alone.
                let word = version as u8 + if unsigned { 3 } else { 0 };
                let mut script = Vec::new();
                for name in names() {
                    let seed = if seeded { format!("-s {SEED} ") } else { String::new() };
                    script.extend_from_slice(format!("dx_hash -h {word} {seed}").as_bytes());
                    script.extend_from_slice(&name);
                    script.push(b'\n');
                }
                let path = dir.path().join("script");
                std::fs::write(&path, script).unwrap();
                let text = must("debugfs", &["-f", path.to_str().unwrap(), image.to_str().unwrap()]);
                let theirs: Vec<&str> =
                    text.lines().filter_map(|line| line.split_once(" is ").map(|(_, h)| h)).collect();
                let mut seed = [0; 4];
                if seeded {
                    for (word, bytes) in seed.iter_mut().zip(SEED_BYTES.chunks(4)) {
                        *word = u32::from_le_bytes(bytes.try_into().unwrap());
                    }
                }
                let hasher = DxHash { version, unsigned, seed };
                assert_eq!(theirs.len(), names().len(), "{word}: {text}");
                for (name, theirs) in names().iter().zip(theirs) {
                    let hash = hasher.hash(name);
                    let mut ours = String::new();
                    write!(ours, "{:#x} (minor {:#x})", hash.major, hash.minor).unwrap();
                    assert_eq!(ours, theirs, "{word}, seeded {seeded}, {} bytes", name.len());
                }
            }
        }
    }
}
