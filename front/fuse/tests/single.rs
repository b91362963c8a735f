//! A served file: bytes and syncs arrive as they were asked for. Needs root and `/dev/fuse`.

use ondol_fuse::{Contents, SingleFile};
use parking_lot::RwLock;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Memory {
    bytes: RwLock<Vec<u8>>,
    reads: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl Memory {
    fn new(size: usize) -> Self {
        let count = AtomicU64::default;
        Self { bytes: RwLock::new(vec![0; size]), reads: count(), writes: count(), syncs: count() }
    }

    fn counts(&self) -> [u64; 3] {
        [&self.reads, &self.writes, &self.syncs].map(|count| count.load(Ordering::SeqCst))
    }
}

impl Contents for Memory {
    fn size(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let at = offset as usize;
        buf.copy_from_slice(&self.bytes.read()[at..at + buf.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        let at = offset as usize;
        self.bytes.write()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn every_request_arrives() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return ondol_skips::skip("a served file needs root and /dev/fuse");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("device");
    std::fs::write(&path, "covered").expect("a file to mount on");
    let memory = Arc::new(Memory::new(3 << 20));
    let mut served = match SingleFile::mount(memory.clone(), &path, 4) {
        Ok(served) => served,
        Err(e) => return ondol_skips::skip(format!("this process may not mount: {e}")),
    };
    assert_eq!(served.path(), path.canonicalize().expect("path"));
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("open");
    assert_eq!(file.metadata().expect("metadata").len(), 3 << 20);
    file.write_all_at(b"warm", 5000).expect("write");
    let mut back = [0; 4];
    file.read_exact_at(&mut back, 5000).expect("read");
    assert_eq!(&back, b"warm");
    file.read_exact_at(&mut back, 5000).expect("read");
    file.sync_data().expect("fdatasync");
    file.sync_all().expect("fsync");
    assert_eq!(memory.counts(), [2, 1, 2]);
    file.write_all_at(&vec![7; 512 << 10], 1 << 20).expect("a large write");
    assert_eq!(memory.counts()[1], 2, "what fits a request is one");
    assert!(file.write_all_at(b"beyond", 3 << 20).is_err());
    file.set_len(0).expect("accepted");
    assert_eq!(file.metadata().expect("metadata").len(), 3 << 20);
    assert!(served.unmount().is_err(), "in use");
    drop(file);
    served.unmount().expect("unmount");
    assert_eq!(std::fs::read(&path).expect("the file below"), b"covered");
}
