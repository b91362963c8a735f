//! A small buffer before files in memory, and a plain model of what the files must be.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod cuts;
pub(crate) mod memory;

use memory::MemoryHome;
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::{AtomicBool, Ordering::SeqCst};
use ondol_env::{Fixed, Progress, Step, Timestamp};
use ondol_medium::{Nvm, Pool, PoolSpec};
use ondol_write_buffer::{Buffer, BufferError, File, Home, Identity, Options, Report, Shape};
use std::collections::BTreeMap;

/// Blocks of 512 bytes: everything runs short all the time.
pub(crate) const BLOCK: u64 = 512;

pub(crate) fn shape() -> Shape {
    Shape { block_size: BLOCK as u32, files: 4 }
}

pub(crate) fn options() -> Options {
    Options { shape: shape(), flushers: 2, low_watermark: 3, ..Options::default() }
}

pub(crate) fn spec(shape: Shape, blocks: u64) -> PoolSpec {
    let areas = shape.areas(blocks * u64::from(shape.block_size)).to_vec();
    PoolSpec { uuid: *b"buffer-buffer-bu", areas, ..PoolSpec::default() }
}

/// Bytes of a medium that holds such a pool.
pub(crate) fn medium_size(shape: Shape, blocks: u64) -> u64 {
    spec(shape, blocks).areas.iter().map(|(_, len)| len.next_multiple_of(4096)).sum::<u64>() + 8192
}

pub(crate) fn pool(shape: Shape, blocks: u64) -> Pool {
    Pool::create(Nvm::volatile(medium_size(shape, blocks)).unwrap(), &spec(shape, blocks)).unwrap()
}

pub(crate) fn env() -> Arc<Fixed> {
    Arc::new(Fixed::new(Timestamp::default(), 1))
}

pub(crate) fn open(pool: &Pool, home: Arc<dyn Home>) -> (Buffer, Report) {
    Buffer::open(pool, home, env(), &options()).unwrap()
}

pub(crate) fn id(name: &str) -> Identity {
    Identity::new(name.as_bytes()).unwrap()
}

pub(crate) fn names() -> Vec<Identity> {
    ["ash", "birch", "cedar"].map(id).to_vec()
}

/// What a caller or a stage does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write {
        file: usize,
        offset: u64,
        len: usize,
    },
    SetLen {
        file: usize,
        len: u64,
    },
    Remove {
        file: usize,
    },
    Read {
        file: usize,
        offset: u64,
        len: usize,
    },
    Flush(usize),
    Sync,
    Reclaim,
    Settle,
    /// A settle during which the home's syncs fail.
    FailingSettle,
    /// Handles are closed; the next use opens the file anew.
    Close {
        file: usize,
    },
    /// The buffer is opened anew over what is in NVM.
    Reopen,
}

/// Files as plain bytes. The n-th write writes bytes that tell which it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) files: BTreeMap<Identity, Vec<u8>>,
    pub(crate) writes: u8,
}

impl Plain {
    /// Bytes of the next write: neighbours differ, and those of other writes.
    pub(crate) fn data(&self, len: usize) -> Vec<u8> {
        (0..len).map(|i| (self.writes.wrapping_mul(37).wrapping_add((i % 31) as u8)) | 1).collect()
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        let names = names();
        match op {
            Op::Write { file, offset, len } => {
                let data = self.data(*len);
                self.writes = self.writes.wrapping_add(1);
                let bytes = self.files.entry(names[*file].clone()).or_default();
                let (start, end) = (*offset as usize, *offset as usize + len);
                if *len > 0 && bytes.len() < end {
                    bytes.resize(end, 0);
                }
                if *len > 0 {
                    bytes[start..end].copy_from_slice(&data);
                }
            }
            Op::SetLen { file, len } => {
                self.files.entry(names[*file].clone()).or_default().resize(*len as usize, 0);
            }
            Op::Remove { file } => {
                self.files.remove(&names[*file]);
            }
            Op::Read { file, .. } => {
                self.files.entry(names[*file].clone()).or_default();
            }
            _ => {}
        }
    }
}

/// A buffer with its pool and the handles that are open.
pub(crate) struct Rig {
    pub(crate) pool: Pool,
    pub(crate) home: Arc<MemoryHome>,
    pub(crate) buffer: Buffer,
    pub(crate) handles: BTreeMap<usize, File>,
    pub(crate) plain: Plain,
}

impl Rig {
    pub(crate) fn new(blocks: u64) -> Self {
        Self::over(pool(shape(), blocks), Arc::new(MemoryHome::new()))
    }

    pub(crate) fn over(pool: Pool, home: Arc<MemoryHome>) -> Self {
        let (buffer, _) = open(&pool, home.clone());
        Self { pool, home, buffer, handles: BTreeMap::new(), plain: Plain::default() }
    }

    pub(crate) fn file(&mut self, file: usize) -> File {
        let buffer = &self.buffer;
        let open = || buffer.open_file(&names()[file], true).unwrap();
        self.handles.entry(file).or_insert_with(open).clone()
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { file, offset, len } => {
                let data = self.plain.data(*len);
                self.file(*file).write_at(*offset, &data).unwrap();
            }
            Op::SetLen { file, len } => self.file(*file).set_len(*len).unwrap(),
            Op::Remove { file } => {
                let removed = self.buffer.remove(&names()[*file]);
                match self.plain.files.contains_key(&names()[*file]) {
                    true => removed.unwrap(),
                    false => assert!(matches!(removed, Err(BufferError::NotFound(_))), "{removed:?}"),
                }
                if let Some(file) = self.handles.remove(file) {
                    assert!(matches!(file.write_at(0, b"late"), Err(BufferError::Removed(_))));
                }
            }
            Op::Read { file, offset, len } => {
                let mut found = vec![0xee; *len];
                let count = self.file(*file).read_at(*offset, &mut found).unwrap();
                let empty = Vec::new();
                let bytes = self.plain.files.get(&names()[*file]).unwrap_or(&empty);
                let expected = bytes.get(*offset as usize..).unwrap_or_default();
                assert_eq!(found[..count], expected[..expected.len().min(*len)], "{op:?}");
            }
            Op::Flush(n) => drop(self.buffer.flushers()[n % 2].step().unwrap()),
            Op::Sync => drop(self.buffer.syncer().step().unwrap()),
            Op::Reclaim => while self.buffer.reclaimer().step().unwrap() == Progress::Worked {},
            Op::Settle => self.buffer.settle().unwrap(),
            Op::FailingSettle => {
                let asked = Arc::new(AtomicBool::new(false));
                let tells = asked.clone();
                self.home.set_fault(Some(Box::new(move |what, _| {
                    (what == "sync").then(|| {
                        tells.store(true, SeqCst);
                        std::io::ErrorKind::Other.into()
                    })
                })));
                let settled = self.buffer.settle();
                self.home.set_fault(None);
                // Where everything is durable, nothing is synced.
                match asked.load(SeqCst) {
                    true => assert!(matches!(settled, Err(BufferError::Home(_))), "{settled:?}"),
                    false => settled.unwrap(),
                }
            }
            Op::Close { file } => drop(self.handles.remove(file)),
            Op::Reopen => {
                self.handles.clear();
                self.buffer = open(&self.pool, self.home.clone()).0;
            }
        }
        self.plain.apply(op);
    }

    /// Reads everything through the buffer, and looks at its invariants.
    pub(crate) fn check(&mut self) {
        assert_eq!(self.buffer.check(), Vec::<String>::new());
        for (name, bytes) in self.plain.files.clone() {
            let at = names().iter().position(|n| *n == name).unwrap();
            let was_open = self.handles.contains_key(&at);
            let mut found = vec![0xee; bytes.len() + 9];
            let count = self.file(at).read_at(0, &mut found).unwrap();
            assert_eq!((count, &found[..count]), (bytes.len(), &bytes[..]), "{name}");
            if !was_open {
                self.handles.remove(&at);
            }
        }
    }

    /// After a settle the home is the model.
    pub(crate) fn check_home(&self) {
        assert_eq!(self.home.all(), self.plain.files);
    }
}
