//! Calls on ranges of files, side by side with the kernel's ext4: contents, sizes, what is allocated and written where,
//! holes as lseek tells them, and error numbers.

use ondol::{Extent, Fallocate, File, OpenOptions, Options, Seek, Volume};
use ondol_skips::skips;
use ondol_testkit::image::{KernelMount, Spec, scratch_dir};
use ondol_testkit::target::fallocate_flags;
use ondol_tests::{no_kernel_mount, parameter};
use rustix::fs::SeekFrom;
use std::fs::File as KernelFile;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A small deterministic random source.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }
}

const FILES: usize = 2;

/// One file here and there.
struct Pair {
    kernel: KernelFile,
    path: String,
    ours: File,
}

type Errno = Result<u64, i32>;

fn kernel<T>(result: Result<T, rustix::io::Errno>, value: impl FnOnce(T) -> u64) -> Errno {
    result.map(value).map_err(rustix::io::Errno::raw_os_error)
}

fn ours<T>(result: ondol::Result<T>, value: impl FnOnce(T) -> u64) -> Errno {
    result.map(value).map_err(|e| e.errno())
}

impl Pair {
    fn fallocate(&self, how: Fallocate, at: u64, len: u64) -> (Errno, Errno) {
        let there = rustix::fs::fallocate(&self.kernel, fallocate_flags(how), at, len);
        (kernel(there, |()| 0), ours(self.ours.fallocate(how, at, len), |()| 0))
    }

    fn copy_to(&self, at: u64, to: &Self, to_at: u64, len: u64) -> (Errno, Errno) {
        let there = |from: u64, to_at: u64, len: u64| {
            let (mut a, mut b) = (from, to_at);
            let n = rustix::fs::copy_file_range(&self.kernel, Some(&mut a), &to.kernel, Some(&mut b), len as usize);
            kernel(n, |n| n as u64)
        };
        let here = |from, to_at, len| ours(self.ours.copy_range(from, &to.ours, to_at, len), |n| n);
        (whole(there, at, to_at, len), whole(here, at, to_at, len))
    }

    fn seek(&self, what: Seek, at: u64) -> (Errno, Errno) {
        let from = if what == Seek::Data { SeekFrom::Data(at) } else { SeekFrom::Hole(at) };
        (kernel(rustix::fs::seek(&self.kernel, from), |n| n), ours(self.ours.find(what, at), |n| n))
    }

    fn size(&self) -> u64 {
        let there = self.kernel.metadata().unwrap().len();
        assert_eq!(self.ours.metadata().unwrap().len(), there);
        there
    }

    fn compare_bytes(&self) {
        let size = self.size() as usize;
        let (mut a, mut b) = (vec![0; size], vec![0; size]);
        self.kernel.read_exact_at(&mut a, 0).unwrap();
        assert_eq!(self.ours.read_at(&mut b, 0).unwrap(), size);
        let differs = a.iter().zip(&b).position(|(x, y)| x != y);
        assert_eq!(differs, None, "of {size} bytes");
    }

    /// What is allocated and what is written, and every edge that lseek finds.
    fn compare_maps(&self) {
        // The kernel takes pages that it has read from unwritten blocks for data.
        rustix::fs::fadvise(&self.kernel, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let here = self.ours.extents(0, u64::MAX).unwrap();
        let runs = |e: &Extent| (e.logical, e.len, e.unwritten);
        assert_eq!(joined(here.iter().map(runs)), joined(filefrag(&self.path)), "{here:?}");
        for at in here.iter().flat_map(|e| [e.logical, e.end()]).chain([0, self.size()]) {
            for near in [at.saturating_sub(1), at, at + 1] {
                for what in [Seek::Data, Seek::Hole] {
                    let (there, here) = self.seek(what, near);
                    assert_eq!(here, there, "{what:?} from {near}");
                }
            }
        }
    }
}

/// Calls again after short counts.
fn whole(copy: impl Fn(u64, u64, u64) -> Errno, at: u64, to: u64, len: u64) -> Errno {
    let mut done = 0;
    loop {
        match copy(at + done, to + done, len - done) {
            Ok(0) => return Ok(done),
            Ok(n) => done += n,
            Err(e) if done == 0 => return Err(e),
            Err(_) => return Ok(done),
        }
    }
}

/// Runs that are alike and follow each other, as one.
fn joined(runs: impl IntoIterator<Item = (u64, u64, bool)>) -> Vec<(u64, u64, bool)> {
    let mut all: Vec<(u64, u64, bool)> = Vec::new();
    for (at, len, unwritten) in runs {
        match all.last_mut() {
            Some(last) if last.0 + last.1 == at && last.2 == unwritten => last.1 += len,
            _ => all.push((at, len, unwritten)),
        }
    }
    all
}

/// The kernel's FIEMAP: first byte, bytes, whether unwritten.
fn filefrag(path: &str) -> Vec<(u64, u64, bool)> {
    let out = Command::new("filefrag").args(["-v", "-b1024", path]).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        let first: u64 = fields.get(1)?.split("..").next()?.parse().ok()?;
        let len: u64 = fields.get(3)?.parse().ok()?;
        Some((first * 1024, len * 1024, fields.get(4..)?.iter().any(|f| f.contains("unwritten"))))
    };
    text.lines().filter_map(line).collect()
}

/// Without this the kernel writes zeros in place of small unwritten extents.
fn no_zeroout(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let device = mounts.lines().find(|l| l.split(' ').nth(1) == dir.to_str()).unwrap().split(' ').next().unwrap();
    let name = device.trim_start_matches("/dev/");
    std::fs::write(format!("/sys/fs/ext4/{name}/extent_max_zeroout_kb"), "0").unwrap();
}

/// Mounts two images that are alike, and lets `test` use a few files in both.
fn side_by_side(spec: &Spec, test: impl FnOnce(&[Pair])) {
    let dir = scratch_dir().unwrap();
    let (theirs, mine) = (dir.path().join("kernel"), dir.path().join("ours"));
    spec.make_file(&theirs).unwrap();
    std::fs::copy(&theirs, &mine).unwrap();
    let mount = KernelMount::new(&theirs, "").unwrap();
    no_zeroout(mount.dir());
    let volume = Volume::open_with(&mine, &Options::default()).unwrap();
    let open = |i: usize| {
        let path = mount.dir().join(format!("f{i}"));
        let kernel = KernelFile::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let ours = OpenOptions::new().read(true).write(true).create_new(true).open(&volume, format!("f{i}")).unwrap();
        Pair { kernel, path: path.to_str().unwrap().to_owned(), ours }
    };
    let pairs: Vec<Pair> = (0..FILES).map(open).collect();
    test(&pairs);
    drop(pairs);
    volume.close().unwrap();
    mount.close().unwrap();
    let fsck = Command::new("e2fsck").args(["-fn", mine.to_str().unwrap()]).stdin(Stdio::null()).output().unwrap();
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stdout));
}

/// One random call on both sides.
fn step(pairs: &[Pair], random: &mut Random, block: u64, copies: bool) -> String {
    let span = 200 * block;
    let file = random.below(FILES as u64) as usize;
    let any = |random: &mut Random| match random.below(3) {
        0 => random.below(span),
        _ => random.below(span / block) * block,
    };
    let (at, len) = (any(random), 1 + any(random) / (1 + random.below(20)));
    let aligned = (random.below(span / block) * block, (1 + random.below(20)) * block);
    let pair = &pairs[file];
    let kinds = if copies { 13 } else { 12 };
    let (text, (there, here)) = match random.below(kinds) {
        0..=2 => {
            let bytes: Vec<u8> = (0..len.min(20 * block)).map(|i| (random.0 >> 20) as u8 ^ i as u8 | 1).collect();
            pair.kernel.write_all_at(&bytes, at).unwrap();
            pair.ours.write_all_at(&bytes, at).unwrap();
            (format!("write {file} {at} {}", bytes.len()), (Ok(0), Ok(0)))
        }
        3 => {
            let size = at.min(pair.size() + 10 * block);
            pair.kernel.set_len(size).unwrap();
            pair.ours.set_len(size).unwrap();
            (format!("truncate {file} {size}"), (Ok(0), Ok(0)))
        }
        4..=7 => {
            let how = Fallocate::ALL[random.below(5) as usize];
            (format!("{how:?} {file} {at} {len}"), pair.fallocate(how, at, len))
        }
        8..=10 => {
            let how = Fallocate::ALL[5 + random.below(2) as usize];
            let near = (aligned.0 % pair.size().max(1)).next_multiple_of(block);
            (format!("{how:?} {file} {near} {}", aligned.1), pair.fallocate(how, near, aligned.1))
        }
        11 => {
            let how = Fallocate::ALL[5 + random.below(2) as usize];
            (format!("{how:?} {file} {at} {len}"), pair.fallocate(how, at, len))
        }
        _ => {
            let to = random.below(FILES as u64) as usize;
            let (to_at, len) = (any(random), any(random) / 4);
            (format!("copy {file} {at} {to} {to_at} {len}"), pair.copy_to(at, &pairs[to], to_at, len))
        }
    };
    assert_eq!(here, there, "{text}");
    text
}

fn random_calls(spec: &Spec, seed: u64, copies: bool) {
    let block = u64::from(spec.block_size);
    side_by_side(spec, |pairs| {
        let (mut random, mut done) = (Random(seed), Vec::new());
        for _ in 0..parameter("ONDOL_CALLS", 150) {
            done.push(step(pairs, &mut random, block, copies));
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for pair in pairs {
                    pair.kernel.sync_all().unwrap();
                    pair.compare_bytes();
                    // A copy leaves holes as they are, the kernel's writes them out.
                    if !copies {
                        pair.compare_maps();
                    }
                }
            }));
            if let Err(e) = caught {
                eprintln!("seed {seed}, blocks of {block}, after:\n{}", done.join("\n"));
                std::panic::resume_unwind(e);
            }
        }
    });
}

#[test]
fn random_calls_do_what_the_kernel_does() {
    if skips(no_kernel_mount()) {
        return;
    }
    let first = parameter("ONDOL_SEED", 1);
    for seed in first..first + parameter("ONDOL_CASES", 6) {
        let block = [1024, 4096, 2048][seed as usize % 3];
        random_calls(&Spec::new(64 << 20, block), seed, seed % 3 == 2);
    }
}

#[test]
fn what_the_kernel_refuses_is_refused_likewise() {
    if skips(no_kernel_mount()) {
        return;
    }
    for block in [1024u64, 4096] {
        side_by_side(&Spec::new(32 << 20, block as u32), |pairs| {
            let [a, b] = pairs else { panic!("two files") };
            let max = (u64::from(u32::MAX)) * block;
            for pair in [a, b] {
                pair.kernel.write_all_at(&[7; 20_000], 0).unwrap();
                pair.ours.write_all_at(&[7; 20_000], 0).unwrap();
            }
            // Blocks near the last one that a file can have.
            let (there, here) = b.fallocate(Fallocate::KeepSize, max - 4 * block, block);
            assert_eq!(here, there);
            let edges = [0, 1, block - 1, block, 4 * block, 16_384, 20_000, 20_480, 24_576, 1 << 40, max - block, max];
            for pair in [b, a] {
                for (at, len) in edges.iter().flat_map(|at| edges.iter().map(move |len| (*at, *len))) {
                    // Allocating gigabytes is refused for want of space, which each side measures in its own way.
                    let shifts = [Fallocate::CollapseRange, Fallocate::InsertRange];
                    let hows = if at + len > 1 << 20 && at + len <= max { &shifts[..] } else { &Fallocate::ALL[..] };
                    for &how in hows {
                        let (there, here) = pair.fallocate(how, at, len);
                        assert_eq!(here, there, "{how:?} {at} {len}");
                        // A refused insert leaves the kernel's file longer, and ours as it was.
                        if here.is_ok() {
                            pair.size();
                        }
                        pair.kernel.set_len(20_000).unwrap();
                        pair.ours.set_len(20_000).unwrap();
                        if std::ptr::eq(pair, b) {
                            let (there, here) = b.fallocate(Fallocate::KeepSize, max - 4 * block, block);
                            assert_eq!(here, there);
                        }
                    }
                }
            }
            for (at, to, len) in [(0, 0, 10), (0, 5, 10), (10, 5, 6), (0, 30_000, 0), (20_000, 0, 5), (1 << 40, 0, 5)] {
                for (from, target) in [(a, a), (a, b)] {
                    let (there, here) = from.copy_to(at, target, to, len);
                    assert_eq!(here, there, "copy {at} {to} {len}");
                }
            }
            let (there, here) = a.copy_to(0, b, max, 10);
            assert_eq!(here, there);
        });
    }
}
