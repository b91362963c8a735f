//! Requests served without a kernel.

use crate::fuzzing::Surface;
use crate::proto::numbers::opcode;
use crate::proto::wire::{
    AttrOut, CreateIn, CreateOut, EntryOut, FallocateIn, GetxattrIn, InHeader, IoctlIn, OpenOut, OutHeader, ReadIn,
    SetattrIn, SetxattrIn, StatxIn, StatxOut, WriteIn, WriteOut,
};
use ondol::{FormatOptions, Options, Volume};
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

impl Server {
    /// Asks by the name of an attribute; the value.
    fn ask_by_name(&self, node: u64, name: &str) -> Result<Vec<u8>, Errno> {
        let how = GetxattrIn { size: 64, padding: 0 };
        self.ask(opcode::GETXATTR, node, &[how.as_bytes(), name.as_bytes(), &[0]].concat())
    }

    /// What is sent when a ticket is presented on a file: each message's number, and its error.
    fn present(&self, node: u64, [offset, length]: [u64; 2]) -> Vec<(u64, i32)> {
        let how = FallocateIn { offset, length, mode: 1, ..FallocateIn::default() };
        let sent = self.surface.serve(&message(opcode::FALLOCATE, node, how.as_bytes()));
        let head = |message: &Vec<u8>| OutHeader::read_from_prefix(message).unwrap().0;
        sent.iter().map(head).map(|header| (header.unique, header.error)).collect()
    }

    /// Exchanges by a ticket for `what`, presented on both files in turn.
    fn exchange(&self, nodes: [u64; 2], what: &str) -> Vec<(u64, i32)> {
        let ticket = self.ask_by_name(nodes[1], &format!("ondol.exchange.{what}")).unwrap();
        let ticket = <[u64; 2]>::read_from_bytes(&ticket).unwrap();
        let joined = self.ask_by_name(nodes[0], &format!("ondol.exchange.{}.{}", ticket[0], ticket[1]));
        assert_eq!(joined, Ok(Vec::new()));
        // The second file's turn has not come, nor that of any other range.
        let unknown = [(99, -Errno::FBIG.raw_os_error())];
        assert_eq!(self.present(nodes[1], ticket), unknown);
        assert_eq!(self.present(nodes[0], [ticket[0], ticket[1] ^ 1]), unknown);
        assert_eq!(self.present(nodes[0], ticket), [(99, 0)]);
        let sent = self.present(nodes[1], ticket);
        assert_eq!(self.present(nodes[1], ticket), unknown);
        sent
    }
}

#[test]
fn an_exchange_has_the_kernel_forget_both_files_before_and_after() {
    let server = Server::new();
    let nodes = [server.create("a"), server.create("b")];
    for (node, byte) in nodes.into_iter().zip([b'a', b'b']) {
        let how = WriteIn { size: 5000, ..WriteIn::default() };
        server.ask(opcode::WRITE, node, &[how.as_bytes(), &[byte; 5000]].concat()).unwrap();
    }
    // The kernel that is played here keeps sizes.
    let told = (0, crate::proto::numbers::notify::INVAL_INODE);
    assert_eq!(server.exchange(nodes, "4.0.0.4096"), [(99, 0)]);
    assert_eq!(server.exchange(nodes, "0.0.0.4096"), [told, told, told, told, (99, 0)]);
    let what = ReadIn { size: 1, ..ReadIn::default() };
    assert_eq!(server.ask(opcode::READ, nodes[0], what.as_bytes()).unwrap(), b"b");
    for (wrong, errno) in [
        ("1.0.0.0", Errno::OPNOTSUPP),
        ("16.0.0.4096", Errno::INVAL),
        ("0.0.0", Errno::INVAL),
        ("0.0.0.4096.0", Errno::INVAL),
        ("0.0.0.x", Errno::INVAL),
        ("", Errno::INVAL),
        ("0.0", Errno::NODATA),
    ] {
        assert_eq!(server.ask_by_name(nodes[1], &format!("ondol.exchange.{wrong}")), Err(errno), "{wrong}");
    }
    assert_eq!(server.exchange(nodes, "0.1.0.4096"), [told, told, (99, -Errno::INVAL.raw_os_error())]);
    assert_eq!(server.ask(opcode::READ, nodes[0], what.as_bytes()).unwrap(), b"b");
}

#[test]
fn generations_tell_nothing_of_others() {
    let server = Server::new();
    let generation = |n: u32| {
        server.create(&n.to_string());
        server.get::<EntryOut>(opcode::LOOKUP, 1, format!("{n}\0").as_bytes()).generation
    };
    let all: Vec<u64> = (0..9).map(generation).collect();
    // Neither the numbers go on by one step, nor those that a mixing of bits makes of a count.
    let count = |g: u64| (g as u32).wrapping_mul(0xA5CB_9243);
    let counts = |g: u64| [g as u32, count(g) ^ count(g) >> 16];
    for way in [0, 1] {
        let steps: Vec<u32> = all.windows(2).map(|w| counts(w[1])[way].wrapping_sub(counts(w[0])[way])).collect();
        assert!(steps.iter().any(|step| *step != steps[0]), "{way}: {all:x?}");
    }
}

#[test]
fn no_ioctl_changes_anything_but_flags() {
    let server = Server::new();
    let node = server.create("file");
    // ext4's MOVE_EXT, SWAP_BOOT, RESIZE_FS, GROUP_EXTEND, SHUTDOWN, SETLABEL; FIFREEZE; F2FS's START of an atomic
    // write; numbers that were ours.
    let all = [
        0xC028_660F,
        0x6611,
        0x4008_6610,
        0x4008_6607,
        0x8004_587D,
        0x4100_9432,
        0xC004_5877,
        0xF501,
        0x4030_EF81,
        0x4108_EF82,
    ];
    for cmd in all {
        let how = IoctlIn { cmd, in_size: 264, ..IoctlIn::default() };
        let refused = server.ask(opcode::IOCTL, node, &[how.as_bytes(), &[0; 264]].concat());
        assert_eq!(refused, Err(Errno::NOTTY), "{cmd:#x}");
    }
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
        all in prop::collection::vec((0u32..60, prop_oneof![0u64..20, any::<u64>()],
            prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..120)), 0..40)
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
