use super::*;
use proptest::prelude::*;

const SIZES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];

fn format(bytes: u64) -> ChunkFormat {
    ChunkFormat::new(0x0d01, ChunkSize::new(bytes).unwrap())
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Bytes that compress.
fn text(len: usize) -> Vec<u8> {
    b"The floor stays warm after the fire has gone out. ".iter().copied().cycle().take(len).collect()
}

/// A value with a checksum that fits.
fn sealed(format: &ChunkFormat, number: u64, kind: u8, zero: u16, stored: &[u8]) -> Vec<u8> {
    let mut value = vec![VERSION, kind];
    value.extend(zero.to_le_bytes());
    value.extend([0; 4]);
    value.extend(stored);
    let sum = format.checksum(number, &value);
    value[4..HEADER].copy_from_slice(&sum.to_le_bytes());
    value
}

fn decoded(format: &ChunkFormat, number: u64, value: &[u8]) -> Result<Vec<u8>, ChunkError> {
    let mut chunk = vec![0xaa; format.size().bytes()];
    format.decode(number, value, &mut chunk).map(|()| chunk)
}

#[test]
fn sizes_are_powers_of_two_within_bounds() {
    for bytes in SIZES {
        assert_eq!(ChunkSize::new(bytes).unwrap().bytes() as u64, bytes);
    }
    for bytes in [0, 1, 512, 2048, 4095, 5000, 12288, 131_072, 1 << 32, u64::MAX] {
        assert_eq!(ChunkSize::new(bytes), Err(ChunkError::Size { bytes }));
    }
}

#[test]
fn keys_are_in_the_order_of_numbers() {
    let numbers = [0, 1, 255, 256, 65_535, 1 << 32, u64::MAX - 1, u64::MAX];
    let keys = numbers.map(ChunkFormat::key);
    assert!(keys.is_sorted());
    assert_eq!(keys.map(|key| ChunkFormat::number(&key)), numbers.map(Some));
    assert_eq!(keys[2], *b"c\0\0\0\0\0\0\0\xff");
    for other in [&b""[..], b"c", b"h", b"t", b"c0000000", b"c000000000", b"d00000000"] {
        assert_eq!(ChunkFormat::number(other), None, "{other:?}");
    }
}

#[test]
fn zeros_have_no_value() {
    for bytes in SIZES {
        let format = format(bytes);
        let mut chunk = vec![0; bytes as usize];
        assert_eq!(format.encode(7, &chunk), Ok(None));
        *chunk.last_mut().unwrap() = 1;
        let value = format.encode(7, &chunk).unwrap().unwrap();
        assert_eq!(decoded(&format, 7, &value), Ok(chunk));
    }
}

#[test]
fn what_shrinks_is_compressed_and_what_does_not_is_stored_as_it_is() {
    for bytes in SIZES {
        let (format, len) = (format(bytes), bytes as usize);
        let value = format.encode(3, &text(len)).unwrap().unwrap();
        assert_eq!(value[1], LZ4);
        assert!(value.len() < HEADER + len / 2, "{} of {len}", value.len());
        assert_eq!(decoded(&format, 3, &value), Ok(text(len)));
        let value = format.encode(3, &noise(len)).unwrap().unwrap();
        assert_eq!((value[1], value.len()), (RAW, HEADER + len));
        assert_eq!(decoded(&format, 3, &value), Ok(noise(len)));
    }
}

/// Values in buckets must be readable for ever.
#[test]
fn the_bytes_are_as_they_are_specified() {
    let mut chunk = noise(4096);
    chunk[0] = 1;
    let value = format(4096).encode(0x0102_0304, &chunk).unwrap().unwrap();
    let mut covered = 0x0d01_u32.to_le_bytes().to_vec();
    covered.extend(0x0102_0304_u64.to_le_bytes());
    covered.extend([1, 0, 0, 0]);
    covered.extend(&chunk);
    // Bit by bit: the polynomial of crc32c, reflected, from all ones and not inverted.
    let sum = covered.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 })
    });
    assert_eq!(value[..4], [1, 0, 0, 0]);
    assert_eq!(value[4..8], sum.to_le_bytes());
    assert_eq!(value[8..], chunk);
}

#[test]
fn a_buffer_of_another_size_is_refused() {
    let (format, other) = (format(8192), vec![1; 4096]);
    let fault = ChunkError::Buffer { number: 1, bytes: 4096, size: 8192 };
    assert_eq!(format.encode(1, &other), Err(fault.clone()));
    let value = format.encode(1, &text(8192)).unwrap().unwrap();
    assert_eq!(format.decode(1, &value, &mut vec![0; 4096]), Err(fault));
}

#[test]
fn each_flipped_bit_is_found() {
    let format = format(4096);
    for chunk in [text(4096), noise(4096)] {
        let value = format.encode(9, &chunk).unwrap().unwrap();
        for bit in 0..value.len() * 8 {
            let mut broken = value.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let fault = decoded(&format, 9, &broken).expect_err("a bit is flipped");
            let is_version = matches!(fault, ChunkError::Version { number: 9, .. });
            assert!(is_version || fault == ChunkError::Checksum { number: 9 }, "bit {bit}: {fault}");
        }
    }
}

#[test]
fn the_chunk_of_another_place_or_volume_is_found() {
    let format = format(4096);
    let value = format.encode(9, &text(4096)).unwrap().unwrap();
    assert_eq!(decoded(&format, 10, &value), Err(ChunkError::Checksum { number: 10 }));
    let other = ChunkFormat::new(0x0d02, ChunkSize::MIN);
    assert_eq!(decoded(&other, 9, &value), Err(ChunkError::Checksum { number: 9 }));
}

#[test]
fn lengths_that_no_chunk_has_are_refused() {
    let format = format(4096);
    let value = format.encode(9, &noise(4096)).unwrap().unwrap();
    for len in 0..=HEADER {
        let fault = ChunkError::Length { number: 9, bytes: len as u64 };
        assert_eq!(decoded(&format, 9, &value[..len]), Err(fault));
    }
    for len in HEADER + 1..value.len() {
        assert_eq!(decoded(&format, 9, &value[..len]), Err(ChunkError::Checksum { number: 9 }));
    }
    let long = [&value[..], &[0]].concat();
    assert_eq!(decoded(&format, 9, &long), Err(ChunkError::Length { number: 9, bytes: 4105 }));
}

/// Whoever can write to the bucket can make checksums, too.
#[test]
fn what_is_wrong_behind_a_right_checksum_is_named() {
    let format = format(4096);
    let of = |kind, zero, stored: &[u8]| decoded(&format, 9, &sealed(&format, 9, kind, zero, stored));
    let header = |field, value| Err(ChunkError::Header { number: 9, field, value });
    assert_eq!(of(2, 0, &text(4096)), header("kind", 2));
    assert_eq!(of(255, 0, &text(100)), header("kind", 255));
    assert_eq!(of(RAW, 0x0100, &text(4096)), header("reserved field", 0x0100));
    assert_eq!(of(RAW, 0, &text(4095)), Err(ChunkError::Raw { number: 9, bytes: 4095, size: 4096 }));
    for len in [1, 4095, 4097, 100_000] {
        let packed = lz4_flex::block::compress(&text(len));
        let fault = of(LZ4, 0, &packed).expect_err("another length");
        assert!(matches!(fault, ChunkError::Compressed { number: 9, .. }), "{len}: {fault}");
    }
    // A match that begins before the chunk does.
    let fault = of(LZ4, 0, &[0x0f, 0x10, 0x27, 0xff, 0xff, 0xff, 0]).expect_err("no such bytes");
    assert!(matches!(fault, ChunkError::Compressed { .. }), "{fault}");
}

proptest! {
    #[test]
    fn any_chunk_comes_back(size in 0..SIZES.len(), number: u64, seed: u32,
            part in proptest::collection::vec(any::<u8>(), 1..3000)) {
        let size = ChunkSize::new(SIZES[size]).unwrap();
        let format = ChunkFormat::new(seed, size);
        let chunk: Vec<u8> = part.iter().copied().cycle().take(size.bytes()).collect();
        match format.encode(number, &chunk).unwrap() {
            None => prop_assert!(part.iter().all(|byte| *byte == 0)),
            Some(value) => {
                prop_assert!(value.len() <= HEADER + size.bytes());
                prop_assert_eq!(decoded(&format, number, &value), Ok(chunk));
            }
        }
    }

    /// An LZ4 block of any bytes, with a checksum that fits: an error, or a whole chunk, and no panic.
    #[test]
    fn hostile_blocks_give_errors(stored in proptest::collection::vec(any::<u8>(), 1..4096), number: u64) {
        let format = format(4096);
        match decoded(&format, number, &sealed(&format, number, LZ4, 0, &stored)) {
            Ok(chunk) => prop_assert_eq!(chunk.len(), 4096),
            Err(fault) => prop_assert!(matches!(fault, ChunkError::Compressed { .. }), "{}", fault),
        }
    }

    #[test]
    fn hostile_values_give_errors(value in proptest::collection::vec(any::<u8>(), 0..6000), number: u64) {
        prop_assert!(decoded(&format(4096), number, &value).is_err());
    }
}
