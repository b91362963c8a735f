//! The files that are read, on each file system.

use super::access::PAGE;
use crate::BenchError;
use crate::args::PaperArgs;
use crate::error::Context;
use crate::interrupt::Interrupt;
use crate::target::{self, Session, Setting, Target};
use ondol::{File, OpenOptions, Volume};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How large the files are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Bytes of the long file.
    pub(super) long: usize,
    /// Pages of the short ones.
    pub(super) short: usize,
}

impl Sizes {
    pub(super) fn of(args: &PaperArgs) -> Self {
        // The paper: 128 and 4 MiB.
        Self { long: if args.quick { 8 << 20 } else { 128 << 20 }, short: 1024 }
    }
}

/// A file system that programs reach by system calls, with the long file in it.
pub(super) struct System {
    pub(super) name: &'static str,
    path: PathBuf,
    /// What takes it away.
    _session: Session,
}

impl System {
    /// The long file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// All of them, and a volume in a pool in this process.
pub(super) struct Rig {
    pub(super) sizes: Sizes,
    systems: Vec<System>,
    missing: Vec<String>,
    ours: Session,
}

/// Names here and targets; the first one is always there.
fn targets(dir: &Path) -> [(&'static str, String); 4] {
    let pool = dir.join(format!("ondol-paper4-{}-mounted.pool", std::process::id()));
    [
        ("tmpfs", "tmpfs".into()),
        ("kernel ext4 on RAM", "kernel:ext4,on=ram".into()),
        ("fuse2fs on RAM", "fuse2fs,on=ram".into()),
        ("ondol, mounted", format!("fuse:nvm:{}", pool.display())),
    ]
}

impl Rig {
    /// Makes all that can be had here.
    ///
    /// # Errors
    /// tmpfs or a pool in `dir` cannot be had.
    pub(super) fn make(sizes: &Sizes, dir: &Path, interrupt: &Interrupt) -> Result<Self, BenchError> {
        // As its peers are.
        let dir = &target::in_memory(dir)?;
        let bytes = (sizes.long + 4 * sizes.short * PAGE) as u64;
        let setting = Setting {
            program: ondol_skips::ondol(),
            dir: dir.to_owned(),
            // So large that 256 pages can be lent at a time.
            image_size: (bytes * 2 + (64 << 20)).max(320 << 20),
            footprint: bytes,
        };
        let open = |target: &str| target::open(&target.parse::<Target>()?, &setting, interrupt);
        let pool = dir.join(format!("ondol-paper4-{}.pool", std::process::id()));
        let ours = open(&format!("lib:nvm:{}", pool.display()))?;
        let (mut systems, mut missing) = (Vec::new(), Vec::new());
        for (name, target) in targets(dir) {
            interrupt.check()?;
            let made = open(&target).and_then(|session| {
                let dir = session.dir().ok_or_else(|| BenchError::Unfit(format!("{target} has no directory")))?;
                let path = dir.join("long");
                write_long(&path, sizes.long).context(|| path.display().to_string())?;
                Ok(System { name, path, _session: session })
            });
            match made {
                Ok(system) => systems.push(system),
                Err(e @ BenchError::Interrupted) => return Err(e),
                Err(e) if systems.is_empty() => return Err(e),
                Err(e) => missing.push(format!("{name}: {e}")),
            }
        }
        let rig = Self { sizes: *sizes, systems, missing, ours };
        rig.fill(rig.volume()?).map_err(failed)?;
        Ok(rig)
    }

    /// Those that are there, tmpfs first.
    pub(super) fn systems(&self) -> &[System] {
        &self.systems
    }

    /// What could not be had, and why.
    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    fn volume(&self) -> Result<&Volume, BenchError> {
        self.ours.volume().ok_or_else(|| BenchError::Unfit("no volume in this process".into()))
    }

    /// A file of the volume in this process: `long`; `side`, whose pages lie side by side; `apart`, whose pages do not.
    pub(super) fn file(&self, name: &str) -> Result<File, BenchError> {
        self.volume()?.open_file(format!("/{name}")).map_err(failed)
    }

    /// A file of the volume in this process, as long as the short ones, to be written.
    pub(super) fn writable(&self, name: &str) -> Result<File, BenchError> {
        let file = OpenOptions::new().read(true).write(true).create(true).open(self.volume()?, format!("/{name}"));
        let file = file.map_err(failed)?;
        file.write_all_at(&vec![1; self.sizes.short * PAGE], 0).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(file)
    }

    /// What happens on the NVM of the volume in this process.
    pub(super) fn meter(&self) -> Result<ondol::NvmMeter, BenchError> {
        Ok(self.volume()?.state().nvm_meter())
    }

    fn fill(&self, volume: &Volume) -> ondol::Result<()> {
        let create = |name: &str| OpenOptions::new().read(true).write(true).create(true).open(volume, name);
        let (long, side, apart, between) = (create("/long")?, create("/side")?, create("/apart")?, create("/between")?);
        let piece = piece();
        for at in (0..self.sizes.long).step_by(piece.len()) {
            long.write_all_at(&piece, at as u64)?;
        }
        let bytes = piece.repeat(self.sizes.short * PAGE / piece.len());
        side.write_all_at(&bytes, 0)?;
        volume.sync()?;
        while volume.checkpoint()? {}
        for (at, page) in bytes.chunks(PAGE).enumerate() {
            apart.write_all_at(page, (at * PAGE) as u64)?;
            between.write_all_at(page, (at * PAGE) as u64)?;
        }
        volume.sync()
    }
}

/// What an error of ours is to the bench.
pub(super) fn failed(e: ondol::Error) -> BenchError {
    BenchError::Unfit(e.to_string())
}

/// What files are made of: 1 MiB.
fn piece() -> Vec<u8> {
    (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect()
}

fn write_long(path: &Path, bytes: usize) -> io::Result<()> {
    let (mut file, piece) = (std::fs::File::create(path)?, piece());
    for _ in (0..bytes).step_by(piece.len()) {
        file.write_all(&piece)?;
    }
    file.sync_all()
}
