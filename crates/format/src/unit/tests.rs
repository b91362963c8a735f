use super::*;
use proptest::prelude::*;

const SEED: u32 = 0x1234_5678;
const BLOCK: usize = 1024;

fn unit(images: &[(u64, Vec<u8>)], revoked: &[u64], staged: &[StagedRun]) -> Vec<u8> {
    let blocks: Vec<u64> = images.iter().map(|(block, _)| *block).collect();
    let time = Time { sec: 77, nsec: 5 };
    let head = Tables { sequence: 9, time, block_size: BLOCK as u32, images: &blocks, revoked, staged };
    let mut chunks = vec![Chunk::compressed(&tables(&head))];
    for some in images.chunks(CHUNK / BLOCK) {
        let contents: Vec<u8> = some.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        chunks.push(if looks_random(&contents) { Chunk::stored(vec![contents]) } else { Chunk::compressed(&contents) });
    }
    write(9, 8, &chunks, SEED, BLOCK).unwrap()
}

fn image(n: u64, random: bool) -> Vec<u8> {
    let mut x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..BLOCK).map(|i| if random { next() } else { b"the same text again. "[i % 21] }).collect()
}

/// Everything in a unit.
#[derive(Debug, Default)]
struct Whole {
    time: Time,
    images: Vec<(u64, Vec<u8>)>,
    revoked: Vec<u64>,
    staged: Vec<StagedRun>,
}

/// Lends the bytes of a unit; there are none behind them.
fn source(bytes: &[u8]) -> impl FnMut(usize, &mut [u8]) -> Result<(), String> {
    |at, into| {
        let from = bytes.get(at..at + into.len()).ok_or_else(|| format!("{} bytes at {at}", into.len()))?;
        into.copy_from_slice(from);
        Ok(())
    }
}

fn is_whole(header: &Header, bytes: &[u8], seed: u32) -> bool {
    header.is_whole(seed, source(bytes)) == Ok(true)
}

fn open(header: &Header, bytes: &[u8]) -> Result<Whole, Failed<String>> {
    let mut unit = Unit::open(header, BLOCK, source(bytes))?;
    let mut whole = Whole { time: unit.time, ..Whole::default() };
    assert_eq!(unit.sequence, header.sequence);
    while let Some(block) = unit.next_revoked()? {
        whole.revoked.push(block);
    }
    while let Some(run) = unit.next_staged()? {
        whole.staged.push(run);
    }
    let mut image = vec![0; BLOCK];
    while let Some(block) = unit.next_image(&mut image)? {
        whole.images.push((block, image.clone()));
    }
    unit.finish().map(|()| whole)
}

fn read(bytes: &[u8]) -> Option<Whole> {
    let header = Header::parse(bytes, 1 << 30)?;
    is_whole(&header, bytes, SEED).then(|| open(&header, bytes).unwrap())
}

#[test]
fn what_is_written_is_read() {
    let images: Vec<(u64, Vec<u8>)> = (0..700).map(|n| (n * 3, image(n, n % 2 == 0))).collect();
    let staged = [StagedRun { start: 5000, blocks: 16, checksum: 3 }];
    let bytes = unit(&images, &[1, 4], &staged);
    assert!(bytes.len().is_multiple_of(BLOCK) && bytes.len() as u64 <= most_bytes(BLOCK as u64, 700, 2));
    assert_eq!(u32::from_le_bytes(bytes[..4].try_into().unwrap()).div_ceil(BLOCK as u32) as usize, bytes.len() / BLOCK);
    let found = read(&bytes).unwrap();
    assert_eq!(
        (found.time, &found.revoked[..], &found.staged[..]),
        (Time { sec: 77, nsec: 5 }, &[1, 4][..], &staged[..])
    );
    assert!(found.images == images);
    let mut unit = Unit::open(&Header::parse(&bytes, 1 << 30).unwrap(), BLOCK, source(&bytes)).unwrap();
    assert_eq!(unit.blocks().len(), 700);
    assert_eq!(unit.next_image(&mut vec![0; BLOCK]), Ok(Some(0)), "tables may be passed over");
}

#[test]
fn every_bit_counts() {
    let bytes = unit(&[(7, image(1, false)), (8, image(2, true))], &[], &[]);
    let size = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    for at in 0..size * 8 {
        let mut torn = bytes.clone();
        torn[at / 8] ^= 1 << (at % 8);
        assert!(read(&torn).is_none(), "bit {at}");
    }
    assert!(Header::parse(&bytes, 64).is_none(), "longer than its ring");
    assert!(!is_whole(&Header::parse(&bytes, 1 << 30).unwrap(), &bytes, SEED + 1), "of another journal");
}

#[test]
fn text_and_tables_compress_and_noise_is_not_tried() {
    assert!(!looks_random(&image(3, false)) && !looks_random(&[0; 4096]));
    let base64: Vec<u8> = image(5, true)
        .iter()
        .map(|b| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[usize::from(b % 64)])
        .collect();
    assert!(!looks_random(&base64));
    for n in 0..200 {
        assert!(looks_random(&image(n + 100, true)), "{n}");
    }
}

proptest! {
    /// With a right checksum, too: whatever the bytes, an answer and no more memory than the ring has.
    #[test]
    fn hostile_units(mut bytes in proptest::collection::vec(any::<u8>(), 64..2000),
            changes in proptest::collection::vec((0usize..400, any::<u8>()), 0..6)) {
        let whole = unit(&[(7, image(1, false)), (9, image(2, true))], &[3], &[StagedRun { start: 1, blocks: 1,
            checksum: 1 }]);
        if bytes.len().is_multiple_of(2) {
            bytes = whole;
        }
        for (at, byte) in changes {
            bytes[at % 400 % 64] = byte;
        }
        if let Some(header) = Header::parse(&bytes, 1 << 20) {
            let _ = open(&header, &bytes);
        }
    }
}
