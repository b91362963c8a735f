use super::*;
use proptest::prelude::*;

fn header() -> LogHeader {
    LogHeader {
        chunk: ChunkSize::MIN,
        unit: 64,
        uuid: [1; 16],
        home: [2; 16],
        epoch: 7,
        generation: 3,
        ring: 1 << 20,
        tail: Tail { position: 128, number: 9 },
        seed: 5,
    }
}

fn moment() -> Moment {
    Moment { position: 640, number: 12, shipped: 9, logged: 11, time: -4 }
}

fn puts() -> Vec<Put> {
    vec![(3, Some(vec![7; 100].into())), (9, None), (8, None), (4, Some(vec![].into())), (20, None), (8, None)]
}

fn record(header: &LogHeader) -> Vec<u8> {
    encode_record(Seal::new(header), moment(), &puts())
}

fn head(header: &LogHeader, record: &[u8]) -> Option<Head> {
    Head::decode(Seal::new(header), record[..HEAD].try_into().unwrap())
}

/// Under a right checksum.
fn sealed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut page = header().encode();
    change(&mut page);
    let seal = header_sum(&page);
    page[SUM_AT..SUM_AT + 4].copy_from_slice(&seal);
    page
}

#[test]
fn headers_and_records_are_read_as_they_were_written() {
    assert_eq!(LogHeader::decode(&header().encode()), Ok(Some(header())));
    assert_eq!(LogHeader::decode(&[0; PAGE]), Ok(None));
    let bytes = record(&header());
    assert_eq!(bytes.len() as u64, record_len(&puts()));
    let head = head(&header(), &bytes).unwrap();
    let Moment { position, number, shipped, logged, time } = moment();
    assert_eq!((head.len, head.position, head.number), (bytes.len() as u64, position, number));
    assert_eq!((head.shipped, head.logged, head.time), (shipped, logged, time));
    assert!(head.is_whole(Seal::new(&header()), &bytes[HEAD..]));
    let logged = head.contents(&bytes[HEAD..]).unwrap();
    // Runs are in order, and joined.
    assert_eq!(logged, Logged { chunks: vec![(3, vec![7; 100]), (4, vec![])], runs: vec![(8, 2), (20, 1)] });
    assert!(logged.is_inside(21) && !logged.is_inside(20));
}

#[test]
fn a_record_fits_its_log_its_home_and_its_epoch_alone() {
    let bytes = record(&header());
    for other in [
        LogHeader { uuid: [9; 16], ..header() },
        LogHeader { home: [9; 16], ..header() },
        LogHeader { epoch: 8, ..header() },
    ] {
        assert_eq!(head(&other, &bytes), None);
        let head = head(&header(), &bytes).unwrap();
        assert!(!head.is_whole(Seal::new(&other), &bytes[HEAD..]));
    }
}

#[test]
fn every_flipped_bit_of_a_record_is_found() {
    let bytes = record(&header());
    for bit in 0..bytes.len() * 8 {
        let mut broken = bytes.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        let is_whole =
            head(&header(), &broken).is_some_and(|head| head.is_whole(Seal::new(&header()), &broken[HEAD..]));
        assert!(!is_whole, "bit {bit}");
    }
}

#[test]
fn fields_of_a_header_without_meaning_are_refused() {
    let fault = |at: usize, byte: u8| LogHeader::decode(&sealed(|page| page[at] = byte)).unwrap_err();
    assert!(fault(0, b'X').contains("something else"));
    assert!(fault(8, 2).contains("version 2"));
    assert!(fault(10, 11).contains("2048"));
    for unit in [0, 5, 13, 200] {
        assert!(fault(11, unit).contains("unit"));
    }
    assert!(fault(64, 1).contains("ring"));
    assert!(fault(71, 0x80).contains("ring"));
    assert!(fault(72, 1).contains("tail"));
    assert!(fault(87, 0x80).contains("tail"));
    assert!(fault(55, 0x80).contains("epoch"));
    assert!(fault(63, 0x80).contains("generation"));
    let torn = header().encode();
    assert!(LogHeader::decode(&torn[..512]).is_err());
}

#[test]
fn only_what_a_cut_off_making_leaves_counts_as_torn() {
    let whole = header().encode();
    for word in 0..PAGE / 8 {
        let mut torn = vec![0; PAGE];
        torn[..word * 8].copy_from_slice(&whole[..word * 8]);
        assert!(LogHeader::is_torn(&torn));
        let mut torn = whole.clone();
        torn[..word * 8].fill(0);
        assert!(LogHeader::is_torn(&torn));
    }
    let mut other = whole.clone();
    other[0] = b'X';
    assert!(!LogHeader::is_torn(&other));
    other.fill(0);
    other[PAGE - 1] = 1;
    assert!(!LogHeader::is_torn(&other));
}

proptest! {
    #[test]
    fn no_flipped_bit_of_a_header_goes_unnoticed(bit in 0usize..8 * PAGE) {
        let mut page = header().encode();
        page[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(LogHeader::decode(&page).is_err());
    }

    #[test]
    fn any_bytes_under_a_right_checksum_are_an_answer(junk in proptest::collection::vec(any::<u8>(), 80)) {
        let page = sealed(|page| page[12..92].copy_from_slice(&junk));
        if let Ok(Some(header)) = LogHeader::decode(&page) {
            prop_assert!(header.check().is_ok() && header.ring >= header.unit);
        }
    }

    #[test]
    fn any_table_under_a_right_checksum_is_an_answer(
        chunks in 0u32..6, runs in 0u32..6, body in proptest::collection::vec(any::<u8>(), 0..200),
        small in any::<bool>(),
    ) {
        let mut body = body;
        if small {
            // Numbers and lengths that may be right.
            body.iter_mut().enumerate().filter(|(n, _)| n % 4 != 0).for_each(|(_, byte)| *byte = 0);
        }
        let head = Head { chunks, runs, ..head(&header(), &record(&header())).unwrap() };
        if let Ok(logged) = head.contents(&body) {
            let values: usize = logged.chunks.iter().map(|(_, value)| CHUNK + value.len()).sum();
            prop_assert_eq!(values + logged.runs.len() * RUN, body.len());
            prop_assert!(logged.runs.iter().all(|(first, count)| first.checked_add(*count).is_some()));
        }
    }
}
