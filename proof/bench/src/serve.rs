//! `ondol bench serve`: the process behind the targets `null` and `passthrough`.

use crate::BenchError;
use crate::args::{ServeArgs, Served};
use crate::error::Context;
use ondol_fuse::{Floor, FloorKind, MountOptions};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use serde_json::json;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Sender};
use std::thread;

/// What the serving process hears.
enum Event {
    /// Somebody asks for its counters.
    Asked,
    /// It is unmounted.
    Ended,
    /// Whoever started it is gone.
    Left,
}

/// Serves until it is unmounted, or until standard input ends.
pub(crate) fn run(args: &ServeArgs) -> Result<(), BenchError> {
    let (kind, options, point) = match &args.what {
        Served::Null { options, point } => (FloorKind::Null, options, point),
        Served::Passthrough { options, below, point } => (FloorKind::Through(below), options, point),
    };
    let options = options_of(options).map_err(BenchError::Usage)?;
    // The kernel has applied its caller's.
    umask(Mode::empty());
    many_descriptors();
    let (tell, told) = mpsc::channel();
    let ended = tell.clone();
    let floor = Floor::mount(kind, point, &options, move || drop(ended.send(Event::Ended)));
    let floor = floor.map_err(|e| BenchError::Unfit(e.to_string()))?;
    thread::spawn(move || listen(&tell));
    while let Ok(Event::Asked) = told.recv() {
        let kinds = floor.requests();
        let total: u64 = kinds.iter().map(|(_, count)| count).sum();
        let mut out = io::stdout().lock();
        writeln!(out, "{}", json!({"fuse_requests": total}))
            .and_then(|()| out.flush())
            .context(|| "standard output")?;
    }
    floor.finish().map_err(|e| BenchError::Unfit(e.to_string()))
}

/// Mount options for a file system without a volume.
pub(crate) fn options_of(list: &str) -> Result<MountOptions, String> {
    let (options, rest) = MountOptions::take(list)?;
    if rest.is_empty() { Ok(options) } else { Err(format!("`{rest}` is no option of a mount without a volume")) }
}

/// Each inode that the kernel knows takes a descriptor or two.
fn many_descriptors() {
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok());
    let all = Rlimit { current: most, maximum: most };
    let allowed = getrlimit(Resource::Nofile).maximum;
    if most.is_none() || setrlimit(Resource::Nofile, all).is_err() {
        // What is missing then shows as EMFILE, by name, where it is needed.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: allowed, maximum: allowed });
    }
}

fn listen(tell: &Sender<Event>) {
    for line in io::stdin().lock().lines() {
        if line.is_err() || tell.send(Event::Asked).is_err() {
            break;
        }
    }
    let _ = tell.send(Event::Left);
}
