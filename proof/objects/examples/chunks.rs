//! What workloads cost in object storage, by the size of chunks: requests and bytes first, then time. The store is a
//! directory whose requests take so much longer.
//!
//! ```sh
//! cargo run --release --manifest-path proof/Cargo.toml -p ondol-objects --example chunks -- \
//!     DIR [DELAY_MS]... [--only WORKLOAD]
//! ```
#![allow(clippy::disallowed_methods, reason = "it measures by the real clock")]

use ondol::{FormatOptions, OpenOptions, Options, Volume};
use ondol_object_home::object_store::local::LocalFileSystem;
use ondol_object_home::object_store::path::Path as Prefix;
use ondol_object_home::{Bucket, Home, Opening};
use ondol_stores::unruly::{Counts, Plan, Unruly};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const CHUNKS: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];
const SIZE: u64 = 4 << 30;

/// Operations of the workloads that sync.
const SYNCED: u64 = 400;
/// Bytes of the large file.
const LARGE: u64 = 128 << 20;

/// A volume, and the store below it.
struct Lab {
    volume: Volume,
    store: Unruly,
    random: Random,
}

/// Its name, whether it finds what the one before has left, and what it does. How many operations it did.
type Workload = (&'static str, bool, fn(&mut Lab) -> Result<u64>);

const WORKLOADS: [Workload; 8] = [
    ("untar", false, untar),
    ("varmail", false, varmail),
    ("fileserver", false, fileserver),
    ("write, large", false, write_large),
    ("read it", true, read_large),
    ("read 4 KiB here and there", true, read_here_and_there),
    ("write 4 KiB here and there, fsync", true, write_here_and_there),
    ("read it again", true, read_large),
];

fn main() -> Result {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let only = words.iter().position(|word| word == "--only").map(|at| words.split_off(at).remove(1));
    let mut words = words.into_iter();
    let dir = words.next().ok_or("name a directory")?;
    let mut delays: Vec<u64> = words.map(|word| word.parse()).collect::<std::result::Result<_, _>>()?;
    if delays.is_empty() {
        delays = vec![0, 5, 30];
    }
    println!("| workload | chunk KiB | delay ms | operations | puts | gets | at once | MiB up | MiB down | seconds |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for delay in delays {
        for chunk in CHUNKS {
            let place = Path::new(&dir).join(format!("chunks-{}", std::process::id()));
            let done = run(&place, chunk, Duration::from_millis(delay), only.as_deref());
            // What stays is only in the way.
            let _ = std::fs::remove_dir_all(&place);
            done?;
        }
    }
    Ok(())
}

fn run(place: &Path, chunk: u64, delay: Duration, only: Option<&str>) -> Result {
    let mut store = None;
    for (name, goes_on, work) in WORKLOADS {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        if !goes_on || store.is_none() {
            let target = format!("file://{}", place.join("volume").display());
            Volume::format(&target, &FormatOptions::new().size(SIZE).chunk(chunk).force(true))?;
            store = Some(Unruly::new(Arc::new(LocalFileSystem::new_with_prefix(place)?.with_fsync(true))));
        }
        let Some(store) = &store else { continue };
        store.follow(Plan { latency: delay, ..Plan::default() });
        let bucket = Bucket::new(Arc::new(store.clone()), "the volume", Prefix::from("volume"));
        let home = Arc::new(Home::open(&bucket, &Opening { take_over: true, ..Opening::default() })?);
        let volume = Volume::open_media(
            ondol::Media::image(home.clone()),
            &Options::parse("journal=batch,noatime")?,
            Arc::new(ondol_env::System),
        )?;
        let mut lab = Lab { volume, store: store.clone(), random: Random(7) };
        lab.store.most_gets();
        let (before, began) = (lab.store.counts(), Instant::now());
        let operations = work(&mut lab)?;
        let (took, after, at_once) = (began.elapsed(), lab.store.counts(), lab.store.most_gets());
        lab.volume.close()?;
        // Gives the lease back: the next workload makes a volume in its place.
        home.close()?;
        print(&Line { name, chunk, delay, operations, at_once, before, after, took });
        store.follow(Plan::default());
    }
    Ok(())
}

struct Line<'a> {
    name: &'a str,
    chunk: u64,
    delay: Duration,
    operations: u64,
    at_once: u64,
    before: Counts,
    after: Counts,
    took: Duration,
}

fn print(line: &Line<'_>) {
    let Line { name, chunk, delay, operations, at_once, before: a, after: b, took } = line;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "| {name} | {} | {} | {operations} | {} | {} | {} | {:.1} | {:.1} | {:.2} |",
        chunk >> 10,
        delay.as_millis(),
        b.puts + b.parts + b.uploads - a.puts - a.parts - a.uploads,
        b.gets - a.gets,
        at_once,
        mib(b.put_bytes - a.put_bytes),
        mib(b.get_bytes - a.get_bytes),
        took.as_secs_f64(),
    );
}

/// A tree of small files with text in them, one after the other, and one sync at the end.
fn untar(lab: &mut Lab) -> Result<u64> {
    for dir in 0..60 {
        lab.volume.create_dir(format!("/{dir}"))?;
        for file in 0..40 {
            let len = 500 + lab.random.below(4000) * lab.random.below(12);
            lab.volume.write(format!("/{dir}/{file}"), lab.random.text(len))?;
        }
    }
    lab.volume.sync()?;
    Ok(60 * 41)
}

/// Mail: written and synced, appended to and synced, read, deleted.
fn varmail(lab: &mut Lab) -> Result<u64> {
    for n in 0..SYNCED / 2 {
        let name = |n: u64| format!("/mail-{n}");
        let len = 1000 + lab.random.below(15_000);
        lab.volume.write(name(n), lab.random.text(len))?;
        lab.volume.open_file(name(n))?.sync_all()?;
        if n >= 20 {
            let old = n - 10 - lab.random.below(10);
            let len = 1000 + lab.random.below(15_000);
            let file = OpenOptions::new().append(true).create(true).open(&lab.volume, name(old))?;
            let end = lab.volume.metadata(name(old))?.len();
            file.write_all_at(&lab.random.text(len), end)?;
            file.sync_all()?;
            lab.volume.read(name(old))?;
            lab.volume.remove_file(name(n - 20)).or_else(|_| lab.volume.write(name(n - 20), b""))?;
        }
    }
    Ok(SYNCED)
}

/// Whole files of 128 KiB are written, appended to, read and deleted. Nothing is synced before the end.
fn fileserver(lab: &mut Lab) -> Result<u64> {
    let name = |n: u64| format!("/file-{n}");
    for n in 0..300 {
        lab.volume.write(name(n), lab.random.mixed(128 << 10))?;
        let other = n - lab.random.below(n.min(50) + 1);
        if lab.volume.exists(name(other))? {
            let end = lab.volume.metadata(name(other))?.len();
            let file = OpenOptions::new().write(true).open(&lab.volume, name(other))?;
            file.write_all_at(&lab.random.mixed(16 << 10), end)?;
            lab.volume.read(name(other))?;
        }
        if n >= 50 {
            lab.volume.remove_file(name(n - 50))?;
        }
    }
    lab.volume.sync()?;
    Ok(300)
}

fn write_large(lab: &mut Lab) -> Result<u64> {
    let file = lab.volume.create("/large")?;
    for at in (0..LARGE).step_by(1 << 20) {
        file.write_all_at(&lab.random.mixed(1 << 20), at)?;
    }
    file.sync_all()?;
    Ok(LARGE >> 20)
}

fn read_large(lab: &mut Lab) -> Result<u64> {
    let (file, mut buf) = (lab.volume.open_file("/large")?, vec![0; 128 << 10]);
    for at in (0..LARGE).step_by(buf.len()) {
        assert_eq!(file.read_at(&mut buf, at)?, buf.len());
    }
    Ok(LARGE / buf.len() as u64)
}

fn read_here_and_there(lab: &mut Lab) -> Result<u64> {
    let (file, mut buf) = (lab.volume.open_file("/large")?, vec![0; 4096]);
    for _ in 0..SYNCED {
        file.read_at(&mut buf, lab.random.below(LARGE / 4096) * 4096)?;
    }
    Ok(SYNCED)
}

fn write_here_and_there(lab: &mut Lab) -> Result<u64> {
    let file = OpenOptions::new().write(true).open(&lab.volume, "/large")?;
    for _ in 0..SYNCED {
        let bytes = lab.random.mixed(4096);
        file.write_all_at(&bytes, lab.random.below(LARGE / 4096) * 4096)?;
        file.sync_all()?;
    }
    Ok(SYNCED)
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Words, some of which come often: LZ4 makes about half of it, as of source code.
    fn text(&mut self, len: u64) -> Vec<u8> {
        let mut text = Vec::with_capacity(len as usize + 16);
        while text.len() < len as usize {
            let word = self.below(40) * self.below(40);
            text.extend_from_slice(format!("{:x} ", word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 28).as_bytes());
        }
        text.truncate(len as usize);
        text
    }

    /// Half of it cannot be compressed.
    fn mixed(&mut self, len: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len as usize);
        while bytes.len() < len as usize {
            bytes.extend((0..256).flat_map(|_| self.next().to_le_bytes()));
            bytes.extend(self.text(2048));
        }
        bytes.truncate(len as usize);
        bytes
    }
}
