//! How often contents are copied between a request and the image: the store sees the very memory that the kernel has
//! filled, or that is sent to it.

use ondol::{FormatOptions, Options, Volume};
use ondol_block::{Access, BlockStats, BlockStore, Caps, FileStore, Result};
use ondol_env::sync::Arc;
use ondol_fuse::fuzzing::Surface;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const SIZE: usize = 64 << 10;

/// Opcodes.
const CREATE: u32 = 35;
const WRITE: u32 = 16;
const READ: u32 = 15;
const FSYNC: u32 = 20;

/// Counts bytes that come from some memory, or go there.
struct Seen {
    store: FileStore,
    watched: [AtomicUsize; 2],
    within: AtomicUsize,
}

impl Seen {
    fn watch(&self, range: Range<usize>) {
        self.watched[0].store(range.start, SeqCst);
        self.watched[1].store(range.end, SeqCst);
        self.within.store(0, SeqCst);
    }

    fn saw(&self, bytes: &[u8]) {
        let range = bytes.as_ptr_range();
        if self.watched[0].load(SeqCst) <= range.start.addr() && range.end.addr() <= self.watched[1].load(SeqCst) {
            self.within.fetch_add(bytes.len(), SeqCst);
        }
    }
}

impl BlockStore for Seen {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn size(&self) -> u64 {
        self.store.size()
    }

    fn caps(&self) -> Caps {
        self.store.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.saw(buf);
        self.store.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        bufs.iter().for_each(|buf| self.saw(buf));
        self.store.write_vectored(offset, bufs)
    }

    fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        self.store.discard(offset, len)
    }

    fn stats(&self) -> BlockStats {
        self.store.stats()
    }
}

/// A request as the kernel sends it: opcode, node, 32-bit words, and what follows them.
fn message(opcode: u32, node: u64, words: &[u32], rest: &[u8]) -> Vec<u8> {
    let body = [words.iter().flat_map(|word| word.to_le_bytes()).collect(), rest.to_vec()].concat();
    let head = [(40 + body.len() as u32).to_le_bytes(), opcode.to_le_bytes()].concat();
    let numbers = [1_u64, node, 0, 0].map(u64::to_le_bytes).concat();
    [head, numbers, body].concat()
}

/// Bytes that the store took from a write's message itself, that of new bytes and that over durable ones; and those
/// that it put where a read's answer is sent from.
fn counted(options: &str, over_rings: bool) -> [usize; 3] {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    Volume::format(&image, &FormatOptions::new().size(64 << 20).block_size(4096)).unwrap();
    let open = || {
        let store = FileStore::open(&image, Access::Write).unwrap();
        let seen = Arc::new(Seen { store, watched: Default::default(), within: AtomicUsize::new(0) });
        let options = Options::parse(options).unwrap();
        let volume = Volume::open_media(seen.clone(), &options, Arc::new(ondol_env::System)).unwrap();
        (seen, Surface::new(volume))
    };
    let serve = |surface: &Surface, message: &[u8]| {
        let sent = if over_rings { surface.serve_over_rings(message) } else { surface.serve(message) };
        assert_eq!(sent[0][4..8], [0; 4], "an error");
        sent.into_iter().next().unwrap()
    };
    let (seen, surface) = open();
    let made = serve(&surface, &message(CREATE, 1, &[2, 0o100_644, 0, 0], b"file\0"));
    let node = u64::from_le_bytes(made[16..24].try_into().unwrap());
    let write = |byte: u8| {
        let bytes = message(WRITE, node, &[0, 0, 0, 0, SIZE as u32, 0, 0, 0, 0, 0], &vec![byte; SIZE]);
        let range = bytes.as_ptr_range();
        seen.watch(range.start.addr()..range.end.addr());
        serve(&surface, &bytes);
        seen.within.load(SeqCst)
    };
    let new = write(1);
    serve(&surface, &message(FSYNC, node, &[0; 4], b""));
    let over = write(2);
    surface.into_volume().unwrap().close().unwrap();
    drop(seen);
    let (seen, surface) = open();
    seen.watch(surface.room());
    let answer = serve(&surface, &message(READ, node, &[0, 0, 0, 0, SIZE as u32, 0, 0, 0, 0, 0], b""));
    assert!(answer[16..] == vec![2; SIZE]);
    let read = seen.within.load(SeqCst);
    surface.into_volume().unwrap().close().unwrap();
    [new, over, read]
}

#[test]
fn contents_are_copied_once_from_a_write_and_not_at_all_into_an_answer() {
    for over_rings in [false, true] {
        // New data is copied into blocks, which wait for their commit. What is written over stored data goes home at
        // once.
        assert_eq!(counted("data=ordered,journal=classic", over_rings), [0, SIZE, SIZE]);
        assert_eq!(counted("data=writeback,journal=classic", over_rings), [0, SIZE, SIZE]);
        // What is journaled is copied into blocks, which are written to the log and home.
        assert_eq!(counted("data=journal,journal=classic", over_rings), [0, 0, SIZE]);
        assert_eq!(counted("data=journal,journal=compressed", over_rings), [0, 0, SIZE]);
    }
}
