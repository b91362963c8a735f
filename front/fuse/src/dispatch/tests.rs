//! Requests served without a kernel.

use crate::fuzzing::Surface;
use crate::proto::numbers::opcode;
use crate::proto::wire::{
    AttrOut, CreateIn, CreateOut, EntryOut, InHeader, IoctlIn, OpenOut, OutHeader, ReadIn, SetattrIn, SetxattrIn,
    StatxIn, StatxOut, WriteIn, WriteOut,
};
use ondol::{FormatOptions, Options, Volume};
use ondol_ring::ExchangeRange;
use proptest::prelude::*;
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

struct Server {
    surface: Surface,
    _dir: tempfile::TempDir,
}

impl Server {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        Volume::format(&image, &FormatOptions::new().size(8 << 20)).unwrap();
        let volume = Volume::open_with(&image, &Options::default()).unwrap();
        Self { surface: Surface::new(volume), _dir: dir }
    }

    /// The error, and what follows the header; every request here has exactly one answer.
    fn ask(&self, opcode: u32, nodeid: u64, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let sent = self.surface.serve(&message(opcode, nodeid, body));
        assert_eq!(sent.len(), 1, "answers to opcode {opcode}");
        let (header, rest) = OutHeader::read_from_prefix(&sent[0]).unwrap();
        assert_eq!((header.len as usize, header.unique), (sent[0].len(), 99));
        if header.error == 0 { Ok(rest.to_vec()) } else { Err(Errno::from_raw_os_error(-header.error)) }
    }

    fn get<T: FromBytes>(&self, opcode: u32, nodeid: u64, body: &[u8]) -> T {
        T::read_from_bytes(&self.ask(opcode, nodeid, body).unwrap()).unwrap()
    }

    fn create(&self, name: &str) -> u64 {
        let how = CreateIn { mode: 0o100_666, umask: 0o022, ..CreateIn::default() };
        let body = [how.as_bytes(), name.as_bytes(), &[0]].concat();
        self.get::<CreateOut>(opcode::CREATE, 1, &body).entry.nodeid
    }
}

fn message(opcode: u32, nodeid: u64, body: &[u8]) -> Vec<u8> {
    let len = (size_of::<InHeader>() + body.len()) as u32;
    [InHeader { len, opcode, unique: 99, nodeid, ..InHeader::default() }.as_bytes(), body].concat()
}

#[test]
fn a_file_is_made_written_read_and_found() {
    let server = Server::new();
    let node = server.create("file");
    let how = WriteIn { size: 5, offset: 1, ..WriteIn::default() };
    let written: WriteOut = server.get(opcode::WRITE, node, &[how.as_bytes(), b"hello"].concat());
    assert_eq!(written.size, 5);
    let what = ReadIn { size: 4096, ..ReadIn::default() };
    assert_eq!(server.ask(opcode::READ, node, what.as_bytes()).unwrap(), b"\0hello");
    let found: EntryOut = server.get(opcode::LOOKUP, 1, b"file\0");
    assert_eq!((found.nodeid, found.attr.size, found.attr.mode), (node, 6, 0o100_644));
    let itself: EntryOut = server.get(opcode::LOOKUP, node, b".\0");
    assert_eq!((itself.nodeid, itself.generation), (node, found.generation));
    let missing: EntryOut = server.get(opcode::LOOKUP, 1, b"other\0");
    assert_eq!(missing.nodeid, 0);
    assert!(missing.entry_valid > 0);
    let _: OpenOut = server.get(opcode::OPEN, node, &[0; 8]);
    server.ask(opcode::RELEASE, node, &[0; 24]).unwrap();
}

#[test]
fn an_exchange_has_the_kernel_forget_both_files_before_and_after() {
    let server = Server::new();
    let nodes = [server.create("a"), server.create("b")];
    for (node, byte) in nodes.into_iter().zip([b'a', b'b']) {
        let how = WriteIn { size: 5000, ..WriteIn::default() };
        server.ask(opcode::WRITE, node, &[how.as_bytes(), &[byte; 5000]].concat()).unwrap();
    }
    let generation = server.get::<EntryOut>(opcode::LOOKUP, 1, b"a\0").generation as u32;
    let exchange = |range: ExchangeRange| {
        let cmd = ondol_ring::EXCHANGE_RANGE;
        let how = IoctlIn { cmd, in_size: size_of_val(&range) as u32, ..IoctlIn::default() };
        server.surface.serve(&message(opcode::IOCTL, nodes[1], &[how.as_bytes(), range.as_bytes()].concat()))
    };
    let heads = |sent: Vec<Vec<u8>>| -> Vec<(u64, i32)> {
        let head = |message: &Vec<u8>| OutHeader::read_from_prefix(message).unwrap().0;
        sent.iter().map(head).map(|header| (header.unique, header.error)).collect()
    };
    // The kernel that is played here keeps sizes.
    let (file1_ino, length) = (nodes[0], 4096);
    let right = ExchangeRange { file1_ino, file1_generation: generation, length, ..ExchangeRange::default() };
    let told = (0, crate::proto::numbers::notify::INVAL_INODE);
    let dry = ExchangeRange { flags: 4, ..right };
    assert_eq!(heads(exchange(dry)), [(99, 0)]);
    assert_eq!(heads(exchange(right)), [told, told, told, told, (99, 0)]);
    let what = ReadIn { size: 1, ..ReadIn::default() };
    assert_eq!(server.ask(opcode::READ, nodes[0], what.as_bytes()).unwrap(), b"b");
    for (wrong, errno) in [
        (ExchangeRange { file1_generation: !generation, ..right }, Errno::NOENT),
        (ExchangeRange { file1_ino: 8, file1_generation: 0, ..right }, Errno::NOENT),
        (ExchangeRange { file1_ino: u64::MAX, ..right }, Errno::NOENT),
        (ExchangeRange { pad: 1, ..right }, Errno::INVAL),
        (ExchangeRange { flags: 16, ..right }, Errno::INVAL),
        (ExchangeRange { flags: 1, ..right }, Errno::OPNOTSUPP),
    ] {
        assert_eq!(heads(exchange(wrong)), [(99, -errno.raw_os_error())]);
    }
    let half = IoctlIn { cmd: ondol_ring::EXCHANGE_RANGE, in_size: 20, ..IoctlIn::default() };
    let refused = server.ask(opcode::IOCTL, nodes[1], &[half.as_bytes(), &[0; 20]].concat());
    assert_eq!(refused.unwrap_err(), Errno::INVAL);
}

#[test]
fn a_batch_is_of_one_open_file() {
    let server = Server::new();
    let node = server.create("file");
    let handle = |opened: OpenOut| opened.fh;
    let (one, two) = (handle(server.get(opcode::OPEN, node, &[0; 8])), handle(server.get(opcode::OPEN, node, &[0; 8])));
    assert!(one != two && one != 0 && two != 0);
    let write = |fh: u64, data: &[u8]| {
        let how = WriteIn { fh, size: data.len() as u32, ..WriteIn::default() };
        server.ask(opcode::WRITE, node, &[how.as_bytes(), data].concat()).map(drop)
    };
    let read = |fh: u64| {
        server.ask(opcode::READ, node, ReadIn { fh, size: 9, read_flags: 2, ..ReadIn::default() }.as_bytes()).unwrap()
    };
    let ask = |fh: u64, cmd: u32| {
        let how = IoctlIn { fh, cmd, out_size: 4, ..IoctlIn::default() };
        let sent = server.surface.serve(&message(opcode::IOCTL, node, how.as_bytes()));
        let header = OutHeader::read_from_prefix(sent.last().unwrap()).unwrap().0;
        assert_eq!(header.unique, 99);
        (sent.len(), -header.error)
    };
    write(two, b"old").unwrap();
    assert_eq!(ask(one, 0x8004_F50C), (1, 0));
    assert_eq!(ask(one, 0xF501), (1, 0));
    write(one, b"new and").unwrap();
    assert_eq!((&*read(one), &*read(two), &*read(0)), (&b"new and"[..], &b"old"[..], &b"old"[..]));
    // Not by who reads pages, and what comes from pages is no part of it.
    let pages = ReadIn { fh: one, size: 9, ..ReadIn::default() };
    assert_eq!(server.ask(opcode::READ, node, pages.as_bytes()).unwrap(), b"old");
    let stored = WriteIn { fh: one, size: 1, offset: 2, write_flags: 1, ..WriteIn::default() };
    server.ask(opcode::WRITE, node, &[stored.as_bytes(), b"D"].concat()).unwrap();
    assert_eq!((&*read(one), &*read(two)), (&b"new and"[..], &b"olD"[..]));
    // Nor what is appended, which beside it goes to the stored end.
    let append = |fh: u64| WriteIn { fh, size: 1, offset: 7, flags: 0o2001, ..WriteIn::default() };
    let put_last = |fh: u64| {
        let bytes = [append(fh).as_bytes(), b"+"].concat();
        let sent = server.surface.serve(&message(opcode::WRITE, node, &bytes));
        // The kernel believes in another end.
        assert_eq!(sent.len(), 2);
        -OutHeader::read_from_prefix(sent.last().unwrap()).unwrap().0.error
    };
    assert_eq!(put_last(one), Errno::INVAL.raw_os_error());
    assert_eq!(put_last(two), 0);
    assert_eq!(read(two), b"olD+");
    // Pages are forgotten with it, and the size.
    assert_eq!(ask(one, 0xF502), (3, 0));
    assert_eq!((&*read(one), &*read(two)), (&b"new and"[..], &b"new and"[..]));
    assert_eq!(ask(one, 0xF502).1, Errno::INVAL.raw_os_error());
    assert_eq!(ask(0, 0xF501), (1, Errno::NOTTY.raw_os_error()));
    // One that is given up, and one whose open file ends.
    assert_eq!(ask(one, 0xF501), (1, 0));
    write(one, b"gone").unwrap();
    assert_eq!(ask(one, 0xF505), (2, 0));
    assert_eq!(ask(one, 0xF501), (1, 0));
    write(one, b"lost").unwrap();
    let release = [one.as_bytes(), &[0; 16]].concat();
    assert_eq!(server.surface.serve(&message(opcode::RELEASE, node, &release)).len(), 2);
    assert_eq!(read(two), b"new and");
    // More than all batches may hold.
    assert_eq!(ask(two, 0xF501), (1, 0));
    let megabyte = vec![7; 1 << 20];
    let put = |at: u64| {
        let how = WriteIn { fh: two, offset: at << 20, size: 1 << 20, ..WriteIn::default() };
        server.ask(opcode::WRITE, node, &[how.as_bytes(), &megabyte[..]].concat())
    };
    assert!((0..63).all(|at| put(at).is_ok()));
    assert_eq!(put(63).unwrap_err(), Errno::TOOBIG);
    assert_eq!(ask(two, 0xF505), (2, 0));
    assert_eq!(read(two), b"new and");
}

#[test]
fn statx_knows_the_birth_of_a_file() {
    let server = Server::new();
    let node = server.create("file");
    let told: StatxOut = server.get(opcode::STATX, node, StatxIn::default().as_bytes());
    assert_eq!(told.stat.mask & 0x800, 0x800);
    assert!(told.stat.btime.tv_sec > 0);
    assert_eq!((told.stat.btime, u64::from(told.stat.mode)), (told.stat.ctime, 0o100_644));
    let root: AttrOut = server.get(opcode::GETATTR, 1, &[0; 16]);
    assert_eq!(root.attr.ino, 2);
}

#[test]
fn times_of_requests_are_kept_to_the_nanosecond() {
    use crate::proto::numbers::fattr;
    let server = Server::new();
    let node = server.create("file");
    let mtime = (-2i64).cast_unsigned();
    let set = SetattrIn { valid: fattr::MTIME, mtime, mtimensec: 800_000_001, ..SetattrIn::default() };
    let now: AttrOut = server.get(opcode::SETATTR, node, set.as_bytes());
    assert_eq!((now.attr.mtime, now.attr.mtimensec), (mtime, 800_000_001));
}

#[test]
fn what_is_not_offered_and_what_is_no_request_is_answered() {
    const FLUSH: u32 = 25;
    const ACCESS: u32 = 34;
    let server = Server::new();
    for opcode in [FLUSH, ACCESS, opcode::INTERRUPT, 40, 4096] {
        assert_eq!(server.ask(opcode, 1, &[0; 24]), Err(Errno::NOSYS));
    }
    assert_eq!(server.ask(opcode::UNLINK, 1, b"a/b\0"), Err(Errno::INVAL));
    assert_eq!(server.ask(opcode::GETATTR, u64::MAX, &[0; 16]), Err(Errno::NOENT));
    assert!(server.surface.serve(b"short").is_empty());
    assert!(server.surface.serve(&message(opcode::FORGET, 1, &[0; 8])).is_empty());
}

#[test]
fn only_what_a_name_may_lead_to_is_found_by_its_number() {
    let server = Server::new();
    let root: EntryOut = server.get(opcode::LOOKUP, 1, b".\0");
    assert_eq!((root.nodeid, root.attr.ino), (1, 2));
    // The bad blocks' inode, that which keeps room for descriptors, the journal.
    for own in [2, 7, 8] {
        let none: EntryOut = server.get(opcode::LOOKUP, own, b".\0");
        assert_eq!(none.nodeid, 0, "node {own}");
    }
}

#[test]
fn the_kernel_forgets_a_mode_that_a_failed_write_has_changed() {
    use crate::proto::numbers::{WRITE_KILL_SUIDGID, fattr};
    let server = Server::new();
    let node = server.create("file");
    let set = SetattrIn { valid: fattr::MODE, mode: 0o6755, ..SetattrIn::default() };
    let _: AttrOut = server.get(opcode::SETATTR, node, set.as_bytes());
    let how = WriteIn { size: 1, offset: 1 << 60, write_flags: WRITE_KILL_SUIDGID, ..WriteIn::default() };
    let sent = server.surface.serve(&message(opcode::WRITE, node, &[how.as_bytes(), b"x"].concat()));
    let headers: Vec<OutHeader> = sent.iter().map(|m| OutHeader::read_from_prefix(m).unwrap().0).collect();
    let told: Vec<(u64, i32)> = headers.iter().map(|h| (h.unique, h.error)).collect();
    let refused = -Errno::FBIG.raw_os_error();
    assert_eq!(told, [(0, crate::proto::numbers::notify::INVAL_INODE), (99, refused)]);
    let now: AttrOut = server.get(opcode::GETATTR, node, &[0; 16]);
    assert_eq!(now.attr.mode, 0o100_755);
}

#[test]
fn an_attribute_cannot_be_new_and_there_already() {
    const BOTH: u32 = 3;
    let server = Server::new();
    let node = server.create("file");
    let body = |flags| {
        let how = SetxattrIn { size: 1, flags, ..SetxattrIn::default() };
        [how.as_bytes(), b"user.x\0", b"v"].concat()
    };
    assert_eq!(server.ask(opcode::SETXATTR, node, &body(BOTH)), Err(Errno::NODATA));
    server.ask(opcode::SETXATTR, node, &body(0)).unwrap();
    assert_eq!(server.ask(opcode::SETXATTR, node, &body(BOTH)), Err(Errno::EXIST));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Hostile messages get an answer each, never a panic, and leave a volume that works.
    #[test]
    fn hostile_messages_do_no_harm(
        all in prop::collection::vec((0u32..60, prop_oneof![0u64..20, any::<u64>()], prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..120)), 0..40)
    ) {
        let server = Server::new();
        for (opcode, node, body) in all {
            let message = message(opcode, node, &body);
            server.surface.serve(&message);
            // The kernel sends FORGET through `/dev/fuse` alone.
            let answers = server.surface.serve_over_rings(&message);
            let numbered = answers.iter().filter(|answer| answer[8..16] != [0; 8]).count();
            prop_assert!(numbered == 1 || matches!(opcode, opcode::FORGET | opcode::BATCH_FORGET));
            prop_assert!(!server.surface.is_broken());
        }
        let _: AttrOut = server.get(opcode::GETATTR, 1, &[0; 16]);
        let volume = server.surface.into_volume().expect("open");
        volume.close().unwrap();
    }
}
