//! Bytes that are no requests, and some that are.

use super::numbers::opcode;
use super::reply::Listing;
use super::wire::{EntryOut, ForgetOne, InHeader, SetxattrIn, WriteIn};
use super::{Malformed, Operation, Request};
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = (size_of::<InHeader>() + body.len()) as u32;
    let header = InHeader { len, opcode, unique: 7, nodeid: 1, ..InHeader::default() };
    [header.as_bytes(), body].concat()
}

fn operation(bytes: &[u8]) -> Result<Operation<'_>, Malformed> {
    Request::parse(bytes, true).map(|r| r.operation).map_err(|(_, e)| e)
}

fn refused(opcode: u32, body: &[u8]) -> &'static str {
    match operation(&message(opcode, body)) {
        Err(Malformed::Body { what, .. }) => what,
        other => panic!("taken as {other:?}"),
    }
}

#[test]
fn headers_must_be_whole_and_tell_the_length() {
    let whole = message(opcode::GETATTR, &[0; 16]);
    assert_eq!(operation(&whole), Ok(Operation::Getattr));
    for n in 0..whole.len() {
        assert_eq!(operation(&whole[..n]), Err(Malformed::Message(n)));
    }
    let longer = [&whole[..], &[0]].concat();
    assert_eq!(operation(&longer), Err(Malformed::Message(longer.len())));
}

#[test]
fn names_are_single_components() {
    assert_eq!(operation(&message(opcode::LOOKUP, b"a\0")), Ok(Operation::Lookup(b"a")));
    assert_eq!(operation(&message(opcode::LOOKUP, b"..\0")), Ok(Operation::Lookup(b"..")));
    assert_eq!(refused(opcode::LOOKUP, b"a"), "text without an end");
    assert_eq!(refused(opcode::LOOKUP, b"\0"), "empty name");
    assert_eq!(refused(opcode::LOOKUP, b"a/b\0"), "slash in a name");
    assert_eq!(refused(opcode::UNLINK, b".\0"), "name . or ..");
    assert_eq!(refused(opcode::RENAME, b"\x01\0\0\0\0\0\0\0old\0new"), "text without an end");
    let rename = message(opcode::RENAME2, b"\x09\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0old\0new\0");
    let expected = Operation::Rename { name: b"old", new_dir: 9, new_name: b"new", flags: 2 };
    assert_eq!(operation(&rename), Ok(expected));
}

#[test]
fn data_must_be_as_long_as_it_says() {
    let how = WriteIn { size: 4, ..WriteIn::default() };
    let write = |data: &[u8]| message(opcode::WRITE, &[how.as_bytes(), data].concat());
    assert_eq!(operation(&write(b"data")), Ok(Operation::Write(how, b"data")));
    assert!(operation(&write(b"dat")).is_err());
    let how = SetxattrIn { size: u32::MAX, ..SetxattrIn::default() };
    assert_eq!(refused(opcode::SETXATTR, &[how.as_bytes(), b"user.a\0x"].concat()), "less data than it says");
}

#[test]
fn a_batch_holds_as_many_as_it_counts() {
    let one = ForgetOne { nodeid: 12, nlookup: 3 };
    let bytes = message(opcode::BATCH_FORGET, &[&[2, 0, 0, 0, 0, 0, 0, 0], one.as_bytes(), one.as_bytes()].concat());
    let Ok(Operation::BatchForget(all)) = operation(&bytes) else { panic!("refused") };
    assert_eq!(all.collect::<Vec<_>>(), vec![one, one]);
    assert_eq!(refused(opcode::BATCH_FORGET, &[255; 8]), "less data than it says");
}

#[test]
fn the_old_setxattr_is_shorter() {
    let bytes = message(opcode::SETXATTR, b"\x01\0\0\0\x02\0\0\0user.a\0x");
    let Ok(Request { operation: Operation::Setxattr { name, value, how }, .. }) = Request::parse(&bytes, false) else {
        panic!("refused")
    };
    assert_eq!((name, value, how.flags), (&b"user.a"[..], &b"x"[..], 2));
}

#[test]
fn extensions_are_cut_off() {
    let mut bytes = message(opcode::LOOKUP, b"name\0\0\0\0extended");
    bytes[36] = 1;
    assert_eq!(operation(&bytes), Ok(Operation::Lookup(b"name")));
    bytes[37] = 1;
    assert!(operation(&bytes).is_err());
}

#[test]
fn a_listing_keeps_within_its_size() {
    let mut space = vec![1; 24 + 8 + 128 + 24 + 8];
    let mut listing = Listing::new(&mut space);
    assert!(listing.add(None, 11, 1, 4, b"abc"));
    assert!(listing.add(Some(&EntryOut::default()), 12, 2, 8, b"abcdefgh"));
    assert!(!listing.add(None, 13, 3, 8, b""));
    assert_eq!(listing.len(), 192);
    assert_eq!(&space[24..32], b"abc\0\0\0\0\0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Whatever the bytes: an answer, and names without zeros and slashes.
    #[test]
    fn any_bytes_are_a_request_or_refused(code in 0u32..60, body in prop::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..300, ext: u16) {
        let mut bytes = message(code, &body);
        if ext < 64 {
            bytes[36] = ext as u8;
        }
        bytes.truncate(cut.max(1));
        for extended in [false, true] {
            if let Ok(request) = Request::parse(&bytes, extended) {
                prop_assert_eq!(request.header.len as usize, bytes.len());
                if let Operation::Lookup(name) | Operation::Unlink(name) | Operation::Create(_, name) =
                    request.operation
                {
                    prop_assert!(!name.is_empty() && !name.contains(&0) && !name.contains(&b'/'));
                }
            }
        }
    }
}
