//! Volumes in buckets, over stores in memory, in directories, and over stores that misbehave.

mod away;
mod bypass;
mod clones;
mod crash;
mod disk;
mod fence;
mod local;
mod plain;
mod planted;
mod reads;
mod snapshots;
mod usage;

use ondol_block::BlockStore;
use ondol_object_home::object_store::memory::InMemory;
use ondol_object_home::object_store::path::Path;
use ondol_object_home::object_store::{ObjectStore, local::LocalFileSystem};
use ondol_object_home::{Bucket, ChunkSize, Home, HomeError, Making, Opening};
use ondol_stores::unruly::{Event, Request, Unruly};
use std::sync::Arc;
use std::time::Duration;

const CHUNK: usize = 4096;

/// The volume of `store`.
fn bucket(store: impl ObjectStore) -> Bucket {
    Bucket::new(Arc::new(store), "the volume", Path::from("some/volume"))
}

fn unruly() -> Unruly {
    Unruly::new(Arc::new(InMemory::new()))
}

fn directory(dir: &tempfile::TempDir) -> Unruly {
    Unruly::new(Arc::new(LocalFileSystem::new_with_prefix(dir.path()).unwrap().with_fsync(true)))
}

/// Takes over from writers that this process has dropped.
fn opening() -> Opening {
    let timeout = Some(Duration::from_secs(120));
    Opening { take_over: true, timeout, cache: 4 << 20, object: 1 << 20, ..Opening::default() }
}

fn making(chunks: u64) -> Making {
    Making { size: chunks * CHUNK as u64, chunk: ChunkSize::MIN }
}

/// Sizes of chunks. Tests write blocks of 4 KiB, which are parts of larger chunks.
const SIZES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

/// As many bytes as so many blocks, in chunks of `size`.
fn making_of(size: u64, blocks: u64) -> Making {
    Making { chunk: ChunkSize::new(size).unwrap(), ..making(blocks) }
}

/// What is zeros after a discard: whole chunks alone.
fn unused(size: u64, offset: u64, len: u64) -> std::ops::Range<usize> {
    let (from, to) = (offset.next_multiple_of(size), (offset + len) / size * size);
    from as usize..to.max(from) as usize
}

fn make(store: &Unruly, chunks: u64) -> Home {
    Home::make(&bucket(store.clone()), making(chunks), &opening()).unwrap()
}

fn open(store: &Unruly) -> Home {
    Home::open(&bucket(store.clone()), &opening()).unwrap()
}

/// A chunk that is like no other.
fn chunk(n: u64) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..CHUNK).map(|at| if at % 2 == 0 { next() } else { 0 }).collect()
}

fn read(home: &dyn BlockStore, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xa5; len];
    home.read(offset, &mut bytes).unwrap();
    bytes
}

fn read_chunk(home: &dyn BlockStore, number: u64) -> Vec<u8> {
    read(home, number * CHUNK as u64, CHUNK)
}

fn at(number: u64) -> u64 {
    number * CHUNK as u64
}

/// What of ours is behind an error of the block store.
fn cause(e: &ondol_block::BlockError) -> HomeError {
    let ondol_block::BlockError::Io { source, .. } = e else { panic!("{e}") };
    source.get_ref().and_then(|inner| inner.downcast_ref::<HomeError>()).unwrap_or_else(|| panic!("{e}")).clone()
}

/// The sizes of the log's objects that were put since the store began to record.
fn log_puts(store: &Unruly) -> Vec<usize> {
    let size = |event| match event {
        Event::Asked { request: Request::Put { path, bytes, .. }, .. } if path.as_ref().contains("/wal/") => {
            Some(bytes.len())
        }
        _ => None,
    };
    store.events().into_iter().filter_map(size).collect()
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
