//! The format's bytes, field by field.

use super::*;
use proptest::prelude::*;

const SEAL: Seal = Seal(0x1234_5678);
const OWNER: Owner = Owner { slot: 3, incarnation: 9 };

fn header() -> Header {
    let (uuid, state) = (*b"buffer-buffer-bu", AreaState::Ready);
    Header { uuid, epoch: 7, state, block_size: 16384, blocks: 100, files: 20 }
}

fn record() -> BlockRecord {
    BlockRecord { owner: OWNER, sequence: 77, lbn: 5, start: 100, len: 412, data: 0xabcd_ef01 }
}

fn fragment() -> Fragment {
    let kind = FragmentKind::Bytes;
    Fragment { owner: OWNER, sequence: 78, offset: 1000, len: 20, life: 6, kind, part: 1, data: 0x1020_3040 }
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(Header::decode(&header().encode()), Ok(header()));
    let before = Some(Filled { block: 8, life: 4, fill: 448 });
    for line in [BlockLine::Free, BlockLine::Fragments { life: 5, before }, BlockLine::Record(record())] {
        assert_eq!(SEAL.decode_line(4, &SEAL.encode_line(4, &line), 512), Some(line));
    }
    assert_eq!(SEAL.decode_fragment(4, &SEAL.encode_fragment(4, &fragment()), 512), Some(fragment()));
    let identity = Identity::new(&[b'x'; Identity::MAX]).unwrap();
    assert_eq!(SEAL.decode_name(3, &SEAL.encode_name(OWNER, &identity)), Some((9, identity)));
    for state in [SlotState::Unused, SlotState::Live(u32::MAX), SlotState::Dead(1)] {
        assert_eq!(SEAL.read_state(3, SEAL.state_word(3, state)), Some(state));
    }
    assert_eq!(SEAL.read_synced(OWNER, SEAL.synced_word(OWNER, SEQUENCE_LIMIT - 1)), Some(SEQUENCE_LIMIT - 1));
}

#[test]
fn fields_lie_where_the_format_says() {
    let u32_at = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let h = header().encode();
    assert_eq!((&h[..8], u32_at(&h, 8), &h[16..32]), (&b"ONDOLWB\0"[..], 2, &b"buffer-buffer-bu"[..]));
    assert_eq!((u64_at(&h, 32), u32_at(&h, 40), u32_at(&h, 44)), (7, 1, 16384));
    assert_eq!((u32_at(&h, 48), u32_at(&h, 52), u32_at(&h, 56)), (100, 20, 0));
    let l = SEAL.encode_line(4, &BlockLine::Record(record()));
    assert_eq!((l[4], u64_at(&l, 8), u64_at(&l, 16), u32_at(&l, 24)), (2, 77, 5, 3));
    assert_eq!((u32_at(&l, 28), u32_at(&l, 32), u32_at(&l, 36), u32_at(&l, 40)), (9, 100, 412, 0xabcd_ef01));
    let f = SEAL.encode_fragment(4, &fragment());
    assert_eq!((u32_at(&f, 4), u64_at(&f, 8), u64_at(&f, 16)), (0x1020_3040, 78, 1000));
    assert_eq!((u32_at(&f, 24), u32_at(&f, 28), u32_at(&f, 32), u32_at(&f, 36)), (3, 9, 20, 6));
    assert_eq!((f[40], f[42]), (1, 1));
    let word = SEAL.state_word(3, SlotState::Live(9));
    assert_eq!((word & 0xffff_ffff, word >> 32 & 0xffff), (9, 1));
    assert_eq!(SEAL.synced_word(OWNER, 5) & (SEQUENCE_LIMIT - 1), 5);
}

#[test]
fn what_belongs_elsewhere_does_not_count() {
    let line = SEAL.encode_line(4, &BlockLine::Record(record()));
    assert_eq!(SEAL.decode_line(5, &line, 512), None, "another block");
    assert_eq!(Seal::new([1; 16], 2).decode_line(4, &line, 512), None, "another pool");
    assert_ne!(Seal::new([1; 16], 2), Seal::new([1; 16], 3));
    assert_eq!(SEAL.read_state(4, SEAL.state_word(3, SlotState::Live(9))), None, "another slot");
    let other = Owner { incarnation: 10, ..OWNER };
    assert_eq!(SEAL.read_synced(other, SEAL.synced_word(OWNER, 5)), None, "another file");
}

#[test]
fn numbers_out_of_range_are_refused_under_a_right_checksum() {
    let line = |change: &dyn Fn(&mut BlockRecord)| {
        let mut r = record();
        change(&mut r);
        SEAL.decode_line(4, &SEAL.encode_line(4, &BlockLine::Record(r)), 512)
    };
    assert!(line(&|_| ()).is_some());
    assert_eq!(line(&|r| r.len = 413), None);
    assert_eq!(line(&|r| r.len = 0), None);
    assert_eq!(line(&|r| r.start = u32::MAX), None);
    assert_eq!(line(&|r| r.lbn = u64::MAX), None);
    assert_eq!(line(&|r| r.lbn = 1 << 60), None);
    assert_eq!(line(&|r| r.sequence = 0), None);
    assert_eq!(line(&|r| r.sequence = SEQUENCE_LIMIT), None);
    let fragment = |change: &dyn Fn(&mut Fragment)| {
        let mut f = fragment();
        change(&mut f);
        SEAL.decode_fragment(4, &SEAL.encode_fragment(4, &f), 512)
    };
    assert!(fragment(&|_| ()).is_some());
    assert_eq!(fragment(&|f| f.offset = 1010), None, "it reaches into the next block");
    assert_eq!(fragment(&|f| f.len = 0), None);
    assert_eq!(fragment(&|f| f.len = u32::MAX), None);
    assert_eq!(fragment(&|f| f.offset = u64::MAX), None);
    assert_eq!(fragment(&|f| f.kind = FragmentKind::Length), None, "a payload");
    assert_eq!(fragment(&|f| (f.kind, f.len, f.offset) = (FragmentKind::Length, 0, 1 << 63)), None);
}

#[test]
fn crc32c_is_ext4s() {
    // crc32c of 32 zeros is 0x8a9136aa with the final inversion (RFC 3720, B.4).
    assert_eq!(data_sum(&[0; 32]), !0x8a91_36aa);
}

proptest! {
    #[test]
    fn no_flipped_bit_goes_unnoticed(bit in 0usize..512) {
        let flip = |bytes: &mut [u8]| {
            let bit = bit % (8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
        };
        let mut h = header().encode();
        flip(&mut h);
        prop_assert!(Header::decode(&h).is_err());
        let mut l = SEAL.encode_line(4, &BlockLine::Record(record()));
        flip(&mut l);
        prop_assert_eq!(SEAL.decode_line(4, &l, 512), None);
        let mut f = SEAL.encode_fragment(4, &fragment());
        flip(&mut f);
        prop_assert_eq!(SEAL.decode_fragment(4, &f, 512), None);
    }
}
