//! What is counted, and the process that does it.

use ondol::{Caller, FormatOptions, Ino, Options, ROOT, Volume};
use std::error::Error;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The last argument of the process that is traced.
pub(crate) const TRACED: &str = "traced";
/// Operations of each thread before it is traced, and while it is.
const BEFORE: usize = 300;
/// See [`BEFORE`].
pub(crate) const COUNTED: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Create,
    Overwrite,
    Path,
}

impl Work {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Overwrite => "overwrite",
            Self::Path => "path",
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Create, Self::Overwrite, Self::Path]
            .into_iter()
            .find(|work| work.name() == name)
            .ok_or_else(|| format!("there is no work `{name}`: create, overwrite, path"))
    }
}

/// What to measure.
pub(crate) struct Plan {
    pub(crate) engine: String,
    pub(crate) work: Work,
    pub(crate) threads: usize,
}

/// Does the work. Each thread says its number on the standard output, waits until a line comes in, and asks for its
/// parent before and after what is to be counted.
pub(crate) fn run(plan: &Plan) -> Result<(), Box<dyn Error>> {
    let name = |what: &str| PathBuf::from(format!("/dev/shm/ondol-shared-lines-{}.{what}", std::process::id()));
    let (image, pool) = (Temporary(name("img")), Temporary(name("pool")));
    within(plan, &image.0, &pool.0)
}

/// A file that goes with its owner, also when a panic ends it.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _there_may_be_none = std::fs::remove_file(&self.0);
    }
}

fn within(plan: &Plan, image: &Path, pool: &Path) -> Result<(), Box<dyn Error>> {
    Volume::format(image, &FormatOptions::new().size(16 << 30).block_size(4096).force(true))?;
    let options = if plan.engine == "scalable" {
        ondol::pool::create(pool, &ondol::pool::CreateOptions::new().size(256 << 20).force(true))?;
        Options::parse("data=ordered")?.with_nvm(pool)
    } else {
        Options::parse(&format!("data=ordered,journal={}", plan.engine))?
    };
    let volume = Volume::open_with(image, &options)?;
    let own: Vec<Own> = (0..plan.threads).map(|t| Own::new(&volume, t, plan.work)).collect::<Result<_, _>>()?;
    volume.sync()?;
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let mut threads: Vec<(u32, Sender<()>, Receiver<()>)> = Vec::new();
        for own in &own {
            let ((go, wait), (done, is_done), (tell, number)) = (channel::<()>(), channel::<()>(), channel::<u32>());
            scope.spawn(move || {
                own.run(0..BEFORE);
                let _main_waits = tell.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
                let _main_says_go = wait.recv();
                let _mark = rustix::process::getppid();
                own.run(BEFORE..BEFORE + COUNTED);
                let _mark = rustix::process::getppid();
                let _main_waits = done.send(());
            });
            threads.push((number.recv()?, go, is_done));
        }
        // An error here drops what the threads wait for: they go on, and the process cleans up.
        for (number, go, is_done) in threads {
            writeln!(std::io::stdout(), "{number}")?;
            std::io::stdout().flush()?;
            std::io::stdin().read_line(&mut String::new())?;
            go.send(())?;
            is_done.recv()?;
        }
        Ok(())
    })?;
    Ok(volume.close()?)
}

/// What one thread works on.
struct Own<'v> {
    volume: &'v Volume,
    work: Work,
    thread: usize,
    dir: Ino,
    file: Ino,
}

impl<'v> Own<'v> {
    fn new(volume: &'v Volume, thread: usize, work: Work) -> Result<Self, Box<dyn Error>> {
        let i = volume.inodes();
        let dir = i.names().mkdir(ROOT, thread.to_string().as_bytes(), 0o755, Caller::default())?.ino;
        let file = i.names().create(dir, b"file", 0o644, Caller::default())?.ino;
        i.files().write(file, 0, &vec![1; 1 << 20])?;
        Ok(Self { volume, work, thread, dir, file })
    }

    fn run(&self, mut operations: Range<usize>) {
        if let Err(e) = operations.try_for_each(|n| self.once(n)) {
            eprintln!("thread {}: {e}", self.thread);
            std::process::exit(1);
        }
    }

    fn once(&self, n: usize) -> ondol::Result<()> {
        let (i, page) = (self.volume.inodes(), [n as u8; 4096]);
        match self.work {
            Work::Create => {
                let file = i.names().create(self.dir, n.to_string().as_bytes(), 0o644, Caller::default())?.ino;
                i.files().write(file, 0, &page)?;
                Ok(i.fsync(file, false)?)
            }
            Work::Overwrite => {
                i.files().write(self.file, (n * 7919 % 256 * 4096) as u64, &page)?;
                Ok(i.fsync(self.file, false)?)
            }
            Work::Path => {
                let file = self.volume.create(format!("/{}/{n}", self.thread))?;
                file.write_all_at(&page, 0)?;
                file.sync_all()
            }
        }
    }
}
