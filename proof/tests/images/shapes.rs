//! Generated shapes of volumes: each is made by mke2fs and by us, written to, grown and shrunk by us and by resize2fs,
//! and written to again, by the kernel, too. After each step e2fsck and our check find nothing, and what was written is
//! there. What mke2fs refuses, we refuse.
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

use crate::resize::{differences, must_be_clean, must_show, on, resized};
use ondol::{FormatOptions, JournalEngine, NewSize, Options, Volume};
use ondol_block::RamStore;
use ondol_env::sync::Arc;
use ondol_skips::skips;
use ondol_testkit::dump::{self, Snapshot};
use ondol_testkit::image::{self, KernelMount, Spec, read_sparse, run, scratch_dir, write_sparse};
use ondol_tests::{hunting, no_kernel_mount};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const MIB: u64 = 1 << 20;

/// One shape.
#[derive(Clone, Copy, Debug)]
struct Shape {
    block_size: u32,
    bigalloc: bool,
    /// Where descriptors of more groups go: `resize_inode`, `meta_bg`, or nothing is said.
    more: &'static str,
    sparse_super2: bool,
    wide: bool,
    flex: bool,
    csum: &'static str,
}

impl Shape {
    /// All of them.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for n in 0..3 * 2 * 3 * 2 * 2 * 2 * 3 {
            let mut left = n;
            let mut of = |count: usize| {
                let value = left % count;
                left /= count;
                value
            };
            all.push(Self {
                block_size: [1024, 2048, 4096][of(3)],
                bigalloc: of(2) == 1,
                more: ["resize_inode", "meta_bg", ""][of(3)],
                sparse_super2: of(2) == 1,
                wide: of(2) == 1,
                flex: of(2) == 1,
                csum: ["metadata_csum", "uninit_bg", ""][of(3)],
            });
        }
        all
    }

    /// What `-O` is told, of mke2fs and of us: every feature by name.
    fn features(&self) -> String {
        let said = |name: &str, on: bool| if on { name.to_owned() } else { format!("^{name}") };
        let words = [
            said("bigalloc", self.bigalloc),
            said("resize_inode", self.more == "resize_inode"),
            said("meta_bg", self.more == "meta_bg"),
            said("sparse_super2", self.sparse_super2),
            said("64bit", self.wide),
            said("flex_bg", self.flex),
            // Of the two the later counts.
            said("uninit_bg", self.csum == "uninit_bg"),
            said("metadata_csum", self.csum == "metadata_csum"),
            "^metadata_csum_seed".to_owned(),
        ];
        words[usize::from(!self.bigalloc)..].join(",")
    }

    /// Sizes in MiB: at first, grown, and shrunk again.
    fn sizes(&self) -> [u64; 3] {
        match self.block_size {
            1024 => [24, 60, 34],
            2048 => [72, 150, 100],
            _ => [140, 280, 160],
        }
    }

    fn by_mke2fs(&self) -> Option<Vec<u8>> {
        let cluster = format!("-C {}", self.block_size * 4);
        let features = format!("-O {}", self.features());
        let spec = Spec::new(self.sizes()[0] * MIB, self.block_size).journal(4).with(&features);
        if self.bigalloc { spec.with(&cluster).make().ok() } else { spec.make().ok() }
    }

    fn by_us(&self) -> Result<Vec<u8>, ondol::Error> {
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        let options = FormatOptions::new().size(self.sizes()[0] * MIB).block_size(self.block_size);
        let options = options.features(&self.features()).journal(JournalEngine::Classic).journal_size(4 * MIB);
        Volume::format(&path, &options).map(|_| read_sparse(&path).expect("read"))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-b {} -O {}", self.block_size, self.features())
    }
}

/// A volume on its way: its bytes, what it shows, and which of its many names it is at.
struct Way<'s> {
    shape: &'s Shape,
    maker: &'s str,
    bytes: Vec<u8>,
    round: usize,
}

impl Way<'_> {
    fn what(&self, step: &str) -> String {
        format!("{} by {}, {step}", self.shape, self.maker)
    }

    /// Opens the volume, writes to it, and looks at everything.
    fn written(&mut self, step: &str) -> Snapshot {
        let what = self.what(step);
        let store = Arc::new(RamStore::from_bytes(std::mem::take(&mut self.bytes)));
        let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1));
        let volume = volume.unwrap_or_else(|e| panic!("{what}: {e}"));
        let round = self.round;
        self.round += 1;
        volume.create_dir(format!("/d{round}")).expect("mkdir");
        for n in 0..20usize {
            let bytes = vec![(n + round) as u8; 1 + n * 9_777];
            volume.write(format!("/d{round}/f{n}"), bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        for n in (0..20).step_by(3) {
            volume.remove_file(format!("/d{round}/f{n}")).expect("remove");
        }
        let seen = dump::of_volume(volume.inodes()).expect("a dump");
        volume.close().unwrap_or_else(|e| panic!("{what}: {e}"));
        must_be_clean(&store, &what);
        self.bytes = store.to_bytes();
        seen
    }

    /// Another size, by us; false where we refuse by name.
    fn by_us(&mut self, mib: u64, seen: &Snapshot, step: &str) -> bool {
        let what = self.what(step);
        let store = on(&self.bytes, self.bytes.len().max((mib * MIB) as usize) as u64);
        let done = match resized(&store, NewSize::Bytes(mib * MIB)) {
            Ok(done) => done,
            Err(e) if e.to_string().contains("not supported") && self.shape.bigalloc => return false,
            Err(e) => panic!("{what}: {e}"),
        };
        let size = done.blocks * u64::from(done.block_size);
        let store = on(&store.to_bytes()[..size as usize], size);
        must_be_clean(&store, &what);
        must_show(&store, seen, &what);
        self.bytes = store.to_bytes();
        true
    }

    /// Another size, by resize2fs; false where it refuses, or leaves what e2fsck complains of.
    fn by_resize2fs(&mut self, mib: u64, seen: &Snapshot, step: &str) -> bool {
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        write_sparse(&path, &self.bytes).expect("write");
        let file = std::fs::File::options().write(true).open(&path).expect("open");
        file.set_len(self.bytes.len().max((mib * MIB) as usize) as u64).expect("room");
        let size = format!("{mib}M");
        let done = run("resize2fs", ["-f".as_ref(), path.as_os_str(), size.as_ref()]).expect("resize2fs");
        let bytes = read_sparse(&path).expect("read");
        if !done.status.success() || !image::check(&bytes).expect("e2fsck").is_clean() {
            return false;
        }
        let store = Arc::new(RamStore::from_bytes(bytes));
        let what = self.what(step);
        must_be_clean(&store, &what);
        // It gives directories in which inodes have other numbers another time.
        let mut lines = differences(&store, seen);
        lines.retain(|line| !line.contains(": mtime is "));
        assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
        self.bytes = store.to_bytes();
        true
    }

    /// The kernel reads what is there and writes.
    fn by_kernel(&mut self) {
        let what = self.what("by the kernel");
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        write_sparse(&path, &self.bytes).expect("write");
        let mount = KernelMount::new(&path, "").unwrap_or_else(|e| panic!("{what}: {e}"));
        let read = std::fs::read(mount.dir().join("d0/f19")).expect("read");
        assert!(read.len() == 1 + 19 * 9_777 && read.iter().all(|&byte| byte == 19), "{what}");
        for n in 0..20usize {
            std::fs::write(mount.dir().join(format!("k{n}")), vec![n as u8; n * 5_001]).expect("write");
        }
        mount.close().expect("umount");
        let store = Arc::new(RamStore::from_bytes(ondol_tests::still(&path)));
        must_be_clean(&store, &what);
        self.bytes = store.to_bytes();
    }

    fn go(&mut self) {
        let [_, grown, shrunk] = self.shape.sizes();
        let seen = self.written("new");
        self.by_us(grown, &seen, "grown");
        let seen = self.written("grown and written to");
        self.by_us(shrunk, &seen, "shrunk");
        let seen = self.written("shrunk and written to");
        if self.by_resize2fs(grown, &seen, "grown by resize2fs") {
            let seen = self.written("grown by resize2fs and written to");
            self.by_resize2fs(shrunk, &seen, "shrunk by resize2fs");
        }
        let seen = self.written("written to after resize2fs");
        self.by_us(grown, &seen, "grown again");
        if no_kernel_mount().is_none() {
            self.by_kernel();
            self.written("written to after the kernel");
        }
    }
}

#[test]
fn generated_shapes_are_made_and_resized_as_e2fsprogs_does() {
    skips(no_kernel_mount());
    let (all, next) = (Shape::all(), AtomicUsize::new(0));
    // All of them take long.
    let step = if hunting() { 1 } else { 167 };
    let chosen: Vec<&Shape> = all.iter().step_by(step).collect();
    let made = AtomicUsize::new(0);
    let work = || {
        while let Some(shape) = chosen.get(next.fetch_add(1, SeqCst)) {
            let (theirs, ours) = (shape.by_mke2fs(), shape.by_us());
            match (&theirs, &ours) {
                (None, Ok(_)) => panic!("{shape}: mke2fs refuses it, and we do not"),
                (Some(_), Err(e)) => assert!(shape.bigalloc, "{shape}: mke2fs makes it, and we do not: {e}"),
                _ => {}
            }
            for (maker, bytes) in [("mke2fs", theirs), ("us", ours.ok())] {
                let Some(bytes) = bytes else { continue };
                made.fetch_add(1, SeqCst);
                Way { shape, maker, bytes, round: 0 }.go();
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
        }
    });
    assert!(made.into_inner() > chosen.len() / 2, "hardly a shape can be made");
}
