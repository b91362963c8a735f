//! What one request costs in the engine: the inode-level calls that a mount makes, each timed over many repetitions.
//!
//! `cargo run --release -p ondol --example requests [IMAGE] [OPTIONS]`
//!
//! Everything runs on one thread without fsync. The figures are that thread's processor time, which other programs on
//! the machine hardly change; commits happen when the journal fills, and what of them runs on this thread is in the
//! figures.
#![allow(clippy::disallowed_methods, reason = "a program that measures")]

use ondol::inodes::Inodes;
use ondol::{Caller, FormatOptions, Ino, Options, ROOT, Rename, Volume};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::path::PathBuf;

/// The allocator of the program that serves mounts.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FILES: u32 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let image = args.next().map_or_else(|| PathBuf::from("/dev/shm/ondol-requests.img"), PathBuf::from);
    let options = Options::parse(&args.next().unwrap_or_default().to_string_lossy())?;
    Volume::format(&image, &FormatOptions::new().size(2 << 30).block_size(4096).force(true))?;
    let volume = Volume::open_with(&image, &options)?;
    let lines = measure(volume.inodes())?;
    volume.close()?;
    std::fs::remove_file(image)?;
    println!("{:<14} {:>10}", "request", "µs each");
    for (name, each) in lines {
        println!("{name:<14} {each:>10.2}");
    }
    Ok(())
}

type Lines = Vec<(&'static str, f64)>;

fn measure(i: &Inodes) -> Result<Lines, Box<dyn Error>> {
    let caller = Caller::default();
    let dir = i.names().mkdir(ROOT, b"d", 0o755, caller)?.ino;
    let mut inos: Vec<Ino> = Vec::new();
    let mut lines = Lines::new();
    let mut page = vec![7_u8; 4096];
    let mut time = |name, work: &mut dyn FnMut(u32) -> Result<(), ondol::inodes::Error>| {
        let began = processor_time();
        for n in 0..FILES {
            work(n)?;
        }
        lines.push((name, (processor_time() - began) / f64::from(FILES)));
        Ok::<_, ondol::inodes::Error>(())
    };
    // The kernel looks for a new name before it has it made: two requests each.
    let absent = |name: &str| match i.names().lookup(dir, name.as_bytes()) {
        Err(ondol::inodes::Error::NotFound) => Ok(()),
        found => found.map(drop),
    };
    time("lookup, create", &mut |n| {
        absent(&name(n))?;
        inos.push(i.names().create(dir, name(n).as_bytes(), 0o644, caller)?.ino);
        Ok(())
    })?;
    let at = |n: u32| inos.get(n as usize).copied().unwrap_or(ROOT);
    time("write-new", &mut |n| i.files().write(at(n), 0, &page).map(drop))?;
    time("write-append", &mut |n| i.files().write(at(0), u64::from(n) * 4096, &page).map(drop))?;
    time("overwrite", &mut |n| i.files().write(at(n), 0, &page).map(drop))?;
    time("read", &mut |n| i.files().read(at(n), 0, &mut page).map(drop))?;
    time("lookup", &mut |n| i.names().lookup(dir, name(n).as_bytes()).map(drop))?;
    time("lookup, absent", &mut |n| absent(&format!("r{n}")))?;
    time("getattr", &mut |n| i.getattr(at(n)).map(drop))?;
    time("open-close", &mut |n| i.inode_ops().open(at(n)).and_then(|_| i.inode_ops().release(at(n))))?;
    time("chmod", &mut |n| {
        i.inode_ops().setattr(at(n), &ondol::SetAttr { perm: Some(0o600), ..Default::default() }).map(drop)
    })?;
    time("lookup, rename", &mut |n| {
        let to = format!("r{n}");
        absent(&to)?;
        i.names().rename(dir, name(n).as_bytes(), dir, to.as_bytes(), Rename::Replace)
    })?;
    time("unlink", &mut |n| i.names().unlink(dir, format!("r{n}").as_bytes()))?;
    time("mkdir", &mut |n| i.names().mkdir(dir, name(n).as_bytes(), 0o755, caller).map(drop))?;
    time("rmdir", &mut |n| i.names().rmdir(dir, name(n).as_bytes()))?;
    Ok(lines)
}

/// Processor time of this thread, µs.
fn processor_time() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}

fn name(n: u32) -> String {
    format!("file-{n}")
}
